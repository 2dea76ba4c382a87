#include "plan/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "plan/common_factor.h"
#include "plan/engine.h"
#include "plan/operator.h"
#include "spec/fields.h"

namespace spidergen::plan {
namespace {

using spec::StencilSpec;
using spec::Tap;

// Results are scaled back by a normal f32 number: nvcc reads others as infinities where f32 rounds them.
constexpr int largest_sum_exponent = 126;

// Largest exponent range between the largest weights of several sums.
constexpr int most_between_sums = 60;

// Below this the remainders of the largest weights are subnormal in f16, whose unit is 2^-24.
constexpr double smallest_unscaled_f16 = 0.125;
// The same for bf16, whose subnormals begin at 2^-126.
constexpr double smallest_unscaled_bf16 = 0x1p-64;

// Relative to the largest weight: the error that terms of 16-bit fields may leave.
constexpr double largest_remainder = 0x1p-21;
constexpr int most_terms = 3;

// f32 fields: the largest weight is scaled into [2^14, 2^15), and remainders are stored times 2^11, so that
// every weight down to 2^-28 of the largest has 22 digits.
constexpr int largest_f32_exponent = 14;
constexpr int f32_remainder_exponent = 11;
constexpr double f32_weight_error = 0x1p-22;

// The old value is added separately where the weights sum to 1 within this, and the centre weight is at least
// this: then the centre's products grow at most threefold.
constexpr double unit_sum_tolerance = 0x1p-20;
constexpr double smallest_identity_weight = 0.25;
constexpr double largest_identity_weight = 2;

// The error of a sum of 1 in f32 that a common factor may leave, where two terms do not leave more: an eighth
// of f32's rounding.
constexpr double largest_sum_error = 0x1p-27;

double largest_magnitude(const std::vector<RoundedTap>& taps) {
  double largest = 0;
  for (const RoundedTap& tap : taps) largest = std::max(largest, std::fabs(tap.weight - tap.identity));
  return largest;
}

/// The same by sum.
std::map<int, double> largest_of_sums(const std::vector<RoundedTap>& taps) {
  std::map<int, double> largest;
  for (const RoundedTap& tap : taps)
    largest[tap.sum] = std::max(largest[tap.sum], std::fabs(tap.weight - tap.identity));
  return largest;
}

double largest_share(const std::vector<RoundedTap>& taps) {
  double largest = 0;
  for (const RoundedTap& tap : taps) largest = std::max(largest, std::fabs(tap.share));
  return largest;
}

/// The sum of shares of the sum where it is largest.
double sum_of_shares(const std::vector<RoundedTap>& taps) {
  std::map<int, double> sums;
  double largest = 0;
  for (const RoundedTap& tap : taps) largest = std::max(largest, sums[tap.sum] += std::fabs(tap.share));
  return largest;
}

/// 0 where the type needs no scaling. Otherwise the power of two that brings the largest share into [1, 2),
/// or for bf16, whose fields may be as large as f32, the magnitudes of the shares to a sum of at most 1, so
/// that no sum of finite values overflows before it is scaled back.
int common_exponent(OperandType type, const std::vector<RoundedTap>& taps) {
  const bool f16 = type == OperandType::f16;
  const double largest = largest_share(taps);
  const double smallest = f16 ? smallest_unscaled_f16 : smallest_unscaled_bf16;
  if (largest >= smallest && largest <= largest_value(type)) return 0;
  const int exponent = f16 ? -std::ilogb(largest) : -std::ilogb(sum_of_shares(taps)) - 1;
  return std::min(exponent, largest_sum_exponent);
}

std::vector<double> split(double weight, const RoundedWeights& weights) {
  std::vector<double> parts;
  for (int i = 0; i < weights.terms; ++i) {
    parts.push_back(round_to(weights.type, weight));
    weight = std::ldexp(weight - parts.back(), weights.remainder_exponent);  // exact
  }
  return parts;
}

/// Does one term equal the tap's share?
bool is_exact(const RoundedTap& tap, OperandType type, int exponent) {
  const double scaled = std::ldexp(tap.share, exponent);
  return round_to(type, scaled) == scaled;
}

bool all_exact(const RoundedWeights& weights, int exponent) {
  return std::all_of(weights.taps.begin(), weights.taps.end(),
                     [&](const RoundedTap& tap) { return is_exact(tap, weights.type, exponent); });
}

void split_all(RoundedWeights& weights) {
  for (RoundedTap& tap : weights.taps) {
    tap.terms = split(std::ldexp(tap.share, weights.exponent), weights);
    tap.packed = weights.packed_of(tap);
  }
}

/// Taps by (dz, dy, sum): a tap row without remainders needs no product for them.
std::map<std::tuple<int, int, int>, std::vector<const RoundedTap*>> rows_of(const RoundedWeights& weights) {
  std::map<std::tuple<int, int, int>, std::vector<const RoundedTap*>> rows;
  for (const RoundedTap& tap : weights.taps)
    rows[{tap.at[spec::axis_z], tap.at[spec::axis_y], tap.sum}].push_back(&tap);
  return rows;
}

std::size_t count_exact_rows(const RoundedWeights& weights) {
  std::size_t count = 0;
  for (const auto& [at, row] : rows_of(weights)) {
    const bool exact = std::all_of(row.begin(), row.end(), [&](const RoundedTap* tap) {
      return is_exact(*tap, weights.type, weights.exponent);
    });
    if (exact) ++count;
  }
  return count;
}

/// The weights as shares of the factor that makes most tap rows exact, if there is one; exponents are chosen
/// later.
std::optional<RoundedWeights> over_common_factor(const RoundedWeights& weights) {
  std::vector<std::vector<double>> groups;
  for (const auto& [at, row] : rows_of(weights)) {
    groups.emplace_back();
    for (const RoundedTap* tap : row) groups.back().push_back(tap->share);
  }
  const int digits = digits_of(weights.type);
  const auto factor = find_common_factor(groups, digits);
  if (!factor) return std::nullopt;
  RoundedWeights shares = weights;
  shares.factor = factor->multiplier;
  for (RoundedTap& tap : shares.taps) tap.share = snap_to_digits(tap.share / factor->divisor, digits);
  return shares;
}

/// Uses as many terms as bring every weight within 2^-21 of the largest of its sum.
void split_as_needed(RoundedWeights& weights) {
  std::map<int, double> largest = largest_of_sums(weights.taps);
  for (weights.terms = 2; weights.terms <= most_terms; ++weights.terms) {
    split_all(weights);
    const bool suffice = std::all_of(weights.taps.begin(), weights.taps.end(), [&](const RoundedTap& tap) {
      return std::fabs(tap.packed - tap.weight) <= largest[tap.sum] * largest_remainder;
    });
    if (suffice) return;
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
/// again: a remainder is rounded to its other neighbour where that brings the sum closer to the spec's.
void balance_sum(RoundedWeights& weights, int sum) {
  double missing = 0;
  std::vector<RoundedTap*> by_magnitude;
  for (RoundedTap& tap : weights.taps) {
    if (tap.sum != sum) continue;
    missing += tap.weight - tap.packed;
    // Rows that a common factor made exact stay exact.
    if (weights.factor == 1 || !is_exact(tap, weights.type, weights.exponent)) by_magnitude.push_back(&tap);
  }
  std::stable_sort(by_magnitude.begin(), by_magnitude.end(), [](const RoundedTap* a, const RoundedTap* b) {
    return std::fabs(a->weight - a->identity) > std::fabs(b->weight - b->identity);
  });
  for (RoundedTap* tap : by_magnitude) {
    RoundedTap other = *tap;
    other.terms.back() = neighbour(other.terms.back(), missing > 0);
    other.packed = weights.packed_of(other);
    const double change = other.packed - tap->packed;
    const double error = std::fabs(other.packed - other.weight);
    const bool allowed = error <= f32_weight_error * std::fabs(tap->weight - tap->identity);
    if (!allowed || std::fabs(missing - change) >= std::fabs(missing)) continue;
    *tap = other;
    missing -= change;
  }
}

/// The same for the weights of sum `sum`, one f32 number each: some are rounded to the other neighbour of the
/// spec's weight.
void balance_f32_sum(RoundedWeights& weights, int sum) {
  constexpr double most_error = 0x1p-23;
  double missing = 0;
  std::vector<RoundedTap*> by_magnitude;
  for (RoundedTap& tap : weights.taps) {
    if (tap.sum != sum) continue;
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

bool sums_to_one(const RoundedWeights& weights) {
  double magnitudes = 0;
  for (const RoundedTap& tap : weights.taps) magnitudes += std::fabs(tap.weight);
  return std::fabs(weights.sum - 1) <= unit_sum_tolerance * magnitudes;
}

/// Does the kernel add the old value itself? Tensor cores truncate sums towards zero, and weights that sum to
/// 1 would accumulate that through all time steps; without the old value they sum to 0.
bool wants_identity(const StencilSpec& spec, const RoundedWeights& weights) {
  if (spec.sums.size() > 1 || spec.storage != spec::Storage::f32 || spec.accuracy != spec::Accuracy::full)
    return false;
  double centre = 0;
  for (const Tap& tap : operator_of(spec).composed) {
    if (tap.at == spec::Offset{}) centre = tap.weight;
  }
  return sums_to_one(weights) && centre >= smallest_identity_weight && centre < largest_identity_weight &&
         centre != 1;
}

void add_sums(RoundedWeights& weights) {
  for (const RoundedTap& tap : weights.taps) {
    weights.packed_sum += tap.packed;
    weights.largest_error = std::max(weights.largest_error, std::fabs(tap.packed - tap.weight));
  }
}

void round_scaled(const StencilSpec& spec, RoundedWeights& weights) {
  weights.exponent = largest_f32_exponent - std::ilogb(largest_share(weights.taps));
  // The magnitudes of the shares sum to at most 1 there, so that no sum of finite values overflows.
  weights.sum_exponent = std::clamp(-std::ilogb(sum_of_shares(weights.taps)) - 1, -127, largest_sum_exponent);
  weights.exact = all_exact(weights, weights.exponent);
  const bool remainders = spec.accuracy == spec::Accuracy::full && !weights.exact;
  weights.terms = remainders ? 2 : 1;
  weights.remainder_exponent = remainders ? f32_remainder_exponent : 0;
  split_all(weights);
  for (int sum = 0; remainders && sum < std::ssize(spec.sums); ++sum) balance_sum(weights, sum);
}

/// A power of two at which all shares are exact, if there is one; otherwise the best one for remainders.
int choose_exponent(const RoundedWeights& weights) {
  const double largest = largest_share(weights.taps);
  const int common = common_exponent(weights.type, weights.taps);
  std::vector<int> exponents{0, common};
  // Shares of very different size need all of f16's range; sums of f16 products stay within f32's.
  if (weights.type == OperandType::f16)
    exponents.push_back(std::min(std::ilogb(largest_f16) - std::ilogb(largest), largest_sum_exponent));
  for (const int exponent : exponents) {
    if (all_exact(weights, exponent)) return exponent;
  }
  return common;
}

void round_unscaled(RoundedWeights& weights) {
  weights.exponent = weights.sum_exponent = choose_exponent(weights);
  weights.exact = all_exact(weights, weights.exponent);
  weights.terms = 1;
  split_all(weights);
}

void round_f32(const StencilSpec& spec, RoundedWeights& weights) {
  if (input_terms(spec).scaled) {
    round_scaled(spec, weights);
  } else {
    round_unscaled(weights);
  }
}

void round_half(const StencilSpec& spec, RoundedWeights& weights) {
  round_unscaled(weights);
  switch (spec.weights) {
    case spec::WeightMode::automatic:
      if (!weights.exact) split_as_needed(weights);
      break;
    case spec::WeightMode::f16:
    case spec::WeightMode::bf16:
      break;
    case spec::WeightMode::f16x2:
    case spec::WeightMode::bf16x2:
      weights.terms = 2;
      split_all(weights);
      break;
  }
}

void round_as_needed(const StencilSpec& spec, RoundedWeights& weights) {
  if (spec.storage == spec::Storage::f32) {
    round_f32(spec, weights);
  } else {
    round_half(spec, weights);
  }
  add_sums(weights);
}

/// Does a common factor leave fewer remainders, and a sum of 1 unchanged? Its rounding to f32 changes all
/// weights alike. That is nothing where they sum to 0, as where the old value is added separately, and
/// negligible next to a rounding to 16 bits; elsewhere time steps could accumulate it.
bool is_better(const StencilSpec& spec, const RoundedWeights& shares, const RoundedWeights& weights) {
  if (spec.accuracy != spec::Accuracy::full && !shares.exact) return false;
  if (count_exact_rows(shares) <= count_exact_rows(weights)) return false;
  if (spec.storage != spec::Storage::f32 || !sums_to_one(shares)) return true;
  const double allowed = std::max(largest_sum_error, std::fabs(weights.packed_sum - weights.sum));
  return std::fabs(shares.packed_sum - shares.sum) <= allowed;
}

/// Brings the largest weights of several sums to one power of two, so that operands represent all equally
/// well. For f16 that of the largest: small weights lose no digits, and no sum of f16 products leaves f32.
/// For bf16 that of the smallest: no sum overflows where its result does not.
void shift_sums(const StencilSpec& spec, RoundedWeights& weights) {
  if (spec.sums.size() == 1) return;
  const std::map<int, double> largest = largest_of_sums(weights.taps);
  const auto [lower, upper] = std::minmax_element(
      largest.begin(), largest.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const double common = weights.type == OperandType::f16 ? upper->second : lower->second;
  weights.sum_shifts.resize(spec.sums.size());
  for (const auto& [sum, own] : largest) weights.sum_shifts[sum] = std::ilogb(common) - std::ilogb(own);
  for (RoundedTap& tap : weights.taps) tap.share = std::ldexp(tap.share, weights.shift_of(tap.sum));
}

/// How to leave taps out of a spec of this shape.
std::string_view how_to_drop(spec::Shape shape, bool several) {
  switch (shape) {
    case spec::Shape::taps:
      break;
    case spec::Shape::derivative:
    case spec::Shape::laplacian:
      return "take a lower 'accuracy'";
    case spec::Shape::gaussian:
      return "take a smaller 'truncate'";
    case spec::Shape::formula:
      return "let 'weight' be 0 there";
    case spec::Shape::box:
    case spec::Shape::star:
      return "write 0 there";
    case spec::Shape::product:  // has no single taps
      return "shorten the lists, or write a box with 0 there";
  }
  return several ? "drop these taps" : "drop the tap";
}

/// Reports the first tap for which `vanishes` holds, with the number of others; `text` makes the message
/// about it, and about the remedy for all.
template <typename Vanishes, typename Text>
void report_vanished(const StencilSpec& spec, const RoundedWeights& weights, diag::Diagnostics& diagnostics,
                     const Vanishes& vanishes, const Text& text) {
  const auto& taps = weights.taps;
  const auto first = std::find_if(taps.begin(), taps.end(), vanishes);
  if (first == taps.end()) return;
  const auto others = std::count_if(std::next(first), taps.end(), vanishes);
  const std::string more = others == 0   ? ""
                           : others == 1 ? " (as does 1 other)"
                                         : fmt::format(" (as do {} others)", others);
  const spec::Shape shape = spec.sums[static_cast<std::size_t>(first->sum)].shape;
  diagnostics.error(operator_of(spec).composed[static_cast<std::size_t>(first - taps.begin())].where,
                    text(*first, more, how_to_drop(shape, others > 0)));
}

bool vanishes_in_f32(const RoundedTap& tap) {
  return static_cast<float>(tap.weight) == 0;
}

std::string vanishes_in_f32_text(const RoundedTap& tap, std::string_view more, std::string_view advice) {
  return fmt::format("the weight {}{} vanishes in f32; {}", tap.weight, more, advice);
}

/// Where some vanishing weight fits no engine, only such weights are reported: CUDA cores support the others.
void check_vanished(const StencilSpec& spec, const RoundedWeights& weights, diag::Diagnostics& diagnostics) {
  const auto vanishes = [](const RoundedTap& tap) { return tap.packed == 0; };
  const auto vanishes_anywhere = [](const RoundedTap& tap) {
    return tap.packed == 0 && vanishes_in_f32(tap);
  };
  if (std::any_of(weights.taps.begin(), weights.taps.end(), vanishes_anywhere)) {
    report_vanished(spec, weights, diagnostics, vanishes_anywhere, vanishes_in_f32_text);
    return;
  }
  const bool could_do_better = weights.terms == 1 && spec.storage != spec::Storage::f32;
  report_vanished(spec, weights, diagnostics, vanishes,
                  [&](const RoundedTap& tap, std::string_view more, std::string_view advice) {
                    return fmt::format(
                        "the weight {}{} vanishes beside the largest, {}, in {} {} term{}; {}{}{}",
                        tap.weight, more, largest_of_sums(weights.taps).at(tap.sum), weights.terms,
                        type_name(weights.type), weights.terms == 1 ? "" : "s", advice,
                        could_do_better ? " or use 'weights: auto'" : "", cuda_cores_take_it);
                  });
}

/// Even the largest cell times the largest weight rounds to 0.
bool all_results_vanish(const StencilSpec& spec, double largest) {
  const spec::Storage output = spec::output_of(spec);
  const double largest_cell = spec::largest_value(spec.storage);
  const double smallest_cell = spec::is_integer(output)       ? 1
                               : output == spec::Storage::f64 ? std::numeric_limits<double>::denorm_min()
                               : output == spec::Storage::f32 ? std::numeric_limits<float>::denorm_min()
                                                              : smallest_value(operand_type(output));
  return largest * largest_cell * static_cast<double>(operator_of(spec).composed.size()) < smallest_cell / 2;
}

/// Reports several sums whose scales are so different that f32 loses digits of one of them, or of its sums.
void check_scales(const StencilSpec& spec, const RoundedWeights& weights, diag::Diagnostics& diagnostics) {
  if (weights.sum_shifts.empty()) return;
  const auto is_far = [&](const RoundedTap& tap) {
    return !std::isnormal(static_cast<float>(weights.result_scale(tap.sum)));
  };
  const auto [least, most] = std::minmax_element(weights.sum_shifts.begin(), weights.sum_shifts.end());
  if (*most - *least > most_between_sums || std::any_of(weights.taps.begin(), weights.taps.end(), is_far)) {
    diagnostics.error(spec.where.coefficients,
                      "the weights of these sums lie too far apart for one operand's scale{}",
                      cuda_cores_take_it);
  }
}

/// Reports, and returns false, where every result would be 0.
bool check_largest(const StencilSpec& spec, const RoundedWeights& weights, diag::Diagnostics& diagnostics) {
  const double largest = largest_magnitude(weights.taps);
  if (!all_results_vanish(spec, largest)) return true;
  diagnostics.error(spec.where.coefficients,
                    "the largest weight, {}, makes every {} result 0; scale the weights up", largest,
                    spec::storage_name(spec::output_of(spec)));
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

double RoundedWeights::packed_of(const RoundedTap& tap) const {
  return tap.identity + factor * std::ldexp(total(tap.terms), -exponent - shift_of(tap.sum));
}

double RoundedWeights::result_scale(int sum) const {
  return std::ldexp(factor, -sum_exponent - shift_of(sum));
}

WeightsResult round_weights(const StencilSpec& spec, CommonFactors factors) {
  WeightsResult result;
  RoundedWeights& weights = result.weights;
  weights.type = operand_type(spec.storage);
  for (const Tap& tap : operator_of(spec).composed) {
    weights.taps.push_back({tap.at, tap.weight, {}, 0, 0, tap.weight, tap.sum});
    weights.sum += tap.weight;
  }
  shift_sums(spec, weights);
  weights.adds_identity = wants_identity(spec, weights);
  for (RoundedTap& tap : weights.taps) {
    if (!weights.adds_identity || tap.at != spec::Offset{}) continue;
    tap.identity = 1;
    tap.share = tap.weight - 1;
  }
  if (!check_largest(spec, weights, result.diagnostics)) return result;
  const RoundedWeights unrounded = weights;
  round_as_needed(spec, weights);
  // Several sums are not checked for drift over time steps.
  const bool may_share = factors == CommonFactors::allowed && spec.weights == spec::WeightMode::automatic &&
                         (spec.sums.size() == 1 || spec::is_half(spec.storage));
  if (may_share && !weights.exact) {
    std::optional<RoundedWeights> shares = over_common_factor(unrounded);
    if (shares) round_as_needed(spec, *shares);
    if (shares && is_better(spec, *shares, weights)) weights = *shares;
  }
  check_vanished(spec, weights, result.diagnostics);
  check_scales(spec, weights, result.diagnostics);
  if (spec.storage != spec::Storage::f32 && weights.terms == 1 && !weights.exact) {
    StencilSpec automatic = spec;
    automatic.weights = spec::WeightMode::automatic;
    const bool as_fast = round_weights(automatic).weights.terms == 1;
    const std::string sums =
        spec.sums.size() > 1
            ? ""
            : fmt::format("their sum is {} before and {} after rounding, ", weights.sum, weights.packed_sum);
    result.diagnostics.warning(
        spec.where.weights,
        "'weights: {}' rounds the weights: {}the largest error of a weight {:.2g}; 'weights: "
        "auto' keeps them{}",
        type_name(weights.type), sums, weights.largest_error, as_fast ? " and is as fast" : "");
  }
  return result;
}

WeightsResult core_weights(const StencilSpec& spec) {
  if (spec.storage != spec::Storage::f64) return round_weights_to_f32(spec);
  WeightsResult result;
  result.weights.in_f64 = true;
  result.weights.exact = true;
  for (const Tap& tap : operator_of(spec).composed) {
    result.weights.taps.push_back({tap.at, tap.weight, {tap.weight}, tap.weight, 0, tap.weight, tap.sum});
    result.weights.sum += tap.weight;
  }
  add_sums(result.weights);
  return result;
}

WeightsResult round_weights_to_f32(const StencilSpec& spec) {
  WeightsResult result;
  RoundedWeights& weights = result.weights;
  weights.type = operand_type(spec.storage);
  weights.in_f32 = true;
  weights.exact = true;
  for (const Tap& tap : operator_of(spec).composed) {
    const auto rounded = static_cast<double>(static_cast<float>(tap.weight));
    weights.taps.push_back({tap.at, tap.weight, {rounded}, rounded, 0, tap.weight, tap.sum});
    weights.sum += tap.weight;
    weights.exact = weights.exact && rounded == tap.weight;
  }
  report_vanished(spec, weights, result.diagnostics, vanishes_in_f32, vanishes_in_f32_text);
  if (check_largest(spec, weights, result.diagnostics)) {
    for (int sum = 0; sum < std::ssize(spec.sums); ++sum) balance_f32_sum(weights, sum);
  }
  add_sums(weights);
  return result;
}

}  // namespace spidergen::plan
