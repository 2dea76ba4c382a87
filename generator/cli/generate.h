#pragma once

#include <string>
#include <vector>

#include "diag/diagnostic.h"
#include "emit/emit.h"
#include "plan/make_plan.h"
#include "spec/read_spec.h"

namespace spidergen::cli {

struct GenerateResult {
  diag::Diagnostics diagnostics;         ///< of this spec, by place
  std::vector<emit::EmittedFile> files;  ///< empty where there are errors
  std::string explanation_text;          ///< for --explain; empty where there are errors
  std::string explanation_json;
};

/// Compiles a spec's text to its files; the explanations predict times for the architectures. Throws
/// InternalError only for bugs of the generator.
[[nodiscard]] GenerateResult generate(const spec::SpecSource& source,
                                      const std::vector<spec::ParameterOverride>& overrides,
                                      const plan::Request& request,
                                      const std::vector<std::string>& architectures);

/// The same for the spec of the adjoint, one file; no explanations. `may_split`: as of write_adjoint().
[[nodiscard]] GenerateResult generate_adjoint(const spec::SpecSource& source,
                                              const std::vector<spec::ParameterOverride>& overrides,
                                              bool may_split);

/// spider-gen's own version, e.g. "0.3.0".
[[nodiscard]] std::string version();

}  // namespace spidergen::cli
