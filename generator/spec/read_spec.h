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

/// The text of a spec and its origin.
struct SpecSource {
  std::string path;  ///< as the user wrote it, for messages; "-" for standard input
  std::string text;
  std::string name = {};  ///< replaces the stencil's own name, already checked; empty: its own name
  std::string axes = {};  ///< as arrays store them, slowest first, such as "xy"; empty: the order of the spec
};

/// The longest text of a spec, in bytes: far more than any kernel's weights need.
inline constexpr std::size_t longest_text = 1U << 22U;

struct ReadResult {
  StencilSpec
      spec;  ///< complete where there are no errors; otherwise the readable part, with defaults for the rest
  std::optional<SystemSpec> system = {};  ///< alike, for a document with `stages`, which leaves `spec` unused
  diag::Diagnostics diagnostics;
};

/// Reads and checks one spec (README.md in stencils/ is the reference). Reports every mistake of the text
/// with its place and a correction; never throws for the user's input.
[[nodiscard]] ReadResult read_spec(const SpecSource& source, const std::vector<ParameterOverride>& overrides);

}  // namespace spidergen::spec
