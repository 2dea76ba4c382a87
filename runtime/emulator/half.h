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

/// A number as cvt.rn.f16x2.f32 converts it: rounded as by spider::half, but every NaN becomes 0x7fff.
[[nodiscard]] inline std::uint16_t float_to_half(float value) {
  return std::isnan(value) ? 0x7fff : half(value).bits();
}

/// The value of bf16 bits; exact: they are the upper half of an f32.
[[nodiscard]] inline float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// A number as cvt.rn.bf16x2.f32 converts it: to nearest, ties to even; every NaN becomes 0x7fff.
[[nodiscard]] inline std::uint16_t float_to_bfloat(float value) {
  if (std::isnan(value)) return 0x7fff;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // Rounds to nearest, ties to even; a carry may reach infinity.
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace spider::emulator
