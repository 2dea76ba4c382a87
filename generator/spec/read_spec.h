#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.h"
#include "spec/stencil_spec.h"
#include "spec/system_spec.h"

namespace spidergen::spec {

/// `-D name=value` of the command line.
struct ParameterOverride {
  std::string name;
  std::string expression;
};

/// The text of a spec and where it came from.
struct SpecSource {
  std::string path;  ///< as the user wrote it, for messages; "-" for standard input
  std::string text;
  std::string name = {};  ///< that the stencil gets in the place of its own, already checked; empty: its own
  std::string axes = {};  ///< as arrays store them, slowest first, such as "xy"; empty: as the spec has them
};

/// The longest text of a spec, in bytes: far more than any kernel's weights need.
inline constexpr std::size_t longest_text = 1U << 22U;

struct ReadResult {
  StencilSpec
      spec;  ///< complete when there are no errors; otherwise what could be read, the rest at its default
  std::optional<SystemSpec> system = {};  ///< alike, in the place of `spec`: of a document with `stages`
  diag::Diagnostics diagnostics;
};

/// Reads and checks one spec (README.md in stencils/ is the reference). Every mistake of the text is
/// reported, located, with what would be right; never throws for what a user wrote.
[[nodiscard]] ReadResult read_spec(const SpecSource& source, const std::vector<ParameterOverride>& overrides);

}  // namespace spidergen::spec
