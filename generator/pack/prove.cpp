#include "pack/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "diag/diagnostic.h"
#include "plan/bands.h"
#include "plan/compose.h"
#include "plan/core_lists.h"
#include "plan/low_rank.h"

namespace spidergen::pack {
namespace {

/// The scaled weight of each sum, offset and input term of one output.
using TapSums = std::map<std::tuple<int, spec::Offset, int>, double>;

void prove_packing(const plan::Contraction& contraction, const PackedKernel& packed) {
  for (std::size_t i = 0; i < contraction.operands.size(); ++i) {
    const plan::Operand& operand = contraction.operands[i];
    if (unpack(packed, static_cast<int>(i)) != operand.matrix) {
      throw diag::InternalError(
          fmt::format("operand {} (window dz = {}, dy = {}, shift {}, term {}) is not recovered from its "
                      "registers",
                      i, operand.dz, operand.dy, operand.shift, operand.term));
    }
  }
}

/// The number of distinct kinds of outputs of a tile: one for each row of the matrices. In bands, the columns
/// of a unit; every second one has the row along y of the one 16 before it.
int distinct_outputs(const plan::Contraction& contraction) {
  return contraction.is_bands() ? plan::band_unit_columns : contraction.mapping.rows();
}

/// The row of a source's matrices for output m, if any.
std::optional<int> row_of_output(const plan::Contraction& contraction, const plan::Source& source, int m) {
  if (!contraction.is_bands()) return m;
  if (source.along_y) return m % source.mapping.rows();
  const auto& outputs = source.mapping.row_output;
  const auto row = std::find_if(outputs.begin(), outputs.end(),
                                [m](const plan::Position& output) { return output.x == m; });
  if (row == outputs.end()) return std::nullopt;
  return static_cast<int>(row - outputs.begin());
}

/// The place of output m in its tile, for messages.
int output_name(const plan::Contraction& contraction, int m) {
  return contraction.is_bands() ? m : contraction.mapping.row_output[m].x;
}

/// The contribution of row m of the matrices to its output, product by product, as taps of that output.
TapSums expand_output(const plan::KernelPlan& plan, const std::vector<plan::Matrix>& matrices, int m) {
  const plan::Contraction& contraction = plan.contraction;
  TapSums sums;
  for (const plan::Product& product : contraction.products) {
    const plan::Matrix& matrix = matrices[product.operand];
    const int exponent = -product.term * plan.weights.remainder_exponent;
    const plan::Source& source = contraction.sources[product.source];
    const std::optional<int> row = row_of_output(contraction, source, m);
    if (!row) continue;
    const plan::Position output = source.place(source.mapping.row_output[*row]);
    for (int k = 0; k < matrix.columns; ++k) {
      if (matrix.at(*row, k) == 0) continue;
      const plan::Position input = source.place(source.mapping.column_input[k]);
      const spec::Offset at{contraction.plane_low + product.plane + input.z - output.z,
                            contraction.row_low + product.row + input.y - output.y,
                            source.shift + input.x - output.x};
      sums[{product.sum, at, product.input_term}] += std::ldexp(matrix.at(*row, k), exponent);
    }
  }
  return sums;
}

/// Leading terms of inputs are multiplied by the whole weight, their remainders by its leading term.
TapSums expected_sums(const plan::RoundedWeights& weights, const plan::InputTerms& inputs) {
  TapSums sums;
  for (const plan::RoundedTap& tap : weights.taps) {
    sums[{tap.sum, tap.at, 0}] = weights.total(tap.terms);
    if (inputs.count == 2 && tap.terms.front() != 0) sums[{tap.sum, tap.at, 1}] = tap.terms.front();
  }
  return sums;
}

void prove_products(const plan::KernelPlan& plan, const PackedKernel& packed) {
  const plan::Contraction& contraction = plan.contraction;
  std::vector<plan::Matrix> matrices;
  for (std::size_t i = 0; i < packed.operands.size(); ++i)
    matrices.push_back(unpack(packed, static_cast<int>(i)));
  const TapSums expected = expected_sums(plan.weights, contraction.inputs);
  for (int m = 0; m < distinct_outputs(contraction); ++m) {
    const TapSums found = expand_output(plan, matrices, m);
    if (found == expected) continue;
    for (const auto& [at, weight] : expected) {
      const auto tap = found.find(at);
      if (tap == found.end() || tap->second != weight) {
        const auto& [sum, offset, input_term] = at;
        throw diag::InternalError(fmt::format(
            "output {} of a tile: tap (dz = {}, dy = {}, dx = {}) of sum {} is {} instead of {} "
            "in term {} of the input",
            output_name(contraction, m), offset[spec::axis_z], offset[spec::axis_y], offset[spec::axis_x],
            sum, tap == found.end() ? 0.0 : tap->second, weight, input_term));
      }
    }
    throw diag::InternalError(
        fmt::format("output {} of a tile has taps that the spec has not", output_name(contraction, m)));
  }
}

/// The largest distance of a packed weight from the spec's. One term has the digits of its type. Several
/// terms have 21 bits of the largest weight of a sum for 16-bit fields, and 22 bits of each weight for f32
/// ones, whose remainders end at 2^-36. f32 numbers, and exact shares of an f32 factor, have 23 of each.
double rounding_bound(const spec::StencilSpec& spec, const plan::RoundedWeights& weights, double weight,
                      int sum, double largest) {
  const double smallest =
      weights.factor *
      std::ldexp(plan::smallest_value(weights.type), -weights.exponent - weights.shift_of(sum)) / 2;
  if (weights.in_f64) return 0;
  if (weights.in_f32) return std::max(std::ldexp(std::fabs(weight), -23), 0x1p-150);
  if (weights.exact && weights.factor != 1) return std::ldexp(std::fabs(weight), -23);
  if (weights.exact) return weights.adds_identity ? 0x1p-52 : 0;
  if (weights.terms == 1) return std::max(std::fabs(weight) * plan::rounding_error(weights.type), smallest);
  if (weights.remainder_exponent > 0) {
    return std::max(std::ldexp(std::fabs(weight), -22), std::ldexp(smallest, -weights.remainder_exponent));
  }
  return spec.weights == spec::WeightMode::bf16x2 ? std::ldexp(largest, -16) : std::ldexp(largest, -21);
}

void prove_rounding(const spec::StencilSpec& spec, const plan::RoundedWeights& weights) {
  const std::vector<spec::Tap> taps = plan::operator_of(spec).composed;
  if (taps.size() != weights.taps.size()) throw diag::InternalError("the plan's taps are not the spec's");
  std::map<int, double> largest;  // by sum
  for (const spec::Tap& tap : taps) largest[tap.sum] = std::max(largest[tap.sum], std::fabs(tap.weight));
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const spec::Tap& tap = taps[i];
    const plan::RoundedTap& rounded = weights.taps[i];
    const double identity = weights.adds_identity && tap.at == spec::Offset{} ? 1 : 0;
    const double bound = rounding_bound(spec, weights, tap.weight - identity, tap.sum, largest[tap.sum]);
    const double packed =
        identity + weights.factor * std::ldexp(weights.total(rounded.terms),
                                               -weights.exponent - weights.shift_of(tap.sum));
    if (tap.at != rounded.at || tap.sum != rounded.sum || packed != rounded.packed ||
        !(std::fabs(tap.weight - packed) <= bound)) {
      throw diag::InternalError(fmt::format("tap (dz = {}, dy = {}, dx = {}): weight {} became {}", tap.at[0],
                                            tap.at[1], tap.at[2], tap.weight, rounded.packed));
    }
  }
}

/// Proves that shared tap rows are multiples of their sum's first one.
void prove_shared_rows(const plan::KernelPlan& plan) {
  const auto* cores = std::get_if<plan::Cores2d>(&plan.scheme);
  if (cores == nullptr || cores->shared_rows.empty()) return;
  std::map<std::tuple<int, int, int>, double> weights;  // by sum, step and column
  for (const plan::CoreTap& tap : plan.contraction.taps)
    weights[{tap.sum, tap.step, tap.column}] = tap.weight;
  std::map<int, int> first_steps;
  for (const plan::SharedRow& row : cores->shared_rows) first_steps.try_emplace(row.sum, row.step);
  std::map<std::tuple<int, int, int>, double> expanded;
  for (const plan::SharedRow& row : cores->shared_rows) {
    for (const auto& [place, weight] : weights) {
      const auto& [sum, step, column] = place;
      if (sum == row.sum && step == first_steps[sum]) expanded[{sum, row.step, column}] = row.weight * weight;
    }
  }
  std::erase_if(weights, [&](const auto& one) { return !first_steps.contains(std::get<0>(one.first)); });
  if (expanded != weights) throw diag::InternalError("shared tap rows are not those of the plan");
}

/// Proves that the taps in the code of a kernel on CUDA cores are the plan's.
void prove_cores(const plan::KernelPlan& plan) {
  const plan::CoreAxes axes = plan::core_axes(plan.dimensions);
  std::map<std::pair<spec::Offset, int>, double> found;
  for (const plan::CoreTap& tap : plan.contraction.taps) {
    spec::Offset at{};
    at[axes.step] = tap.step;
    at[axes.row] = tap.row;
    at[spec::axis_x] = tap.column;
    found[{at, tap.sum}] += tap.weight;
  }
  std::map<std::pair<spec::Offset, int>, double> expected;
  for (const plan::RoundedTap& tap : plan.weights.taps) expected[{tap.at, tap.sum}] = tap.packed;
  if (found != expected) throw diag::InternalError("the taps for CUDA cores are not the plan's");
  // The tables of a generated file split this list into rows.
  const auto place = [](const plan::CoreTap& tap) {
    return std::tuple(tap.row, tap.step, tap.column, tap.sum);
  };
  const auto misplaced =
      std::adjacent_find(plan.contraction.taps.begin(), plan.contraction.taps.end(),
                         [&](const auto& a, const auto& b) { return place(a) >= place(b); });
  if (misplaced != plan.contraction.taps.end()) {
    throw diag::InternalError("the taps for CUDA cores do not ascend in row, step, column and sum");
  }
  prove_shared_rows(plan);
}

/// The weights of a list by offset, as in the operands of one output.
using ListWeights = std::map<int, double>;

/// The contribution of a pass of a sum to one of its outputs, by pair of lists: for pass x output m of a
/// tile, for pass y row m of a group. Terms are added up.
std::vector<ListWeights> expand_pass(const plan::Contraction& contraction, const PackedKernel& packed,
                                     int sum, bool along_y, int m) {
  const plan::LowRank& lists = contraction.low_rank[sum];
  const int chunks = along_y ? lists.row_chunks : lists.chunks;
  const int first = along_y ? lists.y_low : lists.first_column;
  const int chunk_inputs = along_y ? plan::group_rows : plan::tile_columns;
  std::vector<ListWeights> weights(lists.pairs.size());
  int index = 0;  // of the pass
  for (const plan::Product& product : contraction.products) {
    const plan::Source& source = contraction.sources[product.source];
    if (product.sum != sum || source.along_y != along_y) continue;
    const plan::Matrix matrix = unpack(packed, product.operand);
    const int place = index++ / lists.terms;
    for (int k = 0; k < matrix.columns; ++k) {
      const double value = matrix.at(m, k);
      if (value == 0) continue;
      const int pair = place / chunks;
      const int offset = first + place % chunks * chunk_inputs + source.mapping.column_input[k].x -
                         source.mapping.row_output[m].x;
      weights[pair][offset] += value;
    }
  }
  return weights;
}

/// The lists of a pass; proves that all its outputs have the same.
std::vector<ListWeights> prove_pass(const plan::Contraction& contraction, const PackedKernel& packed, int sum,
                                    bool along_y) {
  const int outputs = along_y ? plan::group_rows : plan::tile_columns;
  const std::vector<ListWeights> first = expand_pass(contraction, packed, sum, along_y, 0);
  for (int m = 1; m < outputs; ++m) {
    if (expand_pass(contraction, packed, sum, along_y, m) != first) {
      throw diag::InternalError(
          fmt::format("output {} of pass {} has other weights than output 0", m, along_y ? 'y' : 'x'));
    }
  }
  return first;
}

/// Proves that the weights of two passes of a spec of one sum differ from those of all steps together by no
/// more than the plan says, have the same sum within `sum_bound` of their magnitudes, and reach no farther.
void prove_lists(const spec::StencilSpec& spec, int steps, const plan::LowRank& lists,
                 const std::vector<ListWeights>& along_y, const std::vector<ListWeights>& along_x,
                 double sum_bound) {
  const plan::Operator op = plan::operator_of(spec, steps);
  plan::Matrix rest = plan::compose_taps(op).front();
  double sum = 0;
  double magnitude = 0;
  for (const double weight : rest.values) {
    sum += weight;
    magnitude += std::fabs(weight);
  }
  double packed_sum = 0;
  for (std::size_t pair = 0; pair < along_y.size(); ++pair) {
    for (const auto& [dy, y_weight] : along_y[pair]) {
      for (const auto& [dx, x_weight] : along_x[pair]) {
        const int row = dy + op.reach_low[spec::axis_y];
        const int column = dx + op.reach_low[spec::axis_x];
        if (row < 0 || row >= rest.rows || column < 0 || column >= rest.columns) {
          throw diag::InternalError(
              fmt::format("two passes have a weight at (dy = {}, dx = {}), which no steps reach", dy, dx));
        }
        rest.at(row, column) -= lists.scale * y_weight * x_weight;
        packed_sum += lists.scale * y_weight * x_weight;
      }
    }
  }
  double deviation = 0;
  for (const double difference : rest.values) deviation += std::fabs(difference);
  constexpr double of_proof = 0x1p-40;  // rounding of the proof itself
  if (!(deviation <= (lists.deviation * (1 + of_proof) + of_proof) * magnitude)) {
    throw diag::InternalError(
        fmt::format("the weights of two passes differ by {} from the exact ones, not {}",
                    deviation / magnitude, lists.deviation));
  }
  if (!(std::fabs(packed_sum - sum) <= (sum_bound + of_proof) * magnitude)) {
    throw diag::InternalError(
        fmt::format("the weights of two passes sum to {} instead of {}", packed_sum, sum));
  }
}

/// Proves that both passes' registers have the same lists for each output, with the weights as products.
void prove_low_rank(const spec::StencilSpec& spec, const plan::KernelPlan& plan, const PackedKernel& packed) {
  for (int sum = 0; sum < std::ssize(plan.contraction.low_rank); ++sum) {
    prove_lists(plan::spec_of_sum(spec, sum), plan.op.steps, plan.contraction.low_rank[sum],
                prove_pass(plan.contraction, packed, sum, true),
                prove_pass(plan.contraction, packed, sum, false), 0x1p-24);
  }
}

/// Proves the same for a sum's lists in the code of a kernel on CUDA cores: they are numbers of the fields'
/// type, and their products are the plan's weights, without further taps. The spec has that sum alone.
void prove_core_lists(const spec::StencilSpec& spec, const plan::KernelPlan& plan, int sum) {
  const plan::LowRank& lists = plan.contraction.low_rank[sum];
  std::vector<ListWeights> along_y;
  std::vector<ListWeights> along_x;
  std::map<spec::Offset, double> found;
  const auto weights_from = [&](const std::vector<double>& list, int low) {
    ListWeights weights;
    for (int i = 0; i < std::ssize(list); ++i) {
      if (plan.weights.in_f32 && list[i] != static_cast<double>(static_cast<float>(list[i])))
        throw diag::InternalError(
            fmt::format("a list for CUDA cores has {}, which is no f32 number", list[i]));
      if (list[i] != 0) weights[low + i] = list[i];
    }
    return weights;
  };
  for (const plan::ListPair& pair : lists.pairs) {
    along_y.push_back(weights_from(pair.y.front(), lists.y_low));
    along_x.push_back(weights_from(pair.x.front(), lists.x_low));
    for (const auto& [dy, y_weight] : along_y.back()) {
      for (const auto& [dx, x_weight] : along_x.back()) found[{0, dy, dx}] += y_weight * x_weight;
    }
  }
  std::erase_if(found, [](const auto& tap) { return tap.second == 0; });
  std::map<spec::Offset, double> expected;
  for (const plan::RoundedTap& tap : plan.weights.taps) {
    if (tap.sum == sum) expected[tap.at] = tap.packed;
  }
  if (found != expected) throw diag::InternalError("the lists for CUDA cores are not the plan's weights");
  const double most_error = plan::most_product_error(spec.storage == spec::Storage::f64);
  for (const spec::Tap& tap : spec.taps) {
    if (lists.pairs.size() > 1) break;
    if (std::fabs(found[tap.at] - tap.weight) > most_error * std::fabs(tap.weight))
      throw diag::InternalError(
          fmt::format("the lists for CUDA cores make {} of the weight {}", found[tap.at], tap.weight));
  }
  prove_lists(spec, plan.op.steps, lists, along_y, along_x, 0x1p-23);
}

/// Proves that the registers of composed steps have weights that differ from those of all steps together by
/// no more than the plan says, and have the same sum.
void prove_composed(const spec::StencilSpec& spec, const plan::KernelPlan& plan, const PackedKernel& packed) {
  const plan::RoundedWeights& weights = plan.composition->weights;
  prove_products(plan::plan_of_composed(spec, plan), packed);
  for (const plan::RoundedTap& tap : weights.taps) {
    for (int axis = 0; axis < 3; ++axis) {
      if (-tap.at[axis] > plan.op.reach_low[axis] || tap.at[axis] > plan.op.reach_high[axis])
        throw diag::InternalError("composed steps have a weight that no steps reach");
    }
    if (tap.packed != weights.factor * std::ldexp(weights.total(tap.terms), -weights.exponent))
      throw diag::InternalError("a composed weight is not what its terms and the factor make");
  }
  const plan::ComposedSums sums = plan::compare_composed(plan::operator_of(spec, plan.op.steps), weights);
  if (sums.deviation > plan.composition->deviation || !sums.sums_agree()) {
    throw diag::InternalError(
        fmt::format("composed weights differ by {} from the exact ones, not {}, and sum to {} instead of {}",
                    sums.deviation, plan.composition->deviation, sums.packed_sum, sums.sum));
  }
}

/// Proves that each pass is its spec, and that the products of their weights are all weights, each within the
/// roundings of its factors.
void prove_passes(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  const double rounding = static_cast<double>(plan.passes.size()) * plan::pass_rounding(plan.weights);
  std::int64_t products = 1;
  for (const plan::PassPlan& pass : plan.passes) {
    products *= std::ssize(pass.plan.weights.taps);
    prove(pass.spec, pass.plan, pack(pass.plan));
  }
  if (products != spec::count_taps(spec))
    throw diag::InternalError("the passes have other taps than the spec");
  for (const spec::Tap& tap : spec.taps) {
    const double product = plan::packed_product(plan.passes, tap.at);
    if (std::fabs(product - tap.weight) <= rounding * std::fabs(tap.weight)) continue;
    throw diag::InternalError(fmt::format("tap (dz = {}, dy = {}, dx = {}): weight {} became {} in passes",
                                          tap.at[0], tap.at[1], tap.at[2], tap.weight, product));
  }
}

}  // namespace

void prove(const spec::StencilSpec& spec, const plan::KernelPlan& plan, const PackedKernel& packed) {
  if (!plan.passes.empty()) return prove_passes(spec, plan);
  if (plan.composition) {
    prove_packing(plan.contraction, packed);
    prove_composed(spec, plan, packed);
    prove_rounding(spec, plan.weights);
    return prove_cores(plan::plan_of_single_step(spec, plan));
  }
  if (plan.contraction.is_low_rank()) {
    prove_packing(plan.contraction, packed);
    if (plan.op.steps > 1) {
      prove_rounding(spec, plan.weights);
      prove_cores(plan);
    }
    return prove_low_rank(spec, plan, packed);
  }
  if (plan.contraction.is_list_adds()) {
    for (int sum = 0; sum < std::ssize(plan.contraction.low_rank); ++sum)
      prove_core_lists(plan::spec_of_sum(spec, sum), plan, sum);
    return;
  }
  prove_rounding(spec, plan.weights);
  if (!plan.contraction.on_tensor_cores()) return prove_cores(plan);
  prove_packing(plan.contraction, packed);
  prove_products(plan, packed);
}

}  // namespace spidergen::pack
