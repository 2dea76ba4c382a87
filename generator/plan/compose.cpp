#include "plan/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

#include "plan/half.h"

namespace spidergen::plan {
namespace {

bool reaches_one(const spec::StencilSpec& spec, int axis) {
  return std::all_of(spec.taps.begin(), spec.taps.end(),
                     [&](const spec::Tap& tap) { return std::abs(tap.at[axis]) <= 1; });
}

/// Does a table add constants to composed steps? In 2D two passes do this, other schemes have rims.
bool is_looked_up(const spec::StencilSpec& spec, const spec::Face& face, int axis) {
  return spec.dimensions != 2 && composes_with_constant(spec, face, axis);
}

/// Does a face that does not commute compose in fields with more cells than the steps reach?
bool composes_when_large(const spec::StencilSpec& spec, const spec::Face& face, int axis) {
  return is_looked_up(spec, face, axis) || (spec.dimensions != 2 && mirrors_two_cells(spec, face, axis));
}

/// The largest factor by which this many steps can magnify the largest cell.
double growth_of(const Operator& op, int steps) {
  double magnitude = 0;
  for (const spec::Tap& tap : op.step) magnitude += std::fabs(tap.weight);
  return std::pow(std::max(1.0, magnitude), steps);
}

/// Where a walk that crosses a face continues, counted from the face's own cell; nothing where the rule has a
/// constant.
std::optional<int> find_beyond(const spec::Face& face, int beyond) {
  switch (face.rule) {
    case spec::BoundaryRule::nearest:
      return 0;
    case spec::BoundaryRule::reflect:
      return beyond - 1;
    case spec::BoundaryRule::mirror:
      return beyond;
    case spec::BoundaryRule::antisymmetric:
      return std::max(0, beyond - 2);
    default:
      return std::nullopt;
  }
}

/// The largest constant of faces that compose.
double largest_constant(const spec::StencilSpec& spec) {
  double largest = 0;
  for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis) {
    for (const spec::Face* face : {&spec.boundary[axis].low, &spec.boundary[axis].high}) {
      if (composes_with_constant(spec, *face, axis)) largest = std::max(largest, std::fabs(face->value));
    }
  }
  return largest;
}

/// A cell of an axis: its index inside the field, and the constant that replaces it outside a face that has
/// one, which is 0 in the first ghost cell of `antisymmetric`. Other faces do not change a field that is
/// uniform along their axis.
struct HeldCell {
  int index = 0;
  bool negated = false;
  std::optional<double> constant;

