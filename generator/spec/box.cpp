#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "spec/shapes.h"

namespace spidergen::spec {
namespace {

/// A box while it is read: taps are placed by their indices in the nested list.
struct BoxReading {
  Coefficients box;
  std::array<std::size_t, 3> counts{};  ///< entries per axis; 0 until the first list of the axis is read
  bool good = true;
};

/// Lists of one axis have one odd length. Reports the first list of even length, and every later list whose
/// length differs.
void check_count(const Node& list, int axis, BoxReading& reading, Context& context) {
  std::size_t& count = reading.counts[index(axis)];
  const std::size_t found = list.items.size();
  if (count == 0) {
    count = std::max<std::size_t>(found, 1);
    if (found % 2 == 1) return;
    context.diagnostics.error(list.where,
                              "a box has an odd count of entries along {}, the middle one for "
                              "offset 0; this list has {}",
                              axis_name(axis), found);
  } else if (found != count) {
    context.diagnostics.error(list.where,
                              "this list along {} has {} entries and the first one has {}; all "
                              "are of one length",
                              axis_name(axis), found, count);
  } else {
    return;
  }
  reading.good = false;
}

void read_box_level(const Node& node, int axis, Offset at, BoxReading& reading, Context& context) {
  if (axis > axis_x) {
    const std::optional<double> weight = read_number(node, coefficient, context);
    if (weight) reading.box.taps.push_back({at, *weight, node.where});
    reading.good = reading.good && weight;
    return;
  }
  const std::string what = fmt::format("the coefficients of a box along {} are a list", axis_name(axis));
  if (!expect(node, NodeKind::sequence, what, context)) {
    reading.good = false;
    return;
  }
  check_count(node, axis, reading, context);
  for (const Node& item : node.items) {
    read_box_level(item, axis + 1, at, reading, context);
    ++at[index(axis)];
  }
}

}  // namespace

std::optional<Coefficients> read_box(const Node& node, int dimensions, Context& context) {
  BoxReading reading;
  read_box_level(node, first_axis(dimensions), {}, reading, context);
  if (!reading.good) return std::nullopt;
  std::array<int, 3> radius{};
  for (std::size_t axis = 0; axis < radius.size(); ++axis)
    radius[axis] = static_cast<int>(reading.counts[axis] / 2);
  for (Tap& tap : reading.box.taps) {
    for (std::size_t axis = 0; axis < radius.size(); ++axis) tap.at[axis] -= radius[axis];
  }
  reading.box.radius = radius;
  return std::move(reading.box);
}

}  // namespace spidergen::spec
