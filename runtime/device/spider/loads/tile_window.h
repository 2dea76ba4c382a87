/// Tiles of a 2D field, and the inputs of a tile of cells of 16 bits or 8 in shared memory, or in flight to
/// it: a window of some rows, all of one width. This file handles the boundary, boxes and unaligned rows: in
/// the window a kernel finds every cell that its taps reach, and zeros for cells that none reaches.
#pragma once

#include <spider/field/boundary.h>
#include <spider/field/field2d.h>
#include <spider/kernel.h>
#include <spider/loads/shifted_rows.h>
#include <spider/machine/instructions.h>
#include <spider/sums/update.h>
#include <spider/values/vectors.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// A tile of a sweep, and its field. `Storage` is of spider/values/storage.h.
template <class Storage>
struct FieldTile : Field2d<typename Storage::Element, typename Storage::OutElement> {
  using Field = Field2d<typename Storage::Element, typename Storage::OutElement>;

  std::int32_t row, column;  ///< y and x of the tile's first output

  FieldTile() = default;
  /// The tile at the upper left: its row is the last multiple of `row_anchor` at or before the sweep's first
  /// row, its column the grid's first.
  SPIDER_DEVICE FieldTile(const SweepArguments& field, int row_anchor)
      : Field(field, device::image_index()),
        row(this->wanted.row_begin / row_anchor * row_anchor),
        column(field.grid.volume.first_column) {}
};

/// The same for a stencil on tensor cores, with the arguments of its update, if it has one.
template <class Stencil>
struct StencilTile : FieldTile<typename Stencil::Storage>, UpdateSource<Stencil> {
  StencilTile() = default;
  SPIDER_DEVICE StencilTile(const ArgumentsOf<Stencil>& field, int row_anchor)
      : FieldTile<typename Stencil::Storage>(field, row_anchor), UpdateSource<Stencil>(field) {}
};

/// True if the sweep stores all outputs of a tile of this many rows and columns.
template <int rows, int columns, class Storage>
SPIDER_DEVICE bool has_plain_outputs(const FieldTile<Storage>& tile) {
  return tile.row >= tile.wanted.row_begin && tile.row + rows <= tile.wanted.row_end &&
         tile.column >= tile.wanted.column_begin && tile.column + columns <= tile.wanted.column_end;
}

/// A form for boxes cut into tiles of `rows` x `columns` a block, which begin at multiples of `row_anchor`
/// along y; along x on a line of 128 bytes, and always where a sum does. For boxes with at least
/// `min_blocks_per_sm` blocks per multiprocessor.
constexpr SweepForm tiles_form(SweepFunction sweep, int warps_per_block, int shared_bytes,
                               int output_alignment, int rows, int columns, int row_anchor,
                               int min_blocks_per_sm) {
  SweepForm form;
  form.sweep = sweep;
  form.tiling.kind = TilingKind::tiles;
  form.tiling.warps_per_block = warps_per_block;
  form.tiling.shared_bytes = shared_bytes;
  form.tiling.input_alignment = 16;
  form.tiling.output_alignment = output_alignment;
  form.tiling.tile_extent[0] = 1;
  form.tiling.tile_extent[1] = rows;
  form.tiling.tile_extent[2] = columns;
  form.tiling.anchor = 64;
  form.tiling.row_anchor = row_anchor;
  form.min_blocks_per_sm = min_blocks_per_sm;
  form.starts_early = true;
  form.takes_images = true;
  return form;
}

/// Blocks of a sweep to the left of one, and above it.
struct BlockPlace {
  int across, down;
};

/// Blocks at the lower edge come first, because they take longer.
SPIDER_DEVICE BlockPlace find_block(const VolumeGrid& grid) {
  const int block = device::block_index();
  const int down = block / grid.across;
  return {block % grid.across, (down == 0 ? grid.down : down) - 1};
}

