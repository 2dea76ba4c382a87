#include "plan/half.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace spidergen::plan {
namespace {

constexpr int sign_bit = 15;

/// Sign, exponent and mantissa fill 16 bits; the highest exponent is that of infinity and NaN.
struct Format {
  int mantissa_bits = 0;
  int smallest_normal_exponent = 0;

  [[nodiscard]] int highest_exponent_field() const { return (1 << (sign_bit - mantissa_bits)) - 1; }
  [[nodiscard]] int infinity() const { return highest_exponent_field() << mantissa_bits; }
  [[nodiscard]] int largest_exponent() const {
    return highest_exponent_field() - 2 + smallest_normal_exponent;
  }
};

constexpr Format f16_format{10, -14};
constexpr Format bf16_format{7, -126};

const Format& format_of(OperandType type) {
  return type == OperandType::f16 ? f16_format : bf16_format;
}

}  // namespace

std::string_view type_name(OperandType type) {
  return type == OperandType::f16 ? "f16" : "bf16";
}

double largest_value(OperandType type) {
  const Format& format = format_of(type);
  return std::ldexp(2 - std::ldexp(1.0, -format.mantissa_bits), format.largest_exponent());
}

double smallest_value(OperandType type) {
  const Format& format = format_of(type);
  return std::ldexp(1.0, format.smallest_normal_exponent - format.mantissa_bits);
}

int digits_of(OperandType type) {
  return format_of(type).mantissa_bits + 1;
}

double rounding_error(OperandType type) {
  return std::ldexp(1.0, -format_of(type).mantissa_bits - 1);
}

std::uint16_t to_bits(OperandType type, double value) {
  const Format& format = format_of(type);
  const int sign = std::signbit(value) ? 1 << sign_bit : 0;
  if (std::isnan(value))
    return static_cast<std::uint16_t>(sign | format.infinity() | 1 << (format.mantissa_bits - 1));
  const double magnitude = std::fabs(value);
  // Half a unit above the largest finite value rounds to infinity, as IEEE 754 has it.
  const double half_unit = std::ldexp(1.0, format.largest_exponent() - format.mantissa_bits - 1);
  if (magnitude >= largest_value(type) + half_unit)
    return static_cast<std::uint16_t>(sign | format.infinity());
  int exponent = format.smallest_normal_exponent;
  if (magnitude > 0) exponent = std::max(exponent, std::ilogb(magnitude));
  // Units of the last place at this exponent; nearbyint rounds ties to even in the default rounding mode.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  // A normal number's leading 1 increments the exponent field, and so does a carry out of the mantissa.
  const int biased = exponent - format.smallest_normal_exponent;
  return static_cast<std::uint16_t>(sign | ((biased << format.mantissa_bits) + units));
}

double from_bits(OperandType type, std::uint16_t bits) {
  const Format& format = format_of(type);
  const double sign = (bits >> sign_bit & 1U) != 0 ? -1.0 : 1.0;
  const int exponent = bits >> format.mantissa_bits & format.highest_exponent_field();
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  if (exponent == format.highest_exponent_field()) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const int units = exponent == 0 ? mantissa : mantissa + (1 << format.mantissa_bits);
  const int scale =
      (exponent == 0 ? 1 : exponent) - 1 + format.smallest_normal_exponent - format.mantissa_bits;
  return sign * std::ldexp(units, scale);
}

double stored_value(spec::Storage storage, double value) {
  if (storage == spec::Storage::f64 || spec::is_integer(storage)) return value;
  if (storage == spec::Storage::f32) return static_cast<double>(static_cast<float>(value));
  return round_to(operand_type(storage), value);
}

}  // namespace spidergen::plan
