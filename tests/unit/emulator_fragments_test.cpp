#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "emulator/half.h"
#include "emulator_launch.h"

namespace spider::test {
namespace {

using device::Accumulator;
using device::Pair;
using device::Vector;

constexpr std::array<std::uint32_t, 6> legal_codes = {0x4, 0x8, 0xC, 0x9, 0xD, 0xE};

/// What the lanes of the one warp bring and take; kernels are plain functions, so it is global.
struct Registers {
  std::array<Vector, 32> a, b;
  std::array<std::uint32_t, 32> metadata;
  std::array<Accumulator, 32> sum;
};
Registers registers;

void put_half(std::uint32_t& word, int slot, std::uint16_t bits) {
  word = (word & ~(0xffffU << (16 * slot))) | static_cast<std::uint32_t>(bits) << (16 * slot);
}

/// Dense matrices and the registers that hold them, built from the PTX ISA's layout of m16n8k32.
struct Problem {
  std::array<std::array<std::uint16_t, 32>, 16> a{};
  std::array<std::array<std::uint16_t, 8>, 32> b{};
  std::array<std::array<float, 8>, 16> c{};
  std::array<std::array<std::uint32_t, 8>, 16> code{};  // by row and group of four columns

  void fill(std::mt19937& random) {
    std::normal_distribution<float> normal;
    for (int row = 0; row < 16; ++row) {
      for (int group = 0; group < 8; ++group) {
        const std::uint32_t pair = legal_codes[random() % 6];
        code[row][group] = pair;
        a[row][4 * group + (pair & 3)] = emulator::float_to_half(normal(random));
        a[row][4 * group + (pair >> 2)] = emulator::float_to_half(normal(random));
      }
      for (float& value : c[row]) value = normal(random);
    }
    for (auto& row : b) {
      for (auto& value : row) value = emulator::float_to_half(normal(random));
    }
  }

