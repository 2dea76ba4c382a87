/// Positions of the overlapping blocks of a launch (TilingKind::overlapping).
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/values/spans.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// A piece of an axis: its cells from `start` on, and the range of them that it stores.
struct Piece {
  std::int32_t start;
  Span stored;
};

/// Piece `i` of a box that has the cells `box` of the axis. A piece that ends at no face stores `useful`
/// cells, after `margin` others.
SPIDER_DEVICE constexpr Piece find_piece(const OverlappedAxis& axis, std::int32_t i, const Span& box,
                                         std::int32_t useful, std::int32_t margin) {
  const std::int32_t begin = axis.second_begin + (i - 1) * useful;
  const bool is_last = i == axis.count - 1;
  const std::int32_t start = i == 0 ? axis.first_start : (is_last ? axis.last_start : begin - margin);
  return {start, {i == 0 ? box.begin : begin, is_last ? box.end : begin + useful}};
}

/// A strip of the launch, and the rows that its walk stores; there may be none.
struct StripWalk {
  std::int32_t strip;
  Span stored;
};

/// The walk of block `block` in a box of rows `box`.
SPIDER_DEVICE constexpr StripWalk find_strip_walk(const OverlappingGrid& grid, std::int32_t block,
                                                  const Span& box) {
  const std::int32_t strips = grid.columns.count;
  const std::int32_t outer = strips < 2 ? strips : 2;
  const bool is_outer = block < grid.outer_walks;
  const std::int32_t i = is_outer ? block : block - grid.outer_walks;
  const std::int32_t abreast = is_outer ? outer : strips - outer;
  const std::int32_t rows = is_outer ? grid.outer_rows : grid.inner_rows;
  const std::int32_t walk = i / abreast;
  const std::int32_t place = i - walk * abreast;
  const std::int32_t first = box.begin + walk * rows - grid.first_fewer;
  return {is_outer ? place * (strips - 1) : 1 + place,
          {first > box.begin ? first : box.begin, rows < box.end - first ? first + rows : box.end}};
}

}  // namespace device_4
}  // namespace spider
