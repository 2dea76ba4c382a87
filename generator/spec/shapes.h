#pragma once

#include <cstddef>
#include <optional>

#include "spec/coefficients.h"
#include "spec/fields.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

// The forms of `coefficients`, one reader each; read_coefficients() chooses among them.

/// Nested lists, slowest axis first, an odd count of entries along each axis.
[[nodiscard]] std::optional<Coefficients> read_box(const Node& node, int dimensions, Context& context);

/// A list of odd length per axis; the weights are their outer product.
[[nodiscard]] std::optional<Coefficients> read_product(const Node& node, int dimensions, Context& context);

/// A list per axis: of even length beside `center`, of odd length without, and then the middles add up.
[[nodiscard]] std::optional<Coefficients> read_star(const Node& node, int dimensions, Context& context);

/// A list of {at: OFFSET, weight: NUMBER}.
[[nodiscard]] std::optional<Coefficients> read_tap_list(const Node& node, int dimensions, Context& context);

/// The name of a coefficient in messages.
constexpr const char* coefficient = "a coefficient";

/// An axis or a count as an index of arrays.
[[nodiscard]] constexpr std::size_t index(int axis) {
  return static_cast<std::size_t>(axis);
}

}  // namespace spidergen::spec