  /// Everything that no register holds is random.
  void pack(int selector, std::mt19937& random) const {
    for (auto& word : registers.metadata) word = static_cast<std::uint32_t>(random());
    for (int row = 0; row < 16; ++row) {
      const int g = row % 8;
      const int h = row / 8;
      for (int group = 0; group < 8; ++group) {
        std::uint32_t& word = registers.metadata[4 * g + 2 * selector + group / 4];
        const int bit = 16 * h + 4 * (group % 4);
        word = (word & ~(0xfU << bit)) | code[row][group] << bit;
        const std::array<std::uint32_t, 2> position = {code[row][group] & 3, code[row][group] >> 2};
        for (int i = 0; i < 2; ++i) {
          const int kept = 2 * group + i;
          put_half(registers.a[4 * g + kept % 8 / 2].word[h + 2 * (kept / 8)], kept % 2,
                   a[row][4 * group + position[i]]);
        }
      }
      for (int n = 0; n < 8; ++n) registers.sum[4 * g + n / 2].value[2 * h + n % 2] = c[row][n];
    }
    for (int k = 0; k < 32; ++k) {
      for (int n = 0; n < 8; ++n) put_half(registers.b[4 * n + k % 8 / 2].word[k / 8], k % 2, b[k][n]);
    }
  }
};

float result(int row, int n) {
  return registers.sum[4 * (row % 8) + n / 2].value[2 * (row / 8) + n % 2];
}

template <int selector>
void multiply(SweepArguments arguments) {
  const int lane = device::lane_index();
  device::multiply_sparse<selector>(registers.sum[lane], registers.a[lane], registers.b[lane],
                                    registers.metadata[lane]);
  write_output(arguments);
}

template <int selector>
void check_against_dense() {
  std::mt19937 random(selector + 1);
  for (int round = 0; round < 50; ++round) {
    Problem problem;
    problem.fill(random);
    problem.pack(selector, random);
    expect_good(launch(multiply<selector>, {}));
    for (int row = 0; row < 16; ++row) {
      for (int n = 0; n < 8; ++n) {
        double expected = problem.c[row][n];
        for (int k = 0; k < 32; ++k) {
          expected += static_cast<double>(emulator::half_to_float(problem.a[row][k])) *
                      static_cast<double>(emulator::half_to_float(problem.b[k][n]));
        }
        const double got = result(row, n);
        ASSERT_LE(std::fabs(got), std::fabs(expected) * (1 + 1e-15)) << "rounds away from zero";
        ASSERT_GE(std::fabs(got), std::fabs(expected) * (1 - 0x1p-23)) << "row " << row << ", column " << n;
      }
    }
  }
}

TEST(MultiplySparse, IsTheDenseProductWithSelector0) {
  check_against_dense<0>();
}
TEST(MultiplySparse, IsTheDenseProductWithSelector1) {
  check_against_dense<1>();
}

/// Row r, group q carries the code (r + q) mod 6 of the list; words, element places as worked out from the
/// PTX ISA.
TEST(MultiplySparse, WorkedExample) {
  std::mt19937 random(7);
  Problem problem;
  for (int row = 0; row < 16; ++row) {
    for (int group = 0; group < 8; ++group) problem.code[row][group] = legal_codes[(row + group) % 6];
  }
  // Row 3 keeps columns 1 2, 5 7, 10 11, 12 13, 16 18, 20 23, 25 26, 29 31.
  problem.pack(0, random);
  EXPECT_EQ(registers.metadata[0], 0xED9C9C84U);
  EXPECT_EQ(registers.metadata[1], 0x9C8484EDU);
  EXPECT_EQ(registers.metadata[4], 0x4ED9D9C8U);
  EXPECT_EQ(registers.metadata[5], 0xD9C8C84EU);
  EXPECT_EQ(registers.metadata[12], 0xC84E4ED9U);
  EXPECT_EQ(registers.metadata[29], 0xD9C8C84EU);

  const std::uint16_t one = 0x3c00;
  const std::uint16_t two = 0x4000;
  const std::uint16_t three = 0x4200;
  registers = {{}, {}, registers.metadata, {}};
  put_half(registers.a[12].word[0], 0, one);     // row 3, kept 0: column 1
  put_half(registers.a[12].word[0], 1, two);     // row 3, kept 1: column 2
  put_half(registers.a[13].word[0], 0, two);     // row 3, kept 2: column 5
  put_half(registers.a[12].word[2], 1, three);   // row 3, kept 9: column 18
  put_half(registers.a[15].word[2], 1, two);     // row 3, kept 15: column 31
  put_half(registers.b[24].word[0], 1, one);     // B(1, 6)
  put_half(registers.b[25].word[0], 0, three);   // B(2, 6)
  put_half(registers.b[25].word[2], 0, two);     // B(18, 6)
  put_half(registers.b[27].word[3], 1, three);   // B(31, 6)
  put_half(registers.b[26].word[0], 1, three);   // B(5, 6)
  put_half(registers.b[27].word[1], 0, 0x7c00);  // B(14, 6): an infinity in a column that row 3 does not keep
  expect_good(launch(multiply<0>, {}));
  EXPECT_EQ(result(3, 6), 1.0F * 1 + 2 * 3 + 2 * 3 + 3 * 2 + 2 * 3);
  EXPECT_EQ(result(3, 5), 0.0F);
}

TEST(MultiplySparse, ASelectedZeroTimesNaNIsNaNAndWhatIsNotSelectedDoesNotMatter) {
  std::mt19937 random(3);
  Problem problem;
  for (auto& row : problem.code) row.fill(0x4);  // columns 0 and 1 of each group
  problem.b[4][2] = 0x7e00;
  problem.b[6][5] = 0x7e00;
  problem.pack(1, random);
  expect_good(launch(multiply<1>, {}));
  for (int row = 0; row < 16; ++row) {
    for (int n = 0; n < 8; ++n) ASSERT_EQ(std::isnan(result(row, n)), n == 2) << row << ' ' << n;
  }
}

TEST(MultiplySparse, CutsTowardsZero) {
  std::mt19937 random(3);
  Problem problem;
  for (auto& row : problem.code) row.fill(0x4);
  problem.c[0][0] = 1;
  problem.a[0][0] = 0x3c00;
  problem.b[0][0] = 0x0fff;  // just below 2^-11: 1 + it is no f32
  problem.c[8][0] = -1;
  problem.a[8][1] = 0xbc00;
  problem.b[1][0] = 0x0001;  // 2^-24, half an f32 unit of 1
  problem.pack(0, random);
  expect_good(launch(multiply<0>, {}));
  EXPECT_EQ(result(0, 0), 1 + 0x1.ffcp-12F);
  EXPECT_EQ(result(8, 0), -1.0F);

  problem.b[0][0] = 0x0003;  // 1.5 units of 1 above it: one is left
  problem.pack(0, random);
  expect_good(launch(multiply<0>, {}));
  EXPECT_EQ(result(0, 0), 1 + 0x1p-23F);
}

TEST(MultiplySparse, RefusesCodesThatAreNotTwoAscendingPositions) {
  for (std::uint32_t code = 0; code < 16; ++code) {
    std::mt19937 random(3);
    Problem problem;
    for (auto& row : problem.code) row.fill(0x4);
    problem.code[11][6] = code;
    problem.pack(1, random);
    const auto outcome = launch(multiply<1>, {});
    if (std::find(legal_codes.begin(), legal_codes.end(), code) != legal_codes.end()) {
      expect_good(outcome);
    } else {
      expect_violation(outcome,
                       {"kernel probe, block 0, warp 0", "lane 15 gives metadata", "for row 11, group 6"});
    }
  }
}

TEST(MultiplySparse, RefusesZeroMetadata) {
  registers = {};
  expect_violation(launch(multiply<0>, {}), {"whose code 0x0 for row 0, group 0"});
}

/// B of multiply_dense, beside A and the sums in `registers`.
std::array<Pair, 32> pairs;

/// PTX ISA, m16n8k16: A(row, k) is in lane 4 (row mod 8) + (k mod 8) / 2, register row / 8 + 2 (k / 8).
void put_a(int row, int k, std::uint16_t bits) {
  put_half(registers.a[4 * (row % 8) + k % 8 / 2].word[row / 8 + 2 * (k / 8)], k % 2, bits);
}
/// B(k, n) is in lane 4 n + (k mod 8) / 2, register k / 8.
void put_b(int k, int n, std::uint16_t bits) {
  put_half(pairs[4 * n + k % 8 / 2].word[k / 8], k % 2, bits);
}

void multiply_whole(SweepArguments arguments) {
  const int lane = device::lane_index();
  device::multiply_dense(registers.sum[lane], registers.a[lane], pairs[lane]);
  write_output(arguments);
}

TEST(MultiplyDense, IsTheProduct) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 50; ++round) {
    double a[16][16];
    double b[16][8];
    double expected[16][8];
    for (int i = 0; i < 16; ++i) {
      for (int k = 0; k < 16; ++k) {
        const std::uint16_t bits = emulator::float_to_half(normal(random));
        a[i][k] = static_cast<double>(emulator::half_to_float(bits));
        put_a(i, k, bits);
      }
      for (int n = 0; n < 8; ++n) {
        const std::uint16_t bits = emulator::float_to_half(normal(random));
        b[i][n] = static_cast<double>(emulator::half_to_float(bits));
        put_b(i, n, bits);
        const float sum = normal(random);
        expected[i][n] = static_cast<double>(sum);
        registers.sum[4 * (i % 8) + n / 2].value[2 * (i / 8) + n % 2] = sum;
      }
    }
    expect_good(launch(multiply_whole, {}));
    for (int row = 0; row < 16; ++row) {
      for (int n = 0; n < 8; ++n) {
        for (int k = 0; k < 16; ++k) expected[row][n] += a[row][k] * b[k][n];
        const double got = result(row, n);
        ASSERT_LE(std::fabs(got), std::fabs(expected[row][n]) * (1 + 1e-15)) << "rounds away from zero";
        ASSERT_GE(std::fabs(got), std::fabs(expected[row][n]) * (1 - 0x1p-23))
            << "row " << row << ", column " << n;
      }
    }
  }
}

