#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "plan/half.h"

namespace spidergen::plan {
namespace {

TEST(HalfRounding, EveryFiniteValueIsItsOwnRounding) {
  for (int bits = 0; bits <= 0xFFFF; ++bits) {
    const double value = from_f16_bits(static_cast<std::uint16_t>(bits));
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(to_f16_bits(value), bits) << value;
  }
}

TEST(HalfRounding, TiesGoToEven) {
  for (int bits = 0; bits < 0x7BFF; ++bits) {
    const double low = from_f16_bits(static_cast<std::uint16_t>(bits));
    const double high = from_f16_bits(static_cast<std::uint16_t>(bits + 1));
    const double middle = (low + high) / 2;
    EXPECT_EQ(to_f16_bits(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(to_f16_bits(std::nextafter(middle, low)), bits);
    EXPECT_EQ(to_f16_bits(std::nextafter(middle, high)), bits + 1);
  }
}

TEST(HalfRounding, KnownValues) {
  EXPECT_EQ(to_f16_bits(1.0), 0x3C00);
  EXPECT_EQ(to_f16_bits(-2.0), 0xC000);
  EXPECT_EQ(to_f16_bits(0x1p-24), 0x0001);
  EXPECT_EQ(to_f16_bits(0x1p-25), 0x0000);  // a tie, to even
  EXPECT_EQ(to_f16_bits(65504), 0x7BFF);
  EXPECT_EQ(to_f16_bits(65519.99), 0x7BFF);
  EXPECT_EQ(to_f16_bits(65520), 0x7C00);
  EXPECT_TRUE(std::isnan(from_f16_bits(to_f16_bits(std::nan("")))));
}

TEST(HalfRounding, RoundsOnceFromDouble) {
  // Through float this would first round to a tie and then to even, downwards.
  const double just_above_tie = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(to_f16_bits(just_above_tie), 0x3C01);
}

}  // namespace
}  // namespace spidergen::plan