/// The window of a tile. Rows of the window count from the row of the lowest tap of the tile's first output,
/// columns from Shape::first_column of the tile; x and y are those of the field. The warps of a tile call
/// every function that waits (sync) together. `Shape` has, besides the members that spider/field/field2d.h
/// requires, as static members:
/// - Storage: of spider/values/storage.h, for cells of 16 bits or 8;
/// - tile_rows: output rows;
/// - warps, warp(): how many share the tile, all of the block or one, and the index of this one;
/// - row_low, row_high: lowest and highest dy;
/// - first_column: a multiple of the cells of 16 bytes;
/// - window_vectors: vectors of 16 bytes in a row;
/// - row_place(row): where a row begins in shared memory, a multiple of 16. Unaligned rows that are copied in
///   bulk take a vector more;
/// - only for start_bulk_copies: begin_copies(row_bytes), which prepares the barriers for that many bytes of
///   each row, and barrier_of(row), the barrier of the copy of a row;
/// - only for stagger_first_wave: spare_place(), room in shared memory for a cell that is never read.
template <class Shape>
struct TileWindow {
  using Storage = typename Shape::Storage;
  using Element = typename Storage::Element;
  using Tile = FieldTile<Storage>;
  using Shared = device::Shared;
  using Vector = device::Vector;

  static constexpr int element_bytes = Storage::element_bytes;
  static constexpr int vector_elements = Storage::vector_elements;
  static constexpr int vector_bytes = 16;
  static_assert(element_bytes <= 2, "words are of several cells");
  static_assert(Shape::first_column % vector_elements == 0, "windows begin with a vector of memory");

  static constexpr int rows = Shape::tile_rows + Shape::row_high - Shape::row_low;
  static constexpr int vectors = Shape::window_vectors;
  static constexpr int columns = vectors * vector_elements;
  static constexpr int threads = Shape::warps * 32;

  /// Vectors that a lane requests together, of unaligned rows.
  static constexpr int vectors_at_once = 4;

  /// Cells that a lane requests together at an edge, where taps reach as many outside it.
  static constexpr int farther_reach = -Shape::column_reach_low > Shape::column_reach_high
                                           ? -Shape::column_reach_low
                                           : Shape::column_reach_high;
  static constexpr int cells_at_once = farther_reach < 1 ? 1 : (farther_reach > 4 ? 4 : farther_reach);

  /// A barrier of the warps of a tile.
  SPIDER_DEVICE static void sync() {
    if constexpr (Shape::warps == 1) {
      device::sync_warp();
    } else {
      device::sync_block();
    }
  }

  /// True if all rows that the tile's outputs read are in the box, and so in place, and read.
  SPIDER_DEVICE static bool has_plain_rows(const Tile& tile) {
    constexpr int first_row = Shape::row_low < 0 ? Shape::row_low : 0;
    constexpr int end_row = Shape::tile_rows + (Shape::row_high > 0 ? Shape::row_high : 0);
    return tile.row + first_row >= tile.wanted.row_begin && tile.row + end_row <= tile.wanted.row_end;
  }

  /// True if all inputs of the tile are in the box; for unaligned rows all vectors of memory that they span,
  /// too.
  SPIDER_DEVICE static bool has_plain_inputs(const Tile& tile) {
    const int before = tile.aligned_input ? 0 : vector_elements - 1;
    const int behind = tile.aligned_input ? 0 : vector_elements;
    return has_plain_rows(tile) && tile.column + Shape::first_column - before >= tile.wanted.column_begin &&
           tile.column + Shape::first_column + columns + behind <= tile.wanted.column_end;
  }

  /// True if start_bulk_copies may copy the tile's inputs.
  SPIDER_DEVICE static bool can_copy_in_bulk(const Tile& tile) {
    return device::has_bulk_copies && (tile.aligned_input ? has_plain_rows(tile) : has_plain_inputs(tile));
  }

