/// A box in tiles, and memory for one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "axis.h"

namespace spider::host {

inline constexpr int axis_z = 0;
inline constexpr int axis_y = 1;
inline constexpr int axis_x = 2;

/// Cells along z, y, x.
using Tile = std::array<Range, 3>;

/// Tiles that divide a box.
struct Tiles {
  Tile box;
  std::array<std::int64_t, 3> extent;

  [[nodiscard]] std::int64_t along(int axis) const {
    return (box[axis].size() + extent[axis] - 1) / extent[axis];
  }
  [[nodiscard]] std::int64_t count() const {
    for (const Range& range : box) {
      if (range.empty()) return 0;
    }
    return along(axis_z) * along(axis_y) * along(axis_x);
  }
  [[nodiscard]] Tile tile(std::int64_t i) const {
    const std::int64_t place[3] = {i / (along(axis_x) * along(axis_y)), i / along(axis_x) % along(axis_y),
                                   i % along(axis_x)};
    Tile tile;
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t begin = box[axis].begin + place[axis] * extent[axis];
      tile[axis] = {begin, std::min(box[axis].end, begin + extent[axis])};
    }
    return tile;
  }
};

/// Makes room for at least that many numbers.
template <class Number>
void grow(std::vector<Number>& numbers, std::int64_t count) {
  const auto wanted = static_cast<std::size_t>(count);
  if (numbers.size() < wanted) numbers.resize(wanted);
}

}  // namespace spider::host
