/// Contributions of constants outside faces to sums of composed steps: a table of the cells near the low
/// face, one far from both, and those near the high face, along each axis.
#pragma once

#include <spider/machine/instructions.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

/// True if constants outside faces add to sums.
template <class Stencil, class = void>
struct HasConstants : std::false_type {};
template <class Stencil>
struct HasConstants<Stencil, std::void_t<typename Stencil::Constants>> : std::true_type {};

/// True if one of `count` indices from `first` on is among `low` of the low face or `high` of the high one.
template <class Index>
SPIDER_DEVICE constexpr bool is_near_face(Index first, int count, Index extent, int low, int high) {
  return first < low || first + count > extent - high;
}

/// The entry of index i: of `low` from the low face on, one that is far, and `high` up to the high face.
/// Indices outside the field, of tiles that begin or end there, use the entry at the face.
template <class Index>
SPIDER_DEVICE constexpr int place_by_faces(Index i, Index extent, int low, int high) {
  const Index from_high = extent - 1 - i;
  const int of_low = i < 0 ? 0 : (i < low ? static_cast<int>(i) : low);
  return of_low + (from_high < 0 ? high : (from_high < high ? high - static_cast<int>(from_high) : 0));
}

/// The table of a 3D stencil: planes of rows. There is none without constants.
template <class Stencil, bool exists = HasConstants<Stencil>::value>
struct ConstantsTable {
  static constexpr int planes = 0, rows = 0;
};
template <class Stencil>
struct ConstantsTable<Stencil, true> {
  using Constants = typename Stencil::Constants;
  static constexpr int planes = Constants::low_planes + 1 + Constants::high_planes;
  static constexpr int rows = Constants::low_rows + 1 + Constants::high_rows;
  static constexpr int columns = Constants::low_columns + 1 + Constants::high_columns;

  /// Entries of plane z, row y and column x of the field.
  SPIDER_DEVICE static int plane(std::int32_t extent, std::int32_t z) {
    return place_by_faces(z, extent, Constants::low_planes, Constants::high_planes);
  }
  SPIDER_DEVICE static int row(std::int32_t extent, std::int32_t y) {
    return place_by_faces(y, extent, Constants::low_rows, Constants::high_rows);
  }
  SPIDER_DEVICE static int column(std::int32_t extent, std::int32_t x) {
    return place_by_faces(x, extent, Constants::low_columns, Constants::high_columns);
  }
};

}  // namespace device_4
}  // namespace spider
