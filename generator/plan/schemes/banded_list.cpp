#include "plan/schemes/banded_list.h"

#include <algorithm>
#include <cmath>

namespace spidergen::plan {
namespace {

constexpr int panel_side = 64;
constexpr int groups = panel_side / band_group;
constexpr int warps = 4;

/// The axis along which taps lie.
int axis_of(const Operator& op) {
  for (const int axis : {spec::axis_z, spec::axis_y}) {
    const auto a = static_cast<std::size_t>(axis);
    if (op.reach_low[a] != 0 || op.reach_high[a] != 0) return axis;
  }
  return spec::axis_x;
}

/// Which products there are, by the terms of weights and inputs: those of both remainders are left out.
void set_products(const RoundedWeights& weights, int input_terms, BandedList& scheme) {
  scheme.leading_products = scheme.weight_terms = weights.terms;
  if (input_terms == 1) return;
  if (weights.type == OperandType::f16) {
    scheme.remainder_scale = std::ldexp(1.0, band_remainder_digits);
    scheme.remainder_weight = scheme.weight_terms++;
    scheme.remainder_products = 1;
  } else {
    scheme.remainder_products = std::min(weights.terms, 2);
  }
}

/// Of both passes of Gaussians on an H200, in us: f16, 10240 x 10240 points, sigma 17 and 40 (137 and 321
/// taps) 668 and 1010, where a copy takes 102; bf16, sigma 17, 779; f32, 4096 x 4096 points, sigma 20 and 100
/// (161 and 801 taps) 249 and 854, where a copy takes 35.
double estimate_us(const Problem& problem, int input_terms, const BandedList& scheme) {
  constexpr double slower_than_copy = 2;
  constexpr double slower_than_units = 2;
  constexpr double exponent = 3;  // how the two overlap
  const int bytes =
      spec::element_bytes(problem.spec.storage) + spec::element_bytes(spec::output_of(problem.spec));
  const SweepBound bound = bound_reference(
      problem.spec.dimensions,
      {.bytes_per_point = static_cast<double>(bytes),
       .mmas_per_128_points = static_cast<double>(scheme.chunks * scheme.products_of_chunk(input_terms)),
       .dense = true});
  return std::pow(std::pow(slower_than_copy * bound.memory_us, exponent) +
                      std::pow(slower_than_units * bound.tensor_us, exponent),
                  1 / exponent);
}

/// Three terms have three sets of sums: of a panel, of remainders, and of all.
void set_registers(int input_terms, BandedList& scheme) {
  constexpr int base_registers = 48;
  constexpr int of_sums = groups * 2 * registers_per_accumulator;
  scheme.estimated_registers = base_registers + of_sums * (input_terms == 3 ? 3 : 1) +
                               groups * scheme.weight_terms * registers_per_operand +
                               input_terms * registers_per_fragment;
}

/// As many lines as leave room for as many blocks as registers do, or for one; false where none do.
bool take_lines(int input_terms, BandedList& scheme) {
  constexpr int walk = 512;
  const int cell_bytes = input_terms == 1 ? 2 : word_bytes;
  const int panels = divide_up(scheme.chunks + groups - 1, groups);
  // Along y cells of two terms spill up to 24 bytes with three blocks; two were not timed.
  const int most_blocks = input_terms == 3 ? 2 : 3;
  for (const int least_blocks : {most_blocks, 1}) {
    for (int line_warps = warps; line_warps > 0; line_warps /= 2) {
      const int output_warps = warps / line_warps;
      const int slots = panels + 2 * output_warps - 1;
      scheme.line_warps = line_warps;
      scheme.shared_bytes = slots * panel_side * band_group * line_warps * cell_bytes;
      const int blocks = shared_per_multiprocessor / (scheme.shared_bytes + reserved_per_block);
      if (scheme.shared_bytes > least_block_shared_bytes || blocks < least_blocks) continue;
      scheme.blocks_per_multiprocessor = std::min(blocks, most_blocks);
      scheme.walk = walk;
      return true;
    }
  }
  return false;
}

}  // namespace

bool BandedList::takes(const Problem& /*problem*/, const Contraction& contraction) {
  return contraction.is_banded_list();
}

Offer<BandedList> BandedList::plan(const Problem& problem, const Contraction& contraction) {
  const int input_terms = contraction.inputs.count;
  BandedList scheme;
  scheme.axis = axis_of(problem.op);
  const auto [first, last] = std::minmax_element(
      problem.spec.taps.begin(), problem.spec.taps.end(), [&](const auto& a, const auto& b) {
        return a.at[static_cast<std::size_t>(scheme.axis)] < b.at[static_cast<std::size_t>(scheme.axis)];
      });
  scheme.first_tap = first->at[static_cast<std::size_t>(scheme.axis)];
  scheme.last_tap = last->at[static_cast<std::size_t>(scheme.axis)];
  // Along x panels begin with whole vectors.
  scheme.low = scheme.axis == spec::axis_x
                   ? floor_divide(scheme.first_tap, inputs_per_group) * inputs_per_group
                   : scheme.first_tap;
  scheme.chunks = divide_up(scheme.last_tap - scheme.low + band_group, band_group);
  set_products(problem.weights, input_terms, scheme);
  set_registers(input_terms, scheme);
  if (!take_lines(input_terms, scheme))
    return Offer<BandedList>::none("shared memory has no room for its rows");
  return {scheme, estimate_us(problem, input_terms, scheme), ""};
}

}  // namespace spidergen::plan
