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

namespace spidergen::pack {
namespace {

/// Scaled weight by offset and term of the input: what one output sums up.
using TapSums = std::map<std::pair<spec::Offset, int>, double>;

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

/// How many outputs of a tile differ in how they come about: a row of the matrices each. Of bands, the
/// columns of a unit, of which every second one is in the same row along y as the one 16 before it.
int distinct_outputs(const plan::Contraction& contraction) {
  return contraction.is_bands() ? plan::band_unit_columns : contraction.mapping.rows();
}

/// The row of a source's matrices that is output m, if any.
std::optional<int> row_of_output(const plan::Contraction& contraction, const plan::Source& source, int m) {
  if (!contraction.is_bands()) return m;
  if (source.along_y) return m % source.mapping.rows();
  const auto& outputs = source.mapping.row_output;
  const auto row = std::find_if(outputs.begin(), outputs.end(),
                                [m](const plan::Position& output) { return output.x == m; });
  if (row == outputs.end()) return std::nullopt;
  return static_cast<int>(row - outputs.begin());
}

/// Where output m is in its tile, for messages.
int output_name(const plan::Contraction& contraction, int m) {
  return contraction.is_bands() ? m : contraction.mapping.row_output[m].x;
}

/// What row m of the matrices adds to its output, product by product, as taps of that output.
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
      sums[{at, product.input_term}] += std::ldexp(matrix.at(*row, k), exponent);
    }
  }
  return sums;
}

/// Leading terms of inputs meet the whole weight, their remainders its leading term.
TapSums expected_sums(const plan::RoundedWeights& weights, const plan::InputTerms& inputs) {
  TapSums sums;
  for (const plan::RoundedTap& tap : weights.taps) {
    sums[{tap.at, 0}] = weights.total(tap.terms);
    if (inputs.count == 2 && tap.terms.front() != 0) sums[{tap.at, 1}] = tap.terms.front();
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
        const auto& [offset, input_term] = at;
        throw diag::InternalError(
            fmt::format("output {} of a tile: tap (dz = {}, dy = {}, dx = {}) is {} instead of {} in term {} "
                        "of the input",
                        output_name(contraction, m), offset[spec::axis_z], offset[spec::axis_y],
                        offset[spec::axis_x], tap == found.end() ? 0.0 : tap->second, weight, input_term));
      }
    }
    throw diag::InternalError(
        fmt::format("output {} of a tile has taps that the spec has not", output_name(contraction, m)));
  }
}

/// How far a packed weight may be from the spec's. One term keeps the digits of its type; more keep 21 of the
/// largest weight for 16-bit fields, and 22 of each for f32 ones, whose remainders end at 2^-36; f32 numbers,
/// and exact shares of a factor, which is one, 23 of each.
double rounding_bound(const spec::StencilSpec& spec, const plan::RoundedWeights& weights, double weight,
                      double largest) {
  const double smallest =
      weights.factor * std::ldexp(plan::smallest_value(weights.type), -weights.exponent) / 2;
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
  double largest = 0;
  for (const spec::Tap& tap : taps) largest = std::max(largest, std::fabs(tap.weight));
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const spec::Tap& tap = taps[i];
    const plan::RoundedTap& rounded = weights.taps[i];
    const double identity = weights.adds_identity && tap.at == spec::Offset{} ? 1 : 0;
    const double bound = rounding_bound(spec, weights, tap.weight - identity, largest);
    const double packed =
        identity + weights.factor * std::ldexp(weights.total(rounded.terms), -weights.exponent);
    if (tap.at != rounded.at || packed != rounded.packed || !(std::fabs(tap.weight - packed) <= bound)) {
      throw diag::InternalError(fmt::format("tap (dz = {}, dy = {}, dx = {}): weight {} became {}", tap.at[0],
                                            tap.at[1], tap.at[2], tap.weight, rounded.packed));
    }
  }
}

/// The taps in the code of a kernel on CUDA cores are the plan's.
void prove_cores(const plan::KernelPlan& plan) {
  const plan::CoreAxes axes = plan::core_axes(plan.dimensions);
  std::map<spec::Offset, double> found;
  for (const plan::CoreTap& tap : plan.contraction.taps) {
    spec::Offset at{};
    at[axes.step] = tap.step;
    at[axes.row] = tap.row;
    at[spec::axis_x] = tap.column;
    found[at] += tap.weight;
  }
  std::map<spec::Offset, double> expected;
  for (const plan::RoundedTap& tap : plan.weights.taps) expected[tap.at] = tap.packed;
  if (found != expected) throw diag::InternalError("the taps for CUDA cores are not the plan's");
  // The tables of a generated file cut this list into rows.
  const auto place = [](const plan::CoreTap& tap) { return std::tuple(tap.row, tap.step, tap.column); };
  const auto misplaced =
      std::adjacent_find(plan.contraction.taps.begin(), plan.contraction.taps.end(),
                         [&](const auto& a, const auto& b) { return place(a) >= place(b); });
  if (misplaced != plan.contraction.taps.end()) {
    throw diag::InternalError("the taps for CUDA cores do not ascend in row, step and column");
  }
}

}  // namespace

void prove(const spec::StencilSpec& spec, const plan::KernelPlan& plan, const PackedKernel& packed) {
  prove_rounding(spec, plan.weights);
  if (!plan.contraction.on_tensor_cores()) return prove_cores(plan);
  prove_packing(plan.contraction, packed);
  prove_products(plan, packed);
}

}  // namespace spidergen::pack
