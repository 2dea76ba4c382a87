#pragma once

#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "spec/expression_nodes.h"
#include "spec/offset.h"

namespace spidergen::adjoint {

/// Why an expression has no derivative here, in words; thrown within this room alone.
struct Objection {
  std::string text;
};

/// Values at a point, nodes, each times a weight, added up.
using Terms = std::vector<std::pair<double, int>>;

/// A cell that expressions read.
struct ReadCell {
  int field = 0;
  spec::Offset at{};

  auto operator<=>(const ReadCell&) const = default;
};

/// By cell, what of its derivative arises at a point.
using Derivatives = std::map<ReadCell, Terms>;

/// Reverse differentiation: of the sum of the nodes in `seeds`, each times its terms, with respect to each
/// cell that they read. Scalars, indices and extents are constants; a choice is that of its condition, which
/// is fixed, and `min`, `max` and `abs` are choices. `floor`, `ceil` and `round` have the derivative 0.
/// Throws Objection.
[[nodiscard]] Derivatives differentiate(spec::ExpressionNodes& nodes, const std::map<int, Terms>& seeds);

/// The sum of the terms as a node, a number 0 where there is none. Throws Objection.
[[nodiscard]] int sum_of(spec::ExpressionNodes& nodes, const Terms& terms);

}  // namespace spidergen::adjoint
