#include "spec/finite_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <optional>
#include <string>
#include <utility>

#include "spec/names.h"
#include "spec/shapes.h"

namespace spidergen::spec {
namespace {

namespace mp = boost::multiprecision;

/// Exact weights divided by powers of spacings. The exact quotient could have thousands of digits; this type
/// has far more than a double, to which the result is rounded.
using Wide = mp::number<mp::cpp_bin_float<256, mp::digit_base_2>, mp::et_off>;
using WideList = std::vector<Wide>;

constexpr int highest_order = 16;
constexpr int highest_accuracy = 32;
constexpr int default_accuracy = 2;

/// The order of the error. It is even, because the weights are central differences.
std::optional<int> read_accuracy(const ShapeKeys& keys, Context& context) {
  const Node* node = keys.find("accuracy");
  if (!node) return default_accuracy;
  const std::string what =
      fmt::format("'accuracy', the order of the error in the spacing, is an even whole number from 2 to {}",
                  highest_accuracy);
  const bool is_word = node->text == "full" || node->text == "tf32" || node->text == "f16";
  if (node->kind == NodeKind::scalar && is_word) {
    context.diagnostics.error(node->where,
                              "{}, not {}; how f32 fields are multiplied goes with shapes that have "
                              "'coefficients'",
                              what, describe(*node));
    return std::nullopt;
  }
  const std::optional<double> value = read_number(*node, "'accuracy'", context);
  if (!value) return std::nullopt;
  for (int accuracy = 2; accuracy <= highest_accuracy; accuracy += 2) {
    if (*value == accuracy) return accuracy;
  }
  context.diagnostics.error(node->where, "{}, not {}", what, describe(*node));
  return std::nullopt;
}

/// The grid spacing along each axis; axes that are not `needed` may be left out.
std::optional<std::array<double, 3>> read_spacing(const ShapeKeys& keys, const std::array<bool, 3>& needed,
                                                  Context& context) {
  const Node* node = keys.find("spacing");
  if (!node) return std::array<double, 3>{1, 1, 1};
  std::optional<std::array<double, 3>> spacing =
      read_per_axis(*node, "'spacing'", keys.dimensions, needed, 1, context);
  if (!spacing) return std::nullopt;
  for (int axis = first_axis(keys.dimensions); axis <= axis_x; ++axis) {
    if ((*spacing)[index(axis)] > 0) continue;
    const Node& value = per_axis_node(*node, axis);
    context.diagnostics.error(value.where, "'spacing' is greater than 0, not {}", describe(value));
    return std::nullopt;
  }
  return spacing;
}

/// The orders of `order: {x: 1}`.
std::optional<std::array<int, 3>> read_orders(const ShapeKeys& keys, Context& context) {
  const Node* node = keys.require("order", "'order: {x: 1}', the orders of the derivative by axis", context);
  if (!node) return std::nullopt;
  const std::string_view what = "'order' is a mapping of axes to orders of the derivative, such as {x: 1}";
  if (!expect(*node, NodeKind::mapping, what, context)) return std::nullopt;
  bool good = check_keys(*node, axis_names(keys.dimensions), "'order'", context);
  if (node->entries.empty()) {
    context.diagnostics.error(node->where, "{}, and names at least one axis", what);
    good = false;
  }
  std::array<int, 3> orders{};
  for (int axis = first_axis(keys.dimensions); axis <= axis_x; ++axis) {
    const Entry* entry = find_entry(*node, axis_name(axis));
    if (!entry) continue;
    const std::string name = fmt::format("the order of the derivative along {}", axis_name(axis));
    const std::optional<int> order = read_whole(entry->value, name, 1, highest_order, context);
    good = good && order;
    orders[index(axis)] = order.value_or(0);
  }
  if (!good) return std::nullopt;
  return orders;
}

/// Where the derivative is taken along each axis: 0, or half a spacing up (1) or down (-1).
std::optional<std::array<int, 3>> read_halves(const ShapeKeys& keys, Context& context) {
  const Node* node = keys.find("at");
  if (!node) return std::array<int, 3>{};
  const std::string_view what =
      "'at' is a mapping of axes to where the derivative is taken, in spacings from the point, such as {x: "
      "1/2}";
  if (!expect(*node, NodeKind::mapping, what, context)) return std::nullopt;
  bool good = check_keys(*node, axis_names(keys.dimensions), "'at'", context);
  if (node->entries.empty()) {
    context.diagnostics.error(node->where, "{}, and names at least one axis", what);
    good = false;
  }
  const Node* order = keys.find("order");
  std::array<int, 3> halves{};
  for (int axis = first_axis(keys.dimensions); axis <= axis_x; ++axis) {
    const Entry* entry = find_entry(*node, axis_name(axis));
    if (!entry) continue;
    const bool has_orders = order != nullptr && order->kind == NodeKind::mapping;
    if (has_orders && find_entry(*order, axis_name(axis)) == nullptr) {
      context.diagnostics.error(entry->where,
                                "'at' names axis '{0}', along which 'order' has no "
                                "derivative; remove it, or write order: {{{0}: 1}}",
                                axis_name(axis));
      good = false;
    }
    const std::optional<double> at = read_number(entry->value, "'at'", context);
    if (at && *at != 0.5 && *at != -0.5) {
      context.diagnostics.error(
          entry->value.where,
          "'at' is 1/2 or -1/2 of a spacing, not {}; without it the derivative is taken at the "
          "point",
          describe(entry->value));
    }
    good = good && at && (*at == 0.5 || *at == -0.5);
    halves[index(axis)] = at && *at > 0 ? 1 : -1;
  }
  if (!good) return std::nullopt;
  return halves;
}

Wide widen(const Rational& value) {
  return Wide(mp::numerator(value)) / Wide(mp::denominator(value));
}

/// The weights of a derivative over points `spacing` apart, as many on both sides of the middle; {1} for
/// order 0. `half` locates the derivative: 0, or half a spacing up (1) or down (-1).
WideList weights_along(int order, int accuracy, double spacing, int half = 0) {
  if (order == 0) return {1};
  const Wide unit = mp::pow(Wide(spacing), order);
  const std::vector<Rational> exact = half == 0
                                          ? difference_weights(order, difference_radius(order, accuracy))
                                          : staggered_weights(order, staggered_radius(order, accuracy));
  WideList weights;
  if (half > 0) weights.emplace_back(0);
  for (const Rational& weight : exact) weights.push_back(widen(weight) / unit);
  if (half < 0) weights.emplace_back(0);
  return weights;
}

/// The weights of a derivative of `order` over `points` points one apart; the first one is at `first`.
std::vector<Rational> weights_from(const Rational& first, int order, int points) {
  // weights[k][j]: the weight of point j in the difference of order k over the points added so far. k = -1
  // comes first and is all zeros.
  std::vector<std::vector<Rational>> weights(index(order + 2), std::vector<Rational>(index(points)));
  weights[1][0] = 1;
  Rational before = 1;  // the product of the distances from the last point to the earlier ones
  for (int i = 1; i < points; ++i) {
    const Rational x = first + i;
    Rational product = 1;
    for (int j = 0; j < i; ++j) product *= i - j;
    const std::size_t last = index(i - 1);
    for (int k = std::min(i, order); k >= 0; --k) {
      std::vector<Rational>& row = weights[index(k + 1)];
      const std::vector<Rational>& lower = weights[index(k)];
      row[index(i)] = before / product * (k * lower[last] - (x - 1) * row[last]);
      for (int j = 0; j < i; ++j) row[index(j)] = (x * row[index(j)] - k * lower[index(j)]) / (i - j);
    }
    before = product;
  }
  return weights.back();
}

}  // namespace

int difference_radius(int order, int accuracy) {
  return (order + 1) / 2 - 1 + accuracy / 2;
}

std::vector<Rational> difference_weights(int order, int radius) {
  return weights_from(-radius, order, 2 * radius + 1);
}

int staggered_radius(int order, int accuracy) {
  return order / 2 + accuracy / 2;
}

std::vector<Rational> staggered_weights(int order, int radius) {
  return weights_from(Rational(1 - 2 * radius, 2), order, 2 * radius);
}

std::optional<Coefficients> read_derivative(const ShapeKeys& keys, Context& context) {
  const std::optional<std::array<int, 3>> orders = read_orders(keys, context);
  const std::optional<int> accuracy = read_accuracy(keys, context);
  std::array<bool, 3> derived{};
  for (std::size_t axis = 0; axis < derived.size(); ++axis) derived[axis] = orders && (*orders)[axis] > 0;
  const std::optional<std::array<double, 3>> spacing = read_spacing(keys, derived, context);
  const std::optional<std::array<int, 3>> halves = read_halves(keys, context);
  if (!orders || !accuracy || !spacing || !halves) return std::nullopt;
  std::array<WideList, 3> lists;
  for (std::size_t axis = 0; axis < lists.size(); ++axis)
    lists[axis] = weights_along((*orders)[axis], *accuracy, (*spacing)[axis], (*halves)[axis]);
  return multiply_lists(lists, keys.find("order")->where, context);
}

std::optional<Coefficients> read_laplacian(const ShapeKeys& keys, Context& context) {
  const std::optional<int> accuracy = read_accuracy(keys, context);
  const std::optional<std::array<double, 3>> spacing = read_spacing(keys, {true, true, true}, context);
  if (!accuracy || !spacing) return std::nullopt;
  const int radius = difference_radius(2, *accuracy);
  const diag::SourceLocation where = keys.find("shape")->where;
  Coefficients laplacian{{}, std::array<int, 3>{}};
  Wide middle = 0;
  for (int axis = first_axis(keys.dimensions); axis <= axis_x; ++axis) {
    const WideList weights = weights_along(2, *accuracy, (*spacing)[index(axis)]);
    (*laplacian.radius)[index(axis)] = radius;
    middle += weights[index(radius)];
    for (int offset = -radius; offset <= radius; ++offset) {
      if (offset == 0) continue;
      Tap tap{{}, static_cast<double>(weights[index(offset + radius)]), where};
      tap.at[index(axis)] = offset;
      laplacian.taps.push_back(std::move(tap));
    }
  }
  laplacian.taps.push_back({{}, static_cast<double>(middle), where});
  return laplacian;
}

}  // namespace spidergen::spec
