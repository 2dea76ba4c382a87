#include "emit/storage_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>

namespace spidergen::emit {

std::uint64_t stored_bits(spec::Storage storage, double value) {
  if (storage == spec::Storage::f64) return std::bit_cast<std::uint64_t>(value);
  if (storage == spec::Storage::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (storage == spec::Storage::u8) return static_cast<std::uint8_t>(value);
  if (spec::is_integer(storage)) return static_cast<std::uint16_t>(static_cast<std::int32_t>(value));
  return plan::to_bits(plan::operand_type(storage), value);
}

std::string storage_struct(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  if (spec.storage == spec::Storage::u8)
    return fmt::format("ByteStorage<spider::{}>", cells_struct(spec::output_of(spec)));
  if (spec.storage != spec::Storage::f32) {
    return spec.storage == spec::Storage::f16 ? "F16Storage" : "Bf16Storage";
  }
  const plan::InputTerms& inputs = plan.contraction.inputs;
  return fmt::format("F32Storage<{}, {}>", inputs.count, inputs.scaled);
}

std::string cells_struct(spec::Storage storage) {
  std::string name(spec::storage_name(storage));
  name.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(name.front())));
  return name + "Cells";
}

std::string number_type(spec::Storage storage) {
  return storage == spec::Storage::f64 ? "double" : "float";
}

std::string_view number_name(spec::Storage storage) {
  return storage == spec::Storage::f64 ? "f64" : "f32";
}

std::string number_literal(spec::Storage storage, double value) {
  const bool is_double = storage == spec::Storage::f64;
  // The fewest digits that reproduce the number.
  std::string text = is_double ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return is_double ? text : text + "F";
}

std::string wide_name(spec::Storage storage, std::string_view name) {
  return fmt::format("{}{}", storage == spec::Storage::f64 ? "Wide" : "", name);
}

std::string weights_text(const plan::RoundedWeights& weights) {
  const std::string error = fmt::format(", largest error {:.2g}", weights.largest_error);
  if (weights.in_f64) return weights.largest_error == 0 ? "f64, those of the spec" : "f64" + error;
  if (weights.in_f32) return weights.exact ? "f32, exact" : "f32" + error;
  constexpr std::string_view counts[] = {"one", "two", "three"};
  const std::string terms = fmt::format("{} {} term{}", counts[weights.terms - 1],
                                        plan::type_name(weights.type), weights.terms == 1 ? "" : "s");
  const bool apart =
      std::any_of(weights.sum_shifts.begin(), weights.sum_shifts.end(), [](int shift) { return shift != 0; });
  const std::string scale = apart                   ? ", each sum's times a power of two"
                            : weights.exponent == 0 ? ""
                                                    : fmt::format(", times 2^{}", weights.exponent);
  if (weights.factor == 1) return terms + " each" + scale + (weights.exact ? ", exact" : error);
  const std::string factor = fmt::format("up to the factor {}", static_cast<float>(weights.factor));
  if (weights.exact) return fmt::format("{} each{}, exact {}", terms, scale, factor);
  const auto longer = std::count_if(weights.taps.begin(), weights.taps.end(), [](const auto& tap) {
    return std::any_of(tap.terms.begin() + 1, tap.terms.end(), [](double term) { return term != 0; });
  });
  return fmt::format("{} of {} tap{}, of the others one that is exact{}, {}{}", terms, longer,
                     longer == 1 ? "" : "s", scale, factor, error);
}

}  // namespace spidergen::emit
