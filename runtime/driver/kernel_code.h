/// A kernel's function without a host stub. Python fills it in (spider_gen/_nvrtc.py); spider::SweepFunction
/// and spider_kernel::points store its address. It outlives the process's last launch.
#pragma once

#include <atomic>
#include <cstdint>

namespace spider::driver {

struct KernelCode {
  std::atomic<const void*> cubin;  ///< null until it is compiled
  const char* name;                ///< the function's name in the cubin
  /// Compiles the functions that are not compiled yet and sets their `cubin`; on failure returns 1, and
  /// reports why itself. Threads may call it concurrently.
  std::int32_t (*compile)(const KernelCode* const* codes, std::uint64_t count);
};
static_assert(sizeof(KernelCode) == 3 * sizeof(void*), "Python has it so");

}  // namespace spider::driver
