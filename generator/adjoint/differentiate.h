#pragma once

#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "spec/expression_nodes.h"
#include "spec/offset.h"

namespace spidergen::adjoint {

/// Why an expression has no derivative here, in words; thrown only within this room.
struct Objection {
  std::string text;
};

/// A weighted sum of values at a point, given as nodes.
using Terms = std::vector<std::pair<double, int>>;

/// A cell that expressions read.
struct ReadCell {
  int field = 0;
  spec::Offset at{};

  auto operator<=>(const ReadCell&) const = default;
};

/// By cell, its derivative's terms at a point.
using Derivatives = std::map<ReadCell, Terms>;

/// Reverse differentiation of the sum of the nodes in `seeds`, each times its terms, with respect to each
/// cell that they read. Scalars, indices and extents are constants. A choice follows its condition, which is
/// fixed; `min`, `max` and `abs` are choices. `floor`, `ceil` and `round` have the derivative 0. Throws
/// Objection.
[[nodiscard]] Derivatives differentiate(spec::ExpressionNodes& nodes, const std::map<int, Terms>& seeds);

/// The sum of the terms as a node; the number 0 where there are none. Throws Objection.
[[nodiscard]] int sum_of(spec::ExpressionNodes& nodes, const Terms& terms);

}  // namespace spidergen::adjoint
