#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "spec/names.h"
#include "spec/shapes.h"

namespace spidergen::spec {
namespace {

/// Most characters of a formula times taps: bounds the time to read a spec.
constexpr std::size_t most_characters = 1U << 22U;

/// No parameter may have an offset's name: it would be ambiguous in the formula.
bool check_names(const Node& formula, int dimensions, Context& context) {
  for (const std::string& name : axis_names(dimensions)) {
    if (!context.calculator.is_parameter(name)) continue;
    context.diagnostics.error(formula.where,
                              "in 'weight' the name '{}' is an offset, and the spec has a parameter "
                              "of this name; rename that",
                              name);
    return false;
  }
  return true;
}

bool check_work(const Node& formula, const std::array<int, 3>& radius, Context& context) {
  std::array<std::size_t, 3> counts{};
  for (std::size_t axis = 0; axis < counts.size(); ++axis)
    counts[axis] = 2 * static_cast<std::size_t>(radius[axis]) + 1;
  if (!check_product_count(counts, formula.where, context)) return false;
  const std::size_t taps = counts[0] * counts[1] * counts[2];
  if (taps * formula.text.size() <= most_characters) return true;
  context.diagnostics.error(formula.where,
                            "'weight' has {} characters and is computed for {} taps; shorten it to {}, "
                            "with parameters for what is the same everywhere",
                            formula.text.size(), taps, most_characters / taps);
  return false;
}

}  // namespace

std::optional<Coefficients> read_formula(const ShapeKeys& keys, Context& context) {
  const Node* formula = keys.require(
      "weight", "'weight: EXPRESSION' in the offsets " + list_names(axis_names(keys.dimensions)), context);
  const Node* radius_node = keys.require("radius", "'radius: 1', how far the offsets go", context);
  const std::optional<std::array<int, 3>> radius =
      radius_node ? read_radius(*radius_node, keys.dimensions, context) : std::nullopt;
  if (!formula || !radius) return std::nullopt;
  if (!expect(*formula, NodeKind::scalar, "'weight' is an expression in the offsets", context) ||
      !check_names(*formula, keys.dimensions, context) || !check_work(*formula, *radius, context)) {
    return std::nullopt;
  }
  Coefficients taps{{}, *radius};
  const auto [rz, ry, rx] = *radius;
  for (int z = -rz; z <= rz; ++z) {
    for (int y = -ry; y <= ry; ++y) {
      for (int x = -rx; x <= rx; ++x) {
        const std::array<int, 3> at{z, y, x};
        LocalNames offsets;
        std::string place;
        for (int axis = first_axis(keys.dimensions); axis <= axis_x; ++axis) {
          offsets.emplace_back(axis_name(axis), at[index(axis)]);
          place += fmt::format("{}{} = {}", place.empty() ? "" : ", ", axis_name(axis), at[index(axis)]);
        }
        const std::optional<double> weight =
            read_number(*formula, fmt::format("'weight' at {}", place), context, offsets);
        if (!weight) return std::nullopt;
        taps.taps.push_back({at, *weight, formula->where});
      }
    }
  }
  return taps;
}

}  // namespace spidergen::spec
