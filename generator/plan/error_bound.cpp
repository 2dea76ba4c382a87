#include "plan/error_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <variant>
#include <vector>

namespace spidergen::plan {
namespace {

// One MMA: 16 products and a sum, each truncated to at least 24 bits, and the alignment error of one product.
constexpr double error_of_mma = 18 * 0x1p-23;
// Covers error terms of higher order.
constexpr double higher_orders = 1.01;

constexpr double f32_rounding = 0x1p-24;
// Constants' contributions are cut, rounded and added in f32 to sums of a cell's magnitude.
constexpr double roundings_of_constants = 4;
constexpr double least_normal_f32 = 0x1p-126;
constexpr double least_f32 = 0x1p-149;
constexpr double f64_rounding = 0x1p-53;
constexpr double least_f64 = 0x1p-1074;

/// Products of leading terms: each begins a window.
double windows_of(const Contraction& contraction) {
  return static_cast<double>(
      std::count_if(contraction.products.begin(), contraction.products.end(),
                    [](const Product& product) { return product.term == 0 && product.input_term == 0; }));
}

double sum_of_magnitudes(const RoundedWeights& weights) {
  double sum = 0;
  for (const RoundedTap& tap : weights.taps) sum += std::fabs(tap.packed);
  return sum;
}

/// The same for the taps of one sum.
double sum_of_magnitudes(const RoundedWeights& weights, int of_sum) {
  double sum = 0;
  for (const RoundedTap& tap : weights.taps) sum += tap.sum == of_sum ? std::fabs(tap.packed) : 0;
  return sum;
}

/// Growth of the centre's products where the old value is added separately.
double growth_by_identity(const RoundedWeights& weights) {
  double growth = 1;
  for (const RoundedTap& tap : weights.taps) {
    if (tap.identity != 0)
      growth = std::max(growth, std::fabs(tap.packed - tap.identity) / std::fabs(tap.packed));
  }
  return growth;
}

/// The largest factor of results.
double largest_scale(const RoundedWeights& weights) {
  double largest = weights.result_scale(0);
  for (int sum = 1; sum < std::ssize(weights.sum_shifts); ++sum)
    largest = std::max(largest, weights.result_scale(sum));
  return largest;
}

/// Adds the rounding of results to another storage than the sums'. Integers are off by up to half a unit.
void add_output_rounding(spec::Storage output, ErrorBound& bound) {
  if (spec::is_integer(output)) {
    bound.absolute += 0.5;
  } else if (output == spec::Storage::f32) {
    bound.result += higher_orders * f32_rounding;
    bound.absolute += least_f32;
  } else if (spec::is_half(output)) {
    bound.result += higher_orders * rounding_error(operand_type(output));
    bound.absolute += smallest_value(operand_type(output)) / 2;
  }
}

ErrorBound bound_half(const spec::StencilSpec& spec, const KernelPlan& plan) {
  const bool f16 = plan.weights.type == OperandType::f16;
  ErrorBound bound;
  // An update uses the f32 sum without rounding.
  const bool rounds_to_half = !spec.update && !spec::converts_cells(spec);
  bound.result = rounds_to_half ? rounding_error(plan.weights.type) : 0;
  // A power of two changes no digit of a sum; any other factor rounds it to f32 before the store.
  if (plan.weights.factor != 1) bound.result += higher_orders * f32_rounding;
  bound.sum = higher_orders * error_of_mma * plan.contraction.longest_chain();
  const double scale = plan.weights.sum_shifts.empty()
                           ? plan.weights.factor
                           : std::max(plan.weights.factor, largest_scale(plan.weights));
  bound.absolute = f16 && rounds_to_half ? smallest_f16 / 2 : scale * least_normal_f32;
  const spec::Storage output = spec::output_of(spec);
  if (spec::converts_cells(spec) && output != spec::Storage::f32) add_output_rounding(output, bound);
  return bound;
}

ErrorBound bound_f32(const KernelPlan& plan) {
  const RoundedWeights& weights = plan.weights;
  const InputTerms& inputs = plan.contraction.inputs;
  const double windows = windows_of(plan.contraction);
  ErrorBound bound;
  bound.result = f32_rounding;  // the sum with the old value, or the product with the factor
  if (!inputs.scaled) {
    bound.sum =
        higher_orders * (rounding_error(weights.type) + error_of_mma * plan.contraction.longest_chain());
    bound.absolute = smallest_f16 / 2 * sum_of_magnitudes(weights) + least_normal_f32;
    return bound;
  }
  // Two terms leave 2^-23 of a value, and the omitted product of both remainders 2^-22.
  const double split = inputs.count == 2 ? 0x1p-23 + 0x1p-22 : rounding_error(weights.type);
  const double adds = error_of_mma + (windows + 1) * f32_rounding;
  bound.sum = higher_orders * growth_by_identity(weights) * (split + adds);
  bound.absolute = (windows + 3) * least_f32 * std::max(1.0, largest_scale(weights)) + least_f32;
  return bound;
}

/// Taps of the sum that has the most.
double most_taps_of_a_sum(const spec::StencilSpec& spec, const RoundedWeights& weights) {
  std::vector<double> counts(spec.sums.size());
  for (const RoundedTap& tap : weights.taps) ++counts[static_cast<std::size_t>(tap.sum)];
  return *std::max_element(counts.begin(), counts.end());
}

/// n multiply-adds, each rounded once to f64, whose sum is the result.
ErrorBound bound_doubles(const spec::StencilSpec& spec, const KernelPlan& plan) {
  const double taps = most_taps_of_a_sum(spec, plan.weights);
  ErrorBound bound;
  bound.sum = higher_orders * taps * f64_rounding;
  bound.absolute = (taps + 1) * least_f64;
  if (spec.output) add_output_rounding(*spec.output, bound);
  return bound;
}

/// n multiply-adds, each rounded once to f32; for f32 fields the sum is the result.
ErrorBound bound_cores(const spec::StencilSpec& spec, const KernelPlan& plan) {
  const double taps = most_taps_of_a_sum(spec, plan.weights);
  if (spec::converts_cells(spec)) {
    ErrorBound bound;
    bound.sum = higher_orders * taps * f32_rounding;
    bound.absolute = (taps + 1) * least_f32 / 2;
    const spec::Storage output = spec::output_of(spec);
    if (output != spec::Storage::f32) add_output_rounding(output, bound);
    return bound;
  }
  // An update uses the f32 sum without rounding.
  const bool f32 = spec.storage == spec::Storage::f32 || spec.update;
  ErrorBound bound;
  bound.result = f32 ? 0 : higher_orders * rounding_error(plan.weights.type);
  bound.sum = higher_orders * taps * f32_rounding;
  bound.absolute = (taps + 1) * least_f32 / 2 + (f32 ? 0 : smallest_value(plan.weights.type) / 2);
  return bound;
}

/// Two passes on CUDA cores: a result has nx + pairs ny multiply-adds, each rounded once, of at most `passed`
/// max |x| in all. For a single pair of lists, products are those of the weights.
ErrorBound bound_core_lists(const spec::StencilSpec& spec, const KernelPlan& plan) {
  const bool doubles = spec.storage == spec::Storage::f64;
  ErrorBound bound;
  for (int sum = 0; sum < std::ssize(plan.contraction.low_rank); ++sum) {
    const LowRank& lists = plan.contraction.low_rank[sum];
    const auto pairs = static_cast<double>(lists.pairs.size());
    const double along_x = lists.x_high() - lists.x_low + 1;
    const double along_y = pairs * (lists.y_high() - lists.y_low + 1);
    // The weights are rounded sums of products of two doubles: one rounding for each product and each sum.
    const double of_weights = doubles ? 2 * pairs : 1;
    const double error =
        higher_orders * (along_x + along_y + of_weights) * (doubles ? f64_rounding : f32_rounding);
    if (pairs == 1) {
      bound.sum = std::max(bound.sum, error);
    } else {
      bound.neighbourhood =
          std::max(bound.neighbourhood, error * lists.passed / sum_of_magnitudes(plan.weights, sum));
    }
    const double absolute =
        higher_orders * (along_x * lists.y_magnitude + along_y + 1) * (doubles ? least_f64 : least_f32);
    bound.absolute = std::max(bound.absolute, absolute);
  }
  return bound;
}

/// t steps, each of n multiply-adds, one operation of which may be shared. Let e be the error of a step's
/// results and v the step applied to the magnitudes of inputs and weights. A step adds at most its own
/// roundings of v, and the error of its inputs grows no faster than v: after t steps the total is t times one
/// step's, relative to v. A step also rounds its weight and a warp's factor, and near a face along y changes
/// the way to add rows. With an update, which need not be linear, the bound is for the sum of each step.
ErrorBound bound_steps(const spec::StencilSpec& spec, const KernelPlan& plan) {
  const bool f64 = spec.storage == spec::Storage::f64;
  const double rounding = f64 ? f64_rounding : f32_rounding;
  const double least = f64 ? least_f64 : least_f32;
  constexpr double shared_sums = 3;
  constexpr double factors = 5;
  constexpr double at_faces = 16;
  const double steps = spec.update ? 1 : plan.op.steps;
  const double roundings = most_taps_of_a_sum(spec, plan.weights) + shared_sums + factors + at_faces;
  const bool is_half = spec::is_half(spec.storage) && !spec.update;
  const double growth = std::pow(std::max(1.0, sum_of_magnitudes(plan.weights)), steps);
  ErrorBound bound;
  bound.result = is_half ? higher_orders * rounding_error(plan.weights.type) : 0;
  bound.sum = higher_orders * steps * roundings * rounding;
  bound.absolute = steps * roundings * growth * least * std::ldexp(1.0, most_unit_exponent) +
                   (is_half ? smallest_value(plan.weights.type) / 2 : 0);
  return bound;
}

/// Two passes. Values between them are at most `passed` max |x| in all: pass x makes chunks products a term
/// and rounds once, pass y the remaining products. Composed weights also deviate by `deviation` sum |w| max
/// |x| from those of t single steps with f32 weights.
ErrorBound bound_low_rank(const spec::StencilSpec& spec, const KernelPlan& plan) {
  const OperandType type = plan.contraction.low_rank.front().type;
  const double rounding = rounding_error(type);
  const double arithmetic = rounding + error_of_mma * plan.contraction.longest_chain();
  // An update uses the f32 sum without rounding.
  const int last_rounding = spec.update ? 0 : 1;
  ErrorBound bound;
  bound.result = higher_orders * (last_rounding * rounding + f32_rounding);
  for (int sum = 0; sum < std::ssize(plan.contraction.low_rank); ++sum) {
    const LowRank& lists = plan.contraction.low_rank[sum];
    const double magnitude = sum_of_magnitudes(plan.weights, sum);
    double of_largest = higher_orders * arithmetic * lists.passed;
    if (plan.op.steps > 1) {
      const double growth = std::pow(std::max(1.0, magnitude), plan.op.steps);
      of_largest += lists.deviation * lists.magnitude +
                    (2 * plan.op.steps + roundings_of_constants) * f32_rounding * growth;
    }
    bound.neighbourhood = std::max(bound.neighbourhood, of_largest / magnitude);
    const double absolute =
        smallest_value(type) / 2 * (last_rounding + higher_orders * lists.y_magnitude) + least_normal_f32;
    bound.absolute = std::max(bound.absolute, absolute);
  }
  return bound;
}

/// The bound of a cell that either two passes or all steps in turn compute: the larger of each term. The sum
/// of steps is part of their effect on magnitudes, and so bounded by the largest cell.
ErrorBound bound_both(const ErrorBound& passes, const ErrorBound& steps, const KernelPlan& plan) {
  const double magnitude = sum_of_magnitudes(plan.weights);
  const double growth = std::pow(std::max(1.0, magnitude), plan.op.steps);
  ErrorBound both = passes;
  both.result = std::max(passes.result, steps.result);
  both.neighbourhood = std::max(passes.neighbourhood, steps.sum * growth / magnitude);
  both.absolute = std::max(passes.absolute, steps.absolute);
  return both;
}

/// Composed steps: the bound of one sweep with S at most sum |w'| max |x| of the packed weights, which
/// deviate by `deviation` sum |w| max |x| from those of t single steps with f32 weights.
ErrorBound bound_composed(const spec::StencilSpec& spec, const KernelPlan& plan) {
  const ComposedSteps& composition = *plan.composition;
  const KernelPlan composed = plan_of_composed(spec, plan);
  ErrorBound bound = bound_half(spec, composed);
  const double growth = std::pow(std::max(1.0, sum_of_magnitudes(plan.weights)), plan.op.steps);
  const double of_largest =
      bound.sum * sum_of_magnitudes(composed.weights) + composition.deviation * composition.magnitude +
      (2 * plan.op.steps + (composition.added.exist() ? roundings_of_constants : 0)) * f32_rounding * growth;
  bound.neighbourhood = of_largest / sum_of_magnitudes(plan.weights);
  bound.sum = 0;
  bound.absolute += least_normal_f32;
  // The rest of a number of steps is rounded to f32 before the store.
  bound.result = higher_orders * (rounding_error(plan.weights.type) + f32_rounding);
  return bound;
}

/// The part of a pass of three terms, of f32 cells with all their digits. Terms are below 2^-7 and 2^-15 of a
/// cell, 2^-8 and 2^-16 of a weight: products that are left out are below 2^-22 + 2^-31. Leading ones are cut
/// in chains of a panel's four chunks, whose sums are rounded; the others, below 2^-6 in all, in one chain.
double error_of_three_terms(const BandedList& scheme) {
  constexpr double left_out = 0x1p-22 + 0x1p-31;
  constexpr int chain = 4;
  constexpr double size_of_others = 0x1p-6;
  const double sums = (scheme.chunks + chain - 1 + chain - 1) / chain + 1;
  const double others = scheme.chunks * (scheme.products_of_chunk(3) - 1);
  return left_out + error_of_mma * (chain + size_of_others * others) + sums * f32_rounding;
}

/// A pass as a band matrix: products that are cut, and what two terms leave of an input. Of f16 that is
/// 2^-23, and the product of both remainders 2^-22; of bf16 2^-17, and that with a third term of a weight
/// 2^-25.
ErrorBound bound_banded_list(const spec::StencilSpec& spec, const KernelPlan& plan) {
  const auto& scheme = std::get<BandedList>(plan.scheme);
  const bool f16 = plan.weights.type == OperandType::f16;
  const int terms = plan.contraction.inputs.count;
  const bool splits = terms == 2;
  const double split = !splits ? 0 : f16 ? 0x1p-23 + 0x1p-22 : 0x1p-17 + 0x1p-25;
  ErrorBound bound;
  bound.sum = higher_orders * (terms == 3 ? error_of_three_terms(scheme)
                                          : split + error_of_mma * plan.contraction.longest_chain());
  bound.absolute = scheme.result_scale * least_normal_f32;
  // A remainder may be no normal number.
  if (splits && f16)
    bound.absolute += std::ldexp(smallest_f16 / 2, -band_remainder_digits) / scheme.input_scale *
                      sum_of_magnitudes(plan.weights);
  const spec::Storage output = spec::output_of(spec);
  if (output != spec::Storage::f32) add_output_rounding(output, bound);
  return bound;
}

/// Successive passes; only the last one rounds to another storage than its sums'. The error of a pass grows
/// no faster than magnitudes, so that the shares of sum |w x| add up. The contributions of constant faces are
/// also rounded, and so are the products of f64 weights.
ErrorBound bound_passes(const KernelPlan& plan) {
  ErrorBound bound;
  for (const PassPlan& pass : plan.passes) {
    const bool doubles = pass.spec.storage == spec::Storage::f64;
    const ErrorBound& own = pass.plan.error_bound;
    constexpr double of_constants = 1;
    const double of_weights = doubles ? 1 : 0;
    bound.sum +=
        higher_orders * (own.sum + (of_constants + of_weights) * (doubles ? f64_rounding : f32_rounding));
    bound.result = own.result;
    bound.absolute = higher_orders * (bound.absolute * sum_of_magnitudes(pass.plan.weights) + own.absolute);
  }
  return bound;
}

}  // namespace

ErrorBound bound_error(const spec::StencilSpec& spec, const KernelPlan& plan) {
  if (!plan.passes.empty()) return bound_passes(plan);
  // The rest of a number of steps and the rims are stepped singly.
  if (plan.composition) return bound_both(bound_composed(spec, plan), bound_steps(spec, plan), plan);
  if (plan.contraction.is_low_rank()) {
    const ErrorBound bound = bound_low_rank(spec, plan);
    if (plan.op.steps == 1) return bound;
    ErrorBound both = bound_both(bound, bound_steps(spec, plan), plan);
    const auto* scheme = std::get_if<Lowrank2d>(&plan.scheme);
    if (scheme != nullptr && scheme->rim_steps)
      both.neighbourhood += scheme->rim_steps->left_out / sum_of_magnitudes(plan.weights);
    return both;
  }
  if (plan.contraction.is_list_adds()) return bound_core_lists(spec, plan);
  if (plan.contraction.is_banded_list()) return bound_banded_list(spec, plan);
  if (plan.op.steps > 1) return bound_steps(spec, plan);
  if (spec.storage == spec::Storage::f64) return bound_doubles(spec, plan);
  if (plan.engine == Engine::cuda) return bound_cores(spec, plan);
  return spec.storage == spec::Storage::f32 ? bound_f32(plan) : bound_half(spec, plan);
}

std::optional<double> lost_difference(const spec::StencilSpec& spec, int steps) {
  if (!spec::is_half(spec.storage) || spec.output || spec.update || spec.sums.size() != 1) return {};
  double sum = 0;
  double others = 0;
  for (const spec::Tap& tap : spec.taps) {
    sum += tap.weight;
    if (tap.at != spec::Offset{}) others += std::fabs(tap.weight);
  }
  // Half a unit in the last place just below a power of two, relative to the value.
  const double half_unit = spec.storage == spec::Storage::f16 ? 0x1p-12 : 0x1p-9;
  const double left = half_unit - steps * std::fabs(sum - 1);
  if (left <= 0 || others == 0) return {};
  return left / (steps * others);
}

void warn_of_lost_steps(const spec::StencilSpec& spec, int steps, diag::Diagnostics& diagnostics) {
  const std::optional<double> lost = lost_difference(spec, steps);
  if (!lost || *lost < largest_silent_loss) return;
  diagnostics.warning(
      spec.where.storage,
      "'storage: {}' loses small changes: a sweep leaves a cell as it is where its neighbours "
      "differ from it by less than {:.2g} of its value; 'storage: f32' keeps them",
      spec.storage == spec::Storage::f16 ? "f16" : "bf16", *lost);
}

}  // namespace spidergen::plan
