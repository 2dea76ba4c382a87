#include "spec/store_axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>

namespace spidergen::spec {
namespace {

/// By axis of the result, the axis of the spec; axes that the stencil does not have are unchanged.
std::array<int, 3> axes_of(std::string_view order) {
  std::array<int, 3> axes{axis_z, axis_y, axis_x};
  const std::size_t first = axes.size() - order.size();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto* letter = std::find(axis_letters.begin(), axis_letters.end(), order.substr(i, 1));
    axes[first + i] = static_cast<int>(letter - axis_letters.begin());
  }
  return axes;
}

/// Reorders values by axis of the result.
template <typename Value>
void reorder(std::array<Value, 3>& values, const std::array<int, 3>& axes) {
  const std::array<Value, 3> before = values;
  for (std::size_t i = 0; i < axes.size(); ++i) values[i] = before[static_cast<std::size_t>(axes[i])];
}

void reorder(std::vector<UpdateNode>& nodes, const std::array<int, 3>& axes) {
  for (UpdateNode& node : nodes) {
    reorder(node.at, axes);
    if (node.operation != UpdateOperation::index && node.operation != UpdateOperation::extent) continue;
    node.which = static_cast<int>(std::find(axes.begin(), axes.end(), node.which) - axes.begin());
  }
}

}  // namespace

std::string objection_to_order(std::string_view order, int dimensions) {
  const auto first = axis_letters.end() - dimensions;
  std::string letters;
  for (const auto* letter = first; letter != axis_letters.end(); ++letter) letters += *letter;
  if (std::is_permutation(order.begin(), order.end(), letters.begin(), letters.end())) return {};
  return fmt::format(
      "--axes {} is no order of the axes {}: name each once, the slowest in memory first, such as {}", order,
      fmt::join(first, axis_letters.end(), ", "), std::string(letters.rbegin(), letters.rend()));
}

void store_axes(StencilSpec& spec, std::string_view order) {
  const std::array<int, 3> axes = axes_of(order);
  for (Tap& tap : spec.taps) reorder(tap.at, axes);
  std::sort(spec.taps.begin(), spec.taps.end(),
            [](const Tap& a, const Tap& b) { return std::tie(a.at, a.sum) < std::tie(b.at, b.sum); });
  for (AxisList& list : spec.lists)
    list.axis = static_cast<int>(std::find(axes.begin(), axes.end(), list.axis) - axes.begin());
  std::sort(spec.lists.begin(), spec.lists.end(),
            [](const AxisList& a, const AxisList& b) { return a.axis > b.axis; });
  reorder(spec.boundary, axes);
  if (spec.update) reorder(spec.update->nodes, axes);
  spec.stored_axes = order;
}

void store_axes(SystemSpec& system, std::string_view order) {
  const std::array<int, 3> axes = axes_of(order);
  for (SystemField& field : system.fields) {
    reorder(field.axes, axes);
    reorder(field.boundary, axes);
  }
  reorder(system.nodes, axes);
  system.stored_axes = order;
}

}  // namespace spidergen::spec
