/// One size after another: fields, contestants, checks, times, rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "entries.h"
#include "nvml.h"
#include "options.h"
#include "report.h"

namespace bench {

struct Device {
  std::string name;
  int compute_capability;  ///< x 10
  int multiprocessors;
  std::int64_t cache_bytes;  ///< L2
};

/// Measures everything and adds the rows. Kernels of one dimension and storage share fields and run in turn.
/// False where a result was wrong; that kernel has a row without a time.
[[nodiscard]] bool measure_all(const Options& options, const Device& device, const Nvml& nvml,
                               const std::vector<Entry>& entries, Report& report);

}  // namespace bench
