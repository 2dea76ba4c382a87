#include "plan/half.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace spidergen::plan {
namespace {

constexpr int mantissa_bits = 10;
constexpr int smallest_normal_exponent = -14;
constexpr std::uint16_t infinity_bits = 0x7C00;
constexpr std::uint16_t nan_bits = 0x7E00;

}  // namespace

std::uint16_t to_f16_bits(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | nan_bits;
  const double magnitude = std::fabs(value);
  // Half a unit above the largest finite value rounds to infinity, as IEEE 754 has it.
  if (magnitude >= largest_f16 + 16) return sign | infinity_bits;
  int exponent = smallest_normal_exponent;
  if (magnitude > 0) exponent = std::max(exponent, std::ilogb(magnitude));
  // Units of the last place at this exponent; nearbyint rounds ties to even in the default rounding mode.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  // A normal number's leading 1 adds itself to the exponent field, and so does a carry out of the mantissa.
  const int biased = exponent - smallest_normal_exponent;
  return static_cast<std::uint16_t>(sign | ((biased << mantissa_bits) + units));
}

double from_f16_bits(std::uint16_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> mantissa_bits) & 0x1F;
  const int mantissa = bits & 0x3FF;
  if (exponent == 0x1F) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const int units = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  const int scale = (exponent == 0 ? 1 : exponent) - 1 + smallest_normal_exponent - mantissa_bits;
  return sign * std::ldexp(units, scale);
}

}  // namespace spidergen::plan
