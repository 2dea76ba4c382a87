#include "plan/schemes/stream1d.h"

namespace spidergen::plan {
namespace {

// The compiler's registers with all loads of a shift in flight, measured with nvcc 13 for sm_80 and sm_90.
// Sums reuse the registers of fragments.
constexpr int base_registers = 16;
constexpr int registers_per_loaded_operand = 8;  // with its address
constexpr int register_unit = 8;                 // allocation unit

// A lane loads overlapping fragments separately; with more shifts these are too many loads.
constexpr std::size_t most_direct_shifts = 2;

// With more, operands are loaded from the cache when they are needed, for several tiles each.
constexpr int most_registers = 128;
constexpr int shifts_at_once = 4;
constexpr int most_blocks = 12;
// Boundary rules at the ends of a field need registers: with 12 blocks, heat1d took 102.8, 12.2 and 2.5 us
// for 104857600, 10240000 and 10240 points instead of 101.9, 12.1 and 2.2 on an H200.
constexpr int most_blocks_with_rules = 10;

// Relative to the lower bound of its products.
constexpr double slower_than_products = 1.1;

}  // namespace

bool Stream1d::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.grouping == Grouping::windows && problem.spec.dimensions < 3;
}

Offer<Stream1d> Stream1d::plan(const Problem& problem, const Contraction& contraction) {
  if (contraction.row_low != 0 || contraction.row_high != 0)
    return Offer<Stream1d>::none("for taps in one row");
  if (problem.engine != Engine::sparse || contraction.element_bytes != 2)
    return Offer<Stream1d>::none("for sparse products of 16-bit fields");
  const spec::AxisBoundary& boundary = problem.spec.boundary[spec::axis_x];
  const bool has_rules =
      boundary.low.rule != spec::BoundaryRule::halo || boundary.high.rule != spec::BoundaryRule::halo;
  Stream1d lines;
  lines.always_gathers = contraction.shifts.size() > most_direct_shifts;
  const int fragments =
      lines.tiles_per_warp * std::min(static_cast<int>(contraction.shifts.size()), shifts_at_once);
  const int further_sums = lines.tiles_per_warp * (contraction.sums() - 1);
  const int registers = base_registers + further_sums * registers_per_accumulator +
                        fragments * registers_per_fragment +
                        static_cast<int>(contraction.operands.size()) * registers_per_loaded_operand;
  lines.estimated_registers = std::min(most_registers, round_up(registers, register_unit));
  lines.blocks_per_multiprocessor = std::clamp(
      registers_per_multiprocessor / (lines.warps_per_block * threads_per_warp * lines.estimated_registers),
      1, has_rules ? most_blocks_with_rules : most_blocks);
  lines.blocks_per_multiprocessor = blocks_beside_update(problem.spec, lines.blocks_per_multiprocessor,
                                                         lines.warps_per_block * threads_per_warp);
  const int columns = lines.tiles_per_warp * tile_outputs + contraction.mapping.window_width +
                      (contraction.shifts.back() - contraction.shifts.front());
  lines.window_vectors = columns * contraction.element_bytes / vector_bytes;
  lines.shared_bytes =
      lines.warps_per_block * round_up(lines.window_vectors, threads_per_warp) * vector_bytes;
  const SweepBound bound = bound_reference(
      problem.spec.dimensions, {.bytes_per_point = 2.0 * contraction.element_bytes,
                                .mmas_per_128_points = static_cast<double>(contraction.products.size())});
  // Gathered inputs take a fragment for each product: lists of 3, 5 and 9 took 133, 167 and 229 us in 1D on
  // an H200.
  constexpr double us_per_gathered = 16;
  const double gathers = lines.always_gathers && problem.spec.dimensions == 1
                             ? us_per_gathered * static_cast<double>(contraction.products.size() - 1)
                             : 0;
  return {lines, std::max(bound.memory_us + gathers, slower_than_products * bound.tensor_us), ""};
}

}  // namespace spidergen::plan
