#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "spec/coefficients.h"
#include "spec/fields.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

// The forms of `coefficients`, one reader each; read_coefficients() chooses among them.

/// Nested lists, slowest axis first, an odd count of entries along each axis.
[[nodiscard]] std::optional<Coefficients> read_box(const Node& node, int dimensions, Context& context);

/// A list of odd length per axis; the weights are their outer product.
[[nodiscard]] std::optional<Coefficients> read_product(const Node& node, int dimensions, Context& context);

/// A list per axis: of even length with `center`; of odd length without it, and the middles add up.
[[nodiscard]] std::optional<Coefficients> read_star(const Node& node, int dimensions, Context& context);

/// A list of {at: OFFSET, weight: NUMBER}.
[[nodiscard]] std::optional<Coefficients> read_tap_list(const Node& node, int dimensions, Context& context);

// Shapes that make their coefficients from other keys.

/// A derivative by central differences: `order`, `accuracy`, `spacing`, `at`.
[[nodiscard]] std::optional<Coefficients> read_derivative(const ShapeKeys& keys, Context& context);

/// The sum of the second derivatives along all axes: `accuracy`, `spacing`.
[[nodiscard]] std::optional<Coefficients> read_laplacian(const ShapeKeys& keys, Context& context);

/// A truncated normal distribution, normalised to the sum 1: `sigma`, `truncate`.
[[nodiscard]] std::optional<Coefficients> read_gaussian(const ShapeKeys& keys, Context& context);

/// A formula in the offsets: `radius`, `weight`.
[[nodiscard]] std::optional<Coefficients> read_formula(const ShapeKeys& keys, Context& context);

/// The name of a coefficient in messages.
constexpr const char* coefficient = "a coefficient";

/// An axis or a count as an index of arrays.
[[nodiscard]] constexpr std::size_t index(int axis) {
  return static_cast<std::size_t>(axis);
}

/// Whether the product of lists with these counts has few enough taps; if not, reports it at `where`.
[[nodiscard]] bool check_product_count(const std::array<std::size_t, 3>& counts,
                                       const diag::SourceLocation& where, Context& context);

/// multiply_lists() of lists whose product may have too many taps: it then stays a product of lists, provided
/// that no single list has too many.
[[nodiscard]] std::optional<Coefficients> make_product(const std::array<std::vector<double>, 3>& lists,
                                                       const diag::SourceLocation& where, Context& context);

/// The outer product of one list of weights per axis, of odd length and lowest offset first; {1} for an axis
/// that the stencil does not have. Each weight is rounded once. All taps are located at `where`.
template <typename Number>
[[nodiscard]] std::optional<Coefficients> multiply_lists(const std::array<std::vector<Number>, 3>& lists,
                                                         const diag::SourceLocation& where,
                                                         Context& context) {
  const auto& [z, y, x] = lists;
  if (!check_product_count({z.size(), y.size(), x.size()}, where, context)) return std::nullopt;
  const std::array<int, 3> radius{static_cast<int>(z.size() / 2), static_cast<int>(y.size() / 2),
                                  static_cast<int>(x.size() / 2)};
  Coefficients product{{}, radius};
  for (int k = -radius[0]; k <= radius[0]; ++k) {
    for (int j = -radius[1]; j <= radius[1]; ++j) {
      for (int i = -radius[2]; i <= radius[2]; ++i) {
        const Number weight = z[index(k + radius[0])] * y[index(j + radius[1])] * x[index(i + radius[2])];
        product.taps.push_back({{k, j, i}, static_cast<double>(weight), where});
      }
    }
  }
  return product;
}

}  // namespace spidergen::spec