  /// The columns of whole vectors that are in memory, in place, in every row that is reached.
  SPIDER_DEVICE static Span whole_vectors(const Tile& tile) {
    const Span columns = columns_in_memory<Shape>(tile, tile.column + Shape::first_column);
    const Span whole = vectors_within<vector_elements>(columns, 0, vectors);
    return {whole.begin * vector_elements, whole.end * vector_elements};
  }

  SPIDER_DEVICE static CellColumns cell_columns(const Tile& tile, const Span& whole) {
    const std::int32_t left = tile.column + Shape::first_column;
    const Span reached = {tile.wanted.column_begin + Shape::column_reach_low - left,
                          tile.wanted.column_end + Shape::column_reach_high - left};
    return columns_beside(whole, reached, columns);
  }

  /// The first input of the window, if it lies in memory at its own place.
  SPIDER_DEVICE static const Element* first_input(const Tile& tile) {
    return tile.input + ((tile.row + Shape::row_low) * tile.input_stride + tile.column + Shape::first_column);
  }

  /// Staggers the first wave, so that inputs do not arrive all together and leave tensor cores idle until
  /// then (tests/benchmarks/README.md): for each earlier block of the multiprocessor the tile's first warp
  /// makes `answers` loads of inputs, each dependent on the last. For tiles with has_plain_rows.
  SPIDER_DEVICE static void stagger_first_wave(const Tile& tile, const VolumeGrid& grid, int answers) {
    const int block = device::block_index();
    if (Shape::warp() != 0 || block >= grid.first_wave) return;
    const std::int32_t column =
        tile.column < tile.wanted.column_begin ? tile.wanted.column_begin : tile.column;
    const Element* from = tile.input + ((tile.row + Shape::row_low) * tile.input_stride + column);
    int asked = 0;
    SPIDER_NO_UNROLL
    for (int before = block - grid.multiprocessors; before >= 0; before -= grid.multiprocessors) {
      SPIDER_NO_UNROLL
      for (int i = 0; i < answers; ++i) {
        // From another row each time, which no cache of the multiprocessor has.
        const Element answer = device::load_field(from + asked++ % rows * tile.input_stride);
        // Store the value so that the load is not eliminated.
        device::store_shared_if(device::lane_index() == 0, Shape::spare_place(), answer);
      }
    }
  }

  /// Starts the copies of a tile's inputs to the window if its rows need no care: has_plain_rows, or for
  /// unaligned rows has_plain_inputs. Rows have arrived once their barriers are complete; any thread may wait
  /// for these from here on. shift_rows has to follow for unaligned rows. Cells next to whole vectors are
  /// stored on return.
  SPIDER_DEVICE static Leads start_bulk_copies(const Tile& tile) {
    const bool all_whole = has_plain_inputs(tile);
    const Span whole = all_whole ? Span{0, columns} : whole_vectors(tile);
    const Leads leads = find_leads(first_input(tile), tile.input_stride);
    const std::uint32_t row_bytes =
        (whole.end - whole.begin) * element_bytes + (tile.aligned_input ? 0 : vector_bytes);
    if (Shape::warp() == 0) Shape::begin_copies(row_bytes);
    if (!all_whole) clear_beside(whole);
    sync();
    copy_in_bulk(tile, whole, leads, row_bytes);
    if (!all_whole) fetch_cells(tile, cell_columns(tile, whole));
    sync();  // for the cells; and no warp waits for copies that another has yet to start
    return leads;
  }

  /// Moves unaligned rows that were copied in bulk to the places of aligned ones; each warp has some.
  SPIDER_DEVICE static void shift_rows(const Leads& leads) {
    SPIDER_NO_UNROLL
    for (int row = Shape::warp(); row < rows; row += Shape::warps) {
      shift_row<vectors * vector_bytes / 4, element_bytes>(Shape::row_place(row), lead_of(leads, row));
    }
  }

