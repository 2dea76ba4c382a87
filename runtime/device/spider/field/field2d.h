/// A 2D field as a sweep sees it, and the cells of it that a stencil's taps reach. A `Stencil` here has, as
/// static members:
/// - row_rules(), column_rules(): the boundary;
/// - band_count, band(i): the taps;
/// - highest_low, lowest_high: columns that every tap row may read, from that far after a box's first column
///   to that far before its end;
/// - column_reach_low, column_reach_high: lowest dx, at most 0; highest, at least 0.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/values/spans.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// `Element` is the bits of a cell, `OutElement` those of a result.
template <class Element, class OutElement = Element>
struct Field2d {
  const Element* input;  ///< the field's first interior element
  OutElement* output;
  std::int64_t input_stride, output_stride;  ///< elements from row to row
  std::int32_t rows, columns;                ///< of the field
  Region wanted;                             ///< the points of the sweep
  bool aligned_input, aligned_output;        ///< as in SweepArguments

  Field2d() = default;
  /// `image` is device::image_index() in kernels of forms that take images (SweepForm::takes_images).
  SPIDER_DEVICE explicit Field2d(const SweepArguments& field, std::int64_t image = 0)
      : input(static_cast<const Element*>(field.input) + image * field.input_stride[0]),
        output(static_cast<OutElement*>(field.output) + image * field.output_stride[0]),
        input_stride(field.input_stride[1]),
        output_stride(field.output_stride[1]),
        rows(static_cast<std::int32_t>(field.extent[1])),
        columns(static_cast<std::int32_t>(field.extent[2])),
        wanted{begin_of(field.box, 1), end_of(field.box, 1), begin_of(field.box, 2), end_of(field.box, 2)},
        aligned_input(field.aligned_input),
        aligned_output(field.aligned_output) {}

 private:
  SPIDER_DEVICE static std::int32_t begin_of(const Box& box, int axis) {
    return static_cast<std::int32_t>(box.offset[axis]);
  }
  SPIDER_DEVICE static std::int32_t end_of(const Box& box, int axis) {
    return static_cast<std::int32_t>(box.offset[axis] + box.extent[axis]);
  }
};

/// The output rows of a walk down a strip (TilingKind::strips), and the number of strips to its left.
struct Walk {
  std::int32_t across, first_row, rows;
  bool is_last = true;  ///< of its block: no piece follows
};

/// Walk number `index` of a sweep; a surplus walk of the grid has no rows. Rows are counted in groups of
/// Tiling::row_anchor.
template <int row_anchor = 1>
SPIDER_DEVICE Walk find_walk(const SweepArguments& field, int index) {
  const StripGrid& grid = field.grid.strips;
  int segment = 0;
  Walk walk{0, 0, 0};
  if (index < grid.edge_walks) {
    const int edge = index % grid.edge_strips;
    walk.across = edge == 0 ? 0 : grid.inner_strips + edge;
    segment = index / grid.edge_strips;
    walk.rows = grid.edge_rows;
  } else if (grid.inner_strips > 0) {
    const int inner = index - grid.edge_walks;
    walk.across = 1 + inner % grid.inner_strips;
    segment = inner / grid.inner_strips;
    walk.rows = grid.inner_rows;
  }
  const std::int32_t row = segment * walk.rows;
  const auto first = static_cast<std::int32_t>(field.box.offset[1]);
  const auto rows = static_cast<std::int32_t>(field.box.extent[1]);
  const std::int32_t remaining = (first % row_anchor + rows + row_anchor - 1) / row_anchor - row;
  if (walk.rows > remaining) walk.rows = remaining > 0 ? remaining : 0;
  walk.first_row = first / row_anchor + row;
  return walk;
}

/// How many rows a walk takes of those that whole walks leave, `rest` of each inner strip, so that it takes
/// no longer than a walk of `rows`: it has `lead` more steps for each strip, and one until its first rows
/// arrive. The same as in runtime/src/tiling.cpp.
SPIDER_DEVICE std::int32_t share_of_rest(std::int32_t rows, std::int32_t rest, std::int32_t lead) {
  const std::int32_t strips = 1 + rows / rest;
  const std::int32_t ahead = lead + 1;
  return strips < rows / (ahead + 1) ? rows - strips * ahead : 1 + rows / (ahead + 1);
}

/// Piece `piece` of the walks of block `index`, if Tiling::balances_tail. A block has one piece, unless it
/// takes rows that whole walks leave: these go strip by strip, as many as a walk takes with `lead` steps
/// ahead of each piece, and end with a piece without rows. They come after each strip's first whole walk: at
/// a face every piece would take longer. In 32 bits, so that divisions leave a walk's numbers in uniform
/// registers: a field has fewer than 2^31 groups of rows in all strips.
template <int row_anchor, int lead>
SPIDER_DEVICE Walk find_shared_walk(const SweepArguments& field, int index, int piece) {
  const StripGrid& grid = field.grid.strips;
  const auto first = static_cast<std::int32_t>(field.box.offset[1]);
  const auto extent = static_cast<std::int32_t>(field.box.extent[1]);
  const std::int32_t rows = (first % row_anchor + extent + row_anchor - 1) / row_anchor;
  const int inner = index - grid.edge_walks;
  if (inner < 0 || grid.inner_strips == 0) return find_walk<row_anchor>(field, index);
  const std::int32_t whole = rows / grid.inner_rows;  // walks per strip
  const std::int32_t rest = rows - whole * grid.inner_rows;
  const std::int32_t segment = inner / grid.inner_strips;
  if (segment < whole) {
    Walk walk = find_walk<row_anchor>(field, index);
    if (segment > 0) walk.first_row += rest;
    return walk;
  }
  Walk walk{0, first / row_anchor + (whole > 0 ? grid.inner_rows : 0), 0, false};
  if (rest == 0) return walk;
  const std::int32_t share = share_of_rest(grid.inner_rows, rest, lead);
  const std::int32_t begin = (inner - whole * grid.inner_strips) * share;
  const std::int32_t strip = begin / rest + piece;
  if (strip >= grid.inner_strips) return walk;
  const std::int32_t skipped = begin - strip * rest;  // rows of the strip
  const std::int32_t from = skipped > 0 ? skipped : 0;
  const std::int32_t to = skipped + share < rest ? skipped + share : rest;
  walk.across = 1 + strip;
  walk.first_row += from;
  walk.rows = to > from ? to - from : 0;
  return walk;
}

