#pragma once

#include <string>
#include <vector>

namespace spidergen::plan {

/// A place relative to a tile's anchor.
struct Position {
  int y = 0;
  int x = 0;
  int z = 0;

  bool operator==(const Position&) const = default;
};

/// The output of each row of a kernel matrix and the input of each column: a swap is nothing else. Element
/// (m, k) of a window's matrix is the window's weight at the offset column_input[k] - row_output[m].
struct TileMapping {
  std::string name;
  std::vector<Position> row_output;
  std::vector<Position> column_input;     ///< of a window with shift 0
  int window_low = 0;                     ///< smallest dx of a window with shift 0
  int window_width = 0;                   ///< neighbouring dx in one matrix
  int outputs_per_column = 0;             ///< x from one column of B to the next: L
  std::vector<Position> window_rows{{}};  ///< the (dz, dy) in one matrix, relative to the window's own row

  /// Does a matrix make outputs of two rows?
  [[nodiscard]] bool pairs_rows() const { return row_output.back().y != 0; }
  [[nodiscard]] int rows() const { return static_cast<int>(row_output.size()); }
  [[nodiscard]] int columns() const { return static_cast<int>(column_input.size()); }
  /// The smallest x of the inputs, at shift 0, and how many columns of the field they span.
  [[nodiscard]] int first_input() const;
  [[nodiscard]] int input_span() const;
  bool operator==(const TileMapping&) const = default;
};

/// The outputs of a tile that a lane stores: four neighbours, after a transposition in registers, or without
/// it two pairs of neighbours, 16 apart.
enum class LaneOutputs { quad, pairs };

/// L = 16 on m16n8k32: 16 taps a window, dx = -8..7. A lane's four B registers are eight neighbours in
/// memory; rows are permuted so that its results are neighbours, too.
[[nodiscard]] TileMapping pair_swap_mapping(LaneOutputs outputs = LaneOutputs::quad);

/// The paper's strided swapping (section 3.1) for radius r, L = 2 r + 2: an L x 2 L matrix in which odd
/// columns j and j + L are swapped; 2 r + 1 taps a window, dx = -r..r.
[[nodiscard]] TileMapping element_swap_mapping(int radius);

/// L = 16 on m16n8k32 for two tap rows that have a tap at dx = 0 only: the window's own, and the one
/// `distance` away along y and z. A diagonal needs 16 input columns, so that both fit. Lanes 4 n and 4 n + 1
/// load the inputs of the first row, 4 n + 2 and 4 n + 3 those of the second.
[[nodiscard]] TileMapping diagonal_pair_mapping(Position distance);

/// L = 8 on m16n8k32 for two neighbouring output rows and two neighbouring input rows: 8 taps of each tap
/// row, dx = -4..3. Operands have three tap rows: the one from the first output row to the first input row,
/// and the ones before and after it. Two output rows of a box of radius r take r + 1 such operands; windows
/// of one row take 2 r + 1. Lanes 4 n and 4 n + 1 load the inputs of the first row, 4 n + 2 and 4 n + 3 those
/// of the second, four at a time: the latter load the last four of their eight first, so that the lanes of
/// both rows never conflict in a bank. A lane stores a pair of neighbours of either output row, or a quad of
/// one: lanes 4 n and 4 n + 1 of the first row.
[[nodiscard]] TileMapping row_pair_mapping(LaneOutputs outputs = LaneOutputs::pairs);

/// A dense matrix in row-major order.
struct Matrix {
  int rows = 0;
  int columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(int row_count, int column_count)
      : rows(row_count),
        columns(column_count),
        values(static_cast<std::size_t>(row_count) * column_count, 0.0) {}
  [[nodiscard]] double& at(int row, int column) {
    return values[static_cast<std::size_t>(row) * columns + column];
  }
  [[nodiscard]] double at(int row, int column) const {
    return values[static_cast<std::size_t>(row) * columns + column];
  }
  bool operator==(const Matrix&) const = default;
};

/// The kernel matrix of a window: `weights[r * window_width + i]` is the weight at window row r and dx =
/// shift + window_low + i, for any shift.
[[nodiscard]] Matrix kernel_matrix(const TileMapping& mapping, const std::vector<double>& weights);

}  // namespace spidergen::plan
