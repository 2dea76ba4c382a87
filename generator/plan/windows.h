#pragma once

#include <vector>

#include "plan/contraction.h"

namespace spidergen::plan {

/// The dx of one tap row in one operand: from shift - 8 to shift + 7.
struct Window {
  int dy = 0;
  int shift = 0;
  std::vector<RoundedTap> taps;  ///< of one sum
  int dz = 0;

  [[nodiscard]] int sum() const { return taps.front().sum; }
};

/// Cuts the tap rows of each sum into windows, ascending in (dz, dy), with the cheapest shifts: every window
/// is an MMA per tile, and every distinct shift a fragment to load per input row and tile, which costs about
/// as much. Ties go to shifts near 0. Where taps are too far away to try all shifts, the shifts are those
/// that cover a row of all dx with the fewest windows. Every tap has |dx| <= largest_column_reach.
[[nodiscard]] std::vector<Window> cut_windows(const std::vector<RoundedTap>& taps,
                                              const TileMapping& mapping);

/// The largest |dx| of one pass in 1D and 2D.
inline constexpr int largest_column_reach = 127;
/// The largest |dy| of one pass; the scheme decides how many rows a kernel has.
inline constexpr int largest_row_reach = 31;
/// The largest offset along each axis in 3D.
inline constexpr int largest_volume_reach = 15;

}  // namespace spidergen::plan
