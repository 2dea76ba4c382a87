#pragma once

#include <vector>

#include "plan/tile_mapping.h"

namespace spidergen::pack {

/// Columns per group of 2:4 sparsity, and the number of them in an operand.
inline constexpr int group_columns = 4;
inline constexpr int kept_columns = 2;

/// The two columns of each group of four in an operand, by row and group: positions 0 <= first < second <= 3.
struct Selection {
  struct Pair {
    int first = 0;
    int second = 1;

    bool operator==(const Pair&) const = default;
  };

  int rows = 0;
  int groups = 0;
  std::vector<Pair> pairs;  ///< row-major

  [[nodiscard]] const Pair& at(int row, int group) const {
    return pairs[static_cast<std::size_t>(row) * groups + group];
  }
  bool operator==(const Selection&) const = default;
};

/// The columns that a full window could use, whatever its weights, so that one selection serves every window
/// of a mapping. A group with one such column also takes the next (at position 3 the one before), one with
/// none 0 and 1. Throws InternalError where a group would need three: the mapping is not 2:4.
[[nodiscard]] Selection select_columns(const plan::TileMapping& mapping);

/// Metadata of a pair as `mma.sp` reads it: first | second << 2 (PTX ISA 9.7.14.6.1).
[[nodiscard]] unsigned metadata_nibble(const Selection::Pair& pair);
/// Its inverse; throws InternalError where first < second does not hold.
[[nodiscard]] Selection::Pair pair_of_nibble(unsigned nibble);

/// The selected columns, half of all (paper section 3.1.2). Throws InternalError, with row and column, where
/// a non-zero is not selected.
[[nodiscard]] plan::Matrix compress(const plan::Matrix& matrix, const Selection& selection);

/// The inverse: selected values at their columns, zeros elsewhere.
[[nodiscard]] plan::Matrix expand(const plan::Matrix& compressed, const Selection& selection);

}  // namespace spidergen::pack
