#include "spec/coefficients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "spec/names.h"
#include "spec/shapes.h"

namespace spidergen::spec {
namespace {

/// The `radius` of an axis: the one number, or the axis's entry; null where it is missing.
const Node* axis_value(const Node& node, int axis, int dimensions, Context& context) {
  if (node.kind != NodeKind::mapping) return &node;
  if (const Entry* entry = find_entry(node, axis_name(axis))) return &entry->value;
  context.diagnostics.error(node.where, "'radius' does not name axis '{}'; it names each of {}",
                            axis_name(axis), list_names(axis_names(dimensions)));
  return nullptr;
}

/// The value of the tap after `left` more, in the order of the spec; null where there are no more. Not for
/// products, whose taps have no values of their own.
const Node* find_tap(const Node& node, Shape shape, std::size_t& left) {
  const bool is_tap =
      node.kind == NodeKind::scalar || (shape == Shape::taps && node.kind == NodeKind::mapping);
  if (is_tap) return left-- == 0 ? &node : nullptr;
  for (const Node& item : node.items) {
    if (const Node* found = find_tap(item, shape, left)) return found;
  }
  for (const Entry& entry : node.entries) {
    if (const Node* found = find_tap(entry.value, shape, left)) return found;
  }
  return nullptr;
}

bool check_number_of_taps(const Node& node, Shape shape, Context& context) {
  std::size_t left = most_taps;
  const Node* beyond = shape == Shape::product ? nullptr : find_tap(node, shape, left);
  if (!beyond) return true;
  context.diagnostics.error(beyond->where, "this is tap {}; a stencil has at most {}", most_taps + 1,
                            most_taps);
  return false;
}

/// Reads `coefficients` in any of its forms.
std::optional<Coefficients> read_listed(const Node& node, Shape shape, int dimensions, Context& context) {
  if (!check_number_of_taps(node, shape, context)) return std::nullopt;
  if (shape == Shape::box) return read_box(node, dimensions, context);
  if (shape == Shape::product) return read_product(node, dimensions, context);
  if (shape == Shape::star) return read_star(node, dimensions, context);
  return read_tap_list(node, dimensions, context);
}

}  // namespace

std::string too_many_taps(const StencilSpec& product, std::string_view with) {
  return fmt::format("the product has {} taps; with {} at most {} are read", count_taps(product), with,
                     most_taps);
}

const Node* ShapeKeys::find(std::string_view key) const {
  const Entry* entry = find_entry(mapping, key);
  return entry ? &entry->value : nullptr;
}

const Node* ShapeKeys::require(std::string_view key, std::string_view example, Context& context) const {
  const Node* node = find(key);
  if (!node) context.diagnostics.error(start, "'{}' is missing; add {}", key, example);
  return node;
}

std::optional<Coefficients> read_coefficients(const ShapeKeys& keys, Shape shape, Context& context) {
  switch (shape) {
    case Shape::derivative:
      return read_derivative(keys, context);
    case Shape::laplacian:
      return read_laplacian(keys, context);
    case Shape::gaussian:
      return read_gaussian(keys, context);
    case Shape::formula:
      return read_formula(keys, context);
    case Shape::star:
    case Shape::box:
    case Shape::product:
    case Shape::taps:
      break;
  }
  const Node* node = keys.require("coefficients", "'coefficients: ...' in the form of the shape", context);
  return node ? read_listed(*node, shape, keys.dimensions, context) : std::nullopt;
}

std::optional<std::array<int, 3>> read_radius(const Node& node, int dimensions, Context& context) {
  std::array<int, 3> radius{};
  bool good = true;
  if (node.kind == NodeKind::mapping) good = check_keys(node, axis_names(dimensions), "'radius'", context);
  for (int axis = first_axis(dimensions); axis <= axis_x; ++axis) {
    const Node* value = axis_value(node, axis, dimensions, context);
    const std::optional<int> given =
        value ? read_whole(*value, "'radius'", 0, farthest_offset, context) : std::nullopt;
    good = good && given;
    radius[index(axis)] = given.value_or(0);
    if (!given && value == &node) break;  // reported once
  }
  if (!good) return std::nullopt;
  return radius;
}

void check_radius(const Node& node, int dimensions, const std::array<int, 3>* actual, Context& context) {
  const std::optional<std::array<int, 3>> given = read_radius(node, dimensions, context);
  if (!given || !actual) return;
  for (int axis = first_axis(dimensions); axis <= axis_x; ++axis) {
    const int found = (*actual)[index(axis)];
    if ((*given)[index(axis)] == found) continue;
    const Node* value = axis_value(node, axis, dimensions, context);
    context.diagnostics.error(value->where,
                              "radius {} does not agree with the coefficients, which reach {} "
                              "along {}; correct it or leave it out",
                              (*given)[index(axis)], found, axis_name(axis));
    if (value == &node) return;
  }
}

std::vector<Tap> finish_taps(std::vector<Tap> taps, const Finish& finish, Storage storage,
                             const diag::SourceLocation& coefficients, Context& context) {
  for (Tap& tap : taps) tap.weight *= finish.scale;
  if (finish.center != 0) {
    auto middle = std::find_if(taps.begin(), taps.end(), [](const Tap& tap) { return tap.at == Offset{}; });
    if (middle == taps.end()) middle = taps.insert(taps.end(), Tap{{}, 0, coefficients});
    middle->weight += finish.center;
  }
  const double largest = largest_value(storage);
  const Tap* reported = nullptr;
  for (const Tap& tap : taps) {
    if (std::fabs(tap.weight) <= largest) continue;
    if (reported && reported->where == tap.where) continue;  // one key makes these weights
    reported = &tap;
    context.diagnostics.error(tap.where, "{} cannot hold the weight {}; its largest value is {}",
                              storage_name(storage), tap.weight, largest);
  }
  std::erase_if(taps, [](const Tap& tap) { return tap.weight == 0; });
  if (taps.empty()) {
    context.diagnostics.error(coefficients, "all weights are zero; a stencil has at least one that is not");
  }
  std::sort(taps.begin(), taps.end(), [](const Tap& a, const Tap& b) { return a.at < b.at; });
  return taps;
}

}  // namespace spidergen::spec
