#pragma once

#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// Estimates the times for f32 fields in 2D from the two plans of one spec: sums of what was measured, not
/// bounds (generator/README.md, "Which engine").
[[nodiscard]] EngineTimes estimate_times(const KernelPlan& sparse, const KernelPlan& cuda);

/// About how many microseconds the sparse products of an f32 field in 2D take where warps walk by themselves
/// (templates/stream2d.cu.in), over 10240 x 10240 points on an H200.
[[nodiscard]] double estimate_f32_walks(const Pass& pass);

/// The same of warpgroups (templates/split2d.cu.in), by the input rows of a step and the weights' terms.
[[nodiscard]] double estimate_f32_warpgroups(int step_rows, int weight_terms);

}  // namespace spidergen::plan
