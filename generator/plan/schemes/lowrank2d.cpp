#include "plan/schemes/lowrank2d.h"

#include <cmath>
#include <optional>
#include <utility>

#include "plan/low_rank.h"
#include "plan/weights.h"

namespace spidergen::plan {
namespace {

constexpr int registers_of_half = 2;  // of an operand of pass y: 16 columns by eight rows

/// What a lane holds all along: the weights of both passes, and what passes between them.
int held_registers(const Contraction& contraction, int tiles) {
  const LowRank& lists = contraction.low_rank;
  const auto pairs = static_cast<int>(lists.pairs.size());
  const int along_x = pairs * lists.chunks * lists.terms * registers_per_operand;
  const int along_y = divide_up(pairs * lists.groups(), 2) * lists.terms * 2;
  return along_x + along_y + pairs * lists.groups() * tiles * registers_of_half;
}

/// As the kernel's header lays a ring of rows out.
int shared_bytes_of(const LowRank& lists, const Lowrank2d& scheme) {
  constexpr int cell_bytes = 2;
  constexpr int line_cells = line_bytes / cell_bytes;
  const int columns = (line_cells + lists.first_column % line_cells) % line_cells +
                      (scheme.warps_per_block * scheme.tiles + lists.chunks - 1) * tile_columns;
  return scheme.ring_groups * group_rows * round_up(columns * cell_bytes, line_bytes);
}

/// The layout for so many tiles; nothing where registers do not hold it.
std::optional<Lowrank2d> fit(const Contraction& contraction, int tiles) {
  constexpr int base_registers = 36;
  // nvcc 13 for sm_90 took so many more than a lane holds: with fewer it spills.
  constexpr int headroom = 24;
  constexpr int most_warps = 16;  // of a multiprocessor
  Lowrank2d scheme;
  scheme.tiles = tiles;
  // Blocks of fewer warps wait for each other less, and fill a multiprocessor's wave better; narrow strips
  // read too many columns twice.
  scheme.warps_per_block = tiles == 4 ? 2 : 4;
  scheme.estimated_registers = held_registers(contraction, tiles) + base_registers + 4 * tiles;
  if (scheme.estimated_registers > largest_register_count) return std::nullopt;
  for (int warps = most_warps; warps > 0; warps -= 4) {
    const int registers = registers_per_multiprocessor / (warps * threads_per_warp) / 8 * 8;
    const bool fits =
        warps <= 8 || scheme.estimated_registers + (warps == most_warps ? headroom : 0) <= registers;
    if (!fits) continue;
    scheme.blocks_per_multiprocessor = warps / scheme.warps_per_block;
    break;
  }
  scheme.shared_bytes = shared_bytes_of(contraction.low_rank, scheme);
  return scheme;
}

/// Microseconds of a sweep over the reference field, fitted to times on an H200: (products, chunks, tiles)
/// (11, 3, 4) 128 to 133, (6, 3, 4) 124 to 129, (12, 3, 4) 137 to 141, (30, 4, 2) 384.
double estimate_us(const Contraction& contraction, const Lowrank2d& scheme) {
  constexpr double product_us = 5.9;
  constexpr double tile_us = 12;  // of a group of rows, what is no product
  constexpr double load_us = 14;  // of a chunk of inputs
  constexpr double memory_us = 118;
  constexpr double exponent = 3;     // how the two overlap
  constexpr double few_tiles = 1.7;  // products wait for those before them
  const double loads = static_cast<double>(scheme.tiles + contraction.low_rank.chunks - 1) / scheme.tiles;
  const double compute =
      (product_us * static_cast<double>(contraction.products.size()) + tile_us + load_us * loads) *
      (scheme.tiles < 4 ? few_tiles : 1);
  return std::pow(std::pow(memory_us, exponent) + std::pow(compute, exponent), 1 / exponent);
}

}  // namespace

bool Lowrank2d::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.is_low_rank() && problem.spec.dimensions == 2;
}

Offer<Lowrank2d> Lowrank2d::plan(const Problem& problem, const Contraction& contraction) {
  std::optional<Lowrank2d> best;
  for (const int tiles : {4, 2, 1}) {
    const std::optional<Lowrank2d> scheme = fit(contraction, tiles);
    if (scheme && (!best || estimate_us(contraction, *scheme) < estimate_us(contraction, *best)))
      best = scheme;
  }
  if (!best) return Offer<Lowrank2d>::none("two passes of so many lists find no room in registers");
  if (problem.op.steps > 1) {
    const Operator single = operator_of(problem.spec);
    const Problem of_one{problem.spec,
                         single,
                         Engine::cuda,
                         {},
                         false,
                         problem.tap_rows,
                         round_weights_to_f32(problem.spec).weights};
    Offer<Stepping2d> step = Stepping2d::plan(of_one, contraction);
    if (!step.objection.empty()) return Offer<Lowrank2d>::none(step.objection);
    best->single_step = std::move(step.scheme);
  }
  return {*best, estimate_us(contraction, *best), ""};
}

}  // namespace spidergen::plan
