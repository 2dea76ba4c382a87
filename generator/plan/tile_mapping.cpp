#include "plan/tile_mapping.h"

#include <vector>

namespace spidergen::plan {

TileMapping pair_swap_mapping() {
  constexpr int rows = 16;
  constexpr int columns = 32;
  TileMapping mapping;
  mapping.name = "pair swap, L = 16";
  mapping.window_low = -8;
  mapping.window_width = 16;
  mapping.outputs_per_column = 16;
  // C gives a lane rows g and g + 8 (PTX ISA 9.7.14.5); after movmatrix it holds rows 2 q, 2 q + 1, 2 q + 8,
  // 2 q + 9, which this order makes the outputs 4 q .. 4 q + 3.
  for (int m = 0; m < rows; ++m) {
    mapping.row_output.push_back({0, 4 * ((m % 8) / 2) + m % 2 + 2 * (m / 8)});
  }
  // B gives lane (n, q) the columns 8 j + 2 q + h as half h of register j; its vector holds inputs
  // 8 (q / 2) + 16 (q % 2) + 0..7 in the same order.
  for (int k = 0; k < columns; ++k) {
    const int j = k / 8;
    const int q = (k % 8) / 2;
    const int h = k % 2;
    mapping.column_input.push_back({0, mapping.window_low + 8 * (q / 2) + 16 * (q % 2) + 2 * j + h});
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
      if (input.y == output.y && tap >= 0 && tap < mapping.window_width) matrix.at(m, k) = weights[tap];
    }
  }
  return matrix;
}

}  // namespace spidergen::plan
