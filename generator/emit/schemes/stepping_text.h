/// What the texts of time steps that are taken one by one have in common.
#pragma once

#include <string>
#include <vector>

#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// The rules of an axis with constants as f32 numbers: cells are such between steps.
[[nodiscard]] std::string stepped_rules_text(const spec::StencilSpec& spec, int axis);

/// Weights along x as f32 literals, separated by commas.
[[nodiscard]] std::string weight_row_text(const float* weights, int count);

/// The lines of a report that every such scheme begins with.
void describe_steps(const plan::KernelPlan& plan, std::vector<std::string>& lines);

}  // namespace spidergen::emit