  /// Copies the inputs of any tile to the window. On return this warp's copies have arrived; a barrier of the
  /// tile's warps has to follow.
  SPIDER_DEVICE static void copy_any(const Tile& tile) {
    const Span whole = whole_vectors(tile);
    const CellColumns cells = cell_columns(tile, whole);
    if (tile.aligned_input) {
      copy_whole(tile, whole);
      device::copy_async_commit();
    } else {
      gather_across(tile, whole);
    }
    sync();
    fetch_cells(tile, cells);
    device::copy_async_wait<0>();
  }

  /// For unaligned rows: stores the vectors within `whole` to the window if rows are in memory, and otherwise
  /// the row's constant. The rest becomes zeros.
  SPIDER_DEVICE static void gather_across(const Tile& tile, const Span& whole) {
    constexpr int all = rows * vectors;
    const int thread = Shape::warp() * 32 + device::lane_index();
    SPIDER_NO_UNROLL
    for (int first = thread; first < all; first += threads * vectors_at_once) {
      Vector cells[vectors_at_once];
      SPIDER_UNROLL
      for (int k = 0; k < vectors_at_once; ++k) {
        const int i = first + threads * k;
        const std::int32_t y = tile.row + Shape::row_low + i / vectors;
        const int column = i % vectors * vector_elements;
        const RowIndex<Shape> row = map_row<Shape>(tile, y);
        const bool wanted = i < all && whole.holds(column) && row_is_reached<Shape>(tile, y);
        const bool in_memory = wanted && !row.constant;
        const std::int64_t offset =
            in_memory ? row.index * tile.input_stride + tile.column + Shape::first_column + column : 0;
        const std::uint32_t word =
            wanted && row.constant ? Storage::repeat(static_cast<Element>(row.value)) : 0;
        cells[k] = load_unaligned(in_memory, tile.input + offset);
        SPIDER_UNROLL
        for (int j = 0; j < 4; ++j) cells[k].word[j] |= word;
        change_signs(cells[k], sign_word<Element>(wanted && row.negated));
      }
      SPIDER_UNROLL
      for (int k = 0; k < vectors_at_once; ++k) {
        const int i = first + threads * k;
        device::store_shared_if(i < all, Shape::row_place(i / vectors) + i % vectors * vector_bytes,
                                cells[k]);
      }
    }
  }

 private:
  /// Starts the copies of the vectors within `whole` of each row, or of the vectors of memory that they span,
  /// `row_bytes`. Each warp has some rows, since its lanes issue one after the other.
  SPIDER_DEVICE static void copy_in_bulk(const Tile& tile, const Span& whole, const Leads& leads,
                                         std::uint32_t row_bytes) {
    if (row_bytes == 0) return;
    const Element* cells = first_input(tile) + whole.begin;
    SPIDER_UNROLL
    for (int first = 0; first < rows; first += threads) {
      const int row = first + device::lane_index() * Shape::warps + Shape::warp();
      if (row < rows) {
        const Element* from = cells + (row * tile.input_stride - lead_of(leads, row) / element_bytes);
        device::copy_bulk_async(Shape::row_place(row) + whole.begin * element_bytes, from, row_bytes,
                                Shape::barrier_of(row));
      }
    }
  }

  /// Zeroes the vectors outside `whole`: an operand's zero times stale data could be NaN.
  SPIDER_DEVICE static void clear_beside(const Span& whole) {
    const int low = whole.begin / vector_elements;
    const int high = whole.end / vector_elements;
    SPIDER_NO_UNROLL
    for (int i = Shape::warp(); i < low + vectors - high; i += Shape::warps) {
      const int vector = i < low ? i : high + i - low;
      SPIDER_UNROLL
      for (int first = 0; first < rows; first += 32) {
        const int row = first + device::lane_index();
        device::store_shared_if(row < rows, Shape::row_place(row) + vector * vector_bytes, Vector{});
      }
    }
  }

