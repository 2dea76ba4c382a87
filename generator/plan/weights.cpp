#include "plan/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace spidergen::plan {
namespace {

using spec::StencilSpec;
using spec::Tap;

// Below this the remainders of the largest weights reach into f16's subnormals, whose unit is 2^-24.
constexpr double smallest_unscaled_f16 = 0.125;
// The same of bf16, whose subnormals begin at 2^-126.
constexpr double smallest_unscaled_bf16 = 0x1p-64;

// Of the largest weight: what terms of 16-bit fields may leave out.
constexpr double largest_remainder = 0x1p-21;
constexpr int most_terms = 3;

// f32 fields: the largest weight comes into [2^14, 2^15), and remainders are held times 2^11, so that every
// weight down to 2^-28 of the largest has 22 digits.
constexpr int largest_f32_exponent = 14;
constexpr int f32_remainder_exponent = 11;
constexpr double f32_weight_error = 0x1p-22;

// The old value is added apart where the weights sum to 1 within this, and the centre weight is at least
// that: then the centre's products grow at most threefold.
constexpr double unit_sum_tolerance = 0x1p-20;
constexpr double smallest_identity_weight = 0.25;
constexpr double largest_identity_weight = 2;

double largest_magnitude(const std::vector<RoundedTap>& taps) {
  double largest = 0;
  for (const RoundedTap& tap : taps) largest = std::max(largest, std::fabs(tap.weight - tap.identity));
  return largest;
}

double sum_of_magnitudes(const std::vector<RoundedTap>& taps) {
  double sum = 0;
  for (const RoundedTap& tap : taps) sum += std::fabs(tap.weight - tap.identity);
  return sum;
}

/// The power of two that brings the largest weight into [1, 2), or none where the type does well without.
int common_exponent(OperandType type, double largest) {
  const double smallest = type == OperandType::f16 ? smallest_unscaled_f16 : smallest_unscaled_bf16;
  return largest < smallest || largest > largest_value(type) ? -std::ilogb(largest) : 0;
}

std::vector<double> split(double weight, const RoundedWeights& weights) {
  std::vector<double> parts;
  for (int i = 0; i < weights.terms; ++i) {
    parts.push_back(round_to(weights.type, weight));
    weight = std::ldexp(weight - parts.back(), weights.remainder_exponent);  // exact
  }
  return parts;
}

bool all_exact(const RoundedWeights& weights, int exponent) {
  return std::all_of(weights.taps.begin(), weights.taps.end(), [&](const RoundedTap& tap) {
    const double scaled = std::ldexp(tap.weight - tap.identity, exponent);
    return round_to(weights.type, scaled) == scaled;
  });
}

double packed_of(const RoundedTap& tap, const RoundedWeights& weights) {
  return tap.identity + std::ldexp(weights.total(tap.terms), -weights.exponent);
}

void split_all(RoundedWeights& weights) {
  for (RoundedTap& tap : weights.taps) {
    tap.terms = split(std::ldexp(tap.weight - tap.identity, weights.exponent), weights);
    tap.packed = packed_of(tap, weights);
  }
}

/// As many terms as keep every weight within 2^-21 of the largest.
void split_as_needed(RoundedWeights& weights) {
  const double allowed = largest_magnitude(weights.taps) * largest_remainder;
  for (weights.terms = 2; weights.terms <= most_terms; ++weights.terms) {
    split_all(weights);
    const bool kept = std::all_of(weights.taps.begin(), weights.taps.end(), [&](const RoundedTap& tap) {
      return std::fabs(tap.packed - tap.weight) <= allowed;
    });
    if (kept) return;
  }
  --weights.terms;
}

/// The neighbour of an f16 value upwards or downwards.
double neighbour(double value, bool upwards) {
  if (value == 0) return upwards ? smallest_f16 : -smallest_f16;
  const std::uint16_t bits = to_f16_bits(value);
  const bool away_from_zero = (value > 0) == upwards;
  return from_f16_bits(static_cast<std::uint16_t>(away_from_zero ? bits + 1 : bits - 1));
}

/// Two-term weights are off by up to 2^-23 each, and a time step would add their sum to every value again and
/// again: where rounding a remainder to its other neighbour brings the sum closer to the spec's, it is
/// rounded so.
void balance_sum(RoundedWeights& weights) {
  double missing = 0;
  for (const RoundedTap& tap : weights.taps) missing += tap.weight - tap.packed;
  std::vector<RoundedTap*> by_magnitude;
  for (RoundedTap& tap : weights.taps) by_magnitude.push_back(&tap);
  std::stable_sort(by_magnitude.begin(), by_magnitude.end(), [](const RoundedTap* a, const RoundedTap* b) {
    return std::fabs(a->weight - a->identity) > std::fabs(b->weight - b->identity);
  });
  for (RoundedTap* tap : by_magnitude) {
    RoundedTap other = *tap;
    other.terms.back() = neighbour(other.terms.back(), missing > 0);
    other.packed = packed_of(other, weights);
    const double change = other.packed - tap->packed;
    const double error = std::fabs(other.packed - other.weight);
    const bool allowed = error <= f32_weight_error * std::fabs(tap->weight - tap->identity);
    if (!allowed || std::fabs(missing - change) >= std::fabs(missing)) continue;
    *tap = other;
    missing -= change;
  }
}

/// The same of weights that are one f32 number each: some become the other neighbour of the spec's weight.
void balance_f32_sum(RoundedWeights& weights) {
  constexpr double most_error = 0x1p-23;
  double missing = 0;
  std::vector<RoundedTap*> by_magnitude;
  for (RoundedTap& tap : weights.taps) {
    missing += tap.weight - tap.packed;
    by_magnitude.push_back(&tap);
  }
  std::stable_sort(by_magnitude.begin(), by_magnitude.end(), [](const RoundedTap* a, const RoundedTap* b) {
    return std::fabs(a->weight) > std::fabs(b->weight);
  });
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (RoundedTap* tap : by_magnitude) {
    const double other = std::nextafter(static_cast<float>(tap->packed), missing > 0 ? infinity : -infinity);
    const double change = other - tap->packed;
    const bool allowed = other != 0 && std::fabs(other - tap->weight) <= most_error * std::fabs(tap->weight);
    if (!allowed || std::fabs(missing - change) >= std::fabs(missing)) continue;
    tap->packed = tap->terms.back() = other;
    missing -= change;
  }
}

/// Does the kernel add the old value itself? Tensor cores cut sums towards zero, and weights that sum to 1
/// would carry that through all time steps; the rest sums to 0.
bool wants_identity(const StencilSpec& spec) {
  if (spec.storage != spec::Storage::f32 || spec.accuracy != spec::Accuracy::full) return false;
  double sum = 0;
  double magnitudes = 0;
  double centre = 0;
  for (const Tap& tap : spec.taps) {
    sum += tap.weight;
    magnitudes += std::fabs(tap.weight);
    if (tap.at == spec::Offset{}) centre = tap.weight;
  }
  return std::fabs(sum - 1) <= unit_sum_tolerance * magnitudes && centre >= smallest_identity_weight &&
         centre < largest_identity_weight && centre != 1;
}

void round_f32(const StencilSpec& spec, RoundedWeights& weights) {
  const bool full = spec.accuracy == spec::Accuracy::full;
  if (!input_terms(spec).scaled) {
    weights.exponent =
        all_exact(weights, 0) ? 0 : common_exponent(weights.type, largest_magnitude(weights.taps));
    weights.sum_exponent = weights.exponent;
  } else {
    weights.exponent = largest_f32_exponent - std::ilogb(largest_magnitude(weights.taps));
    // The magnitudes of the weights sum to at most 1 there, so that no sum of finite values overflows by
    // itself.
    weights.sum_exponent = -std::ilogb(sum_of_magnitudes(weights.taps)) - 1;
    weights.sum_exponent = std::clamp(weights.sum_exponent, -127, 126);
  }
  weights.exact = all_exact(weights, weights.exponent);
  weights.terms = full ? 2 : 1;
  weights.remainder_exponent = full ? f32_remainder_exponent : 0;
  split_all(weights);
  if (full) balance_sum(weights);
}

void round_half(const StencilSpec& spec, RoundedWeights& weights) {
  const double largest = largest_magnitude(weights.taps);
  weights.exponent = all_exact(weights, 0) ? 0 : common_exponent(weights.type, largest);
  weights.sum_exponent = weights.exponent;
  weights.exact = all_exact(weights, weights.exponent);
  switch (spec.weights) {
    case spec::WeightMode::automatic:
      if (!weights.exact) return split_as_needed(weights);
      weights.terms = 1;
      break;
    case spec::WeightMode::f16:
    case spec::WeightMode::bf16:
      weights.terms = 1;
      break;
    case spec::WeightMode::f16x2:
    case spec::WeightMode::bf16x2:
      weights.terms = 2;
      break;
  }
  split_all(weights);
}

void add_sums(RoundedWeights& weights) {
  for (const RoundedTap& tap : weights.taps) {
    weights.packed_sum += tap.packed;
    weights.largest_error = std::max(weights.largest_error, std::fabs(tap.packed - tap.weight));
  }
}

void check_vanished(const StencilSpec& spec, const RoundedWeights& weights, diag::Diagnostics& diagnostics) {
  const double largest = largest_magnitude(weights.taps);
  for (std::size_t i = 0; i < weights.taps.size(); ++i) {
    const RoundedTap& tap = weights.taps[i];
    if (tap.packed != 0) continue;
    const bool could_do_better = weights.terms == 1 && spec.storage != spec::Storage::f32;
    diagnostics.error(
        spec.taps[i].where,
        fmt::format("the weight {} vanishes beside the largest, {}, in {} {} term{}; drop the tap{}",
                    tap.weight, largest, weights.terms, type_name(weights.type),
                    weights.terms == 1 ? "" : "s", could_do_better ? " or use 'weights: auto'" : ""));
  }
}

/// Even the largest field times the largest weight rounds to 0.
bool all_results_vanish(const StencilSpec& spec, double largest) {
  const bool f32 = spec.storage == spec::Storage::f32;
  const OperandType type = spec.storage == spec::Storage::f16 ? OperandType::f16 : OperandType::bf16;
  const double largest_cell = f32 ? std::numeric_limits<float>::max() : largest_value(type);
  const double smallest_cell = f32 ? std::numeric_limits<float>::denorm_min() : smallest_value(type);
  return largest * largest_cell * static_cast<double>(spec.taps.size()) < smallest_cell / 2;
}

/// Says so, and is false, where no result would be above 0.
bool check_largest(const StencilSpec& spec, const RoundedWeights& weights, diag::Diagnostics& diagnostics) {
  const double largest = largest_magnitude(weights.taps);
  if (!all_results_vanish(spec, largest)) return true;
  diagnostics.error(
      spec.where.coefficients,
      fmt::format("the largest weight, {}, makes every {} result 0; scale the weights up", largest,
                  spec.storage == spec::Storage::f32 ? "f32" : type_name(weights.type)));
  return false;
}

}  // namespace

