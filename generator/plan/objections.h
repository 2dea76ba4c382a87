#pragma once

#include <string>

#include "diag/diagnostic.h"
#include "plan/problem.h"

namespace spidergen::plan {

/// Is there a plan for sparse tensor cores for these dimensions and this storage?
[[nodiscard]] bool has_sparse_plan(const spec::StencilSpec& spec);

/// The spec's features that an engine does not support in any scheme; located.
[[nodiscard]] diag::Diagnostics find_objections(const Problem& problem);

/// Removes the hint that CUDA cores support the stencil from the end of a message.
void remove_advice(std::string& text);

}  // namespace spidergen::plan
