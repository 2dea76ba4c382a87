#include "plan/banded_pass.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "plan/error_bound.h"

namespace spidergen::plan {
namespace {

/// Weights of f16 are scaled to at most 2^15, so that both terms of all but the smallest are normal numbers.
constexpr int weight_exponent = 15;

/// The power of two times which a magnitude is at most `limit`, above half of it.
int exponent_below(double limit, double magnitude) {
  int exponent = std::ilogb(limit / magnitude);
  while (std::ldexp(magnitude, exponent) > limit) --exponent;
  return exponent;
}

double largest_weight(const spec::StencilSpec& pass) {
  double largest = 0;
  for (const spec::Tap& tap : pass.taps) largest = std::max(largest, std::fabs(tap.weight));
  return largest;
}

double sum_of_magnitudes(const spec::StencilSpec& pass) {
  return std::accumulate(pass.taps.begin(), pass.taps.end(), 0.0,
                         [](double sum, const spec::Tap& tap) { return sum + std::fabs(tap.weight); });
}

/// The terms of each weight; nothing where some is not within pass_rounding of what they make.
std::optional<RoundedWeights> split_weights(const spec::StencilSpec& pass, OperandType type) {
  RoundedWeights weights;
  weights.type = type;
  // The range of bf16 is that of sums: scaled weights add up to 1 at most, so that no sum overflows first.
  weights.exponent = type == OperandType::f16
                         ? exponent_below(std::ldexp(1.0, weight_exponent), largest_weight(pass))
                         : exponent_below(1.0, sum_of_magnitudes(pass));
  const std::size_t most = type == OperandType::f16 ? 2 : 3;
  for (const spec::Tap& tap : pass.taps) {
    RoundedTap rounded{tap.at, tap.weight, {}, 0, 0, tap.weight, 0};
    double left = std::ldexp(tap.weight, weights.exponent);
    while (rounded.terms.size() < most && (left != 0 || rounded.terms.empty())) {
      rounded.terms.push_back(round_to(type, left));
      left -= rounded.terms.back();
    }
    weights.terms = std::max(weights.terms, static_cast<int>(rounded.terms.size()));
    rounded.packed = std::ldexp(weights.total(rounded.terms), -weights.exponent);
    const double error = std::fabs(rounded.packed - tap.weight);
    if (!(error <= pass_rounding(weights) * std::fabs(tap.weight))) return std::nullopt;
    weights.sum += tap.weight;
    weights.packed_sum += rounded.packed;
    weights.largest_error = std::max(weights.largest_error, error);
    weights.taps.push_back(std::move(rounded));
  }
  for (RoundedTap& tap : weights.taps) tap.terms.resize(static_cast<std::size_t>(weights.terms));
  weights.exact = weights.largest_error == 0;
  return weights;
}

/// The place of a tap along the axis of a list.
int place_of(const spec::Offset& at, int axis) {
  return at[static_cast<std::size_t>(axis)];
}

/// 16 outputs by the 16 inputs of a chunk: a term of the weights, times a power of two.
Matrix chunk_matrix(const RoundedWeights& weights, const BandedList& scheme, int chunk, int term,
                    int exponent) {
  Matrix matrix(band_group, band_group);
  for (const RoundedTap& tap : weights.taps) {
    for (int m = 0; m < band_group; ++m) {
      const int k = place_of(tap.at, scheme.axis) - scheme.low - band_group * chunk + m;
      if (k < 0 || k >= band_group) continue;
      const double value = std::ldexp(tap.terms[static_cast<std::size_t>(term)], exponent);
      matrix.at(m, k) = round_to(weights.type, value);
    }
  }
  return matrix;
}

/// The operands of each chunk, its terms and behind them the copy that remainders meet, and their products.
void add_operands(const RoundedWeights& weights, const BandedList& scheme, Contraction& contraction) {
  for (int chunk = 0; chunk < scheme.chunks; ++chunk) {
    const auto first = static_cast<int>(contraction.operands.size());
    for (int term = 0; term < scheme.weight_terms; ++term) {
      const bool is_copy = term == weights.terms;
      Operand operand;
      operand.shift = scheme.low + band_group * chunk;
      operand.term = term;
      operand.matrix =
          chunk_matrix(weights, scheme, chunk, is_copy ? 0 : term, is_copy ? -band_remainder_digits : 0);
      contraction.operands.push_back(std::move(operand));
    }
    for (int term = 0; term < scheme.leading_products; ++term)
      contraction.products.push_back({0, 0, first + term, term, 0, 0, 0});
    for (int i = 0; i < scheme.remainder_products; ++i) {
      const int term = scheme.remainder_weight + i;
      contraction.products.push_back({0, 0, first + term, term, 0, 1, 0});
    }
    if (contraction.inputs.count == 3) contraction.products.push_back({0, 0, first, 0, 0, 2, 0});
  }
}

/// Do operands hold such cells exactly?
bool are_operands(spec::Storage storage, OperandType type) {
  return storage == spec::Storage::u8 || (spec::is_half(storage) && operand_type(storage) == type);
}

}  // namespace

std::optional<KernelPlan> plan_banded_pass(const spec::StencilSpec& pass, const PassInput& input) {
  constexpr int largest_exponent = 100;  // scales are normal f32 numbers
  if (pass.dimensions == 1 || pass.storage == spec::Storage::f64) return std::nullopt;
  std::optional<RoundedWeights> weights = split_weights(pass, input.type);
  if (!weights) return std::nullopt;
  KernelPlan plan;
  plan.engine = Engine::dense;
  plan.dimensions = pass.dimensions;
  plan.op = operator_of(pass);
  plan.tap_rows = tap_rows_of(plan.op);
  Problem problem{pass, plan.op, plan.engine, plan.tap_rows, std::move(*weights)};
  plan.contraction = contract_taps(problem);
  plan.contraction.grouping = Grouping::banded_list;
  plan.contraction.inputs.count = are_operands(pass.storage, input.type) ? 1 : input.terms;
  plan.contraction.mapping.name = "band";
  plan.contraction.sources = {Source{}};
  Offer<BandedList> offer = BandedList::plan(problem, plan.contraction);
  if (!offer.objection.empty()) return std::nullopt;
  int input_exponent = 0;
  if (plan.contraction.inputs.count == 2 && input.type == OperandType::f16)
    input_exponent = input.largest > 0 ? exponent_below(largest_f16, input.largest) : 0;
  const int exponent = problem.weights.exponent + input_exponent;
  if (std::abs(exponent) > largest_exponent || std::abs(input_exponent) > largest_exponent)
    return std::nullopt;
  offer.scheme.input_scale = std::ldexp(1.0, input_exponent);
  offer.scheme.result_scale = std::ldexp(1.0, -exponent);
  add_operands(problem.weights, offer.scheme, plan.contraction);
  plan.weights = std::move(problem.weights);
  plan.microseconds = offer.microseconds;
  plan.scheme = offer.scheme;
  plan.error_bound = bound_error(pass, plan);
  return plan;
}

}  // namespace spidergen::plan
