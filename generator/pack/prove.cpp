#include "pack/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "diag/diagnostic.h"

namespace spidergen::pack {
namespace {

/// Scaled weight by offset: what one output sums up.
using TapSums = std::map<spec::Offset, double>;

void prove_packing(const plan::Pass& pass, const PackedPass& packed) {
  for (std::size_t i = 0; i < pass.operands.size(); ++i) {
    const plan::Operand& operand = pass.operands[i];
    if (unpack(packed, static_cast<int>(i)) != operand.matrix) {
      throw diag::InternalError(
          fmt::format("operand {} (window dz = {}, dy = {}, shift {}, term {}) is not recovered from its "
                      "registers",
                      i, operand.dz, operand.dy, operand.shift, operand.term));
    }
  }
}

/// What row m of the matrices adds to its output, product by product, as taps of that output.
TapSums expand_output(const plan::Pass& pass, const std::vector<plan::Matrix>& matrices, int m) {
  TapSums sums;
  for (const plan::Product& product : pass.products) {
    const plan::Matrix& matrix = matrices[product.operand];
    const plan::Source& source = pass.sources[product.source];
    const plan::Position& output = source.mapping.row_output[m];
    for (int k = 0; k < matrix.columns; ++k) {
      if (matrix.at(m, k) == 0) continue;
      const plan::Position& input = source.mapping.column_input[k];
      sums[{pass.plane_low + product.plane + input.z - output.z,
            pass.row_low + product.row + input.y - output.y, source.shift + input.x - output.x}] +=
          matrix.at(m, k);
    }
  }
  return sums;
}

TapSums expected_sums(const plan::RoundedWeights& weights) {
  TapSums sums;
  for (const plan::RoundedTap& tap : weights.taps) {
    sums[tap.at] = std::ldexp(tap.packed, weights.exponent);
  }
  return sums;
}

void prove_products(const plan::KernelPlan& plan, const plan::Pass& pass, const PackedPass& packed) {
  std::vector<plan::Matrix> matrices;
  for (std::size_t i = 0; i < packed.operands.size(); ++i)
    matrices.push_back(unpack(packed, static_cast<int>(i)));
  const TapSums expected = expected_sums(plan.weights);
  for (int m = 0; m < pass.mapping.rows(); ++m) {
    const TapSums found = expand_output(pass, matrices, m);
    if (found == expected) continue;
    for (const auto& [at, weight] : expected) {
      const auto tap = found.find(at);
      if (tap == found.end() || tap->second != weight) {
        throw diag::InternalError(
            fmt::format("output {} of a tile: tap (dz = {}, dy = {}, dx = {}) is {} instead of {}",
                        pass.mapping.row_output[m].x, at[spec::axis_z], at[spec::axis_y], at[spec::axis_x],
                        tap == found.end() ? 0.0 : tap->second, weight));
      }
    }
    throw diag::InternalError(
        fmt::format("output {} of a tile has taps that the spec has not", pass.mapping.row_output[m].x));
  }
}

/// One f16 term keeps 11 bits of each weight, two keep 21 of the largest.
void prove_rounding(const spec::StencilSpec& spec, const plan::RoundedWeights& weights) {
  if (spec.taps.size() != weights.taps.size())
    throw diag::InternalError("the plan's taps are not the spec's");
  double largest = 0;
  for (const spec::Tap& tap : spec.taps) largest = std::max(largest, std::fabs(tap.weight));
  // A single term may also fall among f16's subnormals, whose unit is 2^-24.
  const double subnormal_error = std::ldexp(1.0, -25 - weights.exponent);
  for (std::size_t i = 0; i < spec.taps.size(); ++i) {
    const spec::Tap& tap = spec.taps[i];
    const plan::RoundedTap& rounded = weights.taps[i];
    const double bound = weights.terms == 1
                             ? std::max(std::ldexp(std::fabs(tap.weight), -11), subnormal_error)
                             : std::ldexp(largest, -21);
    if (tap.at != rounded.at || !(std::fabs(tap.weight - rounded.packed) <= bound)) {
      throw diag::InternalError(fmt::format("tap (dz = {}, dy = {}, dx = {}): weight {} became {}", tap.at[0],
                                            tap.at[1], tap.at[2], tap.weight, rounded.packed));
    }
  }
}

}  // namespace

void prove(const spec::StencilSpec& spec, const plan::KernelPlan& plan, const PackedKernel& packed) {
  prove_rounding(spec, plan.weights);
  for (std::size_t i = 0; i < plan.passes.size(); ++i) {
    prove_packing(plan.passes[i], packed.passes[i]);
    prove_products(plan, plan.passes[i], packed.passes[i]);
  }
}

}  // namespace spidergen::pack