/// Where rows and columns outside the field are read.
template <class Stencil>
using RowIndex = IndexBy<Stencil::row_rules>;
template <class Stencil>
using ColumnIndex = IndexBy<Stencil::column_rules>;
template <class Stencil, class Element, class OutElement>
SPIDER_DEVICE auto map_row(const Field2d<Element, OutElement>& field, std::int32_t y) {
  return map_by<Stencil::row_rules>(y, field.rows);
}
template <class Stencil, class Element, class OutElement>
SPIDER_DEVICE auto map_column(const Field2d<Element, OutElement>& field, std::int32_t x) {
  return map_by<Stencil::column_rules>(x, field.columns);
}

/// True if any cell of row y is read.
template <class Stencil, class Element, class OutElement>
SPIDER_DEVICE bool row_is_reached(const Field2d<Element, OutElement>& field, std::int32_t y) {
  bool reached = has_row(field.wanted, y);
  SPIDER_UNROLL
  for (int i = 0; i < Stencil::band_count; ++i) reached |= reaches_row(Stencil::band(i), y, field.wanted);
  return reached;
}

/// True if cell (y, x) is one of the sweep's points, or reached from one.
template <class Stencil, class Element, class OutElement>
SPIDER_DEVICE bool cell_is_reached(const Field2d<Element, OutElement>& field, std::int32_t y,
                                   std::int32_t x) {
  if (has_point(field.wanted, y, x)) return true;
  bool reached = false;
  SPIDER_UNROLL
  for (int i = 0; i < Stencil::band_count; ++i) reached |= reaches(Stencil::band(i), y, x, field.wanted);
  return reached;
}

/// The value of a cell that maps to `row` and `column`, if a tap reaches it; otherwise 0. If both are
/// constants, the column has precedence.
template <class Element, class OutElement, class Row, class Column>
SPIDER_DEVICE Element fetch_cell(const Field2d<Element, OutElement>& field, bool reached, const Row& row,
                                 const Column& column) {
  const bool in_memory = reached && !column.constant && !row.constant;
  const auto constant = column.constant ? column.value : row.value;
  const Element cell = device::load_field_if(
      in_memory, field.input + (in_memory ? row.index * field.input_stride + column.index : 0),
      static_cast<Element>(reached ? constant : 0));
  return static_cast<Element>(cell ^ sign_of<Element>(negates_cell(row, column) && reached));
}

/// Columns, counted from column `left`, between which whole vectors of 16 bytes are in memory, at their own
/// places, in every row that is reached. A vector of an unaligned row spans two vectors of memory.
template <class Stencil, class Element, class OutElement>
SPIDER_DEVICE Span columns_in_memory(const Field2d<Element, OutElement>& field, std::int32_t left) {
  constexpr int vector_elements = 16 / static_cast<int>(sizeof(Element));
  constexpr int low = Stencil::highest_low > 0 ? Stencil::highest_low : 0;
  constexpr int high = Stencil::lowest_high < 0 ? Stencil::lowest_high : 0;
  const int before = field.aligned_input ? 0 : vector_elements - 1;
  const int behind = field.aligned_input ? 0 : vector_elements;
  return {field.wanted.column_begin - left + low + before, field.wanted.column_end - left + high - behind};
}

/// A form for boxes cut into strips of `strip_columns` columns, each walked down by `warps_per_walk` warps
/// together; `shared_bytes` are a block's. Strips begin on a line of 128 bytes, and always where a sum does;
/// inputs are `window_columns` from Stencil::first_column on.
template <class Stencil>
constexpr SweepForm strips_form(SweepFunction sweep, int warps_per_block, int warps_per_walk,
                                int shared_bytes, int strip_columns, int window_columns) {
  SweepForm form;
  form.sweep = sweep;
  form.tiling.kind = TilingKind::strips;
  form.tiling.warps_per_block = warps_per_block;
  form.tiling.warps_per_walk = warps_per_walk;
  form.tiling.shared_bytes = shared_bytes;
  form.tiling.input_alignment = 16;
  form.tiling.output_alignment = 8;  // bytes that a lane stores together
  form.tiling.tile_extent[0] = form.tiling.tile_extent[1] = 1;
  form.tiling.tile_extent[2] = strip_columns;
  form.tiling.left_margin = (Stencil::highest_low > 0 ? Stencil::highest_low : 0) - Stencil::first_column;
  form.tiling.right_margin = Stencil::first_column + window_columns - strip_columns +
                             (Stencil::lowest_high < 0 ? -Stencil::lowest_high : 0);
  form.tiling.anchor = 64;
  form.tiling.prologue_steps = Stencil::row_high - Stencil::row_low;
  return form;
}

}  // namespace device_4
}  // namespace spider
