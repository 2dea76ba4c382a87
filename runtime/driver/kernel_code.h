/// A kernel's function where no host code stands for it. Python fills it in (spider_gen/_nvrtc.py), and
/// spider::SweepFunction and spider_kernel::points hold its address. It outlives the process's last launch.
#pragma once

#include <atomic>
#include <cstdint>

namespace spider::driver {

struct KernelCode {
  std::atomic<const void*> cubin;  ///< null until it is compiled
  const char* name;                ///< of the function, as the cubin has it
  /// Sets `cubin` of functions that are not compiled yet; else it returns 1, and says itself why. Any thread
  /// may call it, several at a time.
  std::int32_t (*compile)(const KernelCode* const* codes, std::uint64_t count);
};
static_assert(sizeof(KernelCode) == 3 * sizeof(void*), "Python has it so");

}  // namespace spider::driver
