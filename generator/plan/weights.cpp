#include "plan/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/half.h"

namespace spidergen::plan {
namespace {

// Below this the remainders of the largest weights reach into f16's subnormals, whose unit is 2^-24.
constexpr double smallest_unscaled_weight = 0.125;

/// The power of two that brings the largest weight into [1, 2), or none where f16 does well without.
int common_exponent(double largest) {
  return largest < smallest_unscaled_weight ? -std::ilogb(largest) : 0;
}

std::vector<double> split(double weight, int terms) {
  std::vector<double> parts;
  for (int i = 0; i < terms; ++i) {
    parts.push_back(round_to_f16(weight));
    weight -= parts.back();  // exact: the parts are neighbours in magnitude (Sterbenz)
  }
  return parts;
}

double largest_magnitude(const spec::StencilSpec& spec) {
  double largest = 0;
  for (const spec::Tap& tap : spec.taps) largest = std::max(largest, std::fabs(tap.weight));
  return largest;
}

bool all_exact(const spec::StencilSpec& spec, int exponent) {
  return std::all_of(spec.taps.begin(), spec.taps.end(), [&](const spec::Tap& tap) {
    const double scaled = std::ldexp(tap.weight, exponent);
    return round_to_f16(scaled) == scaled;
  });
}

int term_count(const spec::StencilSpec& spec, bool exact) {
  switch (spec.weights) {
    case spec::WeightMode::f16:
      return 1;
    case spec::WeightMode::f16x2:
      return 2;
    case spec::WeightMode::automatic:
      break;
  }
  return exact ? 1 : 2;
}

RoundedTap round_tap(const spec::Tap& tap, const RoundedWeights& weights) {
  RoundedTap rounded{tap.at, tap.weight, split(std::ldexp(tap.weight, weights.exponent), weights.terms), 0};
  double scaled = 0;
  for (const double term : rounded.terms) scaled += term;
  rounded.packed = std::ldexp(scaled, -weights.exponent);
  return rounded;
}

}  // namespace

WeightsResult round_weights(const spec::StencilSpec& spec) {
  WeightsResult result;
  RoundedWeights& weights = result.weights;
  const double largest = largest_magnitude(spec);
  if (largest * largest_f16 * static_cast<double>(spec.taps.size()) < smallest_f16 / 2) {
    result.diagnostics.error(
        spec.where.coefficients,
        fmt::format("the largest weight, {}, makes every f16 result 0; scale the weights up", largest));
    return result;
  }
  weights.exponent = all_exact(spec, 0) ? 0 : common_exponent(largest);
  weights.exact = all_exact(spec, weights.exponent);
  weights.terms = term_count(spec, weights.exact);
  for (const spec::Tap& tap : spec.taps) {
    weights.taps.push_back(round_tap(tap, weights));
    const RoundedTap& rounded = weights.taps.back();
    if (rounded.packed == 0) {
      result.diagnostics.error(
          tap.where,
          fmt::format("the weight {} vanishes beside the largest, {}, in {} f16 term{}; drop the tap{}",
                      tap.weight, largest, weights.terms, weights.terms == 1 ? "" : "s",
                      weights.terms == 1 ? " or use 'weights: auto'" : ""));
    }
    weights.sum += tap.weight;
    weights.packed_sum += rounded.packed;
    weights.largest_error = std::max(weights.largest_error, std::fabs(rounded.packed - tap.weight));
  }
  if (weights.terms == 1 && !weights.exact) {
    result.diagnostics.warning(spec.where.weights,
                               fmt::format("'weights: f16' rounds the weights: their sum is {} before and {} "
                                           "after rounding, the largest error "
                                           "of a weight {:.2g}; 'weights: auto' keeps them",
                                           weights.sum, weights.packed_sum, weights.largest_error));
  }
  return result;
}

}  // namespace spidergen::plan
