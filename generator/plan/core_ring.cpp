#include "plan/core_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "plan/column_reach.h"
#include "plan/core_taps.h"
#include "plan/machine.h"

namespace spidergen::plan {
namespace {

constexpr int warp_columns = 128;

// Addresses, strides, counters, copies and what the compiler needs besides.
constexpr int base_registers = 60;

// Of the multiprocessors that are meant for many blocks.
constexpr int most_multiprocessor_bytes = 160 * 1024;

// Multiply-adds of a step in the code: more do not fit the instruction cache. Those of one row a thread may
// be twice as many, which nvcc takes 12 s for: a table of taps would be slower still.
constexpr int most_step_products = 2048;
constexpr int most_step_products_of_row = 4096;

/// A block: warps side by side and one below the other, each with some rows; how many groups of planes are on
/// their way, of how many planes; and the registers that this leaves to a thread where a multiprocessor has
/// `blocks` such blocks.
struct Candidate {
  int rows_per_thread;
  int warps_across;
  int warps_down;
  int blocks;
  int groups_ahead;
  int planes_at_once;
  int registers;
};

// In the order of preference, as measured on an H200 at 768 x 768 x 768. Three rows a thread share the rows
// around them; more leave too few warps, or spill. Two-byte cells are waited for longer: with two planes
// between barriers stars of radius 1 and 2 and a box of radius 1 took 580, 619 and 711 us, with one plane
// 698, 726 and 789.
constexpr std::array<Candidate, 3> wide_candidates{
    {{3, 1, 12, 1, 3, 1, 168}, {2, 1, 8, 1, 3, 1, 255}, {1, 1, 8, 1, 3, 1, 255}}};
constexpr std::array<Candidate, 5> narrow_candidates{{{3, 2, 8, 1, 2, 2, 128},
                                                      {3, 2, 8, 1, 6, 1, 128},
                                                      {3, 1, 6, 2, 4, 1, 168},
                                                      {2, 1, 8, 1, 4, 1, 255},
                                                      {1, 1, 8, 1, 4, 1, 255}}};

// Multiply-adds of a thread between two barriers, where those are two planes.
constexpr int most_group_products = 1024;

int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

int round_up(int value, int unit) {
  return divide_up(value, unit) * unit;
}

int threads_of(const CoreRing& ring) {
  return ring.warps_across * ring.warps_down * threads_per_warp;
}

/// Rows of each plane in the ring.
int ring_rows(const CoreRing& ring, const std::vector<CoreTap>& taps) {
  return ring.warps_down * ring.rows_per_thread + range_of(taps, &CoreTap::row).count() - 1;
}

/// The taps are ascending in row, step and column.
std::vector<TapRow> tap_rows_of(const std::vector<CoreTap>& taps) {
  std::vector<TapRow> rows;
  for (const CoreTap& tap : taps) {
    if (rows.empty() || rows.back().dz != tap.step || rows.back().dy != tap.row)
      rows.push_back({tap.step, tap.row, tap.column, tap.column});
    rows.back().high = tap.column;
  }
  return rows;
}

/// Sums of all planes in flight, the inputs of a row, and the rest.
int estimate_registers(const std::vector<CoreTap>& taps, int rows_per_thread) {
  const TapRange planes = range_of(taps, &CoreTap::step);
  const TapRange columns = range_of(taps, &CoreTap::column);
  const int inputs = round_up(std::max(0, -columns.low), core_ring_outputs) +
                     round_up(std::max(0, columns.high), core_ring_outputs);
  return base_registers + planes.count() * rows_per_thread * core_ring_outputs + std::max(0, inputs - 8);
}

}  // namespace

SideVectors side_vectors(const std::vector<CoreTap>& taps, int element_bytes) {
  const TapRange columns = range_of(taps, &CoreTap::column);
  const int vector_cells = vector_bytes / element_bytes;
  return {round_up(std::max(0, -columns.low), vector_cells) / vector_cells,
          round_up(std::max(0, columns.high), vector_cells) / vector_cells};
}

int core_edge_columns(const std::vector<TapRow>& rows, int element_bytes) {
  return columns_across_edges(column_reach_of(rows), vector_bytes / element_bytes);
}

int core_row_bytes(const CoreRing& ring, const SideVectors& sides, int element_bytes) {
  return round_up(
      ring.warps_across * warp_columns * element_bytes + (sides.left + sides.right) * vector_bytes,
      line_bytes);
}

int core_lead_bytes(const SideVectors& sides) {
  return round_up(sides.left * vector_bytes, line_bytes);
}

int core_edge_words(const CoreRing& ring, const std::vector<CoreTap>& taps, int element_bytes) {
  const SideVectors sides = side_vectors(taps, element_bytes);
  const int rows = ring_rows(ring, taps);
  const int threads = threads_of(ring);
  const int own_vectors = ring.warps_across * warp_columns * element_bytes / vector_bytes;
  const int copies = divide_up(rows * (own_vectors + sides.left + sides.right), threads);
  const int elements = divide_up(
      rows * columns_across_edges(column_reach_of(tap_rows_of(taps)), vector_bytes / element_bytes), threads);
  return copies + elements + divide_up(elements, 2);
}

int core_ring_bytes(const CoreRing& ring, const std::vector<CoreTap>& taps, int element_bytes) {
  const SideVectors sides = side_vectors(taps, element_bytes);
  const int planes = ring.planes_at_once * (ring.groups_ahead + 1);
  const int bytes =
      core_lead_bytes(sides) + planes * ring_rows(ring, taps) * core_row_bytes(ring, sides, element_bytes);
  if (!ring.edges_in_memory) return bytes;
  return bytes +
         threads_of(ring) * round_up(core_edge_words(ring, taps, element_bytes) * word_bytes, vector_bytes);
}

int core_cells_loaded(const CoreRing& ring, const std::vector<CoreTap>& taps) {
  const TapRange rows = range_of(taps, &CoreTap::row);
  int cells = 0;
  for (int y = rows.low; y < rows.high + ring.rows_per_thread; ++y) {
    // The thread's rows 0 .. rows_per_thread - 1 meet input row y through taps of dy from y on downwards.
    std::set<int> vectors;
    for (const CoreTap& tap : taps) {
      if (tap.row > y || tap.row <= y - ring.rows_per_thread) continue;
      vectors.insert(floor_divide(tap.column, core_ring_outputs));
      vectors.insert(floor_divide(tap.column + core_ring_outputs - 1, core_ring_outputs));
    }
    cells += static_cast<int>(vectors.size()) * core_ring_outputs;
  }
  return cells;
}

namespace {

/// The ring of a candidate, if registers, code and shared memory suffice.
std::optional<CoreRing> try_candidate(const Candidate& candidate, const std::vector<CoreTap>& taps,
                                      int element_bytes) {
  const auto products = static_cast<int>(taps.size()) * candidate.rows_per_thread * core_ring_outputs;
  const int registers = estimate_registers(taps, candidate.rows_per_thread);
  const int most_products = candidate.rows_per_thread == 1 ? most_step_products_of_row : most_step_products;
  if (products > most_products || registers > candidate.registers) return std::nullopt;
  if (candidate.planes_at_once > 1 && products * candidate.planes_at_once > most_group_products)
    return std::nullopt;
  CoreRing ring;
  ring.rows_per_thread = candidate.rows_per_thread;
  ring.warps_across = candidate.warps_across;
  ring.warps_down = candidate.warps_down;
  ring.groups_ahead = candidate.groups_ahead;
  ring.planes_at_once = candidate.planes_at_once;
  ring.blocks_per_multiprocessor = candidate.blocks;
  ring.estimated_registers = registers;
  const auto fits = [&] {
    const int bytes = core_ring_bytes(ring, taps, element_bytes);
    return bytes <= least_block_shared_bytes && bytes * candidate.blocks <= most_multiprocessor_bytes;
  };
  // With two planes between barriers fewer groups were not measured; then rather one plane.
  while (ring.groups_ahead > 1 && ring.planes_at_once == 1 && !fits()) --ring.groups_ahead;
  if (!fits()) return std::nullopt;
  // Of two-byte cells the table would be read three times a plane: 933 us instead of 915 for a star of
  // radius 4.
  ring.edges_in_memory = element_bytes == word_bytes &&
                         registers + core_edge_words(ring, taps, element_bytes) > candidate.registers;
  if (!fits()) ring.edges_in_memory = false;
  return ring;
}

}  // namespace

std::optional<CoreRing> plan_core_ring(const spec::StencilSpec& spec, const std::vector<CoreTap>& taps) {
  if (spec.dimensions != 3) return std::nullopt;
  const int element_bytes = spec::element_bytes(spec.storage);
  const auto first_of = [&](const auto& candidates) -> std::optional<CoreRing> {
    for (const Candidate& candidate : candidates) {
      if (const auto ring = try_candidate(candidate, taps, element_bytes)) return ring;
    }
    return std::nullopt;
  };
  return element_bytes == 4 ? first_of(wide_candidates) : first_of(narrow_candidates);
}

std::string objection_to_core_ring(const std::vector<CoreTap>& taps) {
  const auto products = static_cast<int>(taps.size()) * core_ring_outputs;
  return products > most_step_products_of_row ? fmt::format("{} multiply-adds a step", products)
                                              : "a ring of planes that shared memory has no room for";
}

}  // namespace spidergen::plan
