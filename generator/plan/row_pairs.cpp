#include "plan/row_pairs.h"

#include <algorithm>
#include <set>
#include <vector>

namespace spidergen::plan {

std::vector<RowPair> pair_rows(const std::vector<RoundedTap>& taps) {
  const TileMapping mapping = row_pair_mapping();
  const auto fits = [&](const RoundedTap& tap) {
    const int index = tap.at[spec::axis_x] - mapping.window_low;
    return index >= 0 && index < mapping.window_width;
  };
  if (taps.empty() || !std::all_of(taps.begin(), taps.end(), fits)) return {};
  std::set<int> planes;
  std::set<int> sums;
  int low = taps.front().at[spec::axis_y];
  int high = low;
  for (const RoundedTap& tap : taps) {
    planes.insert(tap.at[spec::axis_z]);
    sums.insert(tap.sum);
    low = std::min(low, tap.at[spec::axis_y]);
    high = std::max(high, tap.at[spec::axis_y]);
  }
  std::vector<RowPair> pairs;
  for (const int dz : planes) {
    // The second output row reaches one row further.
    for (int dy = low; dy <= high + 1; dy += 2) {
      for (const int sum : sums) {
        RowPair pair{dz, dy, {}};
        for (const RoundedTap& tap : taps) {
          const Position row{tap.at[spec::axis_y] - dy, 0};
          const bool meets = std::find(mapping.window_rows.begin(), mapping.window_rows.end(), row) !=
                             mapping.window_rows.end();
          if (tap.at[spec::axis_z] == dz && tap.sum == sum && meets) pair.taps.push_back(tap);
        }
        if (!pair.taps.empty()) pairs.push_back(pair);
      }
    }
  }
  return pairs;
}

}  // namespace spidergen::plan
