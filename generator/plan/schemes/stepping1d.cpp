#include "plan/schemes/stepping1d.h"

#include <algorithm>
#include <cstddef>

#include "plan/stepping.h"

namespace spidergen::plan {
namespace {

constexpr int most_columns = 24;
constexpr int base_registers = 36;

/// Microseconds of a sweep over the reference field, including the overlap of strips.
double estimate_us(const spec::StencilSpec& spec, const Stepping1d& scheme) {
  constexpr double clock_mhz = 1980;
  constexpr double lanes = 128;        // instructions a clock of a multiprocessor, in lanes
  constexpr double busy = 0.75;        // share of the issue slots
  constexpr double shuffle_slots = 4;  // in units of an add
  constexpr double hidden = 0.35;      // share of the memory time that computing does not hide
  const DeviceRates& rates = *find_device_rates("sm_90");
  const int bytes = spec::element_bytes(spec.storage);
  const double points = reference_points(1);
  const double width = threads_per_warp * scheme.columns;
  const double useful = width - 2 * round_up(scheme.steps * scheme.radius_x, vector_bytes / bytes);
  const double of_double = number_bytes(spec.storage) / word_bytes;  // half the units, two words to shuffle
  const double slots = of_double * (static_cast<double>(spec.taps.size()) + work_of_update(spec).operations +
                                    2 * shuffle_slots * scheme.radius_x / scheme.columns);
  const double compute =
      points * width / useful * scheme.steps * slots / (rates.multiprocessors * lanes * clock_mhz * busy);
  const double memory = points * swept_bytes(spec) / rates.copy_bytes_per_second * 1e6;
  return std::max(compute + hidden * memory, memory);
}

}  // namespace

bool Stepping1d::takes(const Problem& problem, const Contraction& contraction) {
  return !contraction.on_tensor_cores() && problem.spec.dimensions == 1;
}

Offer<Stepping1d> Stepping1d::plan(const Problem& problem, const Contraction& /*contraction*/) {
  std::optional<Choice<Stepping1d>> choice = choose_stepping1d(problem.spec, problem.op.steps);
  if (!choice) return Offer<Stepping1d>::none("so many steps find no room in registers");
  Stepping1d& scheme = choice->scheme;
  const int row = 2 * scheme.radius_x + 1;
  scheme.weights.assign(problem.spec.sums.size() * static_cast<std::size_t>(row), 0);
  for (const RoundedTap& tap : problem.weights.taps) {
    const int place = tap.sum * row + tap.at[spec::axis_x] + scheme.radius_x;
    scheme.weights[static_cast<std::size_t>(place)] = as_number(problem.spec.storage, tap.packed);
  }
  if (!problem.spec.update) scheme.last = drift_of_steps(problem.spec.storage, problem.weights, scheme.steps);
  return {scheme, choice->microseconds, ""};
}

std::optional<Choice<Stepping1d>> choose_stepping1d(const spec::StencilSpec& spec, int steps) {
  const int vector_elements = vector_bytes / spec::element_bytes(spec.storage);
  const int radius = radius_of(spec, spec::axis_x);
  std::optional<Choice<Stepping1d>> best;
  if (radius > largest_stepping_reach_of(1)) return best;
  for (int columns = vector_elements; columns <= most_columns; columns += vector_elements) {
    Stepping1d scheme;
    scheme.steps = steps;
    scheme.columns = columns;
    scheme.radius_x = radius;
    scheme.shared_bytes =
        scheme.warps * (threads_per_warp * columns + 2 * radius) * number_bytes(spec.storage);
    const int rows = 1 + static_cast<int>(spec.sums.size()) + (spec.previous ? 1 : 0);
    scheme.estimated_registers = (rows * columns + 2 * radius) * number_bytes(spec.storage) / word_bytes +
                                 base_registers + static_cast<int>(columns * work_of_update(spec).words);
    if (scheme.estimated_registers > largest_register_count) continue;
    if (columns < radius || threads_per_warp * columns <= 2 * round_up(steps * radius, vector_elements))
      continue;
    const double us = estimate_us(spec, scheme);
    if (!best || us < best->microseconds) best = {scheme, us};
  }
  return best;
}

}  // namespace spidergen::plan
