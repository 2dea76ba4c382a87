#include "spec/stencil_spec.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace spidergen::spec {

std::int64_t count_taps(const StencilSpec& spec) {
  if (spec.lists.empty()) return std::ssize(spec.taps);
  std::int64_t count = 1;
  for (const AxisList& list : spec.lists)
    count *= std::count_if(list.weights.begin(), list.weights.end(), [](double one) { return one != 0; });
  return count;
}

std::int64_t count_tap_rows(const StencilSpec& spec) {
  if (!spec.lists.empty()) {
    const AxisList& first = spec.lists.front();
    const auto of_row =
        std::count_if(first.weights.begin(), first.weights.end(), [](double one) { return one != 0; });
    return first.axis == axis_x ? count_taps(spec) / of_row : count_taps(spec);
  }
  std::set<std::pair<int, int>> rows;
  for (const Tap& tap : spec.taps) rows.emplace(tap.at[axis_z], tap.at[axis_y]);
  return std::ssize(rows);
}

}  // namespace spidergen::spec
