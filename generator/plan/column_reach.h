#pragma once

#include <vector>

#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// What tap rows have in common along x; there is at least one.
[[nodiscard]] ColumnReach column_reach_of(const std::vector<TapRow>& rows);

/// Columns that taps reach and that vectors of `vector_cells` cells may not hold as a whole, beside both
/// edges of a field or box, either of which may cut a vector.
[[nodiscard]] int columns_across_edges(const ColumnReach& reach, int vector_cells);

/// Vectors of 16 bytes of a row of a block's ring of planes before the block's own columns, and behind them.
struct SideVectors {
  int left = 0;
  int right = 0;
};

}  // namespace spidergen::plan
