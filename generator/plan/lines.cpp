#include "plan/lines.h"

#include <algorithm>
#include <cstddef>

#include "plan/machine.h"

namespace spidergen::plan {
namespace {

constexpr int tile_outputs = 128;

// What the compiler needs, as measured with nvcc 13 for sm_80 and sm_90 so that all loads of a shift are on
// their way at once. Sums take the place of fragments.
constexpr int base_registers = 16;
constexpr int registers_per_fragment = 4;
constexpr int registers_per_operand = 8;  // with what addresses it
constexpr int register_unit = 8;          // they are given out in

// A lane loads each fragment by itself, although they overlap; with more shifts that is too many loads.
constexpr std::size_t most_direct_shifts = 2;

// Operands beyond these registers are loaded, from the cache, when they are needed: for several tiles each.
constexpr int most_registers = 128;
constexpr int shifts_at_once = 4;
constexpr int most_blocks = 12;
// Ends of the field that a rule extends want registers: with 12 blocks, heat1d took 102.8, 12.2 and 2.5 us
// for 104857600, 10240000 and 10240 points instead of 101.9, 12.1 and 2.2 on an H200.
constexpr int most_blocks_with_rules = 10;

}  // namespace

LineStreaming choose_line_streaming(const Pass& pass, const spec::AxisBoundary& boundary) {
  const bool has_rules =
      boundary.low.rule != spec::BoundaryRule::halo || boundary.high.rule != spec::BoundaryRule::halo;
  LineStreaming lines;
  lines.always_gathers = pass.shifts.size() > most_direct_shifts;
  const int fragments = lines.tiles_per_warp * std::min(static_cast<int>(pass.shifts.size()), shifts_at_once);
  const int registers = base_registers + fragments * registers_per_fragment +
                        static_cast<int>(pass.operands.size()) * registers_per_operand;
  const int rounded = (registers + register_unit - 1) / register_unit * register_unit;
  lines.estimated_registers = std::min(most_registers, rounded);
  lines.blocks_per_multiprocessor = std::clamp(
      registers_per_multiprocessor / (lines.warps_per_block * threads_per_warp * lines.estimated_registers),
      1, has_rules ? most_blocks_with_rules : most_blocks);
  return lines;
}

int line_window_vectors(const Pass& pass) {
  const int columns = pass.lines.tiles_per_warp * tile_outputs + pass.mapping.window_width +
                      (pass.shifts.back() - pass.shifts.front());
  return columns * pass.element_bytes / vector_bytes;
}

int line_shared_bytes(const Pass& pass) {
  const int lane_vectors = (line_window_vectors(pass) + threads_per_warp - 1) / threads_per_warp;
  return pass.lines.warps_per_block * lane_vectors * threads_per_warp * vector_bytes;
}

}  // namespace spidergen::plan
