#include "emulator/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace spider::emulator {
namespace {

/// The definition of f16: sign, exponent of bias 15, ten bits of fraction.
double value_of(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 31) return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, EveryBitPatternHasItsValueAndComesBack) {
  for (std::uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = half_to_float(bits);
    if ((bits & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_EQ(float_to_half(value), 0x7fff) << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), value_of(bits)) << i;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << i;
    ASSERT_EQ(float_to_half(value), bits) << i;
  }
}

TEST(Half, BetweenNeighboursTheNearerOneAndTheEvenOneOfATie) {
  for (std::uint32_t i = 0; i < 0x7c00; ++i) {
    const auto low = static_cast<std::uint16_t>(i);
    const auto high = static_cast<std::uint16_t>(i + 1);
    const double above = i + 1 == 0x7c00 ? 65536.0 : value_of(high);  // where 65520 rounds to if it could
    const auto middle = static_cast<float>((value_of(low) + above) / 2);
    const auto even = i % 2 == 0 ? low : high;
    ASSERT_EQ(float_to_half(middle), even) << i;
    ASSERT_EQ(float_to_half(-middle), even | 0x8000) << i;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), low) << i;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9F)), high) << i;
  }
}

TEST(Half, BeyondTheLargestIsInfinityAndBelowTheSmallestIsZero) {
  EXPECT_EQ(float_to_half(65519.996F), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(-1e30F), 0xfc00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(float_to_half(std::ldexp(1.0F, -25)), 0);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(float_to_half(-0.0F), 0x8000);
}

}  // namespace
}  // namespace spider::emulator
