#include "plan/schemes/cuda_cores.h"

#include <fmt/format.h>

#include <algorithm>

namespace spidergen::plan {
namespace {

// Addresses, strides, counters and the compiler's temporaries.
constexpr int base_registers = 52;
// For a step in flight, in addition to its sums.
constexpr int registers_per_step = 1;
constexpr int most_registers = 168;

// Masks of steps are 32-bit words.
constexpr int most_steps_in_flight = 32;

// Most multiply-adds in the code: of one step, and where sums rotate by unrolling, of all steps in flight.
// More would overflow the instruction cache, or compile too long.
constexpr int most_step_products = 2048;
constexpr int most_unrolled_products = 4096;

constexpr int most_threads = 1024;

// Outputs along x of a table's loop, a warp's width apart.
constexpr int table_outputs = 4;

/// Common to all candidates: in 1D and 2D all taps have one row.
struct Stencil {
  int element_bytes = 2;
  int dimensions = 2;
  int taps = 0;
  int steps_in_flight = 1;
  int sums_in_flight = 1;  ///< of each output
  TapRange columns;
};

/// Cells of a kernel's word, and registers of one: two 16-bit cells in one, or an f64 in two.
int cells_of_word(const Stencil& stencil) {
  return std::max(1, word_bytes / stencil.element_bytes);
}
int registers_of_word(const Stencil& stencil) {
  return divide_up(stencil.element_bytes, word_bytes);
}

/// Words of a row's window; of vectors that it needs whole or in part.
int window_words(const Stencil& stencil, int outputs) {
  const int word_cells = cells_of_word(stencil);
  const int first = floor_divide(stencil.columns.low, word_cells);
  const int last = floor_divide(outputs - 1 + stencil.columns.high, word_cells);
  return last - first + 1;
}

int estimate_registers(const Stencil& stencil, int outputs) {
  const int words = window_words(stencil, outputs);
  const int cells = words * cells_of_word(stencil);
  const int rounded =
      stencil.dimensions == 2 ? outputs * std::max(0, word_bytes - stencil.element_bytes) / word_bytes : 0;
  const int numbers = stencil.sums_in_flight * outputs + cells + words;
  return base_registers + rounded + stencil.steps_in_flight * registers_per_step +
         numbers * registers_of_word(stencil);
}

Stencil stencil_of(int dimensions, const Contraction& contraction) {
  const std::vector<CoreTap>& taps = contraction.taps;
  Stencil stencil;
  stencil.element_bytes = contraction.element_bytes;
  stencil.dimensions = dimensions;
  stencil.taps = static_cast<int>(taps.size());
  stencil.steps_in_flight = range_of(taps, &CoreTap::step).count();
  stencil.sums_in_flight = sums_in_flight(taps);
  stencil.columns = range_of(taps, &CoreTap::column);
  return stencil;
}

/// Why a thread's registers or code are too small for the stencil, in words; nothing where they suffice.
std::string objection_to_outputs(const Stencil& stencil, int outputs) {
  if (stencil.dimensions == 3) {
    const int products = stencil.taps * core_row_outputs(stencil.element_bytes);
    return products > most_core_row_products ? fmt::format("{} multiply-adds a step", products)
                                             : "a ring of planes that shared memory has no room for";
  }
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

/// Blocks of few warps, as many as fit the registers. A quarter of a multiprocessor has a quarter of the
/// registers, in units of 8 a lane.
void choose_block(int dimensions, CudaCores& cores) {
  constexpr int quarters = 4;
  constexpr int unit = 8;
  const int registers = (cores.estimated_registers + unit - 1) / unit * unit;
  const int warps_of_quarter =
      std::min(most_threads, registers_per_multiprocessor / registers) / threads_per_warp / quarters;
  const int warps = quarters * std::max(1, warps_of_quarter);
  cores.warps_per_block = dimensions == 2 ? 4 : 8;
  cores.blocks_per_multiprocessor = std::max(1, warps / cores.warps_per_block);
}

/// The ring buffer of a walk. Where it has as many rows as the loop has unrolled steps, places in it are
/// constants. In 1D there is one step, and as many rows as late cells need.
void choose_row_ring(const Stencil& stencil, CudaCores& cores) {
  constexpr int usual_rows = 8;
  constexpr int fewest_rows = 5;
  constexpr int rows_of_line = 3;
  const int cells = vector_bytes / stencil.element_bytes;
  const bool constant_places = cores.unrolled_steps >= fewest_rows && cores.unrolled_steps <= 2 * usual_rows;
  cores.ring_rows =
      stencil.dimensions == 1 ? rows_of_line : (constant_places ? cores.unrolled_steps : usual_rows);
  cores.ring_column = floor_divide(stencil.columns.low, cells) * cells;
  cores.ring_vectors = floor_divide(threads_per_warp * cores.outputs - 1 + stencil.columns.high, cells) + 1 -
                       cores.ring_column / cells;
  cores.ring_row_bytes = round_up(cores.ring_vectors * vector_bytes, line_bytes);
  if (stencil.dimensions == 1) return;
  // Long enough that the rows before the first outputs cost little, short enough that the last walks do: for
  // 7 rows in flight 64 took 242 us, 84 246 and 128 254; for 15 rows 64 took 973 us and 128 892.
  constexpr int least_steps = 64;
  cores.preferred_steps = std::max(least_steps, 8 * (stencil.steps_in_flight + 1));
}

/// Fitted to sweeps of 10240 x 10240 points on an H200: in f32 242 us for 49 taps, 892 for 225; in f64 754
/// for 49. In 3D only the table form exists; it is not measured.
double estimate_us(const spec::StencilSpec& spec, const Contraction& contraction, bool in_code) {
  constexpr double least_us = 61;
  constexpr double us_per_tap = 3.69;
  constexpr double slower_than_floor = 2.4;
  // A multiply-add from a table also loads its value and its tap.
  constexpr double slower_by_table = 10;
  constexpr double slower_doubles = 2;  // slower than their units
  // Lanes store wider results apart from each other: 317 us from u8 to f32 with 9 taps.
  constexpr double us_per_wider_byte = 70;
  const double taps = core_work(contraction);
  const double slower = in_code ? 1 : slower_by_table;
  const double walk_us = us_per_tap * taps * (contraction.element_bytes > word_bytes ? slower_doubles : 1.0);
  const int wider_bytes = spec::element_bytes(spec::output_of(spec)) - contraction.element_bytes;
  const double wider_us = us_per_wider_byte * std::max(0, wider_bytes);
  if (spec.dimensions < 3)
    return std::max(core_tile_us(contraction), slower * (least_us + walk_us)) + wider_us;
  const SweepBound bound = bound_reference(
      spec.dimensions, {.bytes_per_point = 2.0 * contraction.element_bytes, .core_products_per_point = taps});
  return slower * slower_than_floor * bound.floor_us();
}

}  // namespace

bool CudaCores::takes(const Problem& /*problem*/, const Contraction& contraction) {
  return contraction.grouping == Grouping::multiply_adds;
}

Offer<CudaCores> CudaCores::plan(const Problem& problem, const Contraction& contraction) {
  const int dimensions = problem.spec.dimensions;
  const Stencil stencil = stencil_of(dimensions, contraction);
  CudaCores cores;
  cores.preferred_steps = dimensions == 3 ? 64 : 0;
  cores.outputs = vector_bytes / stencil.element_bytes;
  const int fewest = cells_of_word(stencil);
  while (cores.outputs > fewest && !objection_to_outputs(stencil, cores.outputs).empty()) cores.outputs /= 2;
  cores.in_code = objection_to_outputs(stencil, cores.outputs);
  cores.unrolled = cores.in_code.empty();
  if (cores.unrolled) {
    cores.unrolled_steps = steps_to_unroll(stencil, cores.outputs);
    cores.estimated_registers = estimate_registers(stencil, cores.outputs);
    cores.cells_loaded = window_words(stencil, cores.outputs) * cells_of_word(stencil);
    choose_row_ring(stencil, cores);
  } else {
    cores.outputs = table_outputs;
    cores.estimated_registers =
        base_registers + (3 + range_of(contraction.taps, &CoreTap::sum).count()) * table_outputs;
    cores.cells_loaded = stencil.taps * cores.outputs;
  }
  choose_block(dimensions, cores);
  if (cores.ring_rows > 0)
    cores.shared_bytes = cores.warps_per_block * cores.ring_rows * cores.ring_row_bytes + line_bytes;
  const bool measured = dimensions == 2 && contraction.element_bytes >= word_bytes && cores.unrolled;
  const double us = estimate_us(problem.spec, contraction, cores.unrolled);
  return {std::move(cores), us, "", measured};
}

}  // namespace spidergen::plan