  /// The cell's value, from its value along slower axes.
  [[nodiscard]] double value(double slower) const {
    return constant ? *constant : (negated ? -slower : slower);
  }
};

HeldCell find_cell(const spec::StencilSpec& spec, int axis, int index, int extent) {
  const spec::Face& face = index < 0 ? spec.boundary[axis].low : spec.boundary[axis].high;
  const int inner = std::clamp(index, 0, extent - 1);
  if (index == inner) return {inner, false, {}};
  if (composes_with_constant(spec, face, axis)) return {inner, false, face.value};
  if (face.rule != spec::BoundaryRule::antisymmetric) return {inner, false, {}};
  const int beyond = std::abs(index - inner);
  if (beyond == 1) return {inner, false, 0.0};
  return {index < 0 ? beyond - 2 : extent - 1 - (beyond - 2), true, {}};
}

/// One step of a field, extended along z, then y, then x.
std::vector<Matrix> step_once(const spec::StencilSpec& spec, const Operator& op,
                              const std::vector<Matrix>& from) {
  const auto planes = static_cast<int>(from.size());
  const auto [rows, columns] = std::pair(from.front().rows, from.front().columns);
  std::vector<Matrix> to(from.size(), Matrix(rows, columns));
  for (const spec::Tap& tap : op.step) {
    for (int z = 0; z < planes; ++z) {
      const HeldCell plane = find_cell(spec, spec::axis_z, z + tap.at[spec::axis_z], planes);
      for (int y = 0; y < rows; ++y) {
        const HeldCell row = find_cell(spec, spec::axis_y, y + tap.at[spec::axis_y], rows);
        for (int x = 0; x < columns; ++x) {
          const HeldCell column = find_cell(spec, spec::axis_x, x + tap.at[spec::axis_x], columns);
          const double cell = from[plane.index].at(row.index, column.index);
          to[z].at(y, x) += tap.weight * column.value(row.value(plane.value(cell)));
        }
      }
    }
  }
  return to;
}

/// The number of places at the low and the high end of an axis that differ from the middle one by more than
/// `negligible`. `cell` returns the value at a place.
template <class Cell>
std::array<int, 2> places_near(const std::array<int, 3>& extent, int axis, double negligible,
                               const Cell& cell) {
  const int middle = extent[axis] / 2;
  const auto differs = [&](int place) {
    for (int z = 0; z < extent[spec::axis_z]; ++z) {
      for (int y = 0; y < extent[spec::axis_y]; ++y) {
        for (int x = 0; x < extent[spec::axis_x]; ++x) {
          spec::Offset here{z, y, x};
          spec::Offset far = here;
          here[axis] = place;
          far[axis] = middle;
          if (std::fabs(cell(here) - cell(far)) > negligible) return true;
        }
      }
    }
    return false;
  };
  std::array<int, 2> near{middle, extent[axis] - 1 - middle};
  while (near[0] > 0 && !differs(near[0] - 1)) --near[0];
  while (near[1] > 0 && !differs(extent[axis] - near[1])) --near[1];
  return near;
}

/// Copies the cells near faces, and one plane, one row and one column of the others.
BoundaryContribution copy_near(const std::vector<Matrix>& all, double negligible) {
  const std::array extent{static_cast<int>(all.size()), all.front().rows, all.front().columns};
  BoundaryContribution added;
  std::array<std::vector<int>, 3> places;
  for (const int axis : {spec::axis_z, spec::axis_y, spec::axis_x}) {
    const auto [low, high] = places_near(extent, axis, negligible, [&](const spec::Offset& at) {
      return all[at[spec::axis_z]].at(at[spec::axis_y], at[spec::axis_x]);
    });
    added.near[axis] = {low, high};
    for (int place = 0; place < low; ++place) places[axis].push_back(place);
    places[axis].push_back(extent[axis] / 2);
    for (int place = extent[axis] - high; place < extent[axis]; ++place) places[axis].push_back(place);
  }
  const auto& [planes, rows, columns] = places;
  for (const int z : planes) {
    Matrix& plane =
        added.planes.emplace_back(static_cast<int>(rows.size()), static_cast<int>(columns.size()));
    for (int row = 0; row < plane.rows; ++row) {
      for (int column = 0; column < plane.columns; ++column)
        plane.at(row, column) = all[z].at(rows[row], columns[column]);
    }
  }
  return added;
}

/// The position of a result along an axis: `before` cells from a face, or from the end of an axis without
/// faces. Cells count from there up the axis, or down.
struct Nearby {
  const spec::Face* face;
  int before;
  bool up;
};

/// Adds a line of weights to another, shifted by `offset`, times a weight. Weights that cross the face of the
/// line's axis move to the cell from which its rule copies; a constant drops them.
void add_line(const std::vector<double>& from, int offset, double weight, const Nearby& beside,
              std::vector<double>& to) {
  const int cells = static_cast<int>(from.size());
  // Without a face, no walk reaches the end of the axis.
  for (int cell = 0; beside.face != nullptr && cell < std::min(cells, -offset); ++cell) {
    if (const std::optional<int> at = find_beyond(*beside.face, -(cell + offset)))
      to[static_cast<std::size_t>(*at)] += weight * from[static_cast<std::size_t>(cell)];
  }
  for (int cell = std::max(0, -offset); cell < std::min(cells, cells - offset); ++cell)
    to[static_cast<std::size_t>(cell + offset)] += weight * from[static_cast<std::size_t>(cell)];
}

/// The share of a result that all steps read from more than `reach` cells away: the weights of all walks that
/// leave the reach at the same step and cell, times the growth of a cell in later steps.
double flow_beyond(const Operator& op, int axis, int reach, const Nearby& along, const Nearby& beside) {
  const int other = spec::axis_y + spec::axis_x - axis;
  const int sideways = std::max(op.reach_low[other], op.reach_high[other]);
  const int before = beside.face == nullptr ? sideways : beside.before;
  const std::vector<double> nothing(static_cast<std::size_t>(before + 1 + sideways));
  const auto lines = static_cast<std::size_t>(along.before + 1 + reach);
  std::vector<std::vector<double>> share(lines, nothing);
  share[static_cast<std::size_t>(along.before)][static_cast<std::size_t>(before)] = 1;
  int radius = 0;
  for (const spec::Tap& tap : op.step) radius = std::max(radius, std::abs(tap.at[axis]));
  double taken = 0;
  for (int step = 0; step < op.steps; ++step) {
    std::vector<std::vector<double>> next(lines + static_cast<std::size_t>(radius), nothing);
    for (const spec::Tap& tap : op.step) {
      const int offset = along.up ? tap.at[axis] : -tap.at[axis];
      const int aside = beside.up ? tap.at[other] : -tap.at[other];
      for (int line = 0; line < static_cast<int>(lines); ++line) {
        const int place = line + offset;
        if (place < 0 && along.face == nullptr) continue;  // no walk reaches it
        const std::optional<int> at = place < 0 ? find_beyond(*along.face, -place) : place;
        if (at) {
          add_line(share[static_cast<std::size_t>(line)], aside, tap.weight, beside,
                   next[static_cast<std::size_t>(*at)]);
        }
      }
    }
    double left = 0;
    for (std::size_t line = lines; line < next.size(); ++line) {
      for (const double weight : next[line]) left += std::fabs(weight);
    }
    taken += left * growth_of(op, op.steps - 1 - step);
    next.resize(lines);
    share = std::move(next);
  }
  return taken;
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
      // An axis of one cell has copies of it as ghost cells, whatever the other face's rule.
      const spec::AxisBoundary& faces = spec.boundary[axis];
      const auto turns = [](const spec::Face& side) {
        return side.rule == spec::BoundaryRule::mirror || side.rule == spec::BoundaryRule::reflect ||
               side.rule == spec::BoundaryRule::nearest;
      };
      return mirrors_two_cells(spec, face, axis) && turns(faces.low) && turns(faces.high);
    }
    case spec::BoundaryRule::nearest:
      return is_even(spec, axis) && reaches_one(spec, axis);
    case spec::BoundaryRule::constant:
      return face.value == 0 && is_even(spec, axis) && reaches_one(spec, axis);
    case spec::BoundaryRule::antireflect:
    case spec::BoundaryRule::antimirror:
      return false;  // only systems have them
  }
  return false;
}

