#pragma once

#include <string>

#include "diag/diagnostic.h"
#include "spec/read_spec.h"

namespace spidergen::adjoint {

/// The spec of an adjoint, not yet a file.
struct AdjointSpec {
  std::string name;  ///< of the stencil, the file's without ".yaml"
  std::string text;  ///< YAML; of no use where there are errors
  diag::Diagnostics diagnostics;
};

/// Writes the adjoint of a sweep of the spec, which has been read without errors: a stencil with the weights
/// reversed where that is one, else a system. Reports what has no adjoint.
[[nodiscard]] AdjointSpec write_adjoint(const spec::ReadResult& read);

}  // namespace spidergen::adjoint
