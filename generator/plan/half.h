#pragma once

#include <cstdint>

namespace spidergen::plan {

/// Largest finite f16.
inline constexpr double largest_f16 = 65504;
/// Smallest f16 above zero, a subnormal.
inline constexpr double smallest_f16 = 0x1p-24;

/// IEEE 754 binary16 nearest to `value` (ties to even), rounded once from double; beyond the largest it is
/// infinity.
[[nodiscard]] std::uint16_t to_f16_bits(double value);

/// The value of binary16 `bits`, exactly.
[[nodiscard]] double from_f16_bits(std::uint16_t bits);

/// `value` after rounding to f16.
[[nodiscard]] inline double round_to_f16(double value) {
  return from_f16_bits(to_f16_bits(value));
}

}  // namespace spidergen::plan
