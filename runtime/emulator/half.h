#pragma once

#include <spider/half.hpp>

#include <bit>
#include <cmath>
#include <cstdint>

namespace spider::emulator {

/// The value of f16 bits; exact.
[[nodiscard]] inline float half_to_float(std::uint16_t bits) {
  return half::from_bits(bits);
}

/// What cvt.rn.f16x2.f32 makes of a number: as spider::half rounds, but every NaN becomes 0x7fff.
[[nodiscard]] inline std::uint16_t float_to_half(float value) {
  return std::isnan(value) ? 0x7fff : half(value).bits();
}

/// The value of bf16 bits; exact: they are the upper half of an f32.
[[nodiscard]] inline float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// What cvt.rn.bf16x2.f32 makes of a number: nearest, ties to even; every NaN becomes 0x7fff.
[[nodiscard]] inline std::uint16_t float_to_bfloat(float value) {
  if (std::isnan(value)) return 0x7fff;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // Half a unit of the last kept place, and a tie goes to the even neighbour; a carry goes up to infinity.
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace spider::emulator
