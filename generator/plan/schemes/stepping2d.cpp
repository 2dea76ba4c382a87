#include "plan/schemes/stepping2d.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include "plan/stepping.h"

namespace spidergen::plan {
namespace {

using Form = Stepping2d::Form;

constexpr int most_columns = 24;
constexpr int most_warps = 16;
constexpr int most_steps_of_warp = 8;
// Most instructions of a loop: more overflow the instruction cache of a multiprocessor whose warps are at
// different places of the code (measured on an H200).
constexpr int most_loop_instructions = 2000;
constexpr int base_registers = 40;
constexpr int base_registers_of_doubles = 24;
constexpr int update_registers_of_doubles = 16;
constexpr int face_registers = 12;
constexpr int register_unit = 8;
constexpr int most_block_shared_bytes = shared_per_multiprocessor - reserved_per_block;
constexpr int largest_threads = 1024;
// Warps of a multiprocessor that hide each other's latency.
constexpr int busy_warps = 8;
constexpr int schedulers = 4;  // of a multiprocessor

/// Weights by offset, 0 where there is no tap, and their reach.
struct Taps {
  explicit Taps(const spec::StencilSpec& spec) : all(&spec.taps) {
    for (const spec::Tap& tap : spec.taps) {
      for (const int axis : {spec::axis_y, spec::axis_x}) {
        int& radius = axis == spec::axis_y ? radius_y : radius_x;
        radius = std::max(radius, std::abs(tap.at[axis]));
      }
      sum += tap.weight;
      magnitude += std::fabs(tap.weight);
    }
    radius_y = std::max(1, radius_y);
  }
  [[nodiscard]] double at(int dy, int dx) const {
    const auto found = std::find_if(all->begin(), all->end(), [&](const spec::Tap& tap) {
      return tap.at[spec::axis_y] == dy && tap.at[spec::axis_x] == dx;
    });
    return found == all->end() ? 0 : found->weight;
  }
  [[nodiscard]] bool are_all(double weight, std::initializer_list<std::pair<int, int>> offsets) const {
    return weight != 0 && std::all_of(offsets.begin(), offsets.end(), [&](const auto& offset) {
             return at(offset.first, offset.second) == weight;
           });
  }

  const std::vector<spec::Tap>* all;
  int radius_y = 0;
  int radius_x = 0;
  double sum = 0;
  double magnitude = 0;
};

/// The way to add rows, and the weight that becomes 1.
struct FormChoice {
  Form form = Form::taps;
  double unit = 1;
  int operations = 0;
};

bool fits_unit(double unit, int steps) {
  return unit != 0 && std::fabs(std::log2(std::fabs(unit))) * steps <= most_unit_exponent;
}

/// The forms that the taps allow, whatever the size of their weights.
struct PossibleForms {
  explicit PossibleForms(const Taps& taps) {
    const auto count = static_cast<int>(taps.all->size());
    const bool centered = taps.at(0, 0) != 0;
    const double near = taps.at(0, 1);
    const double outer = taps.at(1, 0);
    const double far = taps.at(0, 2);
    const bool equal_near = taps.are_all(near, {{0, -1}, {1, 0}, {-1, 0}});
    const bool reach_one = taps.radius_y == 1 && taps.radius_x == 1;
    const bool reach_two = taps.radius_y == 2 && taps.radius_x == 2;
    cross = reach_one && centered && count == 5 && equal_near;
    even = reach_one && centered && count == 9 && taps.are_all(near, {{0, -1}}) &&
           taps.are_all(outer, {{-1, 0}}) && taps.are_all(taps.at(1, 1), {{1, -1}, {-1, 1}, {-1, -1}});
    rings =
        reach_two && centered && count == 9 && equal_near && taps.are_all(far, {{0, -2}, {2, 0}, {-2, 0}});
  }

