#pragma once

#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// Estimates the times for f32 fields in 2D from the two plans of one spec: sums of what was measured, not
/// bounds (generator/README.md, "Which engine").
[[nodiscard]] EngineTimes estimate_times(const KernelPlan& sparse, const KernelPlan& cuda);

}  // namespace spidergen::plan
