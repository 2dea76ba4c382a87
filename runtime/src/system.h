/// Sweeps of systems of equations: the kernels of each, one after the other.
#pragma once

#include <spider/kernel.h>

#include <cstdint>

#include "backend.h"

namespace spider {

/// spider_run of a system. The sweep has the size of this runtime's.
[[nodiscard]] backend::Outcome run_system(const spider_kernel& kernel, const spider_sweep& sweep);

/// spider_run_steps of a system.
[[nodiscard]] backend::Outcome run_system_steps(const spider_kernel& kernel, const spider_sweep& sweep,
                                                std::int64_t steps);

/// Whether run_system() takes the sweep; starts nothing.
[[nodiscard]] backend::Outcome check_system(const spider_kernel& kernel, const spider_sweep& sweep);

}  // namespace spider
