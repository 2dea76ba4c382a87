#include "pack/compress.h"

#include <fmt/format.h>

#include <vector>

#include "diag/diagnostic.h"

namespace spidergen::pack {
namespace {

using plan::Matrix;

Selection::Pair choose_pair(const std::vector<int>& needed) {
  if (needed.empty()) return {0, 1};
  if (needed.size() == 2) return {needed[0], needed[1]};
  return needed[0] == group_columns - 1 ? Selection::Pair{needed[0] - 1, needed[0]}
                                        : Selection::Pair{needed[0], needed[0] + 1};
}

}  // namespace

Selection select_columns(const plan::TileMapping& mapping) {
  const Matrix support = plan::kernel_matrix(
      mapping, std::vector<double>(mapping.window_rows.size() * mapping.window_width, 1.0));
  Selection selection{support.rows, support.columns / group_columns, {}};
  for (int row = 0; row < selection.rows; ++row) {
    for (int group = 0; group < selection.groups; ++group) {
      std::vector<int> needed;
      for (int position = 0; position < group_columns; ++position) {
        if (support.at(row, group * group_columns + position) != 0) needed.push_back(position);
      }
      if (needed.size() > kept_columns) {
        throw diag::InternalError(fmt::format("mapping '{}' is not 2:4: row {}, columns {}..{} hold {} taps",
                                              mapping.name, row, group * group_columns,
                                              group * group_columns + 3, needed.size()));
      }
      selection.pairs.push_back(choose_pair(needed));
    }
  }
  return selection;
}

unsigned metadata_nibble(const Selection::Pair& pair) {
  return static_cast<unsigned>(pair.first) | static_cast<unsigned>(pair.second) << 2;
}

Selection::Pair pair_of_nibble(unsigned nibble) {
  const Selection::Pair pair{static_cast<int>(nibble & 3U), static_cast<int>(nibble >> 2 & 3U)};
  if (pair.first >= pair.second)
    throw diag::InternalError(fmt::format("metadata {:#x} is not in ascending order", nibble));
  return pair;
}

Matrix compress(const Matrix& matrix, const Selection& selection) {
  Matrix compressed(matrix.rows, matrix.columns / 2);
  for (int row = 0; row < matrix.rows; ++row) {
    for (int column = 0; column < matrix.columns; ++column) {
      const Selection::Pair& pair = selection.at(row, column / group_columns);
      const int position = column % group_columns;
      const int slot = column / group_columns * kept_columns;
      const double value = matrix.at(row, column);
      if (position == pair.first) {
        compressed.at(row, slot) = value;
      } else if (position == pair.second) {
        compressed.at(row, slot + 1) = value;
      } else if (value != 0) {
        throw diag::InternalError(
            fmt::format("row {}, column {}: the non-zero {} is not selected", row, column, value));
      }
    }
  }
  return compressed;
}

Matrix expand(const Matrix& compressed, const Selection& selection) {
  Matrix matrix(compressed.rows, compressed.columns * 2);
  for (int row = 0; row < matrix.rows; ++row) {
    for (int group = 0; group < selection.groups; ++group) {
      const Selection::Pair& pair = selection.at(row, group);
      matrix.at(row, group * group_columns + pair.first) = compressed.at(row, group * kept_columns);
      matrix.at(row, group * group_columns + pair.second) = compressed.at(row, group * kept_columns + 1);
    }
  }
  return matrix;
}

}  // namespace spidergen::pack
