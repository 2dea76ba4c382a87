#include "plan/schemes/stepping3d.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include "plan/compose.h"
#include "plan/stepping.h"

namespace spidergen::plan {
namespace {

using Form = Stepping3d::Form;

constexpr int width = threads_per_warp * Stepping3d::columns;
constexpr int most_rows = 12;
constexpr int most_rows_with_points = 5;  // with updates that read fields: more warps hide the latency
constexpr int fewest_warps_with_points = 12;
constexpr int most_warps = 32;
constexpr int most_blocks = 4;
constexpr int base_registers = 36;
constexpr int more_registers_of_doubles = 24;  // nvcc spills from 10 rows of a star on, from 9 of a box
constexpr int face_registers = 10;
constexpr int even_registers = 10;
constexpr int half_registers = 32;      // with several steps: also planes of numbers, and moved rows
constexpr int weight_registers = 16;    // near faces with weighted planes, for each in reach above one
constexpr int warps_of_allocation = 4;  // allocation unit of a block's registers
constexpr int register_unit = 8;
constexpr int most_block_shared_bytes = shared_per_multiprocessor - reserved_per_block;
// Most unrolled multiply-adds of a plane; planes near faces have as many.
constexpr int most_products = 6000;
// Most operations of updates that compile in reasonable time; they are repeated for each way to read planes
// and store rows.
constexpr int most_update_operations = 1000;

/// The box weights of all sums, zeros included.
int weights_of_all_sums(const spec::StencilSpec& spec, const Stepping3d& scheme) {
  const auto& [rz, ry, rx] = scheme.radius;
  return static_cast<int>(spec.sums.size()) * (2 * rz + 1) * (2 * ry + 1) * (2 * rx + 1);
}

/// Does the kernel weight planes near faces along z differently, by weights from memory?
bool adds_images(const spec::StencilSpec& spec, const Stepping3d& scheme) {
  return (scheme.radius[spec::axis_z] > 1 ||
          spec.boundary[spec::axis_z].low.rule == spec::BoundaryRule::mirror) &&
         is_closed_axis(spec, spec::axis_z) && !preserves_symmetry(spec);
}

/// Follows the shared memory layout of the kernel's header.
int count_shared_bytes(const spec::StencilSpec& spec, const Stepping3d& scheme) {
  const auto& [rz, ry, rx] = scheme.radius;
  const int plane_rows = scheme.height() + 2 * ry;
  const int of_number = number_bytes(spec.storage);
  const int inputs = scheme.ahead + 1 + (spec.previous ? 2 * rz + 1 : 0);
  const int levels = spec.previous ? (scheme.steps - 2) * (2 * rz + 3) + rz + 2 : 2 * (scheme.steps - 1);
  const int planes = inputs * spec::element_bytes(spec.storage) + levels * of_number;
  const int weights =
      adds_images(spec, scheme) ? of_number * scheme.warps() * weights_of_all_sums(spec, scheme) : 0;
  const bool reads_points = spec.previous || !spec.fields.empty();
  const int places = reads_points ? round_up(word_bytes * (width + scheme.height()), vector_bytes) : 0;
  const int beyond = vector_bytes * 2 * std::max(Stepping3d::columns - 1, rx);
  // Of a thread: its single cell, mirrored cells, its choices, the offsets of its rows.
  const auto turns = [&](const spec::Face& face) {
    return is_closed(face) && face.rule != spec::BoundaryRule::constant &&
           face.rule != spec::BoundaryRule::antisymmetric && preserves_symmetry(spec);
  };
  const auto& [left, right] = spec.boundary[spec::axis_x];
  const int offset_vectors = divide_up(divide_up(scheme.height(), scheme.warps()), vector_bytes / word_bytes);
  const int of_thread =
      (turns(left) || turns(right) ? 4 : 2) * word_bytes + vector_bytes * (1 + offset_vectors);
  constexpr int of_walk = 3 * vector_bytes;
  return planes * plane_rows * width + places +
         round_up(beyond + round_up(word_bytes * (scheme.height() + plane_rows), of_number) + weights,
                  vector_bytes) +
         of_thread * threads_per_warp * scheme.warps() + of_walk;
}

/// Overlap of tiles, on each side: tiles begin at sectors of memory.
int overlap_columns(const Stepping3d& scheme) {
  constexpr int anchor = 8;
  return round_up(scheme.steps * scheme.radius[spec::axis_x], anchor);
}

/// For updates: planes of u that wait for their sums, and a plane of each field and of the previous step.
int update_registers(const spec::StencilSpec& spec, const Stepping3d& scheme) {
  const UpdateWork update = work_of_update(spec);
  const int waiting = update.reads_input && !spec.previous ? scheme.radius[spec::axis_z] : 0;
  const int words = number_bytes(spec.storage) / word_bytes;
  constexpr int of_two_fields = 16;  // places of the previous step in both
  if (!spec.previous)
    return static_cast<int>(Stepping3d::columns * scheme.rows * (words * waiting + update.words));
  return static_cast<int>(Stepping3d::columns * scheme.rows * (words + update.words)) + of_two_fields;
}

int estimate_registers(const spec::StencilSpec& spec, const Stepping3d& scheme) {
  const auto& [rz, ry, rx] = scheme.radius;
  const bool ends = is_closed_axis(spec, spec::axis_z) || is_closed_axis(spec, spec::axis_y) ||
                    is_closed_axis(spec, spec::axis_x);
  const auto sums = static_cast<int>(spec.sums.size());
  const int of_numbers = Stepping3d::columns * (sums * 2 * rz * scheme.rows + sums * 2 * ry + 2) + 2 * rx +
                         (scheme.form == Form::even ? even_registers : 0);
  return of_numbers * number_bytes(spec.storage) / word_bytes + base_registers + (ends ? face_registers : 0) +
         (spec::is_half(spec.storage) && scheme.steps > 1 ? half_registers : 0) +
         (adds_images(spec, scheme) ? weight_registers * (rz - 1) : 0) + update_registers(spec, scheme);
}

/// Blocks of a multiprocessor, limited by registers and shared memory.
int count_blocks(const Stepping3d& scheme) {
  const int threads = threads_per_warp * round_up(scheme.warps(), warps_of_allocation);
  const int registers = round_up(scheme.estimated_registers, register_unit);
  return std::min(registers_per_multiprocessor / (registers * threads),
                  shared_per_multiprocessor / (scheme.shared_bytes + reserved_per_block));
}

/// Rows and blocks of the kernel of single steps, with the scheme's planes in flight.
Stepping3d::Single plan_single(const spec::StencilSpec& spec, Stepping3d scheme) {
  constexpr int most_rows_of_single = 4;
  constexpr int most_blocks_of_single = 2;
  scheme.steps = 1;
  scheme.warps_down = Stepping3d::single_warps;
  scheme.rows = std::min(most_rows_of_single, scheme.rows);
  while (scheme.rows > 1 && count_shared_bytes(spec, scheme) > most_block_shared_bytes) --scheme.rows;
  scheme.shared_bytes = count_shared_bytes(spec, scheme);
  scheme.estimated_registers = estimate_registers(spec, scheme);
  return {scheme.rows, std::clamp(count_blocks(scheme), 1, most_blocks_of_single)};
}

/// Fits as many blocks as possible on a multiprocessor; false where none fits.
bool fit(const spec::StencilSpec& spec, Stepping3d& scheme) {
  if (scheme.warps() > most_warps || scheme.height() <= 2 * scheme.steps * scheme.radius[spec::axis_y] ||
      width <= 2 * overlap_columns(scheme))
    return false;
  const int dense = weights_of_all_sums(spec, scheme) * Stepping3d::columns * scheme.rows;
  if (dense > most_products) return false;
  scheme.ahead = 4;
  while (scheme.ahead > 2 && count_shared_bytes(spec, scheme) > most_block_shared_bytes) --scheme.ahead;
  scheme.shared_bytes = count_shared_bytes(spec, scheme);
  scheme.estimated_registers = estimate_registers(spec, scheme);
  if (scheme.estimated_registers > largest_register_count || scheme.shared_bytes > most_block_shared_bytes)
    return false;
  scheme.blocks_per_multiprocessor =
      std::min({count_blocks(scheme), most_blocks, 2 * most_warps / scheme.warps()});
  scheme.single = plan_single(spec, scheme);
  return scheme.blocks_per_multiprocessor > 0;
}

/// Clocks of a multiprocessor for a plane of all its blocks: the larger of issue and shared memory. Fitted on
/// an H200: 1705 us for seven points (4 steps, 4 warps of 9 rows), 1507 us for a box (3 steps, 4 warps of 10
/// rows), both with a halo; that box took 2840 us with 16-bit fields.
double clocks_of_round(const spec::StencilSpec& spec, const Stepping3d& scheme) {
  const UpdateWork update = work_of_update(spec);
  constexpr double lanes = 128;
  const double words = number_bytes(spec.storage) / word_bytes;  // two for f64, which has half the units
  const double row_clocks = 4 * words;  // a row of numbers in shared memory, 128 bytes a clock
  constexpr double barrier = 120;
  constexpr double busy = 0.59;
  const auto& [rz, ry, rx] = scheme.radius;
  // Includes loads, stores, shuffles and moves.
  const double operations =
      scheme.operations + update.operations + update.fields + (scheme.form == Form::even ? 1.3 : 1.4);
  const double points = static_cast<double>(width) * scheme.height() * scheme.steps;
  const double issued = points * operations * words / lanes;
  const double loaded_rows = static_cast<double>(scheme.rows + 2 * ry) / scheme.rows;
  const double served = points / width * (row_clocks * (loaded_rows + 1) + 2 * rx * words * loaded_rows);
  const int blocks = scheme.blocks_per_multiprocessor;
  return blocks * std::max(issued, served) / busy + barrier / blocks;
}

double estimate_us(const spec::StencilSpec& spec, const Stepping3d& scheme) {
  constexpr double extent = 768;
  constexpr double clock_mhz = 1980;
  constexpr double hidden = 0.35;  // share of the memory time that computing does not hide
  constexpr int start_planes = 3;
  constexpr int most_walks = 16;
  const DeviceRates& rates = *find_device_rates("sm_90");
  const auto& [rz, ry, rx] = scheme.radius;
  const double tiles = std::ceil(extent / (width - 2 * overlap_columns(scheme))) *
                       std::ceil(extent / (scheme.height() - 2 * scheme.steps * ry));
  const double resident = rates.multiprocessors * scheme.blocks_per_multiprocessor;
  double rounds = 0;
  for (int walks = 1; walks <= most_walks; ++walks) {
    const double of_walk = std::ceil(extent / walks) + scheme.steps * (2 * rz + 1) + start_planes;
    const double all = std::ceil(tiles * walks / resident) * of_walk;
    if (walks == 1 || all < rounds) rounds = all;
  }
  constexpr double of_halves = 1.48;  // two ways to read planes overflow the instruction cache
  constexpr double spilling = 1.5;
  const bool spills = spec.storage == spec::Storage::f64 &&
                      scheme.estimated_registers + more_registers_of_doubles > largest_register_count;
  const double compute = rounds * clocks_of_round(spec, scheme) / clock_mhz * (spills ? spilling : 1) *
                         (spec::is_half(spec.storage) ? of_halves : 1);
  const double of_update = spec.update ? 1.65 : 1;
  // Measured for two to four steps of seven points; updates read a field, the previous step, or both.
  const bool has_fields = !spec.fields.empty();
  const bool waits = (spec.previous || has_fields) && scheme.warps() < fewest_warps_with_points;
  const double of_few_warps = waits ? 1.2 : 1;
  double of_points = 1;
  double of_copy = 1.25;  // rows that tiles read twice, and walks
  if (has_fields) of_points = 1.15;
  if (spec.previous) of_points = has_fields ? 1.95 : 1.4;
  if (has_fields || spec.previous) of_copy = has_fields && spec.previous ? 1.95 : 1.6;
  const double memory = reference_points(3) * swept_bytes(spec) / rates.copy_bytes_per_second * 1e6;
  const double computed = compute * of_update * of_points * of_few_warps + hidden * memory / scheme.steps;
  // Among layouts that memory limits alike, prefers the one that computes less.
  const double beside = has_fields || spec.previous ? 0.05 : 0;
  return std::max(computed, of_copy * memory) + beside * std::min(computed, of_copy * memory);
}

}  // namespace

int Stepping3d::valid_columns() const {
  return width - 2 * overlap_columns(*this);
}

std::string_view form_name(Stepping3d::Form form) {
  return form == Form::even ? "even" : "taps";
}

bool Stepping3d::takes(const Problem& problem, const Contraction& contraction) {
  return !contraction.on_tensor_cores() && problem.spec.dimensions == 3;
}

Offer<Stepping3d> Stepping3d::plan(const Problem& problem, const Contraction& /*contraction*/) {
  std::optional<Choice<Stepping3d>> choice = choose_stepping3d(problem.spec, problem.op.steps);
  if (!choice) return Offer<Stepping3d>::none("so many steps find no room in registers and shared memory");
  Stepping3d& scheme = choice->scheme;
  const auto& [rz, ry, rx] = scheme.radius;
  scheme.weights.assign(static_cast<std::size_t>(weights_of_all_sums(problem.spec, scheme)), 0);
  for (const RoundedTap& tap : problem.weights.taps) {
    const auto& [dz, dy, dx] = tap.at;
    const int plane = tap.sum * (2 * rz + 1) + dz + rz;
    const int place = (plane * (2 * ry + 1) + dy + ry) * (2 * rx + 1) + dx + rx;
    scheme.weights[static_cast<std::size_t>(place)] = as_number(problem.spec.storage, tap.packed);
  }
  if (!problem.spec.update) scheme.last = drift_of_steps(problem.spec.storage, problem.weights, scheme.steps);
  return {scheme, choice->microseconds, ""};
}

std::optional<Choice<Stepping3d>> choose_stepping3d(const spec::StencilSpec& spec, int steps) {
  std::optional<Choice<Stepping3d>> best;
  std::optional<Choice<Stepping3d>> best_of_long;  // where no shorter code fits
  Stepping3d scheme;
  scheme.steps = steps;
  for (int axis = 0; axis < 3; ++axis) {
    scheme.radius[axis] = radius_of(spec, axis);
    if (scheme.radius[axis] > largest_stepping_reach_of(3)) return best;
  }
  scheme.radius[spec::axis_z] = std::max(1, scheme.radius[spec::axis_z]);
  const bool reads_points = spec.previous || !spec.fields.empty();
  constexpr int even_operations = 12;
  const auto count = static_cast<int>(spec.taps.size());
  const bool shares = spec.sums.size() == 1 && scheme.radius[spec::axis_z] == 1 &&
                      scheme.radius[spec::axis_y] == 1 && scheme.radius[spec::axis_x] == 1 &&
                      is_even(spec, spec::axis_z) && is_even(spec, spec::axis_y) &&
                      is_even(spec, spec::axis_x) && count > even_operations;
  scheme.form = shares ? Form::even : Form::taps;
  scheme.operations = shares ? even_operations : count;
  for (scheme.warps_down = 1; scheme.warps_down * steps <= most_warps; ++scheme.warps_down) {
    for (scheme.rows = 1; scheme.rows <= (reads_points ? most_rows_with_points : most_rows); ++scheme.rows) {
      if (!fit(spec, scheme)) continue;
      const double us = estimate_us(spec, scheme);
      const double of_update = work_of_update(spec).operations * Stepping3d::columns * scheme.rows;
      std::optional<Choice<Stepping3d>>& best_so = of_update > most_update_operations ? best_of_long : best;
      if (!best_so || us < best_so->microseconds) best_so = {scheme, us};
    }
  }
  return best ? best : best_of_long;
}

}  // namespace spidergen::plan
