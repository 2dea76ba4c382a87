/// \file
/// The 16-bit floating-point number of IEEE 754 (binary16), as a value type for hosts that have none.
#pragma once

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "<spider/spider.hpp> and <spider/half.hpp> need C++20 (-std=c++20); <spider/spider.h> does with less"
#endif

#include <bit>
#include <cstdint>
#include <type_traits>

namespace spider {

/// Types that one rounding converts to half: integers, float and double.
template <typename Number>
inline constexpr bool is_half_source = std::is_arithmetic_v<Number> && !std::is_same_v<Number, long double>;

/// A number with 11 significant bits, at most 65504. It only stores: arithmetic happens in float, to which it
/// converts implicitly and exactly. The conversion back rounds and is explicit: `half(0.1)`.
class half {
 public:
  /// Uninitialised, as a float would be; `half{}` is 0.
  half() = default;

  /// Rounds to the nearest half, ties to even, once, also from double. Numbers from 65520 on become infinity,
  /// NaN stays NaN, results below 2^-14 are subnormal.
  template <typename Number>
  requires is_half_source<Number>
  explicit constexpr half(Number value) : bits_(round(static_cast<double>(value))) {}

  /// Exact.
  constexpr operator float() const { return widen(bits_); }

  /// The half with this bit pattern.
  [[nodiscard]] static constexpr half from_bits(std::uint16_t bits) {
    half result{};
    result.bits_ = bits;
    return result;
  }

  /// The bit pattern: 1 bit sign, 5 bits exponent with bias 15, 10 bits fraction.
  [[nodiscard]] constexpr std::uint16_t bits() const { return bits_; }

 private:
  static constexpr std::uint16_t round(double value) {
    constexpr std::uint64_t infinity = 0x7FF0'0000'0000'0000;
    constexpr auto overflow = std::bit_cast<std::uint64_t>(65520.0);  // halfway to 65536: the tie goes up
    constexpr auto normal = std::bit_cast<std::uint64_t>(0x1p-14);

    const auto pattern = std::bit_cast<std::uint64_t>(value);
    const auto sign = static_cast<std::uint32_t>(pattern >> 48) & 0x8000U;
    const std::uint64_t magnitude = pattern & 0x7FFF'FFFF'FFFF'FFFF;

    std::uint64_t result = 0;
    if (magnitude > infinity) {
      result = 0x7E00 | ((magnitude >> 42) & 0x3FF);  // quiet, with the leading bits of the payload
    } else if (magnitude >= overflow) {
      result = 0x7C00;
    } else if (magnitude >= normal) {
      constexpr std::uint64_t rebias = std::uint64_t{1023 - 15} << 52;
      result =
          shift_to_nearest_even(magnitude - rebias, 42);  // a carry out of the fraction raises the exponent
    } else {
      // fraction * 2^(exponent - 1075) in units of 2^-24, the smallest half
      const auto exponent = static_cast<int>(magnitude >> 52);
      const std::uint64_t fraction = (magnitude & 0x000F'FFFF'FFFF'FFFF) | 0x0010'0000'0000'0000;
      const int shift = 1075 - 24 - exponent;
      result = shift > 53 ? 0 : shift_to_nearest_even(fraction, shift);
    }
    return static_cast<std::uint16_t>(sign | result);
  }

  /// value / 2^shift, rounded to the nearest integer, ties to even.
  static constexpr std::uint64_t shift_to_nearest_even(std::uint64_t value, int shift) {
    const std::uint64_t below_half = (std::uint64_t{1} << (shift - 1)) - 1;
    return (value + below_half + ((value >> shift) & 1)) >> shift;
  }

  static constexpr float widen(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1FU;
    const std::uint32_t fraction = bits & 0x3FFU;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return sign == 0 ? magnitude : -magnitude;
    }
    const std::uint32_t widened = exponent == 0x1F ? 0xFF : exponent + (127 - 15);
    return std::bit_cast<float>(sign | (widened << 23) | (fraction << 13));
  }

  std::uint16_t bits_;
};

static_assert(sizeof(half) == 2);
static_assert(alignof(half) == 2);
static_assert(std::is_trivially_copyable_v<half> && std::is_trivially_default_constructible_v<half>);

}  // namespace spider
