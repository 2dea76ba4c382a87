#include "plan/column_reach.h"

#include <algorithm>

namespace spidergen::plan {

ColumnReach column_reach_of(const std::vector<TapRow>& rows) {
  ColumnReach reach{rows.front().low, rows.front().high, 0, 0};
  for (const TapRow& row : rows) {
    reach.highest_low = std::max(reach.highest_low, row.low);
    reach.lowest_high = std::min(reach.lowest_high, row.high);
    reach.low = std::min(reach.low, row.low);
    reach.high = std::max(reach.high, row.high);
  }
  return reach;
}

int columns_across_edges(const ColumnReach& reach, int vector_cells) {
  const int cut = vector_cells - 1;
  const int at_low_edge = std::max(0, reach.highest_low) - reach.low + cut;
  const int at_high_edge = reach.high - std::min(0, reach.lowest_high) + cut;
  return at_low_edge + at_high_edge;
}

}  // namespace spidergen::plan
