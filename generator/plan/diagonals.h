#pragma once

#include <vector>

#include "plan/tile_mapping.h"
#include "plan/windows.h"

namespace spidergen::plan {

/// Two windows of one operand (diagonal_pair_mapping).
struct DiagonalPair {
  Window first;
  Window second;

  [[nodiscard]] Position distance() const { return {second.dy - first.dy, 0, second.dz - first.dz}; }
};

/// Removes windows with a single tap at dx = 0 from `windows` and pairs them: those of a column of planes
/// (one dy), and those of a plane (one dz), the lower half with the upper half where all pairs then have one
/// distance. A star of radius r has its 4 r arms of y and z paired at distance r + 1. Removes nothing where
/// no other window would be left.
[[nodiscard]] std::vector<DiagonalPair> take_diagonal_pairs(std::vector<Window>& windows);

/// The same for a walk down rows, whose ring buffer stores the rows of a pair and the columns of the other
/// windows. Removes nothing where the rows are more than largest_row_distance apart, or where the other
/// windows do not cover all output columns.
[[nodiscard]] std::vector<DiagonalPair> take_diagonal_pairs_of_rows(std::vector<Window>& windows);

inline constexpr int largest_row_distance = 16;

}  // namespace spidergen::plan
