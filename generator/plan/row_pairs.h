#pragma once

#include <vector>

#include "plan/contraction.h"

namespace spidergen::plan {

/// The taps from a pair of neighbouring output rows to a pair of neighbouring input rows: one operand of
/// row_pair_mapping.
struct RowPair {
  int dz = 0;
  int dy = 0;                    ///< of the first input row, relative to the first output row
  std::vector<RoundedTap> taps;  ///< of one sum
};

/// The pairs of input rows that two output rows need for each sum, ascending in (dz, dy): from the lowest tap
/// row of all on, the same in every plane, so that all planes and sums share fragments. Empty where a tap is
/// too far along x for the mapping.
[[nodiscard]] std::vector<RowPair> pair_rows(const std::vector<RoundedTap>& taps);

}  // namespace spidergen::plan
