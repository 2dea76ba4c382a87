#include "plan/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

namespace spidergen::plan {
namespace {

bool reaches_one(const spec::StencilSpec& spec, int axis) {
  return std::all_of(spec.taps.begin(), spec.taps.end(),
                     [&](const spec::Tap& tap) { return std::abs(tap.at[axis]) <= 1; });
}

}  // namespace

std::vector<Matrix> compose_taps(const Operator& op) {
  const auto [low_z, low_y, low_x] = op.reach_low;
  const auto [high_z, high_y, high_x] = op.reach_high;
  std::vector<Matrix> composed(static_cast<std::size_t>(low_z + high_z + 1),
                               Matrix(low_y + high_y + 1, low_x + high_x + 1));
  composed[low_z].at(low_y, low_x) = 1;
  for (int step = 0; step < op.steps; ++step) {
    std::vector<Matrix> next(composed.size(), Matrix(composed.front().rows, composed.front().columns));
    for (int plane = 0; plane < std::ssize(composed); ++plane) {
      for (int row = 0; row < composed[plane].rows; ++row) {
        for (int column = 0; column < composed[plane].columns; ++column) {
          const double value = composed[plane].at(row, column);
          if (value == 0) continue;
          for (const spec::Tap& tap : op.step) {
            const auto [dz, dy, dx] = tap.at;
            next[plane + dz].at(row + dy, column + dx) += value * tap.weight;
          }
        }
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

bool continues_about(const spec::StencilSpec& spec, const spec::Face& face, int axis) {
  constexpr double largest = 0x1p100;  // beyond which single steps may overflow, too
  if (face.rule != spec::BoundaryRule::constant || !is_even(spec, axis) || !reaches_one(spec, axis))
    return false;
  if (face.value == 0) return true;
  for (const int other : {spec::axis_y, spec::axis_x}) {
    for (const spec::Face* of : {&spec.boundary[other].low, &spec.boundary[other].high}) {
      if (of->rule == spec::BoundaryRule::constant && of->value != face.value) return false;
    }
  }
  double sum = 0;
  for (const spec::Tap& tap : spec.taps) sum += tap.weight;
  return std::fabs(sum - 1) <= 0x1p-48 && std::fabs(face.value) <= largest;
}

Rims rims_of(const spec::StencilSpec& spec, const Operator& op) {
  Rims rims{};
  for (const int axis : {spec::axis_y, spec::axis_x}) {
    const auto acts = [&](const spec::Face& face) {
      return !commutes(spec, face, axis) && !continues_about(spec, face, axis);
    };
    auto& [low, high] = rims[axis - spec::axis_y];
    if (acts(spec.boundary[axis].low)) low = op.reach_low[axis];
    if (acts(spec.boundary[axis].high)) high = op.reach_high[axis];
  }
  return rims;
}

std::string objection_to_composing(const spec::StencilSpec& spec) {
  for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis) {
    for (const spec::Face* face : {&spec.boundary[axis].low, &spec.boundary[axis].high}) {
      if (!commutes(spec, *face, axis)) {
        return fmt::format("'{}' along {} acts at every step, which steps taken at once do not see",
                           spec::rule_name(face->rule), spec::axis_letters[axis]);
      }
    }
  }
  return "";
}

spec::StencilSpec with_composed_rules(const spec::StencilSpec& spec) {
  spec::StencilSpec composed = spec;
  for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis) {
    spec::AxisBoundary& faces = composed.boundary[axis];
    for (spec::Face* face : {&faces.low, &faces.high}) {
      const spec::Face& of_step = face == &faces.low ? spec.boundary[axis].low : spec.boundary[axis].high;
      if (!commutes(spec, of_step, axis)) {
        *face = {};
      } else if (face->rule == spec::BoundaryRule::nearest) {
        face->rule = spec::BoundaryRule::reflect;
      } else if (face->rule == spec::BoundaryRule::constant) {
        face->rule = spec::BoundaryRule::antisymmetric;
      }
    }
  }
  return composed;
}

spec::StencilSpec composed_spec(const spec::StencilSpec& spec, const RoundedWeights& weights) {
  spec::StencilSpec composed = with_composed_rules(spec);
  composed.steps = 1;
  composed.tolerance = std::nullopt;
  composed.taps.clear();
  for (const RoundedTap& tap : weights.taps) composed.taps.push_back({tap.at, tap.weight, spec.where.steps});
  return composed;
}

bool ComposedSums::sums_agree() const {
  return std::fabs(packed_sum - sum) <= 0x1p-24 * magnitude;
}

ComposedSums compare_composed(const Operator& op, const RoundedWeights& weights) {
  std::vector<Matrix> rest = compose_taps(op);
  ComposedSums sums;
  for (const Matrix& plane : rest) {
    for (const double weight : plane.values) {
      sums.sum += weight;
      sums.magnitude += std::fabs(weight);
    }
  }
  for (const RoundedTap& tap : weights.taps) {
    const auto [dz, dy, dx] = tap.at;
    const auto [low_z, low_y, low_x] = op.reach_low;
    rest[dz + low_z].at(dy + low_y, dx + low_x) -= tap.packed;
    sums.packed_sum += tap.packed;
  }
  for (const Matrix& plane : rest) {
    for (const double difference : plane.values) sums.deviation += std::fabs(difference) / sums.magnitude;
  }
  return sums;
}

}  // namespace spidergen::plan
