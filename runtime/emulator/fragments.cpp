#include "fragments.h"

#include <bit>
#include <cmath>
#include <string>

#include "half.h"
#include "text.h"
#include "violation.h"

namespace spider::emulator {

namespace {

constexpr int rows = 16;         // of A
constexpr int columns = 8;       // of B
constexpr int depth = 32;        // K
constexpr int kept = depth / 2;  // elements of a compressed row, and K of a dense product

/// Two elements of a row of B, then the row. Vector types, since -O2 does not vectorise short loops.
using Pair [[gnu::vector_size(2 * sizeof(double))]] = double;
using BRow = std::array<Pair, columns / 2>;

std::uint16_t half_of(std::uint32_t word, int slot) {
  return static_cast<std::uint16_t>(word >> (16 * slot));
}

/// The f32 next to `sum` on the side of zero; infinity where that takes a larger exponent than f32 has.
float cut(double sum) {
  constexpr double beyond_f32 = 0x1p128;
  const auto nearest = static_cast<float>(sum);
  const double magnitude = std::fabs(sum);
  if (!(std::fabs(static_cast<double>(nearest)) > magnitude) || magnitude >= beyond_f32) return nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) - 1);
}

/// Cuts the sums of all columns as cut() does.
void cut_row(BRow& sums) {
  for (Pair& pair : sums) pair = Pair{cut(pair[0]), cut(pair[1])};
}

[[noreturn]] void refuse_code(int lane, std::uint32_t word, int row, int group, std::uint32_t code) {
  throw Violation("multiply_sparse: lane " + std::to_string(lane) + " gives metadata " + hexadecimal(word) +
                  ", whose code " + hexadecimal(code) + " for row " + std::to_string(row) + ", group " +
                  std::to_string(group) + " is none of 4, 8, C, 9, D, E");
}

/// A of a warp, row by row: compressed for multiply_sparse, whole for multiply_dense. The layout is the same.
struct Weights {
  alignas(64) std::array<double, static_cast<std::size_t>(rows) * kept> values;
};

double value_of(std::uint16_t bits, OperandType type) {
  return static_cast<double>(type == OperandType::f16 ? half_to_float(bits) : bfloat_to_float(bits));
}

/// Element c of row g + 8 h: lane 4 g + (c mod 8) / 2, register h + 2 (c / 8), half c mod 2.
Weights unpack_weights(const std::array<const device::Vector*, lanes_per_warp>& a, OperandType type) {
  alignas(64) std::uint16_t bits[rows * kept];
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    const int quad = lane / 4;
    const int first = 2 * (lane % 4);
    for (int word = 0; word < 4; ++word) {
      const std::uint32_t both = a[lane]->word[word];
      for (int slot = 0; slot < 2; ++slot)
        bits[(quad + 8 * (word % 2)) * kept + 8 * (word / 2) + first + slot] = half_of(both, slot);
    }
  }
  Weights weights{};
  for (int i = 0; i < rows * kept; ++i) weights.values[static_cast<std::size_t>(i)] = value_of(bits[i], type);
  return weights;
}

/// Element (k, n) of B: lane 4 n + (k mod 8) / 2, register k / 8, half k mod 2.
template <std::size_t registers>
void unpack_inputs(const std::uint32_t (&words)[registers], int lane, std::uint16_t* bits) {
  for (std::size_t word = 0; word < registers; ++word) {
    const std::size_t k = 8 * word + 2 * static_cast<std::size_t>(lane % 4);
    bits[k * columns + lane / 4] = half_of(words[word], 0);
    bits[(k + 1) * columns + lane / 4] = half_of(words[word], 1);
  }
}

template <std::size_t size>
void convert_inputs(const std::uint16_t* bits, OperandType type, std::array<BRow, size>& inputs) {
  for (std::size_t k = 0; k < size; ++k) {
    for (int n = 0; n < columns; ++n) inputs[k][n / 2][n % 2] = value_of(bits[k * columns + n], type);
  }
}

