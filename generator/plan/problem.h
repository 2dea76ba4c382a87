#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plan/contraction.h"
#include "plan/engine.h"
#include "plan/machine.h"
#include "plan/operator.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// The input of schemes.
struct Problem {
  const spec::StencilSpec& spec;
  const Operator& op;
  Engine engine = Engine::sparse;
  std::vector<TapRow> tap_rows;  ///< ascending in (dz, dy)
  RoundedWeights weights;
};

/// A scheme's answer: its layout of a contraction and the time of a sweep over the reference field
/// (plan/machine.h) on an H200, or why it does not support the contraction, in a user's words.
template <class Scheme>
struct Offer {
  Scheme scheme;
  double microseconds = 0;
  std::string objection;  ///< empty where it supports it
  bool measured = true;   ///< the estimate is fitted to measured times; others are a last resort

  static Offer none(std::string why) { return {{}, 0, std::move(why)}; }
};

/// The layout of a scheme with the smallest estimate, in microseconds of such a sweep.
template <class Scheme>
struct Choice {
  Scheme scheme;
  double microseconds = 0;
};

// Common to the schemes on tensor cores.
inline constexpr int tile_outputs = 128;  ///< of a product
inline constexpr int registers_per_operand = 4;
inline constexpr int registers_per_accumulator = 4;
inline constexpr int registers_per_fragment = 4;
inline constexpr int operand_bytes = 512;

// Common to the schemes on CUDA cores: outputs of a thread along x in 3D, at most a vector, and the most
// multiply-adds for them in the code.
constexpr int core_row_outputs(int element_bytes) {
  return std::min(4, vector_bytes / element_bytes);
}
inline constexpr int most_core_row_products = 4096;

constexpr int divide_up(int a, int b) {
  return (a + b - 1) / b;
}
constexpr int round_up(int value, int unit) {
  return divide_up(value, unit) * unit;
}
/// a / b rounded down, for b > 0: columns before the first one are negative.
constexpr int floor_divide(int a, int b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// The tap rows of contractions, ascending in (dz, dy).
[[nodiscard]] std::vector<TapRow> tap_rows_of(const Operator& op);

/// Bytes that an update reads at a point, besides the input.
[[nodiscard]] int further_bytes(const spec::StencilSpec& spec);

/// Registers of a thread for the spec's update, besides those of its sum; 0 where there is none.
[[nodiscard]] int update_registers(const spec::StencilSpec& spec);

/// How many of `blocks` blocks of `threads` threads fit a multiprocessor's registers where each thread needs
/// update_registers in addition to its own.
[[nodiscard]] int blocks_beside_update(const spec::StencilSpec& spec, int blocks, int threads);

/// Do this many products for each tile and row take no longer than the tile's memory traffic?
[[nodiscard]] bool hides_behind_memory(int products, const InputTerms& inputs);

/// In 2D: fragments of a tile and an input row.
[[nodiscard]] int fragments_of(const Contraction& contraction);

/// In 2D: vectors of 16 bytes in an input row of `tiles` adjacent tiles whose first input begins a vector;
/// and in one that starts at first_column().
[[nodiscard]] int strip_vectors(const Contraction& contraction, int tiles);
[[nodiscard]] int vectors_across(const Contraction& contraction, int tiles);

/// Registers of a number in the compute type of CUDA cores: f32, or f64 for f64 fields.
[[nodiscard]] int number_words(const Contraction& contraction);

/// The multiply-adds of a point, in units of f32: f64 has half the units.
[[nodiscard]] double core_work(const Contraction& contraction);

/// The least time of CUDA cores for a sweep over the 2D reference field. Tiles of f32 took 209 us for a box
/// of radius 1, 216 for radius 2, 223 for a star of radius 4, a copy 197. Tiles of f64 took 403 for a star of
/// radius 1, 638 for a box of radius 3, 926 for one of radius 4, a copy 395.
[[nodiscard]] double core_tile_us(const Contraction& contraction);

/// Orders the taps as a kernel on CUDA cores adds them.
[[nodiscard]] Contraction contract_taps(const Problem& problem);

}  // namespace spidergen::plan
