#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/names.h"
#include "spec/shapes.h"

namespace spidergen::spec {
namespace {

/// The list of one axis. It is empty and has no node where the stencil lacks the axis.
struct ReadList {
  const Node* node = nullptr;
  std::vector<double> weights;

  [[nodiscard]] int radius() const { return static_cast<int>(weights.size() / 2); }
};
using AxisLists = std::array<ReadList, 3>;

/// Reads the lists of all axes; `counts` says how many entries a list has.
std::optional<AxisLists> read_axis_lists(const Node& mapping, int dimensions, std::string_view counts,
                                         Context& context) {
  AxisLists lists;
  bool good = true;
  for (int axis = first_axis(dimensions); axis <= axis_x; ++axis) {
    const std::string name = axis_name(axis);
    const Entry* entry = find_entry(mapping, name);
    if (!entry) {
      context.diagnostics.error(mapping.where, "the list of axis '{0}' is missing; add {0}: [...], {1}", name,
                                counts);
      good = false;
      continue;
    }
    const std::string what = fmt::format("the coefficients along {} are a list", name);
    if (!expect(entry->value, NodeKind::sequence, what, context)) {
      good = false;
      continue;
    }
    std::optional<std::vector<double>> weights = read_numbers(entry->value, coefficient, context);
    good = good && weights;
    if (weights) lists[index(axis)] = {&entry->value, std::move(*weights)};
  }
  if (!good) return std::nullopt;
  return lists;
}

/// Whether all lists have an odd count (`odd`), or all an even one.
bool check_parity(const AxisLists& lists, bool odd, std::string_view right, Context& context) {
  bool good = true;
  for (std::size_t axis = 0; axis < lists.size(); ++axis) {
    const ReadList& list = lists[axis];
    if (!list.node || (list.weights.size() % 2 == 1) == odd) continue;
    context.diagnostics.error(list.node->where, "axis {} has {}; {}", axis_name(static_cast<int>(axis)),
                              counted(list.weights.size(), "coefficient"), right);
    good = false;
  }
  return good;
}

std::array<int, 3> radius_of(const AxisLists& lists) {
  return {lists[0].radius(), lists[1].radius(), lists[2].radius()};
}

bool is_smaller(double a, double b) {
  return std::fabs(a) < std::fabs(b);
}

/// The taps of a star's arms. Lists have an odd count; their middles add up to the centre unless it is given.
Coefficients make_star(const AxisLists& lists, const Tap* given_center) {
  Coefficients star{{}, radius_of(lists)};
  Tap center = given_center ? *given_center : Tap{};
  for (int axis = axis_z; axis <= axis_x; ++axis) {
    const ReadList& list = lists[index(axis)];
    if (!list.node) continue;
    const int radius = list.radius();
    const bool has_middle = list.weights.size() % 2 == 1;
    for (int position = 0; position < static_cast<int>(list.weights.size()); ++position) {
      const Node& item = list.node->items[index(position)];
      const double weight = list.weights[index(position)];
      Tap tap{{}, weight, item.where};
      tap.at[index(axis)] = position - radius + (!has_middle && position >= radius ? 1 : 0);
      if (tap.at != Offset{}) {
        star.taps.push_back(std::move(tap));
      } else {
        center.weight += weight;
        center.where = item.where;
      }
    }
  }
  star.taps.push_back(center);
  return star;
}

}  // namespace

std::optional<Coefficients> read_product(const Node& node, int dimensions, Context& context) {
  const std::vector<std::string> axes = axis_names(dimensions);
  const std::string what =
      fmt::format("the coefficients of a product are a mapping with a list for each of {}", list_names(axes));
  if (!expect(node, NodeKind::mapping, what, context)) return std::nullopt;
  check_keys(node, axes, "the coefficients of a product", context);
  std::optional<AxisLists> lists = read_axis_lists(node, dimensions, "an odd count", context);
  if (!lists ||
      !check_parity(*lists, true, "a product takes an odd count, the middle one for offset 0", context)) {
    return std::nullopt;
  }
  std::array<std::vector<double>, 3> weights;
  for (std::size_t axis = 0; axis < weights.size(); ++axis)
    weights[axis] = (*lists)[axis].node ? (*lists)[axis].weights : std::vector<double>{1.0};
  std::optional<Coefficients> product = make_product(weights, node.where, context);
  if (!product) return std::nullopt;
  const ReadList& x = lists->back();
  for (Tap& tap : product->taps) tap.where = x.node->items[index(tap.at[axis_x] + x.radius())].where;
  return product;
}

std::optional<Coefficients> make_product(const std::array<std::vector<double>, 3>& lists,
                                         const diag::SourceLocation& where, Context& context) {
  double count = 1;
  for (const std::vector<double>& list : lists) {
    count *= static_cast<double>(list.size());
    if (!check_product_count({1, 1, list.size()}, where, context)) return std::nullopt;
  }
  if (count <= static_cast<double>(most_taps)) return multiply_lists(lists, where, context);
  Coefficients product;
  Offset largest{};
  double others = 1;  // the weights of axes whose only tap is the middle
  product.radius.emplace();
  for (int axis = axis_x; axis >= axis_z; --axis) {
    const std::vector<double>& list = lists[index(axis)];
    const int radius = static_cast<int>(list.size() / 2);
    (*product.radius)[index(axis)] = radius;
    largest[index(axis)] =
        static_cast<int>(std::max_element(list.begin(), list.end(), is_smaller) - list.begin());
    if (list.size() == 1) {
      others *= list.front();
    } else {
      product.lists.push_back({axis, -radius, list});
    }
  }
  for (double& weight : product.lists.front().weights) weight *= others;
  // Lines along all axes through the largest weight, which appears once.
  for (int axis = axis_z; axis <= axis_x; ++axis) {
    for (int i = 0; i < static_cast<int>(lists[index(axis)].size()); ++i) {
      Offset place = largest;
      place[index(axis)] = i;
      if (place == largest && axis != axis_x) continue;
      Tap tap{{}, 1, where};
      for (std::size_t other = 0; other < lists.size(); ++other) {
        tap.weight *= lists[other][index(place[other])];
        tap.at[other] = place[other] - (*product.radius)[other];
      }
      product.taps.push_back(std::move(tap));
    }
  }
  return product;
}

bool check_product_count(const std::array<std::size_t, 3>& counts, const diag::SourceLocation& where,
                         Context& context) {
  double count = 1;
  for (const std::size_t one : counts) count *= static_cast<double>(one);
  if (count <= static_cast<double>(most_taps)) return true;
  context.diagnostics.error(where, "the product has {:.0f} taps; at most {} are read", count, most_taps);
  return false;
}

std::optional<Coefficients> read_star(const Node& node, int dimensions, Context& context) {
  std::vector<std::string> keys = axis_names(dimensions);
  const std::string what = fmt::format(
      "the coefficients of a star are a mapping with 'center' and a list for each of {}", list_names(keys));
  if (!expect(node, NodeKind::mapping, what, context)) return std::nullopt;
  keys.insert(keys.begin(), "center");
  check_keys(node, keys, "the coefficients of a star", context);

  const Entry* center_entry = find_entry(node, "center");
  std::optional<Tap> center;
  if (center_entry) {
    const std::optional<double> weight = read_number(center_entry->value, coefficient, context);
    if (weight) center = Tap{{}, *weight, center_entry->value.where};
  }
  const std::string_view counts = center_entry ? "an even count" : "an odd count";
  const std::optional<AxisLists> lists = read_axis_lists(node, dimensions, counts, context);
  if (!lists) return std::nullopt;
  const std::string_view right = center_entry
                                     ? "beside 'center' it takes an even count, without the middle one"
                                     : "without 'center' it takes an odd count, the middle one for offset 0";
  const bool good = check_parity(*lists, center_entry == nullptr, right, context);
  if (!good || (center_entry && !center)) return std::nullopt;
  return make_star(*lists, center ? &*center : nullptr);
}

}  // namespace spidergen::spec
