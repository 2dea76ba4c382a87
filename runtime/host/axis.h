/// An axis of a field, its faces, and how far steps look along it.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>

#include <algorithm>
#include <cstdint>

namespace spider::host {

/// Indices from `begin` to before `end`.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  [[nodiscard]] bool empty() const { return end <= begin; }
  [[nodiscard]] bool holds(std::int64_t i) const { return i >= begin && i < end; }
};

[[nodiscard]] inline Range hull(const Range& a, const Range& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

/// Where a cell is taken from: index `index` of the axis, or a constant.
struct Place {
  static constexpr int zero = 2;

  std::int64_t index = 0;
  bool constant = false;
  int side = 0;          ///< face of the constant: 0 low, 1 high; or `zero`, of an antisymmetric face
  bool negated = false;  ///< its value is negated
};

/// One axis. Indices of stored cells continue across periodic and halo faces; outside other faces a sweep
/// looks cells up by the face's rule.
struct Axis {
  std::int64_t extent = 1;
  FaceRule rules[2] = {FaceRule::halo, FaceRule::halo};
  std::int64_t reach[2] = {0, 0};  ///< of one step, low and high

  [[nodiscard]] bool periodic() const { return rules[0] == FaceRule::periodic; }
  [[nodiscard]] bool open(int side) const {
    return rules[side] == FaceRule::halo || rules[side] == FaceRule::periodic;
  }

  /// Where a tap from a stored cell finds cell `i`.
  [[nodiscard]] Place find(std::int64_t i) const {
    if ((i >= 0 && i < extent) || periodic()) return {i, false, 0};
    const AxisRules sides{rules[0], rules[1], 1, 2};  // an antisymmetric face gives 0
    if (negates(sides)) {
      const SignedFarIndex mapped = map_signed_far_index(sides, i, extent);
      const int side = mapped.value == 0 ? Place::zero : static_cast<int>(mapped.value) - 1;
      return {mapped.index, mapped.constant, side, mapped.negated};
    }
    const MappedFarIndex mapped = map_far_index(sides, i, extent);
    return {mapped.index, mapped.constant, static_cast<int>(mapped.value) - 1};
  }

  /// Memory index of a stored cell.
  [[nodiscard]] std::int64_t in_memory(std::int64_t i) const {
    if (!periodic()) return i;
    const std::int64_t remainder = i % extent;
    return remainder < 0 ? remainder + extent : remainder;
  }

  /// The stored cells that `reached` ones map to, some of which may lie outside faces: their hull.
  [[nodiscard]] Range kept(const Range& reached) const {
    if (periodic()) return reached;
    Range found{std::max<std::int64_t>(reached.begin, 0), std::min(reached.end, extent)};
    const auto look_up = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Place place = find(i);
        if (!place.constant) found = hull(found, {place.index, place.index + 1});
      }
    };
    look_up(reached.begin, std::min<std::int64_t>(reached.end, 0));
    look_up(std::max(reached.begin, extent), reached.end);
    return found;
  }

  /// The stored cells that `steps` steps to `cells` need. A cell mirrored at a face stays as near to the cell
  /// that reached it, but may be on its other side.
  [[nodiscard]] Range needed(Range cells, std::int64_t steps) const {
    for (std::int64_t step = 0; step < steps; ++step)
      cells = kept({cells.begin - reach[0], cells.end + reach[1]});
    return cells;
  }
};

}  // namespace spider::host
