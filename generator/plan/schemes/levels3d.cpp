#include "plan/schemes/levels3d.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "plan/schemes/stepping2d.h"
#include "plan/stepping.h"

namespace spidergen::plan {
namespace {

using Form = Levels3d::Form;

constexpr int width = threads_per_warp * Levels3d::columns;
constexpr int anchor = 8;  // tiles begin at multiples of it along x
constexpr int most_rows = 12;
constexpr int most_block_shared_bytes = shared_per_multiprocessor - reserved_per_block;
// Two numbers of a cell and step; with more nvcc 13 spills for sm_90.
constexpr int most_state_registers = 176;
constexpr int other_registers = 55;
// Most operations of updates that compile in reasonable time; they are repeated for each way to read planes.
constexpr double most_update_operations = 2000;

/// Radius 1, and taps on the axes only?
bool is_star(const spec::StencilSpec& spec) {
  return std::all_of(spec.taps.begin(), spec.taps.end(), [](const spec::Tap& tap) {
    return std::abs(tap.at[0]) + std::abs(tap.at[1]) + std::abs(tap.at[2]) <= 1;
  });
}

/// Is there no update, or one of its sum, of the input, which registers store for the plane that a step
/// completes, and of fields that do not change? There are no indices outside mirroring faces.
bool takes_update(const spec::StencilSpec& spec) {
  return !spec.update ||
         (spec.sums.size() == 1 && !spec.previous && !spec.update->uses(spec::UpdateOperation::index));
}

/// The common weight of all six neighbours, if there is one.
std::optional<double> weight_of_neighbours(const spec::StencilSpec& spec) {
  std::optional<double> weight;
  int count = 0;
  for (const spec::Tap& tap : spec.taps) {
    if (tap.at == spec::Offset{}) continue;
    if (weight && *weight != tap.weight) return std::nullopt;
    weight = tap.weight;
    ++count;
  }
  constexpr int neighbours = 6;
  return count == neighbours ? weight : std::nullopt;
}

/// Follows the shared memory layout of the kernel's header.
int count_shared_bytes(const spec::StencilSpec& spec, const Levels3d& scheme) {
  const int input = (scheme.ahead + 2) * scheme.height() * width * spec::element_bytes(spec.storage);
  const int edges = 2 * (scheme.steps - 1) * Levels3d::warps * 2 * width * word_bytes;
  constexpr int of_walk = 7 * vector_bytes + word_bytes * threads_per_warp;  // rarely used state of a walk
  const int without_fields = input + edges + round_up(word_bytes * scheme.height(), vector_bytes) + of_walk;
  if (spec.fields.empty()) return without_fields;
  const int places =
      word_bytes * (scheme.height() + threads_per_warp + 2 * Levels3d::warps * threads_per_warp) +
      vector_bytes;
  return without_fields + places +
         (scheme.steps + scheme.ahead) * scheme.height() * width * further_bytes(spec);
}

/// The same for the kernel of single steps.
int count_single_bytes(const spec::StencilSpec& spec, Levels3d scheme) {
  scheme.rows = Levels3d::single_rows;
  scheme.steps = 1;
  return count_shared_bytes(spec, scheme);
}

/// Clocks of a multiprocessor for a plane of a block: the instructions of a scheduler's warps, in three
/// fifths of the time. Fitted on an H200: 1183 us for four steps of 768^3 points in f16 with `nearest`, 5
/// rows a warp. Most of an update issues while others wait: u + 0.1*sum + r*u*(1 - u) took 1478 us for four
/// steps and 2231 for five in f32, as if its seven operations were two.
double clocks_of_round(const Levels3d& scheme, int fields) {
  constexpr double of_update = 0.3;
  constexpr double schedulers = 4;
  constexpr double busy = 0.59;
  constexpr double of_row = 2.5;   // shuffles, moves
  constexpr double of_level = 10;  // rows of neighbours
  constexpr double of_input_row = 12;
  constexpr double of_plane = 60;
  constexpr double of_field = 6;  // of one row; limited by shared memory's ports
  const double operations = scheme.operations + of_update * scheme.update_operations;
  const double row = Levels3d::columns * operations + of_row;
  const double issued =
      scheme.rows * (scheme.steps * (row + of_field * fields) + of_input_row * (1 + fields)) +
      scheme.steps * of_level + of_plane;
  return Levels3d::warps / schedulers * issued / busy;
}

double estimate_us(const spec::StencilSpec& spec, const Levels3d& scheme) {
  constexpr double extent = 768;
  constexpr double clock_mhz = 1980;
  constexpr double of_copy = 1.25;  // rows that tiles read twice, and walks
  // The part of the shorter time that the longer one does not hide; of copies with one plane in flight: u +
  // c*sum took 1692 us for three f32 steps with 5 rows and two planes, 2260 with 6 rows and one.
  const double beside = spec.fields.empty() ? 0.1 : 0.2;
  constexpr double one_ahead = 0.6;
  constexpr int start_planes = 3;
  constexpr int most_walks = 16;
  const DeviceRates& rates = *find_device_rates("sm_90");
  const double tiles = std::ceil(extent / scheme.valid_columns()) * std::ceil(extent / scheme.valid_rows());
  double rounds = 0;
  for (int walks = 1; walks <= most_walks; ++walks) {
    const double of_walk = std::ceil(extent / walks) + 2 * scheme.steps + start_planes;
    const double all = std::ceil(tiles * walks / rates.multiprocessors) * of_walk;
    if (walks == 1 || all < rounds) rounds = all;
  }
  const double compute = rounds * clocks_of_round(scheme, static_cast<int>(spec.fields.size())) / clock_mhz;
  const double memory = reference_points(3) * (2 * spec::element_bytes(spec.storage) + further_bytes(spec)) /
                        rates.copy_bytes_per_second * 1e6;
  if (!spec.fields.empty() && scheme.ahead == 1) return compute + one_ahead * of_copy * memory;
  return std::max(compute, of_copy * memory) + beside * std::min(compute, of_copy * memory);
}

void put(Levels3d::Weights& weights, const spec::Offset& at, float weight) {
  for (int axis = 0; axis < 3; ++axis) {
    if (at[axis] != 0) {
      (at[axis] < 0 ? weights.low : weights.high)[axis] = weight;
      return;
    }
  }
  weights.center = weight;
}

/// As in Stepping2d: weights of a single step as rounded elsewhere, and divided by the unit.
void set_weights(const RoundedWeights& rounded, bool updates, Levels3d& scheme) {
  double sum = 0;
  double packed = 0;
  double magnitude = 0;
  for (const RoundedTap& tap : rounded.taps) {
    const auto single = static_cast<float>(tap.packed);
    const double over = scheme.unit * scheme.back;
    const float scaled = over == 1 ? single : static_cast<float>(tap.weight / over);
    put(scheme.single, tap.at, single);
    put(scheme.scaled, tap.at, scaled);
    sum += tap.weight;
    packed += scaled;
    magnitude += std::fabs(tap.weight);
  }
  if (updates) return;
  const double drift = drift_of_steps(sum, magnitude, packed * scheme.unit, scheme.steps);
  scheme.last = static_cast<float>(drift * std::pow(scheme.unit, scheme.steps));
}

/// A step preserves constant ghost cells along x where such a cell has the weights of its neighbours, and the
/// rest up to 1 for itself. Errors of these cells do not grow where no weight is negative. A constant 0 stays
/// 0 with any weights. Without a tap on the cell itself, its weight may multiply no number inside the field.
std::optional<float> find_ghost_center(const spec::StencilSpec& spec, const Levels3d& scheme) {
  if (spec.update) return std::nullopt;
  bool has_constants = false;
  for (const spec::Face* face : {&spec.boundary[spec::axis_x].low, &spec.boundary[spec::axis_x].high})
    has_constants = has_constants || (face->rule == spec::BoundaryRule::constant && face->value != 0);
  if (!has_constants) return scheme.scaled.center;
  double neighbours = 0;
  bool is_negative = false;
  for (const spec::Tap& tap : spec.taps) {
    if (tap.at == spec::Offset{}) continue;
    neighbours += tap.weight;
    is_negative = is_negative || tap.weight < 0;
  }
  if (is_negative || neighbours > 1 || scheme.scaled.center == 0) return std::nullopt;
  return static_cast<float>((1 - neighbours) / scheme.unit);
}

}  // namespace

int Levels3d::valid_columns() const {
  return width - 2 * round_up(steps, anchor);
}

std::string_view form_name(Levels3d::Form form) {
  return form == Form::cross ? "cross" : "taps";
}

bool Levels3d::takes(const Problem& problem, const Contraction& contraction) {
  return !contraction.on_tensor_cores() && problem.spec.dimensions == 3 && is_star(problem.spec) &&
         problem.spec.storage != spec::Storage::f64;
}

Offer<Levels3d> Levels3d::plan(const Problem& problem, const Contraction& /*contraction*/) {
  std::optional<Choice<Levels3d>> choice = choose_levels3d(problem.spec, problem.op.steps);
  if (!choice) return Offer<Levels3d>::none("so many steps find no room in registers and shared memory");
  set_weights(problem.weights, problem.spec.update.has_value(), choice->scheme);
  choice->scheme.ghost_center = find_ghost_center(problem.spec, choice->scheme);
  return {choice->scheme, choice->microseconds, ""};
}

std::optional<Choice<Levels3d>> choose_levels3d(const spec::StencilSpec& spec, int steps) {
  std::optional<Choice<Levels3d>> best;
  // Registers have no room for two f64 numbers a cell and step.
  if (!is_star(spec) || !takes_update(spec) || spec.storage == spec::Storage::f64) return best;
  Levels3d scheme;
  scheme.steps = steps;
  constexpr int cross_operations = 5;
  constexpr int tap_operations = 7;
  const std::optional<double> weight = weight_of_neighbours(spec);
  const int powers = spec.update ? 1 : steps;
  const bool in_unit =
      weight && *weight != 0 && std::fabs(std::log2(std::fabs(*weight))) * powers <= most_unit_exponent;
  scheme.form = in_unit ? Form::cross : Form::taps;
  scheme.operations = in_unit ? cross_operations : tap_operations;
  if (spec.update) {
    scheme.back = in_unit ? static_cast<float>(*weight) : 1;
    scheme.update_operations = work_of_update(spec).operations + (in_unit ? 1 : 0);
  } else {
    scheme.unit = in_unit ? *weight : 1;
  }
  for (scheme.rows = 2; scheme.rows <= most_rows; ++scheme.rows) {
    const int state = 2 * Levels3d::columns * scheme.rows * steps;
    if (state > most_state_registers ||
        scheme.update_operations * Levels3d::columns * scheme.rows * steps > most_update_operations)
      break;
    scheme.estimated_registers = state + other_registers;
    if (scheme.valid_rows() <= 0 || scheme.valid_columns() <= 0) continue;
    // 768^3 points with `nearest` took 1225, 1205 us in f32 for 3 and 4 planes, 1112, 1135 in f16.
    scheme.ahead = spec::element_bytes(spec.storage) == word_bytes ? 4 : 3;
    const auto most_bytes = [&] {
      return std::max(count_shared_bytes(spec, scheme), count_single_bytes(spec, scheme));
    };
    while (scheme.ahead > 1 && most_bytes() > most_block_shared_bytes) --scheme.ahead;
    scheme.shared_bytes = most_bytes();
    if (scheme.shared_bytes > most_block_shared_bytes) continue;
    const double us = estimate_us(spec, scheme);
    if (!best || us < best->microseconds) best = {scheme, us};
  }
  return best;
}

}  // namespace spidergen::plan
