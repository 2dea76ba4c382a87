#include "plan/stepping.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "plan/compose.h"
#include "plan/problem.h"
#include "plan/schemes/levels3d.h"
#include "plan/schemes/stepping1d.h"
#include "plan/schemes/stepping2d.h"
#include "plan/schemes/stepping3d.h"

namespace spidergen::plan {
namespace {

constexpr int most_steps = 1024;  // the limit of a spec
constexpr int most_automatic = 32;

/// The cost of a node of an update, in multiply-adds: an estimate of the compiled code. A division of doubles
/// took as long as 26 on an H200.
double operations_of(const spec::UpdateNode& node, bool in_f64) {
  const double division = in_f64 ? 26 : 9;
  constexpr double function = 25;
  using spec::UpdateOperation;
  switch (node.operation) {
    case UpdateOperation::number:
    case UpdateOperation::input:
    case UpdateOperation::sum:
    case UpdateOperation::previous:
    case UpdateOperation::field:
    case UpdateOperation::scalar:
    case UpdateOperation::extent:
      return 0;
    case UpdateOperation::index:
      return 2;
    case UpdateOperation::divide:
      return division;
    case UpdateOperation::power:
      return 2;
    case UpdateOperation::call:
      if (node.function == "min" || node.function == "max" || node.function == "abs") return 1;
      return node.function == "sqrt" ? division : function;
    default:
      return 1;
  }
}

template <class Scheme>
std::optional<double> time_of(const std::optional<Choice<Scheme>>& choice) {
  if (!choice) return std::nullopt;
  return choice->microseconds;
}

}  // namespace

int largest_stepping_reach_of(int dimensions) {
  constexpr int in_1d = 16;
  constexpr int in_3d = 3;
  return dimensions == 1 ? in_1d : (dimensions == 2 ? largest_stepping_reach : in_3d);
}

int radius_of(const spec::StencilSpec& spec, int axis) {
  int radius = 0;
  for (const spec::Tap& tap : spec.taps) radius = std::max(radius, std::abs(tap.at[axis]));
  return radius;
}

bool is_closed(const spec::Face& face) {
  return face.rule != spec::BoundaryRule::halo && face.rule != spec::BoundaryRule::periodic;
}

bool preserves_symmetry(const spec::StencilSpec& spec) {
  if (spec.update || spec.sums.size() != 1) return false;
  constexpr std::array axes{spec::axis_z, spec::axis_y, spec::axis_x};
  return std::all_of(axes.begin(), axes.end(),
                     [&](int axis) { return radius_of(spec, axis) <= 1 && is_even(spec, axis); });
}

bool is_closed_axis(const spec::StencilSpec& spec, int axis) {
  const auto& [low, high] = spec.boundary[axis];
  const auto ends = [](const spec::Face& face) { return face.rule == spec::BoundaryRule::constant; };
  return ends(low) || ends(high) || ((is_closed(low) || is_closed(high)) && !preserves_symmetry(spec));
}

double drift_of_steps(double sum, double magnitude, double packed, int steps) {
  return std::fabs(sum) > magnitude / 2 ? std::pow(sum / packed, steps) : 1;
}

double as_number(spec::Storage storage, double value) {
  return storage == spec::Storage::f64 ? value : static_cast<float>(value);
}

int number_bytes(spec::Storage storage) {
  return storage == spec::Storage::f64 ? 8 : word_bytes;
}

double drift_of_steps(spec::Storage storage, const RoundedWeights& weights, int steps) {
  if (storage == spec::Storage::f64) return 1;
  double sum = 0;
  double packed = 0;
  double magnitude = 0;
  for (const RoundedTap& tap : weights.taps) {
    sum += tap.weight;
    packed += static_cast<float>(tap.packed);
    magnitude += std::fabs(tap.weight);
  }
  return as_number(storage, drift_of_steps(sum, magnitude, packed, steps));
}

int swept_bytes(const spec::StencilSpec& spec) {
  const int bytes = spec::element_bytes(spec.storage);
  return (spec.previous ? 3 : 2) * bytes + further_bytes(spec);
}

UpdateWork work_of_update(const spec::StencilSpec& spec) {
  UpdateWork work;
  if (!spec.update) return work;
  for (const spec::UpdateNode& node : spec.update->nodes)
    work.operations += operations_of(node, spec.storage == spec::Storage::f64);
  work.reads_input = spec.update->uses(spec::UpdateOperation::input);
  work.fields = static_cast<int>(spec.fields.size());
  for (const spec::FurtherField& field : spec.fields)
    work.words += spec::element_bytes(field.storage) / static_cast<double>(word_bytes);
  return work;
}

std::optional<double> estimate_stepping(const spec::StencilSpec& spec, int steps) {
  if (spec.dimensions == 1) return time_of(choose_stepping1d(spec, steps));
  if (spec.dimensions == 2) return time_of(choose_stepping(spec, steps));
  const std::optional<double> in_levels = time_of(choose_levels3d(spec, steps));
  const std::optional<double> stepping = time_of(choose_stepping3d(spec, steps));
  return in_levels && (!stepping || *in_levels < *stepping) ? in_levels : stepping;
}

int most_stepping(const spec::StencilSpec& spec) {
  int most = 0;
  for (int steps = 1; steps <= most_steps; ++steps) {
    if (estimate_stepping(spec, steps)) most = steps;
  }
  return most;
}

int fastest_stepping(const spec::StencilSpec& spec, double single_us) {
  int fastest = 1;
  double least_us = single_us;
  for (int steps = 2; steps <= most_automatic; ++steps) {
    const std::optional<double> us = estimate_stepping(spec, steps);
    if (!us || *us / steps >= least_us) continue;
    fastest = steps;
    least_us = *us / steps;
  }
  return fastest;
}

}  // namespace spidergen::plan
