#pragma once

#include <string>
#include <vector>

#include "adjoint/adjoint_system.h"
#include "spec/stencil_spec.h"

namespace spidergen::adjoint {

/// The YAML of a system, after `heading` and its notes as a comment.
[[nodiscard]] std::string write_system(const AdjointSystem& system, const std::vector<std::string>& heading);

/// The YAML of a stencil of taps without an update, named `name`.
[[nodiscard]] std::string write_stencil(const spec::StencilSpec& spec, const std::string& name,
                                        const std::string& description,
                                        const std::vector<std::string>& heading);

}  // namespace spidergen::adjoint
