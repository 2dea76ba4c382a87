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
constexpr int kept = depth / 2;  // elements of a compressed row

/// Two elements of a row of B, then the row: vector types, since short loops do not become vector code at
/// -O2.
using Pair [[gnu::vector_size(2 * sizeof(double))]] = double;
using BRow = std::array<Pair, columns / 2>;

std::uint16_t half_of(std::uint32_t word, int slot) {
  return static_cast<std::uint16_t>(word >> (16 * slot));
}

/// The f32 next to `sum` on the side of zero.
float cut(double sum) {
  const auto nearest = static_cast<float>(sum);
  if (!(std::fabs(static_cast<double>(nearest)) > std::fabs(sum))) return nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) - 1);
}

[[noreturn]] void refuse_code(int lane, std::uint32_t word, int row, int group, std::uint32_t code) {
  throw Violation("multiply_sparse: lane " + std::to_string(lane) + " gives metadata " + hexadecimal(word) +
                  ", whose code " + hexadecimal(code) + " for row " + std::to_string(row) + ", group " +
                  std::to_string(group) + " is none of 4, 8, C, 9, D, E");
}

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

void multiply_sparse(const SparseOperands& operands, OperandType type, int selector, SparsePattern& pattern) {
  const auto value_of = [type](std::uint16_t bits) {
    return static_cast<double>(type == OperandType::f16 ? half_to_float(bits) : bfloat_to_float(bits));
  };
  pattern.decode(operands.metadata, selector);

  // Kept element c of row g + 8 h: lane 4 g + (c mod 8) / 2, register h + 2 (c / 8), half c mod 2.
  alignas(64) std::uint16_t a_bits[rows * kept];
  // Element (k, n): lane 4 n + (k mod 8) / 2, register k / 8, half k mod 2.
  alignas(64) std::uint16_t b_bits[depth * columns];
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    const int quad = lane / 4;
    const int first = 2 * (lane % 4);
    for (int word = 0; word < 4; ++word) {
      const std::uint32_t a = operands.a[lane]->word[word];
      const std::uint32_t b = operands.b[lane]->word[word];
      for (int slot = 0; slot < 2; ++slot) {
        a_bits[(quad + 8 * (word % 2)) * kept + 8 * (word / 2) + first + slot] = half_of(a, slot);
        b_bits[(8 * word + first + slot) * columns + quad] = half_of(b, slot);
      }
    }
  }
  alignas(64) double a_values[rows * kept];
  std::array<BRow, depth> b_values{};
  for (int i = 0; i < rows * kept; ++i) a_values[i] = value_of(a_bits[i]);
  for (int k = 0; k < depth; ++k) {
    for (int n = 0; n < columns; ++n) b_values[k][n / 2][n % 2] = value_of(b_bits[k * columns + n]);
  }

  for (int row = 0; row < rows; ++row) {
    // C and D, (g + 8 h, n): lane 4 g + n / 2, register 2 h + n mod 2.
    device::Accumulator* const* const quad = &operands.sum[4 * static_cast<std::size_t>(row % 8)];
    const int half = 2 * (row / 8);
    BRow sums;
    for (int n = 0; n < columns; ++n)
      sums[n / 2][n % 2] = static_cast<double>(quad[n / 2]->value[half + n % 2]);
    for (int c = 0; c < kept; ++c) {
      const double weight = a_values[row * kept + c];
      const BRow& b = b_values[pattern.columns()[row][c]];
      sums[0] += weight * b[0];
      sums[1] += weight * b[1];
      sums[2] += weight * b[2];
      sums[3] += weight * b[3];
    }
    for (int n = 0; n < columns; ++n) quad[n / 2]->value[half + n % 2] = cut(sums[n / 2][n % 2]);
  }
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
