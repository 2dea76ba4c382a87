#include "plan/schemes/cores3d.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace spidergen::plan {
namespace {

int warp_columns(const Contraction& contraction) {
  return threads_per_warp * core_row_outputs(contraction.element_bytes);
}

// Addresses, strides, counters, copies and the compiler's temporaries.
constexpr int base_registers = 60;

// For multiprocessors with many blocks.
constexpr int most_multiprocessor_bytes = 160 * 1024;

// Most unrolled multiply-adds of a step: more overflow the instruction cache. One row a thread may have twice
// as many, which nvcc compiles in 12 s: a table of taps would be even slower.
constexpr int most_step_products = 2048;

/// A block: warps across and down, each with some rows; groups of planes in flight and planes in a group; and
/// the registers that this leaves to a thread where a multiprocessor has `blocks` such blocks.
struct Block {
  int rows_per_thread;
  int warps_across;
  int warps_down;
  int blocks;
  int groups_ahead;
  int planes_at_once;
  int registers;
};

// In order of preference, measured on an H200 at 768 x 768 x 768. Three rows a thread share the rows around
// them; more leave too few warps, or spill. Two-byte cells have longer waits: with two planes between
// barriers, stars of radius 1 and 2 and a box of radius 1 took 580, 619 and 711 us, with one plane 698, 726
// and 789.
constexpr std::array<Block, 3> wide_blocks{
    {{3, 1, 12, 1, 3, 1, 168}, {2, 1, 8, 1, 3, 1, 255}, {1, 1, 8, 1, 3, 1, 255}}};
constexpr std::array<Block, 5> narrow_blocks{{{3, 2, 8, 1, 2, 2, 128},
                                              {3, 2, 8, 1, 6, 1, 128},
                                              {3, 1, 6, 2, 4, 1, 168},
                                              {2, 1, 8, 1, 4, 1, 255},
                                              {1, 1, 8, 1, 4, 1, 255}}};

// For taps in three planes, blocks twice as wide, in short walks: a star of radius 1 took 1882 us in f64
// instead of 1903, and 953 in f32 instead of 967; one of radius 2 in f32 took 999 instead of 972.
constexpr Block short_block{3, 2, 8, 1, 2, 1, 128};
constexpr int most_planes_of_short = 3;
constexpr int short_steps = 6;

// With an update, whose inputs wait in registers for a step, fewer rows: acoustic3d on an H200 spilled with
// three rows and took 3932 us, with two 2219, with one 2343. One more plane in flight takes 2280: it evicts
// inputs from the L2 cache before they are read again.
constexpr std::array<Block, 3> update_blocks{
    {{2, 1, 12, 1, 2, 1, 168}, {1, 1, 16, 1, 2, 1, 128}, {1, 1, 8, 1, 2, 1, 255}}};
constexpr std::array<Block, 3> narrow_update_blocks{
    {{2, 1, 12, 1, 4, 1, 168}, {1, 1, 16, 1, 4, 1, 128}, {1, 1, 8, 1, 4, 1, 255}}};

// Multiply-adds of a thread between two barriers that are two planes apart.
constexpr int most_group_products = 1024;

// Relative to the lower bound from memory or multiply-adds, as for the MMAs of plan/schemes/stream3d.cpp: in
// f16 580 us for a star of radius 1 and 903 for one of radius 4; memory alone takes 442.
constexpr double slower_than_floor = 1.2;
constexpr int measured_rows = 3;

int threads_of(const Cores3d& ring) {
  return ring.warps_per_block() * threads_per_warp;
}

/// Rows of each plane in the ring buffer.
int ring_rows(const Cores3d& ring, const Contraction& contraction) {
  return ring.warps_down * ring.rows_per_thread + range_of(contraction.taps, &CoreTap::row).count() - 1;
}

/// Sums of all planes in flight, the inputs of a row, and the base registers.
int estimate_registers(const Contraction& contraction, int rows_per_thread) {
  const TapRange columns = range_of(contraction.taps, &CoreTap::column);
  const int outputs = core_row_outputs(contraction.element_bytes);
  const int words = number_words(contraction);
  const int inputs =
      round_up(std::max(0, -columns.low), outputs) + round_up(std::max(0, columns.high), outputs);
  return base_registers + sums_in_flight(contraction.taps) * rows_per_thread * outputs * words +
         words * std::max(0, inputs - 8);
}

/// The ring buffer of a block, if registers, code and shared memory suffice.
std::optional<Cores3d> try_block(const Block& block, const Contraction& contraction, int update_words) {
  const auto products = static_cast<int>(contraction.taps.size()) * block.rows_per_thread *
                        core_row_outputs(contraction.element_bytes);
  const int registers =
      estimate_registers(contraction, block.rows_per_thread) + block.rows_per_thread * update_words;
  const int most_products = block.rows_per_thread == 1 ? most_core_row_products : most_step_products;
  if (products > most_products || registers > block.registers) return std::nullopt;
  if (block.planes_at_once > 1 && products * block.planes_at_once > most_group_products) return std::nullopt;
  const int element_bytes = contraction.element_bytes;
  const TapRange columns = range_of(contraction.taps, &CoreTap::column);
  const int vector_cells = vector_bytes / element_bytes;
  Cores3d ring;
  ring.row_outputs = core_row_outputs(element_bytes);
  ring.rows_per_thread = block.rows_per_thread;
  ring.warps_across = block.warps_across;
  ring.warps_down = block.warps_down;
  ring.groups_ahead = block.groups_ahead;
  ring.planes_at_once = block.planes_at_once;
  ring.left_vectors = divide_up(std::max(0, -columns.low), vector_cells);
  ring.right_vectors = divide_up(std::max(0, columns.high), vector_cells);
  ring.row_bytes = round_up(ring.warps_across * warp_columns(contraction) * element_bytes +
                                (ring.left_vectors + ring.right_vectors) * vector_bytes,
                            line_bytes);
  ring.lead_bytes = round_up(ring.left_vectors * vector_bytes, line_bytes);
  ring.blocks_per_multiprocessor = block.blocks;
  ring.estimated_registers = registers;
  const auto fits = [&] {
    const int bytes = core_ring_bytes(ring, contraction);
    return bytes <= least_block_shared_bytes && bytes * block.blocks <= most_multiprocessor_bytes;
  };
  // With two planes between barriers, fewer groups were not measured; one plane is taken instead.
  while (ring.groups_ahead > 1 && ring.planes_at_once == 1 && !fits()) --ring.groups_ahead;
  if (!fits()) return std::nullopt;
  // With two-byte cells the table would be read three times a plane: 933 us instead of 915 for a star of
  // radius 4.
  ring.edges_in_memory =
      element_bytes >= word_bytes &&
      (update_words > 0 || registers + core_edge_words(ring, contraction) > block.registers);
  if (!fits()) ring.edges_in_memory = false;
  // Long enough that the planes before the first outputs are negligible, short enough that blocks stay close.
  ring.preferred_steps = 8 * std::max(2, range_of(contraction.taps, &CoreTap::step).count() - 1);
  ring.cells_loaded = core_cells_loaded(ring.rows_per_thread, contraction);
  ring.shared_bytes = core_ring_bytes(ring, contraction);
  return ring;
}

/// Adds the form with points in shared memory, if there is room. acoustic3d takes 1820 us with it and 2105
/// without, because the input is not read from memory again; in f16 1190 and 1560.
void try_keeping_points(Cores3d& ring, const Problem& problem, const Contraction& contraction) {
  const bool reads_input = problem.spec.update->uses(spec::UpdateOperation::input);
  const auto is_center = [](const CoreTap& tap) { return tap.step == 0 && tap.row == 0 && tap.column == 0; };
  // The ring has no cells that no tap reaches.
  if (reads_input && std::ranges::none_of(contraction.taps, is_center)) return;
  if (ring.planes_at_once > 1) return;
  const TapRange planes = range_of(contraction.taps, &CoreTap::step);
  const int points = ring.warps_across * warp_columns(contraction) * ring.warps_down * ring.rows_per_thread;
  Cores3d kept = ring;
  kept.groups_ahead = std::min(ring.groups_ahead, planes.count() - 1);
  for (; kept.groups_ahead > 0; --kept.groups_ahead) {
    kept.shared_bytes = core_ring_bytes(kept, contraction) +
                        (reads_input ? planes.high : 0) * ring_rows(kept, contraction) * kept.row_bytes +
                        (kept.groups_ahead + 1) * points * further_bytes(problem.spec);
    if (kept.shared_bytes > shared_per_multiprocessor - reserved_per_block) continue;
    ring.kept_groups_ahead = kept.groups_ahead;
    ring.kept_shared_bytes = kept.shared_bytes;
    return;
  }
}

template <class Blocks>
std::optional<Cores3d> first_that_fits(const Blocks& blocks, const Contraction& contraction,
                                       int update_words) {
  for (const Block& block : blocks) {
    if (const auto ring = try_block(block, contraction, update_words)) return ring;
  }
  return std::nullopt;
}

/// Least times of sweeps of two-byte cells: 580, 619, 741, 711 and 1479 us for 7, 13, 25, 27 and 63 taps.
/// With an update, in addition to its reads, 758, 770, 902, 1368 and 2398 for 6, 7, 27, 54 and 125.
double narrow_us(const Contraction& contraction, bool updates) {
  const auto taps = static_cast<double>(contraction.taps.size());
  return std::max((updates ? 720 : 540) + 6.5 * taps, 23.5 * taps);
}

std::optional<Cores3d> choose_block(const Problem& problem, const Contraction& contraction) {
  const bool is_wide = contraction.element_bytes >= word_bytes;
  if (!problem.spec.update) {
    if (is_wide && range_of(contraction.taps, &CoreTap::step).count() <= most_planes_of_short) {
      if (std::optional<Cores3d> ring = try_block(short_block, contraction, 0)) {
        ring->preferred_steps = short_steps;
        return ring;
      }
    }
    return is_wide ? first_that_fits(wide_blocks, contraction, 0)
                   : first_that_fits(narrow_blocks, contraction, 0);
  }
  const bool reads_input = problem.spec.update->uses(spec::UpdateOperation::input);
  const int bytes = further_bytes(problem.spec) + (reads_input ? contraction.element_bytes : 0);
  const int words = divide_up(bytes * core_row_outputs(contraction.element_bytes), word_bytes);
  std::optional<Cores3d> ring =
      first_that_fits(is_wide ? update_blocks : narrow_update_blocks, contraction, words);
  if (ring) try_keeping_points(*ring, problem, contraction);
  return ring;
}

}  // namespace

