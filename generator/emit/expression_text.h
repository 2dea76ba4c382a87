#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/stencil_spec.h"
#include "spec/update.h"

namespace spidergen::emit {

/// Expressions, which of their values are wanted, and the type of numbers.
struct Expressions {
  const std::vector<spec::UpdateNode>& nodes;  ///< arguments first
  std::vector<int> roots;                      ///< whose values are wanted
  spec::Storage numbers = spec::Storage::f32;  ///< f64, or any other for f32
  bool flushes_results = false;                ///< subnormal results become 0
  /// In the words of spider/values/each.h, for the numbers of a point `p` or of several.
  bool of_points = false;
};

/// A leaf of an expression: what it is in C++, or of a point its member, and the comment of the line that
/// names it. Without a comment it gets no line.
struct LeafText {
  std::string value;
  std::string comment;
};

struct ExpressionText {
  std::vector<std::string> statements;
  std::vector<std::string> values;  ///< of the roots
};

/// Expressions as statements, each rounded once; `leaf` is asked for all but numbers and operations.
[[nodiscard]] ExpressionText write_expressions(const Expressions& expressions,
                                               const std::function<LeafText(const spec::UpdateNode&)>& leaf);

}  // namespace spidergen::emit
