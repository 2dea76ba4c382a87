/// What a sweep is compared with.
#pragma once

#include <functional>
#include <vector>

#include "contestant.h"
#include "device_fields.h"

namespace bench {

/// Copies of as many bytes as the fields have points, rounded up to 16, from the start of an input's memory
/// to the start of its output's: by cudaMemcpyAsync, and by a kernel that loads and stores 16 bytes a thread.
[[nodiscard]] std::vector<Contestant> copy_baselines(const DeviceFields& fields, int multiprocessors);

}  // namespace bench
