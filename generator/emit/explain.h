#pragma once

#include <string>

#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// The plan for a person to read: several lines, each ending in a newline.
[[nodiscard]] std::string explain_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan);

/// The plan for programs: one JSON object with a fixed key order.
[[nodiscard]] std::string explain_json(const spec::StencilSpec& spec, const plan::KernelPlan& plan);

}  // namespace spidergen::emit
