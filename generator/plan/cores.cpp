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
// For every row of a plane that is requested while others are added: the compiler would spill addresses.
constexpr int spare_registers_per_row = 8;
constexpr int most_registers = 168;

// Masks of steps are words.
constexpr int most_steps_in_flight = 32;
constexpr int most_input_rows = 17;

// Multiply-adds in the code: of one step, and where sums rotate by unrolling of all steps in flight. More
// would not fit the instruction cache, or compile for too long.
constexpr int most_step_products = 2048;
constexpr int most_unrolled_products = 4096;

// Kernels of fewer taps wait for memory, the others for multiply-adds: CUDA cores make about 28 multiply-adds
// while 4 bytes are copied (H200: 2.9e13 a second and 4e12 bytes a second).
constexpr int memory_bound_taps_per_byte = 7;
constexpr int most_threads = 1024;
constexpr int wanted_bytes_in_flight = 24 * 1024;

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

/// Taps of one input row: their columns, from the lowest to the highest; none where low > high.
struct Span {
  int low = INT_MAX;
  int high = INT_MIN;

  [[nodiscard]] bool empty() const { return low > high; }
};

/// What all candidates have in common.
struct Stencil {
  int element_bytes = 2;
  int dimensions = 2;
  int taps = 0;
  int steps_in_flight = 1;
  std::vector<Span> rows;  ///< from the lowest row that has taps to the highest
};

/// Registers that a row's window takes, in words; that of vectors which it needs whole or in part.
int window_words(const Stencil& stencil, const Span& span, int outputs) {
  if (span.empty()) return 0;
  const int word_cells = word_bytes / stencil.element_bytes;
  const int first = floor_divide(span.low, word_cells);
  const int last = floor_divide(outputs - 1 + span.high, word_cells);
  return last - first + 1;
}

/// Registers of the windows that are under way at once, at most.
int queue_words(const Stencil& stencil, int outputs, int windows) {
  const std::size_t rows = stencil.rows.size();
  int most = 0;
  for (std::size_t first = 0; first < rows; ++first) {
    int words = 0;
    for (int i = 0; i < windows; ++i)
      words += window_words(stencil, stencil.rows[(first + static_cast<std::size_t>(i)) % rows], outputs);
    most = std::max(most, words);
  }
  return most;
}

int estimate_registers(const Stencil& stencil, int outputs, int windows_ahead) {
  const int cells = queue_words(stencil, outputs, 1) * (word_bytes / stencil.element_bytes);
  const int rounded =
      stencil.dimensions == 2 ? outputs * (word_bytes - stencil.element_bytes) / word_bytes : 0;
  return base_registers + rounded + stencil.steps_in_flight * (outputs + registers_per_step) + cells +
         queue_words(stencil, outputs, windows_ahead);
}

Stencil stencil_of(const spec::StencilSpec& spec, const std::vector<CoreTap>& taps) {
  Stencil stencil;
  stencil.element_bytes = spec::element_bytes(spec.storage);
  stencil.dimensions = spec.dimensions;
  stencil.taps = static_cast<int>(taps.size());
  stencil.steps_in_flight = range_of(taps, &CoreTap::step).count();
  stencil.rows.resize(static_cast<std::size_t>(taps.back().row - taps.front().row) + 1);
  for (const CoreTap& tap : taps) {
    Span& span = stencil.rows[static_cast<std::size_t>(tap.row - taps.front().row)];
    span.low = std::min(span.low, tap.column);
    span.high = std::max(span.high, tap.column);
  }
  return stencil;
}

bool waits_for_memory(const Stencil& stencil) {
  return stencil.taps <= memory_bound_taps_per_byte * 2 * stencil.element_bytes;
}

/// In 3D a thread that waits for memory should have requested the next plane before it needs its first row:
/// one row at a time would cost as many waits as a plane has rows.
bool can_look_a_plane_ahead(const Stencil& stencil, int outputs) {
  const auto rows = static_cast<int>(stencil.rows.size());
  return stencil.dimensions != 3 || !waits_for_memory(stencil) ||
         estimate_registers(stencil, outputs, rows) <= most_registers;
}

/// How many windows are requested before they are needed: enough to keep memory busy, where memory is what
/// the kernel waits for. Of a plane's rows only one is new to the cache.
int choose_windows_ahead(const Stencil& stencil, int outputs) {
  const auto rows = static_cast<int>(stencil.rows.size());
  if (stencil.dimensions == 1) return 1;
  if (!waits_for_memory(stencil)) return std::min(rows, 2);
  const auto enough = [&](int windows) {
    const int threads =
        std::min(most_threads, registers_per_multiprocessor / estimate_registers(stencil, outputs, windows));
    return threads * outputs * stencil.element_bytes * windows >= rows * wanted_bytes_in_flight;
  };
  const int most = stencil.dimensions == 3 ? rows : 3;
  int windows = 1;
  while (windows < most && !enough(windows) &&
         estimate_registers(stencil, outputs, windows + 1) <= most_registers)
    ++windows;
  return windows;
}

