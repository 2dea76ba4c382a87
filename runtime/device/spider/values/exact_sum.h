/// Sums of any numbers in any order, without rounding. A lane or a thread sums in two doubles, and where
/// these do not suffice, in an accumulator as wide as all doubles. So a sum is the same, bit for bit, however
/// its points are divided among lanes, boxes and ranks. (Knuth's exact addition of two numbers, The Art of
/// Computer Programming 2, 4.2.2; Kulisch's long accumulator.)
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// high + low is the sum so far, exactly. Both finite.
struct ExactSum {
  double high, low;
};

constexpr std::uint64_t sign_of_f64 = std::uint64_t{1} << 63;
constexpr int fraction_bits_of_f64 = 52;

/// Adds a number to an accumulator of reduction_words words. `add(word, value)` adds to one of them.
template <class Add>
SPIDER_DEVICE void accumulate(double value, const Add& add) {
  constexpr std::uint64_t limb_mask = (std::uint64_t{1} << reduction_limb_bits) - 1;
  constexpr std::uint64_t hidden_bit = std::uint64_t{1} << fraction_bits_of_f64;
  const std::uint64_t bits = device::bits_of(value);
  const bool negative = (bits & sign_of_f64) != 0;
  const std::uint64_t fraction = bits & (hidden_bit - 1);
  const auto exponent = static_cast<int>(bits >> fraction_bits_of_f64 & 0x7ffU);
  if (exponent == 0x7ff)
    return add(fraction != 0 ? reduction_nan : negative ? reduction_low_infinity : reduction_infinity, 1);
  const std::uint64_t digits = exponent == 0 ? fraction : fraction | hidden_bit;
  const int place = exponent == 0 ? 0 : exponent - 1;  // of the last digit, from 2^-1074 on
  const int limb = place / reduction_limb_bits;
  const int shift = place % reduction_limb_bits;
  const std::uint64_t parts[3] = {digits << shift & limb_mask,
                                  digits >> (reduction_limb_bits - shift) & limb_mask,
                                  digits >> (2 * reduction_limb_bits - shift)};
  SPIDER_UNROLL
  for (int i = 0; i < 3; ++i) {
    const auto part = static_cast<std::int64_t>(parts[i]);
    if (part != 0) add(limb + i, negative ? -part : part);
  }
}

/// The exact rounding error of a + b rounded to `sum`; not finite if the sum is not.
SPIDER_DEVICE double left_out_of(double sum, double a, double b) {
  const double of_b = device::subtract(sum, a);
  const double of_a = device::subtract(sum, of_b);
  return device::add(device::subtract(a, of_a), device::subtract(b, of_b));
}

/// Adds a number to a sum. `spill(number)` adds the part that the sum has no digits for to an accumulator.
template <class Spill>
SPIDER_DEVICE void add_exactly(ExactSum& sum, double value, const Spill& spill) {
  const double high = device::add(sum.high, value);
  const double error = left_out_of(high, sum.high, value);
  if (error == 0) {
    sum.high = high;
    return;
  }
  if (!(device::subtract(error, error) == 0)) return spill(value);  // NaN, or past the largest number
  sum.high = high;
  const double low = device::add(sum.low, error);
  const double rest = left_out_of(low, sum.low, error);
  sum.low = low;
  if (rest != 0) spill(rest);
}

/// A monotonic 64-bit key of a number, never 0: the largest key belongs to the largest number, or to the
/// smallest if `reversed`; NaN has the largest of all.
SPIDER_DEVICE std::uint64_t key_of(double value, bool reversed) {
  if (value != value) return ~std::uint64_t{0};
  const std::uint64_t bits = device::bits_of(value);
  const std::uint64_t key = (bits & sign_of_f64) != 0 ? ~bits : bits | sign_of_f64;
  return reversed ? ~key : key;
}

}  // namespace device_4
}  // namespace spider
