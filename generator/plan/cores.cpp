#include "plan/cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <tuple>
#include <vector>

#include "plan/core_ring.h"
#include "plan/core_taps.h"
#include "plan/machine.h"

namespace spidergen::plan {
namespace {

// Addresses, strides, counters and what the compiler needs besides.
constexpr int base_registers = 52;
// Of a step in flight, beside its sums.
constexpr int registers_per_step = 1;
constexpr int most_registers = 168;

// Masks of steps are words.
constexpr int most_steps_in_flight = 32;

// Multiply-adds in the code: of one step, and where sums rotate by unrolling of all steps in flight. More
// would not fit the instruction cache, or compile for too long.
constexpr int most_step_products = 2048;
constexpr int most_unrolled_products = 4096;

constexpr int most_threads = 1024;

// Tiles of 2D kernels (templates/cores2d.cu.in). More multiply-adds than this in a tile, which are all in the
// code, do not fit the instruction cache of a multiprocessor whose warps are at different places of it:
// measured on an H200. Registers besides sums and inputs, and how many lanes at the ends of a warp may be
// without outputs.
constexpr int most_tile_products = 1700;
constexpr int tile_base_registers = 4;
constexpr int usual_tile_registers = 104;
constexpr int most_tile_registers = 144;
constexpr int conversion_registers = 32;  // of 16-bit cells
constexpr int most_tile_blocks = 5;       // of a multiprocessor: more were no faster
// Of more, multiply-adds take longer than memory, and idle lanes cost time.
constexpr int most_tile_taps = 40;
constexpr int fewest_tile_rows = 8;
constexpr int most_tile_rows = 16;
constexpr int most_tile_input_rows = 32;
constexpr int most_idle_lanes = 4;

// A table's loop has outputs at so many places along x, a warp's width apart.
constexpr int table_outputs = 4;

/// What all candidates have in common: in 1D and 2D all taps have one row.
struct Stencil {
  int element_bytes = 2;
  int dimensions = 2;
  int taps = 0;
  int steps_in_flight = 1;
  TapRange columns;
};

/// Registers that a row's window takes, in words; that of vectors which it needs whole or in part.
int window_words(const Stencil& stencil, int outputs) {
  const int word_cells = word_bytes / stencil.element_bytes;
  const int first = floor_divide(stencil.columns.low, word_cells);
  const int last = floor_divide(outputs - 1 + stencil.columns.high, word_cells);
  return last - first + 1;
}

int estimate_registers(const Stencil& stencil, int outputs) {
  const int words = window_words(stencil, outputs);
  const int cells = words * (word_bytes / stencil.element_bytes);
  const int rounded =
      stencil.dimensions == 2 ? outputs * (word_bytes - stencil.element_bytes) / word_bytes : 0;
  return base_registers + rounded + stencil.steps_in_flight * (outputs + registers_per_step) + cells + words;
}

Stencil stencil_of(const spec::StencilSpec& spec, const std::vector<CoreTap>& taps) {
  Stencil stencil;
  stencil.element_bytes = spec::element_bytes(spec.storage);
  stencil.dimensions = spec.dimensions;
  stencil.taps = static_cast<int>(taps.size());
  stencil.steps_in_flight = range_of(taps, &CoreTap::step).count();
  stencil.columns = range_of(taps, &CoreTap::column);
  return stencil;
}

/// Why no thread can hold the stencil in its registers and code, in words; nothing where one can.
std::string objection_to_outputs(const Stencil& stencil, int outputs) {
  if (stencil.steps_in_flight > most_steps_in_flight) {
    return fmt::format("{} rows in flight", stencil.steps_in_flight);
  }
  if (stencil.taps * outputs > most_step_products) {
    return fmt::format("{} multiply-adds a step", stencil.taps * outputs);
  }
  const int registers = estimate_registers(stencil, outputs);
  if (registers > most_registers) return fmt::format("about {} registers", registers);
  return "";
}

int steps_to_unroll(const Stencil& stencil, int outputs) {
  constexpr int fewest = 4;
  if (stencil.dimensions == 1) return 1;
  const int step = stencil.taps * outputs;
  if (step * stencil.steps_in_flight > most_unrolled_products) return 1;
  int steps = stencil.steps_in_flight;
  while (steps < fewest && step * (steps + stencil.steps_in_flight) <= most_unrolled_products)
    steps += stencil.steps_in_flight;
  return steps;
}

/// Blocks of few warps, as many as the registers hold. A quarter of a multiprocessor has a quarter of the
/// registers, in units of 8 a lane.
void choose_block(int dimensions, CorePlan& plan) {
  constexpr int quarters = 4;
  constexpr int unit = 8;
  const int registers = (plan.estimated_registers + unit - 1) / unit * unit;
  const int warps_of_quarter =
      std::min(most_threads, registers_per_multiprocessor / registers) / threads_per_warp / quarters;
  const int warps = quarters * std::max(1, warps_of_quarter);
  plan.warps_per_block = dimensions == 2 ? 4 : 8;
  plan.blocks_per_multiprocessor = std::max(1, warps / plan.warps_per_block);
}

/// The ring of a walk. Where there are as many ring rows as the loop is unrolled steps, places in it are
/// constants in the code. In 1D there is one step, and as many rows as cells that are placed late need.
void choose_row_ring(const Stencil& stencil, CorePlan& plan) {
  constexpr int usual_rows = 8;
  constexpr int fewest_rows = 5;
  constexpr int rows_of_line = 3;
  const int cells = vector_bytes / stencil.element_bytes;
  const bool constant_places = plan.unrolled_steps >= fewest_rows && plan.unrolled_steps <= 2 * usual_rows;
  plan.row_ring_rows =
      stencil.dimensions == 1 ? rows_of_line : (constant_places ? plan.unrolled_steps : usual_rows);
  plan.row_ring_column = floor_divide(stencil.columns.low, cells) * cells;
  plan.row_ring_vectors = floor_divide(threads_per_warp * plan.outputs - 1 + stencil.columns.high, cells) +
                          1 - plan.row_ring_column / cells;
  if (stencil.dimensions == 1) return;
  // Long enough that the rows before the first outputs cost little, short enough that the last walks do: for
  // 7 rows in flight 64 took 242 us, 84 246 and 128 254; for 15 rows 64 took 973 us and 128 892.
  constexpr int least_steps = 64;
  plan.preferred_steps = std::max(least_steps, 8 * (stencil.steps_in_flight + 1));
}

int tile_registers(const Stencil& stencil, int rows) {
  constexpr int vector_words = vector_bytes / word_bytes;
  const int outputs = vector_bytes / stencil.element_bytes;
  const TapRange& span = stencil.columns;
  const int numbers = outputs + span.high - span.low;
  return tile_base_registers + (rows + stencil.steps_in_flight - 1) * vector_words +
         stencil.steps_in_flight * outputs + numbers;
}

/// The smallest tile of which three quarters of the input rows are its own: many of them are resident, and
/// few rows are read again. Far reaches have none; they take the largest that leaves registers for other
/// warps.
int choose_tile_rows(const Stencil& stencil) {
  const int outputs = vector_bytes / stencil.element_bytes;
  const auto fits = [&](int rows, int registers) {
    return rows + stencil.steps_in_flight - 1 <= most_tile_input_rows &&
           rows * stencil.taps * outputs <= most_tile_products && tile_registers(stencil, rows) <= registers;
  };
  for (int rows = fewest_tile_rows; rows <= most_tile_rows; rows += 4) {
    if (3 * (rows + stencil.steps_in_flight - 1) <= 4 * rows && fits(rows, usual_tile_registers)) return rows;
  }
  for (int rows = most_tile_rows; rows >= fewest_tile_rows; rows -= 4) {
    if (fits(rows, most_tile_registers)) return rows;
  }
  return 0;
}

/// Registers that finding cells beyond the faces takes while rows wait in others, so that none are spilled.
int registers_at_faces(const spec::StencilSpec& spec) {
  constexpr int for_maps = 24;
  constexpr int for_constants = 48;
  int most = 0;
  for (const spec::AxisBoundary& axis : spec.boundary) {
    for (const spec::Face& face : {axis.low, axis.high}) {
      if (face.rule == spec::BoundaryRule::constant) return for_constants;
      if (face.rule != spec::BoundaryRule::halo) most = for_maps;
    }
  }
  return most;
}

/// Makes it a plan of tiles, if there is one.
bool choose_tile(const spec::StencilSpec& spec, const Stencil& stencil, CorePlan& plan) {
  if (stencil.dimensions != 2 || stencil.taps > most_tile_taps) return false;
  const int outputs = vector_bytes / stencil.element_bytes;
  const auto lanes_of = [&](int columns) { return (std::max(0, columns) + outputs - 1) / outputs; };
  plan.left_lanes = lanes_of(-stencil.columns.low);
  plan.right_lanes = lanes_of(stencil.columns.high);
  plan.tile_rows = plan.left_lanes + plan.right_lanes <= most_idle_lanes ? choose_tile_rows(stencil) : 0;
  if (plan.tile_rows == 0) {
    plan.left_lanes = plan.right_lanes = 0;
    return false;
  }
  constexpr int register_unit = 8;
  plan.outputs = outputs;
  plan.warps_per_block = 4;
  plan.estimated_registers = tile_registers(stencil, plan.tile_rows) + registers_at_faces(spec);
  if (stencil.element_bytes < word_bytes) plan.estimated_registers += conversion_registers;
  const int registers = (plan.estimated_registers + register_unit - 1) / register_unit * register_unit;
  plan.blocks_per_multiprocessor = std::min(
      most_tile_blocks, registers_per_multiprocessor / (registers * threads_per_warp * plan.warps_per_block));
  plan.tile_input_rows = plan.tile_rows + stencil.steps_in_flight - 1;
  plan.cells_loaded = outputs * plan.tile_input_rows;
  return true;
}

/// What a plan with a ring has in common with the others.
void take_ring(CorePlan& plan) {
  const CoreRing& ring = *plan.ring;
  plan.outputs = core_ring_outputs;
  plan.warps_per_block = ring.warps_across * ring.warps_down;
  plan.blocks_per_multiprocessor = ring.blocks_per_multiprocessor;
  // Long enough that the planes before the first outputs do not count, short enough that blocks stay
  // together.
  plan.preferred_steps = 8 * std::max(2, range_of(plan.taps, &CoreTap::step).count() - 1);
  plan.estimated_registers = ring.estimated_registers;
  plan.cells_loaded = core_cells_loaded(ring, plan.taps);
}

}  // namespace

int row_ring_row_bytes(const CorePlan& plan) {
  return (plan.row_ring_vectors * vector_bytes + line_bytes - 1) / line_bytes * line_bytes;
}

int row_rings_bytes(const CorePlan& plan) {
  if (plan.row_ring_rows == 0) return 0;
  return plan.warps_per_block * plan.row_ring_rows * row_ring_row_bytes(plan) + line_bytes;
}

double cells_per_output(const CorePlan& plan) {
  const int lanes = threads_per_warp - plan.left_lanes - plan.right_lanes;
  const int outputs = plan.outputs * std::max(1, plan.tile_rows);
  return static_cast<double>(plan.cells_loaded) * threads_per_warp / (static_cast<double>(outputs) * lanes);
}

CoreAxes core_axes(int dimensions) {
  if (dimensions == 2) return {spec::axis_y, spec::axis_z};
  return {spec::axis_z, spec::axis_y};
}

CorePlan plan_cores(const spec::StencilSpec& spec, const RoundedWeights& weights) {
  const CoreAxes axes = core_axes(spec.dimensions);
  CorePlan plan;
  for (const RoundedTap& tap : weights.taps) {
    plan.taps.push_back(
        {tap.at[axes.step], tap.at[axes.row], tap.at[spec::axis_x], static_cast<float>(tap.packed)});
  }
  std::sort(plan.taps.begin(), plan.taps.end(), [](const CoreTap& a, const CoreTap& b) {
    return std::tuple(a.row, a.step, a.column) < std::tuple(b.row, b.step, b.column);
  });
  plan.preferred_steps = spec.dimensions == 3 ? 64 : 0;
  plan.ring = plan_core_ring(spec, plan.taps);
  if (plan.ring) {
    take_ring(plan);
    return plan;
  }
  const Stencil stencil = stencil_of(spec, plan.taps);
  if (choose_tile(spec, stencil, plan)) return plan;

  plan.outputs = vector_bytes / stencil.element_bytes;
  const int fewest = word_bytes / stencil.element_bytes;
  while (plan.outputs > fewest && !objection_to_outputs(stencil, plan.outputs).empty()) plan.outputs /= 2;
  plan.objection =
      spec.dimensions == 3 ? objection_to_core_ring(plan.taps) : objection_to_outputs(stencil, plan.outputs);
  plan.unrolled = plan.objection.empty();
  if (plan.unrolled) {
    plan.unrolled_steps = steps_to_unroll(stencil, plan.outputs);
    plan.estimated_registers = estimate_registers(stencil, plan.outputs);
    plan.cells_loaded = window_words(stencil, plan.outputs) * (word_bytes / stencil.element_bytes);
    choose_row_ring(stencil, plan);
  } else {
    plan.outputs = table_outputs;
    plan.estimated_registers = base_registers + 4 * table_outputs;
    plan.cells_loaded = stencil.taps * plan.outputs;
  }
  choose_block(spec.dimensions, plan);
  return plan;
}

}  // namespace spidergen::plan
