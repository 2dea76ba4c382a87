#pragma once

#include <vector>

#include "plan/tile_mapping.h"
#include "plan/windows.h"

namespace spidergen::plan {

/// Two windows that one operand holds (diagonal_pair_mapping).
struct DiagonalPair {
  Window first;
  Window second;

  [[nodiscard]] Position distance() const { return {second.dy - first.dy, 0, second.dz - first.dz}; }
};

/// Takes windows with a single tap at dx = 0 out of `windows` and pairs them: those of a column of planes
/// (one dy), and those of a plane (one dz), the lower half with the upper half where that leaves all at one
/// distance. A star of radius r has its 4 r arms of y and z paired at distance r + 1. Nothing is taken where
/// nothing else would be left.
[[nodiscard]] std::vector<DiagonalPair> take_diagonal_pairs(std::vector<Window>& windows);

/// The same for a walk down rows, whose ring holds the rows of a pair and the columns of the windows that are
/// left: nothing is taken where the rows are more than largest_row_distance apart, or where those windows
/// leave out columns of the outputs.
[[nodiscard]] std::vector<DiagonalPair> take_diagonal_pairs_of_rows(std::vector<Window>& windows);

inline constexpr int largest_row_distance = 16;

}  // namespace spidergen::plan
