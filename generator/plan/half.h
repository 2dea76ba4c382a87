#pragma once

#include <cstdint>
#include <string_view>

#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// The 16-bit types of tensor-core operands.
enum class OperandType { f16, bf16 };

/// The operand type of fields of this storage: bf16 for bf16, else f16.
[[nodiscard]] constexpr OperandType operand_type(spec::Storage storage) {
  return storage == spec::Storage::bf16 ? OperandType::bf16 : OperandType::f16;
}

/// "f16" or "bf16".
[[nodiscard]] std::string_view type_name(OperandType type);

/// Largest finite value of a type.
[[nodiscard]] double largest_value(OperandType type);
/// Smallest value above zero, a subnormal.
[[nodiscard]] double smallest_value(OperandType type);
/// Bits of a normal number's mantissa, the leading 1 among them.
[[nodiscard]] int digits_of(OperandType type);
/// Relative error of rounding to a normal number: half a unit in the last place of 1.
[[nodiscard]] double rounding_error(OperandType type);

/// The bits nearest to `value` (ties to even), rounded once from double; infinity above the largest value.
[[nodiscard]] std::uint16_t to_bits(OperandType type, double value);
/// The exact value of bits.
[[nodiscard]] double from_bits(OperandType type, std::uint16_t bits);
/// `value` after rounding.
[[nodiscard]] inline double round_to(OperandType type, double value) {
  return from_bits(type, to_bits(type, value));
}

/// The same for IEEE 754 binary16.
[[nodiscard]] inline std::uint16_t to_f16_bits(double value) {
  return to_bits(OperandType::f16, value);
}
[[nodiscard]] inline double from_f16_bits(std::uint16_t bits) {
  return from_bits(OperandType::f16, bits);
}
[[nodiscard]] inline double round_to_f16(double value) {
  return round_to(OperandType::f16, value);
}

/// A value rounded to a field's storage.
[[nodiscard]] double stored_value(spec::Storage storage, double value);

inline constexpr double largest_f16 = 65504;
inline constexpr double smallest_f16 = 0x1p-24;

}  // namespace spidergen::plan
