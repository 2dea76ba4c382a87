#pragma once

#include <string>
#include <vector>

#include "pack/pack.h"
#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// The plan for a person to read, each line ending in a newline: stencil and plan, windows, a kernel matrix
/// before and after the swap, the bounds of a sweep on each of the architectures, and the paper's cost model.
[[nodiscard]] std::string explain_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                                       const std::vector<std::string>& architectures);

/// The same for programs, with all matrices and registers: one JSON object with a fixed key order
/// (generator/cli/README.md, "Explain").
[[nodiscard]] std::string explain_json(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                                       const pack::PackedKernel& packed,
                                       const std::vector<std::string>& architectures);

}  // namespace spidergen::emit
