/// A kernel's function where no host code stands for it. Python fills it in (spider_gen/_nvrtc.py), and
/// spider::SweepFunction and spider_kernel::points hold its address. It outlives the process's last launch.
#pragma once

#include <cstdint>

namespace spider::driver {

struct KernelCode {
  const void* cubin;
  const char* name;  ///< of the function, as the cubin has it
};

}  // namespace spider::driver