int core_edge_words(const Cores3d& ring, const Contraction& contraction) {
  const int rows = ring_rows(ring, contraction);
  const int threads = threads_of(ring);
  const int own_vectors =
      ring.warps_across * warp_columns(contraction) * contraction.element_bytes / vector_bytes;
  const int copies = divide_up(rows * (own_vectors + ring.left_vectors + ring.right_vectors), threads);
  const int edge_columns =
      columns_across_edges(contraction.column_reach, vector_bytes / contraction.element_bytes);
  const int elements = divide_up(rows * edge_columns, threads);
  return copies + elements + divide_up(elements, 2);
}

int core_ring_bytes(const Cores3d& ring, const Contraction& contraction) {
  const int planes = ring.planes_at_once * (ring.groups_ahead + 1);
  const int bytes = ring.lead_bytes + planes * ring_rows(ring, contraction) * ring.row_bytes;
  if (!ring.edges_in_memory) return bytes;
  return bytes + threads_of(ring) * round_up(core_edge_words(ring, contraction) * word_bytes, vector_bytes);
}

int core_cells_loaded(int rows_per_thread, const Contraction& contraction) {
  const std::vector<CoreTap>& taps = contraction.taps;
  const int outputs = core_row_outputs(contraction.element_bytes);
  const TapRange rows = range_of(taps, &CoreTap::row);
  int cells = 0;
  for (int y = rows.low; y < rows.high + rows_per_thread; ++y) {
    // The thread's rows 0 .. rows_per_thread - 1 use input row y through taps with dy = y, y - 1, ...
    std::set<int> vectors;
    for (const CoreTap& tap : taps) {
      if (tap.row > y || tap.row <= y - rows_per_thread) continue;
      vectors.insert(floor_divide(tap.column, outputs));
      vectors.insert(floor_divide(tap.column + outputs - 1, outputs));
    }
    cells += static_cast<int>(vectors.size()) * outputs;
  }
  return cells;
}

bool Cores3d::takes(const Problem& problem, const Contraction& contraction) {
  return !contraction.on_tensor_cores() && problem.spec.dimensions == 3;
}

Offer<Cores3d> Cores3d::plan(const Problem& problem, const Contraction& contraction) {
  const std::optional<Cores3d> ring = choose_block(problem, contraction);
  if (!ring) return Offer<Cores3d>::none("registers, code or shared memory have no room for it");
  const SweepBound bound =
      bound_reference(problem.spec.dimensions, {.bytes_per_point = 2.0 * contraction.element_bytes,
                                                .core_products_per_point = core_work(contraction)});
  const bool updates = problem.spec.update.has_value();
  const double least_us = contraction.element_bytes < word_bytes ? narrow_us(contraction, updates) : 0;
  const bool is_measured = ring->rows_per_thread >= measured_rows || updates;
  // With one row a thread, few warps and bytes are in flight: 33 taps along z took 2.0 times as long.
  constexpr double of_single_rows = 2;
  const bool has_single_rows = !updates && ring->rows_per_thread == 1;
  const double us = slower_than_floor * bound.floor_us() * (has_single_rows ? of_single_rows : 1);
  return {*ring, std::max(us, least_us), "", is_measured};
}

}  // namespace spidergen::plan
