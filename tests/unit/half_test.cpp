#include <spider/half.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace {

using spider::half;

constexpr std::uint32_t pattern_count = 0x10000;

half pattern(std::uint32_t bits) {
  return half::from_bits(static_cast<std::uint16_t>(bits));
}

/// The value of a bit pattern, by the definition of the format.
double value_by_definition(std::uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10) & 0x1F);
  const int fraction = static_cast<int>(bits & 0x3FF);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0x1F) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, WidensEveryPatternByTheDefinition) {
  for (std::uint32_t bits = 0; bits < pattern_count; ++bits) {
    const double expected = value_by_definition(bits);
    const double actual = static_cast<float>(pattern(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << bits;
    } else {
      EXPECT_EQ(actual, expected) << bits;
      EXPECT_EQ(std::signbit(actual), (bits & 0x8000) != 0) << bits;
    }
  }
}

TEST(Half, EveryPatternSurvivesFloatAndBack) {
  for (std::uint32_t bits = 0; bits < pattern_count; ++bits) {
    const half original = pattern(bits);
    const half back(static_cast<float>(original));
    if (std::isnan(static_cast<float>(original))) {
      EXPECT_EQ(back.bits(), bits | 0x200U) << "a NaN keeps its sign and payload and becomes quiet";
    } else {
      EXPECT_EQ(back.bits(), bits);
    }
  }
}

TEST(Half, TiesGoToTheEvenNeighbourAndAnythingElseToTheNearer) {
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {  // both neighbours finite
    const double low = value_by_definition(bits);
    const double high = value_by_definition(bits + 1);
    const double middle = (low + high) / 2;  // exact in double
    const std::uint32_t even = (bits & 1) == 0 ? bits : bits + 1;
    for (const double sign : {1.0, -1.0}) {
      const std::uint32_t sign_bit = sign < 0 ? 0x8000 : 0;
      EXPECT_EQ(half(sign * middle).bits(), even | sign_bit) << bits;
      EXPECT_EQ(half(sign * std::nextafter(middle, low)).bits(), bits | sign_bit) << bits;
      EXPECT_EQ(half(sign * std::nextafter(middle, high)).bits(), (bits + 1) | sign_bit) << bits;
      const auto narrow = static_cast<float>(sign * middle);  // 12 bits: exact in float too
      EXPECT_EQ(half(narrow).bits(), even | sign_bit) << bits;
    }
  }
}

TEST(Half, OverflowsToInfinityFromHalfwayOn) {
  EXPECT_EQ(half(65504.0F).bits(), 0x7BFF);
  EXPECT_EQ(half(65519.996F).bits(), 0x7BFF);
  EXPECT_EQ(half(65520.0F).bits(), 0x7C00);
  EXPECT_EQ(half(-65520.0F).bits(), 0xFC00);
  EXPECT_EQ(half(1e300).bits(), 0x7C00);
  EXPECT_EQ(half(-std::numeric_limits<float>::infinity()).bits(), 0xFC00);
  EXPECT_EQ(half(std::numeric_limits<std::int64_t>::max()).bits(), 0x7C00);
}

TEST(Half, UnderflowsToSubnormalsAndSignedZero) {
  EXPECT_EQ(half(0x1p-24F).bits(), 0x0001);
  EXPECT_EQ(half(0x1p-25F).bits(), 0x0000) << "a tie, and zero is even";
  EXPECT_EQ(half(0x1.000002p-25F).bits(), 0x0001);
  EXPECT_EQ(half(-0x1p-26F).bits(), 0x8000);
  EXPECT_EQ(half(-0.0).bits(), 0x8000);
  EXPECT_EQ(half(std::numeric_limits<double>::denorm_min()).bits(), 0x0000);
  EXPECT_EQ(half(0x1.FFCp-15).bits(), 0x0400) << "rounds up into the normal numbers";
}

TEST(Half, DoubleIsRoundedOnce) {
  const double just_above_a_tie = 1.0 + 0x1p-11 + 0x1p-40;  // as a float it is the tie
  EXPECT_EQ(half(just_above_a_tie).bits(), 0x3C01);
  EXPECT_EQ(half(static_cast<float>(just_above_a_tie)).bits(), 0x3C00);
}

TEST(Half, ErrorIsAtMostHalfAUnit) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-14.0, 15.99);
  for (int i = 0; i < 100000; ++i) {
    const double value = std::exp2(exponent(random));
    EXPECT_LE(std::abs(static_cast<float>(half(value)) - value), value * 0x1p-11);
  }
}

TEST(Half, IsAConstantWhereAskedFor) {
  static_assert(half(1.5).bits() == 0x3E00);
  static_assert(half(-2).bits() == 0xC000);
  static_assert(half::from_bits(0x3555) > 0.333F && half::from_bits(0x3555) < 0.3334F);
  static_assert(half{} == 0.0F);
  EXPECT_EQ(half(0.25F) + half(0.5F), 0.75F);
}

}  // namespace