TEST(MultiplyDense, ReadsTheRegistersThatTheInstructionDoes) {
  registers = {};
  pairs = {};
  registers.a[13].word[2] = 0x3c000000;  // A(3, 11) = 1
  registers.a[29].word[1] = 0x00004000;  // A(15, 2) = 2
  pairs[25].word[1] = 0x42000000;        // B(11, 6) = 3
  pairs[1].word[0] = 0x00004400;         // B(2, 0) = 4
  expect_good(launch(multiply_whole, {}));
  for (int row = 0; row < 16; ++row) {
    for (int n = 0; n < 8; ++n) {
      const float expected = row == 3 && n == 6 ? 3.0F : row == 15 && n == 0 ? 8.0F : 0.0F;
      EXPECT_EQ(result(row, n), expected) << row << ' ' << n;
    }
  }
}

TEST(MultiplyDense, AZeroTimesNaNIsNaN) {
  registers = {};
  pairs = {};
  put_b(4, 2, 0x7e00);
  expect_good(launch(multiply_whole, {}));
  for (int row = 0; row < 16; ++row) {
    for (int n = 0; n < 8; ++n) ASSERT_EQ(std::isnan(result(row, n)), n == 2) << row << ' ' << n;
  }
}

/// The halves of a sparse fragment of B are the fragments of two dense products, K 0-15 and 16-31.
TEST(MultiplyDense, TwiceIsOneSparseProductWhoseMatrixIsWhole) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    Problem problem;
    problem.fill(random);
    for (auto& row : problem.c) row.fill(0);
    problem.pack(0, random);
    expect_good(launch(multiply<0>, {}));
    const auto sparse = registers.sum;

    registers.sum = {};
    for (int half = 0; half < 2; ++half) {
      for (int row = 0; row < 16; ++row) {
        for (int k = 0; k < 16; ++k) put_a(row, k, problem.a[row][16 * half + k]);
      }
      for (std::size_t lane = 0; lane < 32; ++lane) {
        const Vector& b = registers.b[lane];
        pairs[lane] = {{b.word[2 * half], b.word[2 * half + 1]}};
      }
      expect_good(launch(multiply_whole, {}));
    }
    for (std::size_t lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const float expected = sparse[lane].value[i];
        // Each is cut once more on its way; products of normal numbers are below 100.
        ASSERT_NEAR(registers.sum[lane].value[i], expected, 100 * 0x1p-22) << lane << ' ' << i;
      }
    }
  }
}

