#pragma once

#include <vector>

#include "plan/contraction.h"

namespace spidergen::plan {

/// The dx of one tap row that one operand holds: from shift - 8 to shift + 7.
struct Window {
  int dy = 0;
  int shift = 0;
  std::vector<RoundedTap> taps;  ///< of one sum
  int dz = 0;

  [[nodiscard]] int sum() const { return taps.front().sum; }
};

/// Cuts the tap rows of each sum into windows, ascending in (dz, dy). The shifts are those that cost least:
/// every window is an MMA per tile, and every distinct shift a fragment to load per input row and tile, which
/// costs about as much. Ties go to shifts near 0. Where taps are farther away than shifts can all be tried,
/// they are those that would serve a row of all dx with the fewest windows. Every tap has |dx| <=
/// largest_column_reach.
[[nodiscard]] std::vector<Window> cut_windows(const std::vector<RoundedTap>& taps,
                                              const TileMapping& mapping);

/// How far |dx| may go in one pass in 1D and 2D.
inline constexpr int largest_column_reach = 127;
/// How far |dy| may go in one pass; how many rows a kernel holds is the plan's to say (plan/streaming.h).
inline constexpr int largest_row_reach = 31;
/// How far taps may go along each axis in 3D.
inline constexpr int largest_volume_reach = 15;

}  // namespace spidergen::plan
