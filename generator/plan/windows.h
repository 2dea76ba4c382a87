#pragma once

#include <vector>

#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// The dx of one tap row that one operand holds: from shift - 8 to shift + 7.
struct Window {
  int dy = 0;
  int shift = 0;
  std::vector<RoundedTap> taps;
};

/// Cuts tap rows into windows. The shifts are those that cost least: every window is an MMA per tile, and
/// every distinct shift a fragment to load per input row and tile, which costs about as much. Ties go to
/// shifts near 0. Every tap has dz = 0 and |dx| <= largest_column_reach.
[[nodiscard]] std::vector<Window> cut_windows(const std::vector<RoundedTap>& taps,
                                              const TileMapping& mapping);

/// How far |dx| may go in one pass.
inline constexpr int largest_column_reach = 31;
/// How far |dy| may go in one pass: accumulators of 2 * 7 + 1 rows fit a lane's registers.
inline constexpr int largest_row_reach = 7;

}  // namespace spidergen::plan
