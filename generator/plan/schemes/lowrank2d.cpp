#include "plan/schemes/lowrank2d.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/low_rank.h"
#include "plan/weights.h"

namespace spidergen::plan {
namespace {

constexpr int registers_of_sums = 8;  // of 16 columns by 16 rows

bool reads_input(const spec::StencilSpec& spec) {
  return spec.update && spec.update->uses(spec::UpdateOperation::input);
}

/// Groups of inputs behind that which completes outputs, where an update reads the input there.
int waiting_groups(const spec::StencilSpec& spec, const Contraction& contraction, const PassReach& reach) {
  return reads_input(spec) ? reach.row_chunks - 1 - -contraction.row_low / group_rows : 0;
}

/// What a lane holds all along: the weights of both passes, and the sums that are incomplete; of several sums
/// all but one of those that a group completes, too.
int lasting_registers(const Contraction& contraction, int tiles) {
  const std::vector<LowRank>& low_rank = contraction.low_rank;
  const PassReach reach = reach_of_passes(low_rank);
  int registers = (static_cast<int>(low_rank.size()) - 1) * tiles * registers_of_sums;
  for (const LowRank& lists : low_rank) {
    const auto pairs = static_cast<int>(lists.pairs.size());
    const bool waits = lists.first_row % group_rows != 0;
    registers += pairs * (lists.chunks + lists.row_chunks) * lists.terms * registers_per_operand +
                 (groups_in_flight(lists, reach) - 1) * tiles * registers_of_sums +
                 (waits ? pairs * tiles * 2 : 0);
  }
  return registers;
}

/// As the kernel's header lays out a ring of rows, and behind it what warps store.
int shared_bytes_of(const PassReach& reach, const Lowrank2d& scheme) {
  constexpr int cell_bytes = 2;
  constexpr int line_cells = line_bytes / cell_bytes;
  const int lead = (line_cells + reach.first_column % line_cells) % line_cells;
  const int columns = lead + (scheme.warps_per_block * scheme.tiles + reach.chunks - 1) * tile_columns;
  const int row_bytes = columns * cell_bytes + (lead == 0 ? word_bytes : 0);
  const int stored = scheme.warps_per_block * scheme.tiles * tile_columns * cell_bytes;
  return group_rows * (scheme.ring_groups * round_up(row_bytes, line_bytes) + stored) +
         word_bytes * scheme.warps_per_block;
}

/// The layout for so many tiles; nothing where registers do not hold it.
std::optional<Lowrank2d> fit(const Problem& problem, const Contraction& contraction, int tiles) {
  constexpr int base_registers = 36;
  // nvcc 13 for sm_90 took so many more than a lane holds, and as many as a tile's sums for each pair behind
  // the first: with fewer it spills, or products wait for each other. Of 32 steps of five points 8 warps take
  // 133 us, 12 without this room 157. What is spilled waits for the copies ahead of it: 16 steps of a star of
  // radius 2, of three pairs, took 155 us on an H100 with 8 warps, 188 with 12 that loaded seven words a
  // group.
  constexpr int headroom = 24;
  constexpr int most_warps = 12;  // of a multiprocessor
  constexpr int fewer_warps = 8;
  constexpr int registers = registers_per_multiprocessor / (most_warps * threads_per_warp) / 8 * 8;
  const PassReach reach = reach_of_passes(contraction.low_rank);
  Lowrank2d scheme;
  scheme.tiles = tiles;
  scheme.ring_groups += waiting_groups(problem.spec, contraction, reach);
  scheme.estimated_registers =
      lasting_registers(contraction, tiles) + base_registers + 4 * tiles + update_registers(problem.spec);
  if (scheme.estimated_registers > largest_register_count) return std::nullopt;
  std::size_t pairs = 1;
  for (const LowRank& lists : contraction.low_rank) pairs = std::max(pairs, lists.pairs.size());
  const int needed = scheme.estimated_registers + headroom + static_cast<int>(pairs - 1) * registers_of_sums;
  const int warps = needed <= registers ? most_warps : fewer_warps;
  scheme.shared_bytes = shared_bytes_of(reach, scheme);
  if (scheme.shared_bytes > least_block_shared_bytes) return std::nullopt;
  scheme.blocks_per_multiprocessor = std::min(
      warps / scheme.warps_per_block, shared_per_multiprocessor / (scheme.shared_bytes + reserved_per_block));
  // Short walks keep what runs at a time compact in memory, and many of them end together, where memory
  // serves some multiprocessors sooner than others: 32 binomial steps took 132 us by walks of a wave, 121 by
  // walks of 10 to 13, 125 by 8. Where lists reach farther and warps are few, too much is done for nothing:
  // 32 of five points 124 and 133. Where an update reads the input alone, which is at hand, an unsharp mask
  // took 122 us by walks of 9, 126 by 5, 7 or whole ones, and 124 by 13. All on an H200.
  constexpr int whole_walks = 0;
  const bool is_at_hand = reads_input(problem.spec) && further_bytes(problem.spec) == 0;
  if (reach.row_chunks <= 2) {
    scheme.preferred_groups = is_at_hand ? 9 : 5;
  } else {
    scheme.preferred_groups = reach.row_chunks == 3 && warps == most_warps ? 12 : whole_walks;
  }
  return scheme;
}

/// Microseconds of a sweep over the reference field, fitted to times on an H200: (products, chunks, tiles)
/// (8, 2, 4) 114, (6, 3, 4) 127, (12, 3, 4) 133, (18, 3, 4) 166; and with operands of eight rows (30, 4, 2)
/// 384. Products of several sums wait less: (20, 2, 2) and (20, 2, 1) of two 203 and 238, (16, 2, 4) 165,
/// (24, 2, 2) of three 238.
double estimate_us(const Contraction& contraction, const Lowrank2d& scheme) {
  constexpr double product_us = 5.2;
  constexpr double tile_us = 12;  // of a group of rows, what is no product
  constexpr double load_us = 14;  // of a chunk of inputs
  constexpr double memory_us = 112;
  constexpr double exponent = 3;     // how the two overlap
  constexpr double few_tiles = 1.7;  // products wait for those before them
  constexpr double crowded = 1.16;   // as they do where so many registers hold weights
  constexpr int many_registers = 180;
  constexpr double several_sums = 1.1;
  double others_us = 0;
  for (const LowRank& lists : contraction.low_rank)
    others_us += tile_us + load_us * (scheme.tiles + lists.chunks - 1) / scheme.tiles;
  const double waits =
      contraction.low_rank.size() > 1
          ? several_sums
          : (scheme.tiles < 4 ? few_tiles : 1) * (scheme.estimated_registers > many_registers ? crowded : 1);
  const double compute = (product_us * static_cast<double>(contraction.products.size()) + others_us) * waits;
  return std::pow(std::pow(memory_us, exponent) + std::pow(compute, exponent), 1 / exponent);
}

/// Cells along an axis from which hardly anything is taken from farther away, no fewer than lists reach.
struct CutReach {
  int cells;
  double left_out;  ///< on one side, in parts of the largest cell
};
CutReach find_cut_reach(const Problem& problem, int axis, int list_reach, double tolerated) {
  const int all = std::max(problem.op.reach_low[axis], problem.op.reach_high[axis]);
  for (int reach = list_reach; reach < all; ++reach) {
    const double taken = truncation_beyond(problem.spec, problem.op, axis, reach, tolerated);
    if (taken <= tolerated) return {reach, taken};
  }
  return {all, 0};
}

/// Lets rims end where lists are cut as well: as much as a tolerance leaves, or suits the storage.
void narrow_rims(const Problem& problem, const LowRank& lists, Lowrank2d& scheme) {
  const spec::StencilSpec& spec = problem.spec;
  const double suitable = spec.storage == spec::Storage::f16 ? 0x1p-14 : 0x1p-11;
  const double tolerated =
      lists.magnitude *
      (spec.tolerance ? std::clamp(*spec.tolerance - lists.deviation, 0.0, suitable) : suitable);
  // A cell beside rims has four faces, and takes other values from beyond each.
  constexpr int sides = 4;
  const CutReach rows =
      find_cut_reach(problem, spec::axis_y, std::max(-lists.y_low, lists.y_high()), tolerated / sides);
  const CutReach columns =
      find_cut_reach(problem, spec::axis_x, std::max(-lists.x_low, lists.x_high()), tolerated / sides);
  scheme.rim_steps->left_out = sides / 2 * (rows.left_out + columns.left_out);
  for (const auto& [axis, reach] : {std::pair(0, rows.cells), std::pair(1, columns.cells)}) {
    for (int& rim : scheme.rims[axis]) rim = std::min(rim, reach);
  }
}

/// How steps of the spec are taken one by one: single ones for what is left of a number of steps, and all
/// where faces do not commute, or fields are small. Else the objection.
std::string plan_faces(const Problem& problem, const LowRank& lists, Lowrank2d& scheme) {
  const spec::StencilSpec& spec = problem.spec;
  const Operator of_one = operator_of(spec);
  const Problem of_step{spec, of_one, Engine::cuda, problem.tap_rows, round_weights_to_f32(spec).weights};
  Offer<Stepping2d> single = Stepping2d::plan(of_step, {});
  if (!single.objection.empty()) return single.objection;
  scheme.single_step = std::move(single.scheme);
  scheme.rims = rims_of_passes(spec, problem.op);
  scheme.rim_steps = plan_rim_tiles(spec, problem.op.steps);
  if (scheme.rim_steps && scheme.rims != Rims{}) narrow_rims(problem, lists, scheme);
  scheme.least = least_beside(scheme.rims);
  scheme.added = added_by_constants(spec, problem.op);
  if (!scheme.added.is_moderate()) return "what constants beyond faces add grows beyond 2^100";
  for (const int axis : {spec::axis_y, spec::axis_x}) {
    int& least = scheme.least[axis - spec::axis_y];
    for (const spec::Face* face : {&spec.boundary[axis].low, &spec.boundary[axis].high}) {
      if (mirrors_two_cells(spec, *face, axis) && !commutes(spec, *face, axis)) least = std::max(least, 2);
    }
    if (scheme.added.near[axis] != std::array{0, 0})
      least = std::max(least, 2 * std::max(problem.op.reach_low[axis], problem.op.reach_high[axis]));
  }
  if (scheme.least == std::array{0, 0}) {
    scheme.rim_steps.reset();
    return "";
  }
  if (!scheme.rim_steps) return "so many steps at faces find no room in shared memory";
  scheme.rims_us = estimate_rims_us(*scheme.rim_steps, scheme.rims);
  return "";
}

}  // namespace

bool Lowrank2d::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.is_low_rank() && problem.spec.dimensions == 2;
}

Offer<Lowrank2d> Lowrank2d::plan(const Problem& problem, const Contraction& contraction) {
  std::optional<Lowrank2d> best;
  for (const int tiles : {4, 2, 1}) {
    const std::optional<Lowrank2d> scheme = fit(problem, contraction, tiles);
    if (scheme && (!best || estimate_us(contraction, *scheme) < estimate_us(contraction, *best)))
      best = scheme;
  }
  if (!best)
    return Offer<Lowrank2d>::none("two passes of so many lists find no room in registers and shared memory");
  if (problem.op.steps > 1) {
    if (std::string objection = plan_faces(problem, contraction.low_rank.front(), *best); !objection.empty())
      return Offer<Lowrank2d>::none(std::move(objection));
  }
  return {*best, estimate_us(contraction, *best) + best->rims_us, ""};
}

}  // namespace spidergen::plan
