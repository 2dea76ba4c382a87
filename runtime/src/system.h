/// Sweeps of systems of equations: the kernels of each, one after the other.
#pragma once

#include <spider/kernel.h>

#include <cstdint>

#include "backend.h"

namespace spider {

/// Steps until a reduction is at most a bound.
struct ReductionBound {
  std::int32_t reduction;
  double bound;
  std::int64_t check_every;
  double* values;         ///< of all reductions, after each check
  std::int64_t done = 0;  ///< steps
};

/// Whether a sweep's reductions can end at the bound.
[[nodiscard]] backend::Outcome check_bound(const spider_kernel& kernel, const spider_sweep& sweep,
                                           const ReductionBound& until);

/// spider_run of a system. The sweep has the size of this runtime's.
[[nodiscard]] backend::Outcome run_system(const spider_kernel& kernel, const spider_sweep& sweep);

/// spider_run_steps of a system, or spider_run_until.
[[nodiscard]] backend::Outcome run_system_steps(const spider_kernel& kernel, const spider_sweep& sweep,
                                                std::int64_t steps, ReductionBound* until = nullptr);

/// Loads all that sweeps of a system launch, loaded or not: its own forms, and the kernels of its updates.
[[nodiscard]] backend::Outcome load_system(const spider_kernel& kernel);

/// Whether run_system() takes the sweep; starts nothing.
[[nodiscard]] backend::Outcome check_system(const spider_kernel& kernel, const spider_sweep& sweep);

}  // namespace spider
