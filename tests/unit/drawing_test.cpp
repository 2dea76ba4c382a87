/// The drawings of generator/README.md are what the generator's own matrices look like.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "pack/compress.h"
#include "plan/tile_mapping.h"

namespace {

using spidergen::pack::Selection;
using spidergen::plan::Matrix;
using spidergen::plan::TileMapping;

/// The same outputs and inputs in their natural order: the kernel matrix before a swap.
TileMapping unswapped(TileMapping mapping) {
  const auto by_x = [](const auto& a, const auto& b) { return a.x < b.x; };
  std::sort(mapping.row_output.begin(), mapping.row_output.end(), by_x);
  std::sort(mapping.column_input.begin(), mapping.column_input.end(), by_x);
  return mapping;
}

/// The weights of a full window are 1, 2, ..., drawn as a, b, ...
Matrix full_window(const TileMapping& mapping) {
  std::vector<double> weights;
  for (int i = 0; i < mapping.window_width; ++i) weights.push_back(i + 1);
  return spidergen::plan::kernel_matrix(mapping, weights);
}

std::string draw_row(const Matrix& matrix, int row, int group) {
  std::string text;
  for (int column = 0; column < matrix.columns; ++column) {
    if (column > 0 && column % group == 0) text += ' ';
    const double value = matrix.at(row, column);
    text += value == 0 ? '.' : static_cast<char>('a' + static_cast<int>(value) - 1);
  }
  return text;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string output_name(const TileMapping& mapping, int row) {
  return padded("x+" + std::to_string(mapping.row_output[row].x), 6);
}

/// Before and after a swap, side by side.
std::string draw_swap(const TileMapping& swapped) {
  const TileMapping natural = unswapped(swapped);
  const Matrix before = full_window(natural);
  const Matrix after = full_window(swapped);
  std::string text;
  for (int row = 0; row < before.rows; ++row) {
    text += output_name(natural, row) + draw_row(before, row, spidergen::pack::group_columns) + "    " +
            output_name(swapped, row) + draw_row(after, row, spidergen::pack::group_columns) + "\n";
  }
  return text;
}

/// What is kept of each row, and the metadata of its groups from left to right, a hexadecimal digit each.
std::string draw_compressed(const TileMapping& swapped) {
  const Matrix matrix = full_window(swapped);
  const Selection selection = spidergen::pack::select_columns(swapped);
  const Matrix kept = spidergen::pack::compress(matrix, selection);
  std::string text;
  for (int row = 0; row < matrix.rows; ++row) {
    text += output_name(swapped, row) + draw_row(kept, row, spidergen::pack::kept_columns) + "    ";
    for (int group = 0; group < selection.groups; ++group) {
      text += "0123456789abcdef"[spidergen::pack::metadata_nibble(selection.at(row, group))];
    }
    text += "\n";
  }
  return text;
}

std::string readme() {
  std::ifstream file(SPIDER_SOURCE_DIR "/generator/README.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_drawn(const std::string& drawing) {
  EXPECT_NE(readme().find("```\n" + drawing + "```\n"), std::string::npos)
      << "generator/README.md should hold\n"
      << drawing;
}

}  // namespace

TEST(Drawing, ElementSwapIsAsDrawn) {
  expect_drawn(draw_swap(spidergen::plan::element_swap_mapping(3)));
}

TEST(Drawing, PairSwapIsAsDrawn) {
  expect_drawn(draw_swap(spidergen::plan::pair_swap_mapping()));
}

TEST(Drawing, CompressedOperandIsAsDrawn) {
  expect_drawn(draw_compressed(spidergen::plan::pair_swap_mapping()));
}
