#pragma once

#include "plan/make_plan.h"

namespace spidergen::plan {

/// The number in `steps`, or for auto the number with the fastest step. `single_us` is the time of a sweep of
/// one step; 0 where there is no plan for one.
[[nodiscard]] int choose_steps(const spec::StencilSpec& spec, const Request& request, double single_us);

}  // namespace spidergen::plan
