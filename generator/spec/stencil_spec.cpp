#include "spec/stencil_spec.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

namespace spidergen::spec {

namespace {

/// Offsets of a product of lists; for `rows`, without those along x.
std::int64_t count_products(const std::vector<AxisList>& lists, bool rows) {
  std::int64_t count = 1;
  for (const AxisList& list : lists) {
    if (rows && list.axis == axis_x) continue;
    count *= std::count_if(list.weights.begin(), list.weights.end(), [](double one) { return one != 0; });
  }
  return count;
}

}  // namespace

std::int64_t count_taps(const StencilSpec& spec) {
  return spec.lists.empty() ? std::ssize(spec.taps) : count_products(spec.lists, false);
}

std::int64_t count_tap_rows(const StencilSpec& spec) {
  if (!spec.lists.empty()) return count_products(spec.lists, true);
  std::set<std::pair<int, int>> rows;
  for (const Tap& tap : spec.taps) rows.emplace(tap.at[axis_z], tap.at[axis_y]);
  return std::ssize(rows);
}

}  // namespace spidergen::spec