TEST(MultiplyDense, ReadsBf16WhereItIsTold) {
  registers = {};
  pairs = {};
  registers.a[0].word[0] = 0x00003fc0U;  // A(0, 0) = 1.5, an f16 of another value
  pairs[0].word[0] = 0x00004040U;        // B(0, 0) = 3
  registers.sum[0].value[0] = 0.25F;
  expect_good(launch(
      [](SweepArguments arguments) {
        const int lane = device::lane_index();
        device::multiply_dense_bf16(registers.sum[lane], registers.a[lane], pairs[lane]);
        write_output(arguments);
      },
      {}));
  EXPECT_EQ(registers.sum[0].value[0], 4.75F);
}

TEST(Transpose, MovesElementRCToCR) {
  static std::array<std::uint32_t, 32> received;
  expect_good(launch(
      [](SweepArguments arguments) {
        const auto lane = static_cast<std::uint32_t>(device::lane_index());
        const std::uint32_t row = lane / 4;
        const std::uint32_t column = 2 * (lane % 4);
        received[lane] = device::transpose_8x8((10 * row + column) | (10 * row + column + 1) << 16);
        write_output(arguments);
      },
      {}));
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t row = lane / 4;
    const std::uint32_t column = 2 * (lane % 4);
    EXPECT_EQ(received[lane], (10 * column + row) | (10 * (column + 1) + row) << 16);
  }
}