double RoundedWeights::total(const std::vector<double>& parts) const {
  double sum = 0;
  for (std::size_t i = parts.size(); i-- > 0;)
    sum += std::ldexp(parts[i], -static_cast<int>(i) * remainder_exponent);
  return sum;
}

InputTerms input_terms(const StencilSpec& spec) {
  if (spec.storage != spec::Storage::f32 || spec.accuracy == spec::Accuracy::f16) return {1, false};
  return {spec.accuracy == spec::Accuracy::full ? 2 : 1, true};
}

WeightsResult round_weights(const StencilSpec& spec) {
  WeightsResult result;
  RoundedWeights& weights = result.weights;
  weights.type = spec.storage == spec::Storage::bf16 ? OperandType::bf16 : OperandType::f16;
  weights.adds_identity = wants_identity(spec);
  for (const Tap& tap : spec.taps) {
    const double identity = weights.adds_identity && tap.at == spec::Offset{} ? 1 : 0;
    weights.taps.push_back({tap.at, tap.weight, {}, 0, identity});
    weights.sum += tap.weight;
  }
  if (!check_largest(spec, weights, result.diagnostics)) return result;
  if (spec.storage == spec::Storage::f32) {
    round_f32(spec, weights);
  } else {
    round_half(spec, weights);
  }
  add_sums(weights);
  check_vanished(spec, weights, result.diagnostics);
  if (spec.storage != spec::Storage::f32 && weights.terms == 1 && !weights.exact) {
    result.diagnostics.warning(
        spec.where.weights,
        fmt::format("'weights: {}' rounds the weights: their sum is {} before and {} "
                    "after rounding, the largest error "
                    "of a weight {:.2g}; 'weights: auto' keeps them",
                    type_name(weights.type), weights.sum, weights.packed_sum, weights.largest_error));
  }
  return result;
}

WeightsResult round_weights_to_f32(const StencilSpec& spec) {
  WeightsResult result;
  RoundedWeights& weights = result.weights;
  weights.type = spec.storage == spec::Storage::bf16 ? OperandType::bf16 : OperandType::f16;
  weights.in_f32 = true;
  weights.exact = true;
  for (const Tap& tap : spec.taps) {
    const auto rounded = static_cast<double>(static_cast<float>(tap.weight));
    weights.taps.push_back({tap.at, tap.weight, {rounded}, rounded, 0});
    weights.sum += tap.weight;
    weights.exact = weights.exact && rounded == tap.weight;
    if (rounded == 0) {
      result.diagnostics.error(tap.where,
                               fmt::format("the weight {} vanishes in f32; drop the tap", tap.weight));
    }
  }
  if (check_largest(spec, weights, result.diagnostics)) balance_f32_sum(weights);
  add_sums(weights);
  return result;
}

}  // namespace spidergen::plan
