#include "plan/schemes/banded_list.h"

#include <algorithm>
#include <cmath>

namespace spidergen::plan {
namespace {

constexpr int panel_side = 64;
constexpr int panel_bytes = panel_side * panel_side * 2;
constexpr int groups = panel_side / band_group;

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

/// Of both passes of Gaussians over 10240 x 10240 points on an H200, in us: f16, sigma 5, 17 and 40 (41, 137
/// and 321 taps) 649, 766 and 1220, where a copy takes 110; bf16 664, 867 and 1474.
double estimate_us(const Problem& problem, const BandedList& scheme) {
  constexpr double slower_than_copy = 2;
  constexpr double slower_than_units = 2;
  constexpr double exponent = 3;  // how the two overlap
  const int bytes =
      spec::element_bytes(problem.spec.storage) + spec::element_bytes(spec::output_of(problem.spec));
  const SweepBound bound = bound_reference(
      problem.spec.dimensions, {.bytes_per_point = static_cast<double>(bytes),
                                .mmas_per_128_points = static_cast<double>(
                                    scheme.chunks * (scheme.leading_products + scheme.remainder_products)),
                                .dense = true});
  return std::pow(std::pow(slower_than_copy * bound.memory_us, exponent) +
                      std::pow(slower_than_units * bound.tensor_us, exponent),
                  1 / exponent);
}

}  // namespace

bool BandedList::takes(const Problem& /*problem*/, const Contraction& contraction) {
  return contraction.is_banded_list();
}

Offer<BandedList> BandedList::plan(const Problem& problem, const Contraction& contraction) {
  // Cells of 32 bits on their way to shared memory take 16 registers more: with three blocks 80 bytes
  // spilled.
  constexpr int walk_of_windows = 2;  // a walk begins with a window of inputs that gives no outputs
  constexpr int shortest_walk = 8 * panel_side;
  const int input_terms = contraction.inputs.count;
  const int most_blocks = contraction.element_bytes == word_bytes ? 2 : 3;
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
  const int panels = divide_up(scheme.chunks + groups - 1, groups);
  scheme.shared_bytes = panels * input_terms * panel_bytes;
  if (scheme.shared_bytes > least_block_shared_bytes)
    return Offer<BandedList>::none("shared memory has no room for its rows");
  scheme.blocks_per_multiprocessor =
      std::min(most_blocks, shared_per_multiprocessor / (scheme.shared_bytes + reserved_per_block));
  constexpr int base_registers = 40;
  constexpr int of_sums = groups * 2 * registers_per_accumulator;
  constexpr int fetched_cells = panel_side * panel_side / 128;  // of a thread
  scheme.estimated_registers =
      base_registers + of_sums + groups * scheme.weight_terms * registers_per_operand +
      input_terms * registers_per_fragment + fetched_cells * contraction.element_bytes / word_bytes;
  scheme.walk = std::max(shortest_walk, walk_of_windows * panels * panel_side);
  return {scheme, estimate_us(problem, scheme), ""};
}

}  // namespace spidergen::plan
