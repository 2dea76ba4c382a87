#pragma once

#include "plan/make_plan.h"

namespace spidergen::plan {

/// What `steps` says, or where that is auto, the number that is fastest a step; `single_us` is what a sweep
/// of one step takes, 0 where there is no plan for one.
[[nodiscard]] int choose_steps(const spec::StencilSpec& spec, const Request& request, double single_us);

}  // namespace spidergen::plan
