#include "pack/fragment.h"

#include "diag/diagnostic.h"
#include "plan/half.h"

namespace spidergen::pack {
namespace {

constexpr int operand_rows = 16;
constexpr int operand_values = 16;
constexpr int operand_groups = 8;
constexpr int narrow_rows = 8;
constexpr int selectors = 2;

/// The place of an element of A: `bit` is its lowest bit in the register.
struct Place {
  int lane;
  int word;
  int bit;
};

Place value_place(int row, int column) {
  return {4 * (row % 8) + column % 8 / 2, row / 8 + 2 * (column / 8), 16 * (column % 2)};
}

Place metadata_place(int row, int group, int selector) {
  return {4 * (row % 8) + 2 * selector + group / 4, 0, 16 * (row / 8) + 4 * (group % 4)};
}

void require(bool condition, const char* promise) {
  if (!condition) throw diag::InternalError(promise);
}

/// Puts every value in its place.
OperandFragment place_values(const plan::Matrix& matrix, plan::OperandType type) {
  OperandFragment fragment{};
  for (int row = 0; row < matrix.rows; ++row) {
    for (int column = 0; column < matrix.columns; ++column) {
      const double value = matrix.at(row, column);
      const std::uint16_t bits = plan::to_bits(type, value);
      require(plan::from_bits(type, bits) == value, "an operand holds a value that is not exact in its type");
      const Place place = value_place(row, column);
      fragment[place.lane][place.word] |= static_cast<std::uint32_t>(bits) << place.bit;
    }
  }
  return fragment;
}

plan::Matrix take_values(const OperandFragment& fragment, int rows, plan::OperandType type) {
  plan::Matrix matrix(rows, operand_values);
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < operand_values; ++column) {
      const Place place = value_place(row, column);
      matrix.at(row, column) =
          plan::from_bits(type, static_cast<std::uint16_t>(fragment[place.lane][place.word] >> place.bit));
    }
  }
  return matrix;
}

}  // namespace

OperandFragment to_fragment(const plan::Matrix& matrix, plan::OperandType type) {
  require(matrix.rows == operand_rows && matrix.columns == operand_values,
          "only operands of 16 x 16 values have a lane order");
  return place_values(matrix, type);
}

plan::Matrix from_fragment(const OperandFragment& fragment, plan::OperandType type) {
  return take_values(fragment, operand_rows, type);
}

OperandFragment to_narrow_fragment(const plan::Matrix& matrix, plan::OperandType type) {
  require(matrix.rows == narrow_rows && matrix.columns == operand_values,
          "only matrices of 8 outputs by 16 inputs have the lane order of B");
  return place_values(matrix, type);
}

plan::Matrix from_narrow_fragment(const OperandFragment& fragment, plan::OperandType type) {
  return take_values(fragment, narrow_rows, type);
}

MetadataFragment pack_metadata(const std::vector<Selection>& selections) {
  require(!selections.empty() && selections.size() <= selectors,
          "a metadata register carries one or two selections");
  MetadataFragment metadata{};
  for (int selector = 0; selector < static_cast<int>(selections.size()); ++selector) {
    const Selection& selection = selections[selector];
    require(selection.rows == operand_rows && selection.groups == operand_groups,
            "only selections of 16 x 8 groups have a lane order for m16n8k32");
    for (int row = 0; row < operand_rows; ++row) {
      for (int group = 0; group < operand_groups; ++group) {
        const Place place = metadata_place(row, group, selector);
        metadata[place.lane] |= metadata_nibble(selection.at(row, group)) << place.bit;
      }
    }
  }
  return metadata;
}

Selection unpack_metadata(const MetadataFragment& metadata, int selector) {
  Selection selection{operand_rows, operand_groups, {}};
  for (int row = 0; row < operand_rows; ++row) {
    for (int group = 0; group < operand_groups; ++group) {
      const Place place = metadata_place(row, group, selector);
      selection.pairs.push_back(pair_of_nibble(metadata[place.lane] >> place.bit & 0xFU));
    }
  }
  return selection;
}

}  // namespace spidergen::pack
