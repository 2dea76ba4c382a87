#include "half.h"

namespace spider::emulator {

std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0x7fff;
  if (magnitude >= std::bit_cast<std::uint32_t>(65520.0F)) return static_cast<std::uint16_t>(sign | 0x7c00U);

  std::uint32_t rounded = 0;
  if (magnitude >= 113U << 23) {
    // Just below half a unit, and the last kept bit: a tie goes up only to an even result.
    rounded = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  } else {
    const std::uint32_t shift = 126 - (magnitude >> 23);  // brings the mantissa to units of 2^-24
    if (shift <= 24) {
      const std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
      const std::uint32_t rest = mantissa & ((1U << shift) - 1);
      const std::uint32_t half_unit = 1U << (shift - 1);
      rounded = mantissa >> shift;
      if (rest > half_unit || (rest == half_unit && (rounded & 1U) != 0)) ++rounded;
    }
  }
  return static_cast<std::uint16_t>(sign | rounded);
}

}  // namespace spider::emulator
