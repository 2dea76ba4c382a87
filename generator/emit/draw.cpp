#include "emit/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "pack/compress.h"

namespace spidergen::emit {
namespace {

/// A matrix as letters, with rows and columns labelled by their positions in the field.
struct Drawing {
  std::vector<plan::Position> outputs;
  std::vector<std::string> rows;  ///< a character per column
};

char letter_of(const plan::TileMapping& mapping, int row, int column) {
  const plan::Position& input = mapping.column_input[column];
  const plan::Position& output = mapping.row_output[row];
  const plan::Position tap_row{input.y - output.y, 0, input.z - output.z};
  constexpr std::string_view firsts = "aAi";
  const auto row_index = std::find(mapping.window_rows.begin(), mapping.window_rows.end(), tap_row) -
                         mapping.window_rows.begin();
  const char first = firsts[static_cast<std::size_t>(row_index)];
  return static_cast<char>(first + input.x - output.x - mapping.window_low);
}

Drawing letters_of(const plan::TileMapping& mapping, const plan::Matrix& matrix) {
  Drawing drawing{mapping.row_output, {}};
  for (int row = 0; row < matrix.rows; ++row) {
    std::string line;
    for (int column = 0; column < matrix.columns; ++column) {
      line += matrix.at(row, column) == 0 ? '.' : letter_of(mapping, row, column);
    }
    drawing.rows.push_back(line);
  }
  return drawing;
}

/// The indices of the positions in sorted order.
std::vector<int> natural_order(const std::vector<plan::Position>& positions) {
  std::vector<int> order(positions.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const plan::Position& first = positions[a];
    const plan::Position& second = positions[b];
    return std::tie(first.z, first.y, first.x) < std::tie(second.z, second.y, second.x);
  });
  return order;
}

Drawing in_natural_order(const plan::TileMapping& mapping, const Drawing& drawing) {
  Drawing natural;
  for (const int row : natural_order(mapping.row_output)) {
    natural.outputs.push_back(drawing.outputs[row]);
    std::string line;
    for (const int column : natural_order(mapping.column_input)) line += drawing.rows[row][column];
    natural.rows.push_back(line);
  }
  return natural;
}

std::string in_groups(const std::string& letters, int size) {
  std::string text;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (i > 0 && i % size == 0) text += ' ';
    text += letters[i];
  }
  return text;
}

/// An output's place, with its row where there are two.
std::string label(const std::vector<plan::Position>& outputs, int row) {
  const bool one_row =
      std::all_of(outputs.begin(), outputs.end(), [](const plan::Position& output) { return output.y == 0; });
  return one_row ? fmt::format("x+{:<4}", outputs[row].x)
                 : fmt::format("y+{} x+{:<4}", outputs[row].y, outputs[row].x);
}

std::string labelled(const Drawing& drawing, int row, int group) {
  return label(drawing.outputs, row) + in_groups(drawing.rows[row], group);
}

}  // namespace

std::string draw_swap(const plan::TileMapping& mapping, const plan::Matrix& matrix) {
  const Drawing after = letters_of(mapping, matrix);
  const Drawing before = in_natural_order(mapping, after);
  std::string text;
  for (int row = 0; row < matrix.rows; ++row) {
    text += fmt::format("{}    {}\n", labelled(before, row, pack::group_columns),
                        labelled(after, row, pack::group_columns));
  }
  return text;
}

std::string draw_compressed(const plan::TileMapping& mapping, const plan::Matrix& matrix) {
  const Drawing swapped = letters_of(mapping, matrix);
  const pack::Selection selection = pack::select_columns(mapping);
  std::string text;
  for (int row = 0; row < matrix.rows; ++row) {
    std::string stored;
    std::string metadata;
    for (int group = 0; group < selection.groups; ++group) {
      const pack::Selection::Pair& pair = selection.at(row, group);
      stored += swapped.rows[row][group * pack::group_columns + pair.first];
      stored += swapped.rows[row][group * pack::group_columns + pair.second];
      metadata += fmt::format("{:x}", pack::metadata_nibble(pair));
    }
    text += fmt::format("{}{}    {}\n", label(swapped.outputs, row), in_groups(stored, pack::kept_columns),
                        metadata);
  }
  return text;
}

}  // namespace spidergen::emit
