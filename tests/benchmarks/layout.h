/// Where the cells of a field lie in its memory.
#pragma once

#include <cstdint>

#include "sizes.h"

namespace bench {

/// Offsets and strides in elements.
struct FieldLayout {
  Extents extents{1, 1, 1};
  std::int64_t origin = 0;  ///< of the first interior element
  std::int64_t plane_stride = 0;
  std::int64_t row_stride = 0;
  std::int64_t elements = 0;  ///< of the memory

  [[nodiscard]] std::int64_t index(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return origin + z * plane_stride + y * row_stride + x;
  }
};

/// Cells around the interior, along z, y, x.
struct Halo {
  Extents low{};
  Extents high{};
};

/// The least that holds both.
[[nodiscard]] Halo hull(const Halo& a, const Halo& b);

/// Rows start on 128 bytes if the memory does and `offset` is 0. Otherwise the first starts `offset` elements
/// behind that and each of the following another `offset` further.
[[nodiscard]] FieldLayout make_layout(const Extents& extents, const Halo& halo, std::int64_t element_bytes,
                                      std::int64_t offset);

/// Without halo or padding.
[[nodiscard]] FieldLayout dense_layout(const Extents& extents);

/// How many pairs of fields, `pair_bytes` each, a series of launches must go round so that each reads from
/// memory what was last touched three L2 caches ago; 1 where a single pair is as large as that.
[[nodiscard]] int rotating_pairs(std::int64_t pair_bytes, std::int64_t cache_bytes);

}  // namespace bench
