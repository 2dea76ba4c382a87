#pragma once

#include <string>
#include <vector>

#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// The stencil in one line: the spec's description, or its shape where there is none.
[[nodiscard]] std::string summary(const spec::StencilSpec& spec);

/// The stencil and its plan in a few labelled lines, the same in generated files and in `--explain`.
[[nodiscard]] std::vector<std::string> report(const spec::StencilSpec& spec, const plan::KernelPlan& plan);

}  // namespace spidergen::emit
