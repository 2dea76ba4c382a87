#include "layout.h"

#include <algorithm>

namespace bench {
namespace {

constexpr std::int64_t row_alignment_bytes = 128;
constexpr std::int64_t caches_between = 3;

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

Halo hull(const Halo& a, const Halo& b) {
  Halo both;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    both.low[axis] = std::max(a.low[axis], b.low[axis]);
    both.high[axis] = std::max(a.high[axis], b.high[axis]);
  }
  return both;
}

FieldLayout make_layout(const Extents& extents, const Halo& halo, std::int64_t element_bytes,
                        std::int64_t offset) {
  const std::int64_t alignment = row_alignment_bytes / element_bytes;
  const auto round_up = [&](std::int64_t n) { return divide_up(n, alignment) * alignment; };
  const std::int64_t left = round_up(halo.low[2]);
  FieldLayout layout;
  layout.extents = extents;
  layout.row_stride = round_up(left + extents[2] + halo.high[2]) + offset;
  layout.plane_stride = (halo.low[1] + extents[1] + halo.high[1]) * layout.row_stride;
  layout.origin = halo.low[0] * layout.plane_stride + halo.low[1] * layout.row_stride + left + offset;
  layout.elements = round_up((halo.low[0] + extents[0] + halo.high[0]) * layout.plane_stride + offset);
  return layout;
}

FieldLayout dense_layout(const Extents& extents) {
  const std::int64_t plane = extents[1] * extents[2];
  return {extents, 0, plane, extents[2], extents[0] * plane};
}

int rotating_pairs(std::int64_t pair_bytes, std::int64_t cache_bytes) {
  return static_cast<int>(std::max<std::int64_t>(1, divide_up(caches_between * cache_bytes, pair_bytes)));
}

}  // namespace bench
