#include "spec/coefficients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "spec/names.h"
#include "spec/shapes.h"

namespace spidergen::spec {
namespace {

/// The radius of one axis against the one that the coefficients have; true where they agree.
bool check_axis_radius(const Node& node, int axis, int given, const std::array<int, 3>& actual,
                       Context& context) {
  if (given == actual[index(axis)]) return true;
  context.diagnostics.error(node.where,
                            fmt::format("radius {} does not agree with the coefficients, which reach {} "
                                        "along {}; correct it or leave it out",
                                        given, actual[index(axis)], axis_name(axis)));
  return false;
}

/// `radius: 2` for all axes; the first axis that disagrees is reported.
void check_common_radius(const Node& node, int dimensions, const std::array<int, 3>* actual,
                         Context& context) {
  const std::optional<int> given = read_whole(node, "'radius'", 0, farthest_offset, context);
  if (!given || !actual) return;
  for (int axis = first_axis(dimensions); axis <= axis_x; ++axis) {
    if (!check_axis_radius(node, axis, *given, *actual, context)) return;
  }
}

/// The value of the tap after `left` more, in the order of the spec; null where there are no more. Of a
/// product, whose taps have no values of their own, it is none.
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
  context.diagnostics.error(
      beyond->where, fmt::format("this is tap {}; a stencil has at most {}", most_taps + 1, most_taps));
  return false;
}

}  // namespace

std::optional<Coefficients> read_coefficients(const Node& node, Shape shape, int dimensions,
                                              Context& context) {
  if (!check_number_of_taps(node, shape, context)) return std::nullopt;
  switch (shape) {
    case Shape::box:
      return read_box(node, dimensions, context);
    case Shape::product:
      return read_product(node, dimensions, context);
    case Shape::star:
      return read_star(node, dimensions, context);
    case Shape::taps:
      break;
  }
  return read_tap_list(node, dimensions, context);
}

void check_radius(const Node& node, int dimensions, const std::array<int, 3>* actual, Context& context) {
  const std::vector<std::string> axes = axis_names(dimensions);
  if (node.kind != NodeKind::mapping) {
    check_common_radius(node, dimensions, actual, context);
    return;
  }
  check_keys(node, axes, "'radius'", context);
  for (int axis = first_axis(dimensions); axis <= axis_x; ++axis) {
    const Entry* entry = find_entry(node, axis_name(axis));
    if (!entry) {
      context.diagnostics.error(
          node.where, fmt::format("'radius' does not name axis '{}'; it names each of {}", axis_name(axis),
                                  list_names(axes)));
      continue;
    }
    const std::optional<int> given = read_whole(entry->value, "'radius'", 0, farthest_offset, context);
    if (given && actual) (void)check_axis_radius(entry->value, axis, *given, *actual, context);
  }
}

std::vector<Tap> finish_taps(std::vector<Tap> taps, double scale, Storage storage,
                             const diag::SourceLocation& coefficients, Context& context) {
  const double largest = largest_value(storage);
  for (Tap& tap : taps) {
    tap.weight *= scale;
    if (std::fabs(tap.weight) <= largest) continue;
    context.diagnostics.error(tap.where, fmt::format("{} cannot hold the weight {}; its largest value is {}",
                                                     storage_name(storage), tap.weight, largest));
  }
  std::erase_if(taps, [](const Tap& tap) { return tap.weight == 0; });
  if (taps.empty()) {
    context.diagnostics.error(coefficients, "all weights are zero; a stencil has at least one that is not");
  }
  std::sort(taps.begin(), taps.end(), [](const Tap& a, const Tap& b) { return a.at < b.at; });
  return taps;
}

}  // namespace spidergen::spec