TEST(LargestInWarp, IsWhatAllLanesReceive) {
  static std::array<std::uint32_t, 32> received;
  expect_good(launch(
      [](SweepArguments arguments) {
        const auto lane = static_cast<std::uint32_t>(device::lane_index());
        received[lane] = device::warp_max(lane * 7 % 32 + 0x80000000U);
        write_output(arguments);
      },
      {}));
  for (const std::uint32_t value : received) EXPECT_EQ(value, 31 + 0x80000000U);
}

TEST(TakeFromLane, GivesEachLaneTheWordOfTheLaneItNames) {
  static std::array<std::uint32_t, 32> received;
  expect_good(launch(
      [](SweepArguments arguments) {
        const int lane = device::lane_index();
        const auto word = static_cast<std::uint32_t>(lane * lane);
        received[static_cast<std::size_t>(lane)] = device::shuffle(word, 3 * lane + 31);
        write_output(arguments);
      },
      {}));
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t source = (3 * lane + 31) % 32;
    EXPECT_EQ(received[lane], source * source);
  }
}

TEST(JoinHalves, TakesTheSameHalvesOfBoth) {
  EXPECT_EQ(device::join_low_halves(0x11112222U, 0x33334444U), 0x44442222U);
  EXPECT_EQ(device::join_high_halves(0x11112222U, 0x33334444U), 0x33331111U);
}

/// Two bf16 multiplied, and a sum.
float add_product(std::uint32_t weight, std::uint32_t input, float sum) {
  registers = {};
  registers.metadata.fill(0x44444444U);
  registers.a[0].word[0] = weight;
  registers.b[0].word[0] = input;
  registers.sum[0].value[0] = sum;
  expect_good(launch(
      [](SweepArguments arguments) {
        const int lane = device::lane_index();
        device::multiply_sparse_bf16<0>(registers.sum[lane], registers.a[lane], registers.b[lane],
                                        registers.metadata[lane]);
        write_output(arguments);
      },
      {}));
  return registers.sum[0].value[0];
}

TEST(MultiplySparse, ReadsBf16WhereItIsTold) {
  EXPECT_EQ(add_product(0x3fc0, 0x4040, 0.25F), 4.75F);  // 1.5 and 3, f16 of other values
}

TEST(MultiplySparse, OverflowsToInfinity) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float largest = std::numeric_limits<float>::max();
  constexpr std::uint32_t plus = 0x3fc0;  // 1.5
  constexpr std::uint32_t minus = 0xbfc0;
  EXPECT_EQ(add_product(plus, 0x7f40, 0), infinity);  // 1.5 * 1.5 * 2^127
  EXPECT_EQ(add_product(minus, 0x7f40, 0), -infinity);
  EXPECT_EQ(add_product(plus, 0x7f2a, 0), 0x1.fep127F);
  EXPECT_EQ(add_product(plus, 0x7f2a, 0x1p120F), infinity);  // 2^128
  EXPECT_EQ(add_product(minus, 0x7f2a, -0x1p120F), -infinity);
  // No larger exponent: cut.
  EXPECT_EQ(add_product(plus, 0x7300, largest), largest);
  EXPECT_EQ(add_product(minus, 0x7300, -largest), -largest);
  EXPECT_EQ(add_product(plus, 0x3f80, infinity), infinity);
  EXPECT_EQ(add_product(minus, 0x7f7f, infinity), infinity);
}

TEST(Pack, RoundsBf16ToNearestEven) {
  EXPECT_EQ(device::pack_bf16(1.0F, -2.0F), 0xc0003f80U);
  EXPECT_EQ(device::pack_bf16(1 + 0x1p-8F, 1 + 0x3p-8F), 0x3f823f80U);
  EXPECT_EQ(device::pack_bf16(0x1.ffp127F, -0x1.feffp127F), 0xff7f7f80U);
}

TEST(Pack, PutsTheFirstValueLow) {
  EXPECT_EQ(device::pack_f16(1.0F, -2.0F), 0xc0003c00U);
}

}  // namespace
}  // namespace spider::test
