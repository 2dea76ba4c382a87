#pragma once

#include <string>

#include "diag/diagnostic.h"
#include "spec/read_spec.h"

namespace spidergen::adjoint {

/// The spec of an adjoint, before it is a file.
struct AdjointSpec {
  std::string name;  ///< of the stencil; the file's name without ".yaml"
  std::string text;  ///< YAML; useless where there are errors
  diag::Diagnostics diagnostics;
};

/// Writes the adjoint of a sweep of the spec, which has been read without errors: a stencil with reversed
/// weights where that suffices, else a system. Reports features without an adjoint. `may_split`: a stage is
/// written as several where these take less time, with fields NAME_bar_term as room (split_stages.h).
[[nodiscard]] AdjointSpec write_adjoint(const spec::ReadResult& read, bool may_split = false);

}  // namespace spidergen::adjoint
