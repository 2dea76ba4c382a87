#pragma once

#include <spider/half.hpp>

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

}  // namespace spider::emulator