  /// gather_across() for aligned rows; starts their copies.
  SPIDER_DEVICE static void copy_whole(const Tile& tile, const Span& whole) {
    SPIDER_NO_UNROLL
    for (int row = Shape::warp(); row < rows; row += Shape::warps) {
      const std::int32_t y = tile.row + Shape::row_low + row;
      const RowIndex<Shape> place = map_row<Shape>(tile, y);
      const bool reached = row_is_reached<Shape>(tile, y);
      const bool in_memory = reached && !place.constant;
      const std::uint32_t sign = sign_word<Element>(reached && place.negated);
      const bool is_copied = in_memory && sign == 0;
      const std::uint32_t word =
          reached && place.constant ? Storage::repeat(static_cast<Element>(place.value)) ^ sign : 0;
      const Element* from = tile.input + ((in_memory ? place.index : 0) * tile.input_stride + tile.column +
                                          Shape::first_column);
      SPIDER_UNROLL
      for (int first = 0; first < vectors; first += 32) {
        // From the first line on, then the vectors before it, so that a warp's copies cover whole lines.
        const int rotated =
            first + device::lane_index() + vectors_before_line<vector_elements>(Shape::first_column);
        const int vector = rotated < vectors ? rotated : rotated - vectors;
        const bool mine = first + device::lane_index() < vectors;
        const int column = vector * vector_elements;
        const bool is_whole = column >= whole.begin && column < whole.end;
        const Shared to = Shape::row_place(row) + vector * vector_bytes;
        const std::uint32_t filler = is_whole ? word : 0;
        device::copy_async_if(mine && is_whole && is_copied, to, from + column);
        if constexpr (negates(Shape::row_rules())) {
          if (mine && is_whole && in_memory && !is_copied) {
            Vector cells = device::load_field_vector(from + column);
            change_signs(cells, sign);
            device::store_shared(to, cells);
          }
        }
        device::store_shared_if(mine && !(is_whole && in_memory), to,
                                Vector{{filler, filler, filler, filler}});
      }
    }
  }

  /// Some of the cells of CellColumns, in one row.
  struct Cells {
    Element value[cells_at_once];
  };

  /// Requests the cells from `first` on, in a row that maps to `place`; none after the last row.
  SPIDER_DEVICE static Cells request_cells(const Tile& tile, int row, const RowIndex<Shape>& place,
                                           const CellColumns& cells_outside, int first) {
    Cells cells;
    const std::int32_t y = tile.row + Shape::row_low + row;
    SPIDER_UNROLL
    for (int k = 0; k < cells_at_once; ++k) {
      const bool wanted = row < rows && first + k < cells_outside.count;
      const std::int32_t x = tile.column + Shape::first_column + cells_outside.column(first + k);
      const bool reached = wanted && cell_is_reached<Shape>(tile, y, x);
      cells.value[k] = fetch_cell(tile, reached, place, map_column<Shape>(tile, x));
    }
    return cells;
  }

  /// Stores them to the window.
  SPIDER_DEVICE static void put_cells(int row, const CellColumns& cells_outside, int first,
                                      const Cells& cells) {
    SPIDER_UNROLL
    for (int k = 0; k < cells_at_once; ++k) {
      device::store_shared_if(row < rows && first + k < cells_outside.count,
                              Shape::row_place(row) + cells_outside.column(first + k) * element_bytes,
                              cells.value[k]);
    }
  }

  /// Copies all cells of CellColumns to the window: lanes have rows, and warps take rows and columns in turn.
  SPIDER_DEVICE static void fetch_cells(const Tile& tile, const CellColumns& cells) {
    constexpr int row_groups = (rows + 31) / 32;
    const int column_groups = (cells.count + cells_at_once - 1) / cells_at_once;
    SPIDER_NO_UNROLL
    for (int group = Shape::warp(); group < row_groups * column_groups; group += Shape::warps) {
      const int row = group % row_groups * 32 + device::lane_index();
      const int first = group / row_groups * cells_at_once;
      const RowIndex<Shape> place = map_row<Shape>(tile, tile.row + Shape::row_low + row);
      put_cells(row, cells, first, request_cells(tile, row, place, cells, first));
    }
  }
};

}  // namespace device_4
}  // namespace spider
