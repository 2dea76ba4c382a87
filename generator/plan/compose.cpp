#include "plan/compose.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace spidergen::plan {
namespace {

bool reaches_one(const spec::StencilSpec& spec, int axis) {
  return std::all_of(spec.taps.begin(), spec.taps.end(),
                     [&](const spec::Tap& tap) { return std::abs(tap.at[axis]) <= 1; });
}

}  // namespace

Matrix compose_taps(const Operator& op) {
  const auto [z, low_y, low_x] = op.reach_low;
  const auto [z_high, high_y, high_x] = op.reach_high;
  static_cast<void>(z);
  static_cast<void>(z_high);
  Matrix composed(low_y + high_y + 1, low_x + high_x + 1);
  composed.at(low_y, low_x) = 1;
  for (int step = 0; step < op.steps; ++step) {
    Matrix next(composed.rows, composed.columns);
    for (int row = 0; row < composed.rows; ++row) {
      for (int column = 0; column < composed.columns; ++column) {
        const double value = composed.at(row, column);
        if (value == 0) continue;
        for (const spec::Tap& tap : op.step)
          next.at(row + tap.at[spec::axis_y], column + tap.at[spec::axis_x]) += value * tap.weight;
      }
    }
    composed = std::move(next);
  }
  return composed;
}

bool is_even(const spec::StencilSpec& spec, int axis) {
  return std::all_of(spec.taps.begin(), spec.taps.end(), [&](const spec::Tap& tap) {
    spec::Offset opposite = tap.at;
    opposite[axis] = -opposite[axis];
    return std::any_of(spec.taps.begin(), spec.taps.end(), [&](const spec::Tap& other) {
      return other.at == opposite && other.weight == tap.weight;
    });
  });
}

bool commutes(const spec::StencilSpec& spec, const spec::Face& face, int axis) {
  switch (face.rule) {
    case spec::BoundaryRule::halo:
    case spec::BoundaryRule::periodic:
      return true;
    case spec::BoundaryRule::reflect:
    case spec::BoundaryRule::antisymmetric:
      return is_even(spec, axis);
    case spec::BoundaryRule::mirror: {
      // An axis of one cell takes that cell for what lies beyond, not what lies beyond the other face.
      const spec::AxisBoundary& faces = spec.boundary[axis];
      const auto turns = [](const spec::Face& side) {
        return side.rule == spec::BoundaryRule::mirror || side.rule == spec::BoundaryRule::reflect ||
               side.rule == spec::BoundaryRule::nearest;
      };
      return is_even(spec, axis) && turns(faces.low) && turns(faces.high);
    }
    case spec::BoundaryRule::nearest:
      return is_even(spec, axis) && reaches_one(spec, axis);
    case spec::BoundaryRule::constant:
      return face.value == 0 && is_even(spec, axis) && reaches_one(spec, axis);
  }
  return false;
}

Rims rims_of(const spec::StencilSpec& spec, const Operator& op) {
  Rims rims{};
  for (const int axis : {spec::axis_y, spec::axis_x}) {
    auto& [low, high] = rims[axis - spec::axis_y];
    if (!commutes(spec, spec.boundary[axis].low, axis)) low = op.reach_low[axis];
    if (!commutes(spec, spec.boundary[axis].high, axis)) high = op.reach_high[axis];
  }
  return rims;
}

}  // namespace spidergen::plan
