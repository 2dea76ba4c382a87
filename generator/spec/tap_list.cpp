#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/names.h"
#include "spec/shapes.h"

namespace spidergen::spec {
namespace {

std::string offset_text(const Offset& at, int dimensions) {
  std::string out;
  for (int axis = first_axis(dimensions); axis <= axis_x; ++axis) {
    out += fmt::format("{}{}", out.empty() ? "" : ", ", at[index(axis)]);
  }
  return "[" + out + "]";
}

bool read_offset(const Node& item, int axis, Offset& at, Context& context) {
  const std::string what = fmt::format("the offset along {}", axis_name(axis));
  const std::optional<int> value = read_whole(item, what, -farthest_offset, farthest_offset, context);
  if (value) at[index(axis)] = *value;
  return value.has_value();
}

/// `{x: -2}`: absent axes are 0.
std::optional<Offset> read_at_mapping(const Node& node, int dimensions, Context& context) {
  Offset at{};
  bool good = check_keys(node, axis_names(dimensions), "'at'", context);
  for (int axis = first_axis(dimensions); axis <= axis_x; ++axis) {
    const Entry* entry = find_entry(node, axis_name(axis));
    if (entry) good = read_offset(entry->value, axis, at, context) && good;
  }
  if (!good) return std::nullopt;
  return at;
}

/// `[dy, dx]`, slowest axis first.
std::optional<Offset> read_at_list(const Node& node, int dimensions, Context& context) {
  const std::vector<std::string> axes = axis_names(dimensions);
  const std::string what =
      fmt::format("'at' is a list with the offsets along {}, or a mapping", list_names(axes));
  if (!expect(node, NodeKind::sequence, what, context)) return std::nullopt;
  if (node.items.size() != axes.size()) {
    context.diagnostics.error(node.where, "'at' lists {}; this stencil has {}, along {}",
                              counted(node.items.size(), "offset"), axes.size(), list_names(axes));
    return std::nullopt;
  }
  Offset at{};
  bool good = true;
  int axis = first_axis(dimensions);
  for (const Node& item : node.items) good = read_offset(item, axis++, at, context) && good;
  if (!good) return std::nullopt;
  return at;
}

std::optional<Offset> read_at(const Node& node, int dimensions, Context& context) {
  const bool is_mapping = node.kind == NodeKind::mapping;
  return is_mapping ? read_at_mapping(node, dimensions, context) : read_at_list(node, dimensions, context);
}

std::optional<Tap> read_tap(const Node& node, int dimensions, Context& context) {
  if (!expect(node, NodeKind::mapping, "a tap is a mapping {at: OFFSET, weight: NUMBER}", context))
    return std::nullopt;
  check_keys(node, {"at", "weight"}, "a tap", context);
  const Entry* at_entry = find_entry(node, "at");
  const Entry* weight_entry = find_entry(node, "weight");
  for (const auto& [entry, key] : {std::pair{at_entry, "at"}, std::pair{weight_entry, "weight"}}) {
    if (entry) continue;
    context.diagnostics.error(node.where, "this tap has no '{}'; write {{at: OFFSET, weight: NUMBER}}", key);
  }
  const std::optional<Offset> at = at_entry ? read_at(at_entry->value, dimensions, context) : std::nullopt;
  const std::optional<double> weight =
      weight_entry ? read_number(weight_entry->value, "a weight", context) : std::nullopt;
  if (!at || !weight) return std::nullopt;
  return Tap{*at, *weight, weight_entry->value.where};
}

}  // namespace

std::optional<Coefficients> read_tap_list(const Node& node, int dimensions, Context& context) {
  const std::string_view what =
      "the coefficients of 'shape: taps' are a list of {at: OFFSET, weight: NUMBER}";
  if (!expect(node, NodeKind::sequence, what, context)) return std::nullopt;
  if (node.items.empty()) {
    context.diagnostics.error(node.where, "the list of taps is empty; a stencil has at least one");
    return std::nullopt;
  }
  Coefficients result;
  std::map<Offset, int> lines;  // where each offset occurs first
  bool good = true;
  for (const Node& item : node.items) {
    std::optional<Tap> tap = read_tap(item, dimensions, context);
    good = good && tap;
    if (!tap) continue;
    const auto [first, is_new] = lines.try_emplace(tap->at, item.where.line);
    if (is_new) {
      result.taps.push_back(std::move(*tap));
      continue;
    }
    context.diagnostics.error(item.where, "offset {} is given twice, first in line {}; add the weights up",
                              offset_text(tap->at, dimensions), first->second);
    good = false;
  }
  if (!good) return std::nullopt;
  return result;
}

}  // namespace spidergen::spec