/// sum += A * B, where element c of a row of A meets row meets[row][c] of B; adds that many products
/// together.
template <std::size_t size>
void add_products(const Weights& weights, const std::array<BRow, size>& inputs,
                  const SparsePattern::Columns& meets, int products_at_once,
                  const std::array<device::Accumulator*, lanes_per_warp>& sum) {
  for (int row = 0; row < rows; ++row) {
    // C and D, (g + 8 h, n): lane 4 g + n / 2, register 2 h + n mod 2.
    device::Accumulator* const* const quad = &sum[4 * static_cast<std::size_t>(row % 8)];
    const int half = 2 * (row / 8);
    BRow sums;
    for (int n = 0; n < columns; ++n)
      sums[n / 2][n % 2] = static_cast<double>(quad[n / 2]->value[half + n % 2]);
    for (int c = 0; c < kept; ++c) {
      if (c > 0 && c % products_at_once == 0) cut_row(sums);
      const double weight = weights.values[static_cast<std::size_t>(row) * kept + c];
      const BRow& b = inputs[meets[row][c]];
      sums[0] += weight * b[0];
      sums[1] += weight * b[1];
      sums[2] += weight * b[2];
      sums[3] += weight * b[3];
    }
    for (int n = 0; n < columns; ++n) quad[n / 2]->value[half + n % 2] = cut(sums[n / 2][n % 2]);
  }
}

/// Dense: element c of a row of A meets row c of B.
constexpr SparsePattern::Columns in_order = [] {
  SparsePattern::Columns all{};
  for (auto& row : all) {
    for (std::size_t c = 0; c < row.size(); ++c) row[c] = static_cast<std::uint8_t>(c);
  }
  return all;
}();

}  // namespace

void SparsePattern::decode(const std::array<std::uint32_t, lanes_per_warp>& metadata, int selector) {
  // PTX ISA, "Warp-level matrix instructions with sparse A", m16n8k32: lane 4 g + 2 selector + q / 4 holds
  // groups q of rows g (low half) and g + 8 (high half), four bits each.
  std::array<std::uint32_t, 16> words{};
  for (std::size_t g = 0; g < 8; ++g) {
    const std::size_t lane = 4 * g + 2 * static_cast<std::size_t>(selector);
    words[2 * g] = metadata[lane];
    words[2 * g + 1] = metadata[lane + 1];
  }
  if (decoded_ && words == words_) return;

  constexpr std::uint32_t legal = 1U << 0x4 | 1U << 0x8 | 1U << 0xC | 1U << 0x9 | 1U << 0xD | 1U << 0xE;
  decoded_ = false;
  for (int row = 0; row < rows; ++row) {
    for (int group = 0; group < depth / 4; ++group) {
      const int word = 2 * (row % 8) + group / 4;
      const std::uint32_t code = words[word] >> (16 * (row / 8) + 4 * (group % 4)) & 0xfU;
      if ((legal >> code & 1U) == 0) {
        refuse_code(4 * (row % 8) + 2 * selector + group / 4, words[word], row, group, code);
      }
      const auto first = 2 * static_cast<std::size_t>(group);
      columns_[row][first] = static_cast<std::uint8_t>(4 * group + (code & 3U));
      columns_[row][first + 1] = static_cast<std::uint8_t>(4 * group + (code >> 2));
    }
  }
  words_ = words;
  decoded_ = true;
}

void multiply_sparse(const SparseOperands& operands, OperandType type, int products_at_once, int selector,
                     SparsePattern& pattern) {
  pattern.decode(operands.metadata, selector);
  const Weights weights = unpack_weights(operands.a, type);
  alignas(64) std::uint16_t b_bits[depth * columns];
  for (int lane = 0; lane < lanes_per_warp; ++lane) unpack_inputs(operands.b[lane]->word, lane, b_bits);
  std::array<BRow, depth> inputs{};
  convert_inputs(b_bits, type, inputs);
  add_products(weights, inputs, pattern.columns(), products_at_once, operands.sum);
}

void multiply_dense(const DenseOperands& operands, OperandType type, int products_at_once) {
  const Weights weights = unpack_weights(operands.a, type);
  alignas(64) std::uint16_t b_bits[kept * columns];
  for (int lane = 0; lane < lanes_per_warp; ++lane) unpack_inputs(operands.b[lane]->word, lane, b_bits);
  std::array<BRow, kept> inputs{};
  convert_inputs(b_bits, type, inputs);
  add_products(weights, inputs, in_order, products_at_once, operands.sum);
}

void transpose_8x8(std::array<std::uint32_t, lanes_per_warp>& matrix) {
  const auto given = matrix;
  for (int row = 0; row < 8; ++row) {
    for (int pair = 0; pair < 4; ++pair) {
      const std::uint32_t low = half_of(given[4 * (2 * pair) + row / 2], row % 2);
      const std::uint32_t high = half_of(given[4 * (2 * pair + 1) + row / 2], row % 2);
      matrix[4 * row + pair] = low | high << 16;
    }
  }
}

}  // namespace spider::emulator