/// Why no thread can hold the stencil in its registers and code, in words; nothing where one can.
std::string objection_to_outputs(const Stencil& stencil, int outputs) {
  if (stencil.steps_in_flight > most_steps_in_flight) {
    return fmt::format("{} {} in flight", stencil.steps_in_flight,
                       stencil.dimensions == 3 ? "planes" : "rows");
  }
  if (stencil.rows.size() > most_input_rows) return fmt::format("{} input rows a plane", stencil.rows.size());
  if (stencil.taps * outputs > most_step_products) {
    return fmt::format("{} multiply-adds a step", stencil.taps * outputs);
  }
  const int registers = estimate_registers(stencil, outputs, 1);
  if (registers > most_registers) return fmt::format("about {} registers", registers);
  return "";
}

/// By a thread for the outputs of a step: windows, or every tap by itself.
int cells_loaded(const Stencil& stencil, const CorePlan& plan) {
  if (!plan.unrolled) return stencil.taps * plan.outputs;
  int cells = 0;
  for (const Span& span : stencil.rows)
    cells += window_words(stencil, span, plan.outputs) * (word_bytes / stencil.element_bytes);
  return cells;
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

/// Blocks of few warps, as many as the registers hold; in 3D, where warps of a block share rows through the
/// cache, a single one if there are not enough registers for two of usual size. A quarter of a multiprocessor
/// has a quarter of the registers, in units of 8 a lane.
void choose_block(const Stencil& stencil, CorePlan& plan) {
  constexpr int quarters = 4;
  constexpr int unit = 8;
  const int input_rows = plan.unrolled ? static_cast<int>(stencil.rows.size()) : 1;
  const int later_rows = std::max(0, input_rows - plan.windows_ahead);
  const int registers =
      (plan.estimated_registers + spare_registers_per_row * later_rows + unit - 1) / unit * unit;
  const int warps_of_quarter =
      std::min(most_threads, registers_per_multiprocessor / registers) / threads_per_warp / quarters;
  const int warps = quarters * std::max(1, warps_of_quarter);
  plan.warps_per_block = stencil.dimensions == 2 ? 4 : 8;
  if (stencil.dimensions == 3 && warps < 2 * plan.warps_per_block) plan.warps_per_block = warps;
  plan.blocks_per_multiprocessor = std::max(1, warps / plan.warps_per_block);
}

/// A ring for walks in 2D. Where there are as many ring rows as the loop is unrolled steps, places in it are
/// constants in the code.
void choose_row_ring(const Stencil& stencil, CorePlan& plan) {
  constexpr int usual_rows = 8;
  constexpr int fewest_rows = 5;
  const int cells = vector_bytes / stencil.element_bytes;
  if (stencil.dimensions != 2 || plan.outputs < 2 * word_bytes / stencil.element_bytes) return;
  const Span& span = stencil.rows.front();
  const bool constant_places = plan.unrolled_steps >= fewest_rows && plan.unrolled_steps <= 2 * usual_rows;
  plan.row_ring_rows = constant_places ? plan.unrolled_steps : usual_rows;
  plan.row_ring_column = floor_divide(span.low, cells) * cells;
  plan.row_ring_vectors =
      floor_divide(threads_per_warp * plan.outputs - 1 + span.high, cells) + 1 - plan.row_ring_column / cells;
  // Long enough that the rows before the first outputs cost little, short enough that the last walks do: for
  // 7 rows in flight 64 took 242 us, 84 246 and 128 254; for 15 rows 64 took 973 us and 128 892.
  constexpr int least_steps = 64;
  plan.preferred_steps = std::max(least_steps, 8 * (stencil.steps_in_flight + 1));
}

int tile_registers(const Stencil& stencil, int rows) {
  constexpr int vector_words = vector_bytes / word_bytes;
  const int outputs = vector_bytes / stencil.element_bytes;
  const Span& span = stencil.rows.front();
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
  plan.left_lanes = lanes_of(-stencil.rows.front().low);
  plan.right_lanes = lanes_of(stencil.rows.front().high);
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
  if (plan.outputs * stencil.element_bytes == vector_bytes && !can_look_a_plane_ahead(stencil, plan.outputs))
    plan.outputs /= 2;
  plan.objection = objection_to_outputs(stencil, plan.outputs);
  plan.unrolled = plan.objection.empty();
  if (plan.unrolled) {
    plan.windows_ahead = choose_windows_ahead(stencil, plan.outputs);
    plan.unrolled_steps = steps_to_unroll(stencil, plan.outputs);
    plan.estimated_registers = estimate_registers(stencil, plan.outputs, plan.windows_ahead);
  } else {
    plan.outputs = table_outputs;
    plan.estimated_registers = base_registers + 4 * table_outputs;
  }
  plan.cells_loaded = cells_loaded(stencil, plan);
  if (plan.unrolled) choose_row_ring(stencil, plan);
  choose_block(stencil, plan);
  return plan;
}

}  // namespace spidergen::plan
