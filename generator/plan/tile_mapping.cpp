#include "plan/tile_mapping.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace spidergen::plan {
namespace {

constexpr int operand_rows = 16;
constexpr int operand_columns = 32;
constexpr int first_operand_input = -8;

/// The output, among 16 neighbours, of row m of an operand. C gives a lane rows g and g + 8 (PTX ISA
/// 9.7.14.5); after movmatrix it has rows 2 q, 2 q + 1, 2 q + 8, 2 q + 9, which this order makes the outputs
/// 4 q .. 4 q + 3. Untransposed it has rows g and g + 8, which the other order makes 2 g and 2 g + 1.
int output_of_row(int m, LaneOutputs outputs = LaneOutputs::quad) {
  if (outputs == LaneOutputs::pairs) return 2 * (m % 8) + m / 8;
  return 4 * ((m % 8) / 2) + m % 2 + 2 * (m / 8);
}

/// Column k of an operand in B's view: lane q of each four has it in half `half` of register `word` (PTX ISA
/// 9.7.14.5), which is element 2 word + half of the eight neighbours of its 16-byte load.
struct ColumnPlace {
  explicit ColumnPlace(int k) : q(k % 8 / 2), element(2 * (k / 8) + k % 2) {}
  int q;
  int element;
};

/// Rows of a mapping for m16n8k32 at L = 16, whose columns are the inputs from `first_operand_input` on.
TileMapping operand_mapping(std::string name, LaneOutputs outputs) {
  TileMapping mapping;
  mapping.name = std::move(name);
  mapping.outputs_per_column = operand_rows;
  for (int m = 0; m < operand_rows; ++m) mapping.row_output.push_back({0, output_of_row(m, outputs)});
  return mapping;
}

bool is_left_of(const Position& a, const Position& b) {
  return a.x < b.x;
}

}  // namespace

int TileMapping::first_input() const {
  return std::min_element(column_input.begin(), column_input.end(), is_left_of)->x;
}

int TileMapping::input_span() const {
  return std::max_element(column_input.begin(), column_input.end(), is_left_of)->x - first_input() + 1;
}

TileMapping pair_swap_mapping(LaneOutputs outputs) {
  TileMapping mapping = operand_mapping("pair swap, L = 16", outputs);
  mapping.window_low = -8;
  mapping.window_width = 16;
  for (int k = 0; k < operand_columns; ++k) {
    const ColumnPlace place(k);
    mapping.column_input.push_back(
        {0, first_operand_input + 8 * (place.q / 2) + 16 * (place.q % 2) + place.element});
  }
  return mapping;
}

TileMapping diagonal_pair_mapping(Position distance) {
  TileMapping mapping = operand_mapping("diagonal pair, L = 16", LaneOutputs::quad);
  mapping.window_low = 0;
  mapping.window_width = 1;
  mapping.window_rows.push_back({distance.y, 0, distance.z});
  for (int k = 0; k < operand_columns; ++k) {
    const ColumnPlace place(k);
    const Position& row = mapping.window_rows[place.q / 2];
    mapping.column_input.push_back({row.y, 8 * (place.q % 2) + place.element, row.z});
  }
  return mapping;
}

TileMapping row_pair_mapping(LaneOutputs outputs) {
  constexpr int length = 8;
  constexpr int first_input = -4;
  TileMapping mapping;
  mapping.name = "row pair, L = 8";
  mapping.outputs_per_column = length;
  mapping.window_low = -4;
  mapping.window_width = 8;
  mapping.window_rows = {{-1, 0}, {0, 0}, {1, 0}};
  // C gives a lane rows g and g + 8; after movmatrix lane q of four has rows 2 q, 2 q + 1, and both plus 8.
  // In their own order these are two neighbours of the first output row and two of the second.
  for (int m = 0; m < operand_rows; ++m) {
    const int quad = output_of_row(m);
    mapping.row_output.push_back(outputs == LaneOutputs::quad ? Position{quad / length, quad % length}
                                                              : Position{m / length, m % length});
  }
  for (int k = 0; k < operand_columns; ++k) {
    const ColumnPlace place(k);
    const int row = place.q / 2;
    const int element = row == 0 ? place.element : (place.element + length / 2) % length;
    mapping.column_input.push_back({row, first_input + length * (place.q % 2) + element});
  }
  return mapping;
}

TileMapping element_swap_mapping(int radius) {
  const int length = 2 * radius + 2;
  TileMapping mapping;
  mapping.name = "element swap, L = " + std::to_string(length);
  mapping.window_low = -radius;
  mapping.window_width = 2 * radius + 1;
  mapping.outputs_per_column = length;
  for (int m = 0; m < length; ++m) mapping.row_output.push_back({0, m});
  for (int k = 0; k < 2 * length; ++k) {
    const int swapped = k % 2 == 0 ? k : (k + length) % (2 * length);
    mapping.column_input.push_back({0, mapping.window_low + swapped});
  }
  return mapping;
}

Matrix kernel_matrix(const TileMapping& mapping, const std::vector<double>& weights) {
  Matrix matrix(mapping.rows(), mapping.columns());
  for (int m = 0; m < matrix.rows; ++m) {
    for (int k = 0; k < matrix.columns; ++k) {
      const Position output = mapping.row_output[m];
      const Position input = mapping.column_input[k];
      const int tap = input.x - output.x - mapping.window_low;
      const auto row = std::find(mapping.window_rows.begin(), mapping.window_rows.end(),
                                 Position{input.y - output.y, 0, input.z - output.z});
      if (row == mapping.window_rows.end() || tap < 0 || tap >= mapping.window_width) continue;
      matrix.at(m, k) = weights[(row - mapping.window_rows.begin()) * mapping.window_width + tap];
    }
  }
  return matrix;
}

}  // namespace spidergen::plan
