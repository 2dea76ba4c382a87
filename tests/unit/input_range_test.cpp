#include <spider/input_range.h>
#include <spider/instructions_emulated.h>
#include <spider/storage.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace spider {
namespace {

using TwoTerms = F32Storage<2, true>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::uint32_t all = magnitude_bits + 1;

MagnitudeRange range_of(const std::vector<float>& inputs, std::uint32_t ceiling = all) {
  MagnitudeRange range;
  for (const float input : inputs) extend(range, device::bits_of(input), ceiling);
  return range;
}

std::uint32_t magnitude_of(float value) {
  return device::bits_of(value) & magnitude_bits;
}

TEST(InputRange, CountsFiniteNumbersOtherThanZeroBelowTheCeiling) {
  const std::vector<float> inputs = {0, -3, 0.5F, -0.0F, infinity, std::nanf(""), -infinity, 2};
  const MagnitudeRange range = range_of(inputs);
  EXPECT_EQ(range.largest, magnitude_of(3));
  EXPECT_EQ(range.below_smallest + 1, magnitude_of(0.5F));
  const MagnitudeRange lower = range_of(inputs, magnitude_of(2));
  EXPECT_EQ(lower.largest, magnitude_of(0.5F));
  const MagnitudeRange none = range_of({0, infinity});
  EXPECT_EQ(none.largest, 0U);
  EXPECT_TRUE(scale_with_room(none).takes(none));
}

TEST(InputRange, LeavesRoomWhereThatCostsNoInputADigit) {
  const MagnitudeRange near = range_of({1, 0x1p-23F});
  EXPECT_EQ(scale_with_room(near).exponent, 127U + 3);
  EXPECT_TRUE(scale_with_room(near).takes(near));
  EXPECT_TRUE(scale_with_room(near).takes(range_of({15.9F})));
  EXPECT_FALSE(scale_with_room(near).takes(range_of({16})));
  const MagnitudeRange far = range_of({1, 0x1p-26F});
  EXPECT_EQ(scale_with_room(far).exponent, 127U);
  EXPECT_TRUE(scale_with_room(far).takes(far));
  const MagnitudeRange too_far = range_of({1, 0x1p-27F});
  EXPECT_FALSE(scale_with_room(too_far).takes(too_far));
}

TEST(InputRange, ScaleAndUnitAreNormalNumbersThatUndoEachOther) {
  for (const float largest : {std::numeric_limits<float>::max(), 1.0F, 1e-20F, 1e-37F, 1e-44F}) {
    const InputScale scale = scale_with_room(range_of({largest}));
    EXPECT_TRUE(std::isnormal(scale.scale())) << largest;
    EXPECT_TRUE(std::isnormal(scale.unit())) << largest;
    EXPECT_EQ(scale.scale() * scale.unit(), 1) << largest;
    EXPECT_LT(largest * scale.scale(), 0x1p15F) << largest;
  }
}

TEST(InputRange, RunsFromTheLargestTakeEveryInputOnce) {
  const std::vector<float> inputs = {3e38F, 1, -1e-8F, 1e-9F, 1e-30F, 1e-38F, 1e-45F, 0};
  std::vector<int> taken(inputs.size());
  std::uint32_t ceiling = all;
  for (int run = 0; run < 10 && ceiling > 0; ++run) {
    const InputScale scale = scale_of_largest(range_of(inputs, ceiling), ceiling);
    for (std::size_t i = 0; i < inputs.size(); ++i) taken[i] += scale.takes(magnitude_of(inputs[i])) ? 1 : 0;
    ceiling = scale.floor;
  }
  EXPECT_EQ(ceiling, 0U);
  EXPECT_EQ(taken, std::vector<int>(inputs.size(), 1));
}

TEST(InputRange, ScalesThatTakeAnInputGiveItTheSameDigits) {
  std::mt19937 random(20250117);
  std::uniform_real_distribution<float> digits(1, 2);
  for (int i = 0; i < 1000; ++i) {
    const float input = digits(random) * (i % 2 != 0 ? 1 : -1);
    double first = 0;
    for (std::uint32_t above = 0; above <= InputScale::span; ++above) {
      InputScale scale;
      scale.exponent = 127 + above;
      ASSERT_TRUE(scale.takes(range_of({input})));
      const device::Vector cells = {{device::bits_of(input), 0, 0, 0}};
      const TwoTerms::Terms terms = TwoTerms::split<true>(cells, scale);
      const double sum =
          double{device::low_f16(terms.word[0][0])} + 0x1p-11 * device::low_f16(terms.word[1][0]);
      const double value = sum * scale.unit();
      if (above == 0) first = value;
      EXPECT_EQ(value, first) << input << ", " << above;
      EXPECT_LE(std::fabs(value - input), 0x1p-23 * std::fabs(input)) << input << ", " << above;
    }
  }
}

TEST(InputRange, LeavesOutWhatTheScaleIsNotFor) {
  const InputScale scale = scale_of_largest(range_of({1}), magnitude_of(4));
  const device::Vector cells = {
      {device::bits_of(5.0F), device::bits_of(3.0F), device::bits_of(0x1p-30F), device::bits_of(1.0F)}};
  const TwoTerms::Terms terms = TwoTerms::split<true>(cells, scale);
  EXPECT_EQ(device::low_f16(terms.word[0][0]), 0);
  EXPECT_NE(device::high_f16(terms.word[0][0]), 0);
  EXPECT_EQ(device::low_f16(terms.word[0][1]), 0);
  EXPECT_EQ(device::high_f16(terms.word[0][1]), 0x1p14F);
}

}  // namespace
}  // namespace spider
