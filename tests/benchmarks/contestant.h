/// What is timed: a kernel or a baseline, on the fields of one size.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

#include "device_fields.h"
#include "layout.h"
#include "reference.h"

namespace bench {

struct Contestant {
  std::string label;
  std::string name;
  std::string detail;
  const DeviceFields* fields = nullptr;
  FieldLayout layout;  ///< how the reference sees the fields' memory
  Stencil stencil;     ///< what must come out
  Arithmetic arithmetic{};
  bool is_copy = false;
  int steps = 1;     ///< time steps that one launch advances
  int products = 0;  ///< MMAs per 128 outputs; 0 where there are none
  /// Starts one sweep of a pair of fields. Throws std::runtime_error.
  std::function<void(int pair, cudaStream_t stream)> launch;
};

}  // namespace bench