  bool cross = false;
  bool even = false;
  bool rings = false;
};

FormChoice choose_plain_form(const Taps& taps, int steps) {
  const PossibleForms possible(taps);
  const double near = taps.at(0, 1);
  const double outer = taps.at(1, 0);
  const double far = taps.at(0, 2);
  if (possible.cross)
    return fits_unit(near, steps) ? FormChoice{Form::cross, near, 3} : FormChoice{Form::cross, 1, 5};
  if (possible.even)
    return fits_unit(outer, steps) ? FormChoice{Form::even, outer, 5} : FormChoice{Form::even, 1, 6};
  if (possible.rings && fits_unit(far, steps)) return {Form::rings, far, 6};
  return {Form::taps, 1, static_cast<int>(taps.all->size())};
}

/// With an update only sums are divided by the unit, and multiplied back before it. Where no unit fits, taps
/// are added singly: rows that wait as sums of others need cells divided by a neighbour's weight.
FormChoice choose_updated_form(const Taps& taps) {
  const PossibleForms possible(taps);
  const double near = taps.at(0, 1);
  const double far = taps.at(0, 2);
  if (possible.cross && fits_unit(near, 1)) return {Form::cross, near, near == 1 ? 3 : 4};
  if (possible.even) return {Form::even, 1, 6};
  if (possible.rings && fits_unit(far, 1)) return {Form::rings, far, far == 1 ? 6 : 7};
  return {Form::taps, 1, static_cast<int>(taps.all->size())};
}

FormChoice choose_form(const spec::StencilSpec& spec, const Taps& taps, int steps) {
  if (spec.sums.size() > 1 || spec.previous) return {Form::window, 1, static_cast<int>(taps.all->size())};
  return spec.update ? choose_updated_form(taps) : choose_plain_form(taps, steps);
}

/// Follows the shared memory layout of the kernel's header.
int count_shared_bytes(const Stepping2d& scheme, const spec::StencilSpec& spec) {
  const spec::Storage storage = spec.storage;
  const auto& [low, high] = spec.boundary[spec::axis_x];
  const bool both_ends = is_closed(low) && is_closed(high);
  const bool has_fields = !spec.fields.empty();
  const int rows = (spec.previous ? 2 : 1) * scheme.batch;  // of a batch, with those of the previous step
  const int row =
      threads_per_warp * vector_bytes * (scheme.columns * number_bytes(storage) / vector_bytes | 1);
  const bool staged = spec::is_half(storage);
  const int input_row = staged ? threads_per_warp * scheme.columns * spec::element_bytes(storage) : row;
  const int hand_overs = scheme.warps + (staged ? 1 : 0);
  return (scheme.ahead + 1) * rows * input_row + 2 * hand_overs * rows * row +
         (both_ends || has_fields ? scheme.warps * row : 0) + 8 * threads_per_warp * scheme.columns +
         (has_fields ? word_bytes * threads_per_warp * scheme.columns : 0);
}

bool ends_at_any(const spec::StencilSpec& spec) {
  return std::any_of(spec.boundary.begin() + spec::axis_y, spec.boundary.end(),
                     [](const auto& axis) { return is_closed(axis.low) || is_closed(axis.high); });
}

/// Instructions of a warp between two barriers: operations, rows to and from shared memory and in the next
/// unit, shuffles, and a share of all loads and stores.
double instructions_of_round(const spec::StencilSpec& spec, const Stepping2d& scheme, int radius_x) {
  constexpr double moving = 120;
  const UpdateWork update = work_of_update(spec);
  const double of_column = scheme.steps * (scheme.operations + update.operations) +
                           (scheme.unit == 1 || spec.update ? 0 : 1) + 0.5 + update.fields;
  return scheme.batch * (scheme.columns * of_column + 2.0 * radius_x * scheme.steps) + moving;
}

/// Slots of a scheduler for them: f64 takes two for an operation and for a word passed between lanes.
double slots_of_round(const spec::StencilSpec& spec, const Stepping2d& scheme, int radius_x) {
  const double instructions = instructions_of_round(spec, scheme, radius_x);
  if (spec.storage != spec::Storage::f64) return instructions;
  const double of_column = scheme.steps * (scheme.operations + work_of_update(spec).operations) +
                           (scheme.unit == 1 || spec.update ? 0 : 1);
  return instructions + scheme.batch * (scheme.columns * of_column + 2.0 * radius_x * scheme.steps);
}

/// Registers of a form besides its rows where nvcc does not spill: seen at 20 x 3 and 16 x 5 (even), 20 x 4
/// (taps); in f64 at 10 x 4 and 14 x 3, which spills (cross), and at 14 x 3 and 12 x 3, which spills (even).
int form_registers(spec::Storage storage, const Stepping2d& scheme) {
  if (storage == spec::Storage::f64) return scheme.form == Form::even ? 56 : 36;
  if (scheme.form == Form::even) return scheme.columns + 25;
  return scheme.form == Form::taps ? 8 * std::max(0, scheme.steps - 2) : 0;
}

/// For updates: rows that wait for their sums where sums do not store them, and fields of a warp's rows.
int update_registers(const spec::StencilSpec& spec, const UpdateWork& update, const Stepping2d& scheme) {
  const auto& [low, high] = spec.boundary[spec::axis_y];
  const bool stored = (scheme.form == Form::cross && high.rule != spec::BoundaryRule::mirror) ||
                      (scheme.form == Form::rings && !is_closed(low) && !is_closed(high)) ||
                      scheme.form == Form::window;
  const int input_rows = update.reads_input && !stored ? scheme.radius_y * scheme.steps : 0;
  const double waiting = input_rows + update.fields * ((scheme.steps - 1) * scheme.radius_y + 1.0);
  const int words = number_bytes(spec.storage) / word_bytes;
  return static_cast<int>(scheme.columns * (words * waiting + update.words));
}

/// Fits as many blocks as possible on a multiprocessor; false where none fits.
bool fit(const spec::StencilSpec& spec, const Taps& taps, Stepping2d& scheme) {
  const int vector_elements = vector_bytes / spec::element_bytes(spec.storage);
  const int lost = round_up(scheme.time_steps() * taps.radius_x, vector_elements);
  const int threads = threads_per_warp * scheme.warps;
  if (threads_per_warp * scheme.columns <= 2 * lost || threads > largest_threads) return false;
  const UpdateWork update = work_of_update(spec);
  scheme.shared_bytes = count_shared_bytes(scheme, spec);
  const int rows = 2 * taps.radius_y * scheme.steps;
  const int beside =
      (scheme.form == Form::window ? 2 * taps.radius_x * rows : 0) + (spec.previous ? scheme.columns : 0);
  scheme.estimated_registers =
      (spec.storage == spec::Storage::f64
           ? 2 * ((rows + (spec.update ? 2 : 1)) * scheme.columns + beside) + base_registers_of_doubles +
                 (spec.update ? update_registers_of_doubles : 0)
           : (rows + 2) * scheme.columns + beside + base_registers) +
      (ends_at_any(spec) ? face_registers : 0) + update_registers(spec, update, scheme);
  const int of_form = spec.storage == spec::Storage::f64 ? form_registers(spec.storage, scheme) : 0;
  const int registers =
      round_up(std::min(scheme.estimated_registers + of_form, largest_register_count), register_unit);
  if (scheme.shared_bytes > most_block_shared_bytes || scheme.estimated_registers > largest_register_count)
    return false;
  // Each of the four schedulers has registers of its own.
  const int warps_by_registers =
      registers_per_multiprocessor / (registers * threads_per_warp * schedulers) * schedulers;
  const int by_registers = warps_by_registers / scheme.warps;
  const int by_shared = shared_per_multiprocessor / (scheme.shared_bytes + reserved_per_block);
  scheme.blocks_per_multiprocessor = std::min({by_registers, by_shared, divide_up(most_warps, scheme.warps)});
  scheme.unrolled = instructions_of_round(spec, scheme, taps.radius_x) <= most_loop_instructions;
  return scheme.blocks_per_multiprocessor > 0;
}

constexpr double reference_points = 10240;  // of an axis of the reference field
constexpr double clock_mhz = 1980;
constexpr int start_rows = 12;

/// The time of a block for a batch of rows.
double microseconds_of_round(const spec::StencilSpec& spec, const Taps& taps, const Stepping2d& scheme) {
  // Cycles of a round: constants, a share for each block, and the warps' instructions times `stalled`. Fitted
  // to ten shapes and forms on an H200, from 2990 (five points, 20 columns x 3 steps x 8 warps) to 4090 (nine
  // in a box).
  constexpr double at_barrier = 250;
  constexpr double of_block = 450;
  const bool is_double = spec.storage == spec::Storage::f64;
  // f64 is limited by its units: 3240 (five points, 10 x 4 x 8) and 3430 (nine, 10 x 3 x 8).
  const double stalled = is_double ? 0.96 : 1.12;
  constexpr double rolled = 1.16;
  const double spilling = is_double ? 2 : 1.25;
  // Cycles of a warp's row of a field: 26 to 30, measured for 12 to 30 steps of u + c * sum.
  constexpr double of_four_columns = 28;
  const UpdateWork update = work_of_update(spec);
  const double warps = std::max(busy_warps, scheme.warps * scheme.blocks_per_multiprocessor);
  const double cycles = at_barrier + of_block * scheme.blocks_per_multiprocessor +
                        stalled * (scheme.unrolled ? 1 : rolled) * warps / schedulers *
                            slots_of_round(spec, scheme, taps.radius_x) +
                        of_four_columns * scheme.blocks_per_multiprocessor * scheme.warps * scheme.batch *
                            scheme.columns / 4 * update.fields;
  const bool spills =
      scheme.estimated_registers + form_registers(spec.storage, scheme) > largest_register_count;
  return cycles / clock_mhz * (spills ? spilling : 1);
}

/// Microseconds of a sweep over the reference field: blocks fill waves of the device as the runtime cuts them
/// (runtime/src/tiling.cpp), and strips and walks overlap.
double estimate_us(const spec::StencilSpec& spec, const Taps& taps, const Stepping2d& scheme) {
  constexpr double outer_share = 0.95;
  constexpr double hidden = 0.35;  // share of the memory time that computing does not hide
  constexpr double points = reference_points;
  const DeviceRates& rates = *find_device_rates("sm_90");
  const int bytes = spec::element_bytes(spec.storage);
  const int lost = round_up(scheme.time_steps() * taps.radius_x, vector_bytes / bytes);
  const int width = threads_per_warp * scheme.columns;
  const auto& [low, high] = spec.boundary[spec::axis_x];
  const int ends = (is_closed(low) ? 1 : 0) + (is_closed(high) ? 1 : 0);
  const double strips = std::ceil((points - ends * lost) / (width - 2 * lost));
  const double resident = rates.multiprocessors * scheme.blocks_per_multiprocessor;
  const double walks = std::max(1.0, std::floor(resident / strips));
  const double lead = 2.0 * scheme.time_steps() * taps.radius_y + start_rows;
  // Walks of the first and the last strip have fewer rows: they need their own blocks, or others get more.
  const double fewer = resident - strips * walks >= 2 ? 1 : outer_share;
  const double rows = (std::ceil(points / walks) + lead) / fewer;
  const double rounds = rows / scheme.batch + scheme.warps + scheme.ahead;
  const double waves = std::ceil(strips * walks / resident);
  const double compute = waves * rounds * microseconds_of_round(spec, taps, scheme);
  const double memory = points * points * swept_bytes(spec) / rates.copy_bytes_per_second * 1e6;
  return std::max(compute + hidden * memory, memory);
}

double power_of(double base, int exponent) {
  double power = 1;
  for (int i = 0; i < exponent; ++i) power *= base;
  return power;
}

/// Single steps as rounded elsewhere (core_weights), and divided by the unit.
void set_weights(const spec::StencilSpec& spec, const Taps& taps, const RoundedWeights& rounded,
                 Stepping2d& scheme) {
  const spec::Storage storage = spec.storage;
  double sum = 0;
  for (const RoundedTap& tap : rounded.taps) {
    const double single = as_number(storage, tap.packed);
    const double scaled = scheme.unit == 1 ? single : as_number(storage, tap.weight / scheme.unit);
    sum += scaled;
    scheme.weights.push_back({tap.at[spec::axis_y], tap.at[spec::axis_x], tap.sum, scaled, single});
  }
  if (spec.update) return;  // cells are never divided by the unit, and results have no factor of sums
  const double handed_on = power_of(scheme.unit, scheme.steps);
  scheme.back = as_number(storage, handed_on);
  scheme.last =
      power_of(handed_on / scheme.back, scheme.warps - 1) * power_of(scheme.unit, scheme.last_steps);
  // Corrects the rounding of weights, accumulated over steps, where their sum shows it.
  if (storage != spec::Storage::f64)
    scheme.last *= drift_of_steps(taps.sum, taps.magnitude, sum * scheme.unit, scheme.time_steps());
  scheme.last = as_number(storage, scheme.last);
}

}  // namespace

std::string_view form_name(Stepping2d::Form form) {
  constexpr std::array<std::string_view, 5> names{"taps", "even", "rings", "cross", "window"};
  return names[static_cast<std::size_t>(form)];
}

bool Stepping2d::takes(const Problem& problem, const Contraction& contraction) {
  return !contraction.on_tensor_cores() && problem.spec.dimensions == 2;
}

Offer<Stepping2d> Stepping2d::plan(const Problem& problem, const Contraction& /*contraction*/) {
  std::optional<Choice<Stepping2d>> choice = choose_stepping(problem.spec, problem.op.steps);
  if (!choice) return Offer<Stepping2d>::none("so many steps find no room in registers and shared memory");
  set_weights(problem.spec, Taps(problem.spec), problem.weights, choice->scheme);
  return {choice->scheme, choice->microseconds, ""};
}

std::optional<Choice<Stepping2d>> choose_stepping(const spec::StencilSpec& spec, int time_steps) {
  const Taps taps(spec);
  const int vector_elements = vector_bytes / spec::element_bytes(spec.storage);
  std::optional<Choice<Stepping2d>> best;
  if (has_rule(spec, spec::BoundaryRule::antisymmetric)) return best;  // no form has signs
  if (std::max(taps.radius_y, taps.radius_x) > largest_stepping_reach) return best;
  for (int steps = 1; steps <= std::min(time_steps, most_steps_of_warp); ++steps) {
    const FormChoice form = choose_form(spec, taps, steps);
    Stepping2d scheme;
    scheme.steps = steps;
    scheme.warps = divide_up(time_steps, steps);
    scheme.last_steps = time_steps - (scheme.warps - 1) * steps;
    scheme.radius_y = taps.radius_y;
    scheme.radius_x = taps.radius_x;
    scheme.form = form.form;
    scheme.unit = form.unit;
    scheme.operations = form.operations;
    if (scheme.warps > most_warps) continue;
    for (int columns = vector_elements; columns <= most_columns; columns += vector_elements) {
      for (const int batch : {4, 2}) {
        scheme.columns = columns;
        scheme.batch = batch;
        // Where steps are short, half of the warps move data after computing their rows.
        scheme.ahead = scheme.warps == 1 || scheme.form == Form::cross ? 2 : 1;
        if (columns <= taps.radius_x || !fit(spec, taps, scheme)) continue;
        const double us = estimate_us(spec, taps, scheme);
        if (!best || us < best->microseconds) best = {scheme, us};
      }
    }
  }
  return best;
}

}  // namespace spidergen::plan
