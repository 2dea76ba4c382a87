
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "spec/functions.h"
#include "spec/names.h"
#include "spec/shapes.h"

namespace spidergen::spec {
namespace {

constexpr double default_truncate = 4;

/// The standard deviation along each axis.
std::optional<std::array<double, 3>> read_sigma(const ShapeKeys& keys, Context& context) {
  const Node* node =
      keys.require("sigma", "'sigma: 1', the standard deviation in points, or one for each axis", context);
  if (!node) return std::nullopt;
  std::optional<std::array<double, 3>> sigma =
      read_per_axis(*node, "'sigma'", keys.dimensions, {true, true, true}, 0, context);
  if (!sigma) return std::nullopt;
  for (int axis = first_axis(keys.dimensions); axis <= axis_x; ++axis) {
    if ((*sigma)[index(axis)] >= 0) continue;
    const Node& value = per_axis_node(*node, axis);
    context.diagnostics.error(value.where, "'sigma' is 0 or more, not {}", describe(value));
    return std::nullopt;
  }
  return sigma;
}

/// The reach of the weights in standard deviations.
std::optional<double> read_truncate(const ShapeKeys& keys, Context& context) {
  const Node* node = keys.find("truncate");
  if (!node) return default_truncate;
  const std::optional<double> truncate = read_number(*node, "'truncate'", context);
  if (!truncate || *truncate > 0) return truncate;
  context.diagnostics.error(node->where, "'truncate' is greater than 0, not {}", describe(*node));
  return std::nullopt;
}

/// exp(-x^2 / (2 sigma^2)) over -radius ... radius, normalised to the sum 1.
std::vector<double> normal_weights(double sigma, int radius) {
  if (radius == 0) return {1};  // sigma may be 0
  std::vector<double> weights;
  double sum = 0;
  for (int x = -radius; x <= radius; ++x) {
    const double distance = x / sigma;
    weights.push_back(rounded::exp(-distance * distance / 2));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace

std::optional<Coefficients> read_gaussian(const ShapeKeys& keys, Context& context) {
  const std::optional<std::array<double, 3>> sigma = read_sigma(keys, context);
  const std::optional<double> truncate = read_truncate(keys, context);
  if (!sigma || !truncate) return std::nullopt;
  const Node& where = *keys.find("sigma");
  std::array<int, 3> radius{};
  std::array<std::size_t, 3> counts{1, 1, 1};
  for (int axis = first_axis(keys.dimensions); axis <= axis_x; ++axis) {
    const double reach = std::floor(*truncate * (*sigma)[index(axis)] + 0.5);  // as SciPy rounds it
    if (!(reach <= farthest_offset)) {
      context.diagnostics.error(per_axis_node(where, axis).where,
                                "'truncate' times 'sigma' reaches {} points along {}; the farthest is {}",
                                reach, axis_name(axis), farthest_offset);
      return std::nullopt;
    }
    radius[index(axis)] = static_cast<int>(reach);
    counts[index(axis)] = 2 * static_cast<std::size_t>(reach) + 1;
  }
  if (!check_product_count({1, 1, *std::max_element(counts.begin(), counts.end())}, where.where, context))
    return std::nullopt;
  std::array<std::vector<double>, 3> lists;
  for (std::size_t axis = 0; axis < lists.size(); ++axis)
    lists[axis] = normal_weights((*sigma)[axis], radius[axis]);
  return make_product(lists, where.where, context);
}

}  // namespace spidergen::spec
