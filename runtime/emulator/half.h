#pragma once

#include <bit>
#include <cstdint>

namespace spider::emulator {

/// The value of f16 bits; exact. Without branches, so that loops over it become vector code.
[[nodiscard]] inline float half_to_float(std::uint16_t bits) {
  constexpr std::uint32_t rebias = 112U << 23;  // f32's exponent bias less f16's
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  const std::uint32_t special = magnitude >= (31U << 23) ? rebias : 0;
  const float normal = std::bit_cast<float>(magnitude + rebias + special);
  // A subnormal's mantissa counts units of 2^-24: put it below a leading 2^-14 and take that away again.
  constexpr std::uint32_t smallest_normal = 113U << 23;
  const float subnormal =
      std::bit_cast<float>(magnitude + smallest_normal) - std::bit_cast<float>(smallest_normal);
  const std::uint32_t value = std::bit_cast<std::uint32_t>(magnitude < (1U << 23) ? subnormal : normal);
  return std::bit_cast<float>(value | static_cast<std::uint32_t>(bits & 0x8000U) << 16);
}

/// Rounds to nearest, ties to even; 65520 and beyond become infinity. Every NaN becomes 0x7fff, as
/// cvt.rn.f16.f32 does.
[[nodiscard]] std::uint16_t float_to_half(float value);

}  // namespace spider::emulator