bool composes_with_constant(const spec::StencilSpec& spec, const spec::Face& face, int axis) {
  return face.rule == spec::BoundaryRule::constant && is_even(spec, axis) && reaches_one(spec, axis);
}

bool mirrors_two_cells(const spec::StencilSpec& spec, const spec::Face& face, int axis) {
  return face.rule == spec::BoundaryRule::mirror && is_even(spec, axis);
}

bool BoundaryContribution::is_moderate() const {
  const auto is_small = [](double value) { return std::fabs(value) <= 0x1p100; };
  return std::all_of(planes.begin(), planes.end(), [&](const Matrix& plane) {
    return std::all_of(plane.values.begin(), plane.values.end(), is_small);
  });
}

BoundaryContribution added_by_constants(spec::StencilSpec spec, const Operator& op) {
  for (spec::AxisBoundary& faces : spec.boundary) {
    faces.low.value = stored_value(spec.storage, faces.low.value);
    faces.high.value = stored_value(spec.storage, faces.high.value);
  }
  const double largest = largest_constant(spec);
  if (largest == 0) return {};
  // One row or column suffices where no face of the axis makes them differ.
  const auto cells_of = [&](int axis) {
    const auto& [low, high] = spec.boundary[axis];
    const auto differs = [&](const spec::Face& face) {
      return composes_with_constant(spec, face, axis) || face.rule == spec::BoundaryRule::antisymmetric;
    };
    return differs(low) || differs(high) ? 2 * std::max(op.reach_low[axis], op.reach_high[axis]) + 1 : 1;
  };
  std::vector<Matrix> all(cells_of(spec::axis_z), Matrix(cells_of(spec::axis_y), cells_of(spec::axis_x)));
  for (int step = 0; step < op.steps; ++step) all = step_once(spec, op, all);
  return copy_near(all, 0x1p-24 * largest * growth_of(op, op.steps));
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

Rims rims_of_passes(const spec::StencilSpec& spec, const Operator& op) {
  Rims rims = rims_of(spec, op);
  for (const int axis : {spec::axis_y, spec::axis_x}) {
    const auto composes = [&](const spec::Face& face) {
      return composes_with_constant(spec, face, axis) || mirrors_two_cells(spec, face, axis);
    };
    auto& [low, high] = rims[axis - spec::axis_y];
    if (composes(spec.boundary[axis].low)) low = 0;
    if (composes(spec.boundary[axis].high)) high = 0;
  }
  return rims;
}

double truncation_beyond(const spec::StencilSpec& spec, const Operator& op, int axis, int reach,
                         double enough) {
  const int other = spec::axis_y + spec::axis_x - axis;
  const auto ends = [](const spec::Face& face) {
    return face.rule != spec::BoundaryRule::halo && face.rule != spec::BoundaryRule::periodic;
  };
  const int far = std::max(op.reach_low[axis], op.reach_high[axis]);
  double most = 0;
  const auto take = [&](const Nearby& along, const Nearby& beside) {
    if (most <= enough) most = std::max(most, flow_beyond(op, axis, reach, along, beside));
  };
  for (const bool up : {false, true}) {
    const spec::Face& face = up ? spec.boundary[axis].low : spec.boundary[axis].high;
    const Nearby nowhere{nullptr, far, up};
    const Nearby beside_none{nullptr, 0, true};
    take(nowhere, beside_none);
    // Faces of the other axis that are farther than `reach` hardly contribute.
    std::vector<Nearby> beside;
    for (const bool high : {false, true}) {
      const spec::Face& next = high ? spec.boundary[other].high : spec.boundary[other].low;
      for (int cells = 0; ends(next) && cells < reach; ++cells) beside.push_back({&next, cells, !high});
    }
    for (const Nearby& place : beside) take(nowhere, place);
    for (int before = 0; ends(face) && before < far; ++before) {
      const Nearby near{&face, before, up};
      take(near, beside_none);
      for (const Nearby& place : beside) {
        if (before < reach) take(near, place);
      }
    }
  }
  return most;
}

std::string objection_to_composing(const spec::StencilSpec& spec) {
  if (spec.dimensions == 2) return "";
  for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis) {
    for (const spec::Face* face : {&spec.boundary[axis].low, &spec.boundary[axis].high}) {
      if (!commutes(spec, *face, axis) && !composes_when_large(spec, *face, axis)) {
        return fmt::format("'{}' along {} acts at every step, which steps taken at once do not see",
                           spec::rule_name(face->rule), spec::axis_letters[axis]);
      }
    }
  }
  return "";
}

bool compose_when_large(const spec::StencilSpec& spec) {
  for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis) {
    for (const spec::Face* face : {&spec.boundary[axis].low, &spec.boundary[axis].high}) {
      if (!commutes(spec, *face, axis) && composes_when_large(spec, *face, axis)) return true;
    }
  }
  return false;
}

spec::StencilSpec with_composed_rules(const spec::StencilSpec& spec) {
  spec::StencilSpec composed = spec;
  for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis) {
    spec::AxisBoundary& faces = composed.boundary[axis];
    for (spec::Face* face : {&faces.low, &faces.high}) {
      const spec::Face& of_step = face == &faces.low ? spec.boundary[axis].low : spec.boundary[axis].high;
      if (is_looked_up(spec, of_step, axis)) {
        face->rule = spec::BoundaryRule::antisymmetric;
        face->value = 0;
      } else if (!commutes(spec, of_step, axis) && !composes_when_large(spec, of_step, axis)) {
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
