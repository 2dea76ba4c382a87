/// 2D stencils of 16-bit fields with few products: a warp has a tile of some rows of outputs and requests all
/// of its input rows together. They wait in registers; in tiles at edges, cells outside whole vectors of
/// memory go through shared memory.
///
/// A `Stencil` has, besides the members that spider/sums/operands.h and spider/loads/tile_window.h require,
/// as static members:
/// - Storage: of spider/values/storage.h, for cells of 16 bits;
/// - first_column, window_vectors: of a tile's inputs, the first column and the vectors of 16 bytes in a row;
/// - shift_count, shift_group(i): the windows of an input row, in groups of eight inputs from the first;
/// - product_count, product(i): RowProducts; the input row that is `row` above an output row's lowest;
/// - result_scale: of sums.
#pragma once

#include <spider/field/beside_rims.h>
#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/loads/shifted_rows.h>
#include <spider/loads/tile_window.h>
#include <spider/machine/instructions.h>
#include <spider/sums/epilogue.h>
#include <spider/sums/operands.h>
#include <spider/values/storage.h>
#include <spider/values/vectors.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

template <class Stencil, class Form>
struct Tile2d;

template <class Stencil, class Form>
SPIDER_GLOBAL(Form::warps_per_block * 32, Form::blocks_per_multiprocessor)
sweep_tile2d(const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  using Kernel = Tile2d<Stencil, Form>;
  const JoinRimsAtExit<Stencil> ends_behind_rims;
  if constexpr (!Form::is_low) device::launch_dependents();
  typename Kernel::Tile tile;
  if (!Kernel::find_tile(field, tile)) return;
  // All lanes of a warp take the same branch, so that they reach every product together.
  if (!Kernel::is_inside(tile)) {
    Kernel::sweep_boundary(tile);
  } else if constexpr (Form::allows_unaligned) {
    Kernel::sweep_shifted(tile);
  } else {
    Kernel::sweep_plain(tile);
  }
}

/// Rows of a tile, and tiles of a block. Consecutive blocks lie along x, so that concurrent ones have a
/// compact part of the field. Small boxes use short tiles, since more tiles fill more multiprocessors: each
/// warp has less to do.
template <int rows, int across, int down, int blocks, bool any>
struct Tile2dForm {
  static constexpr int tile_rows = rows;
  static constexpr int tiles_across = across;
  static constexpr int tiles_down = down;
  static constexpr int warps_per_block = across * down;
  static constexpr int blocks_per_multiprocessor = blocks;
  static constexpr bool allows_unaligned = any;  ///< otherwise only for aligned ones
  /// For boxes so small that they take as long as one tile. In others many tiles are in flight, as their
  /// registers allow.
  static constexpr bool is_low = rows <= 4;
};

/// Loaded instead of a vector that is not whole.
alignas(16) SPIDER_TABLE device::Vector no_cells = {};

template <class Stencil, class Form>
struct Tile2d {
  using Shared = device::Shared;
  using Vector = device::Vector;
  using Storage = typename Stencil::Storage;
  using Element = typename Storage::Element;
  using Fragment = typename Storage::Fragment;
  using Outputs = typename Storage::Outputs;
  using Tile = StencilTile<Stencil>;

  static constexpr int element_bytes = Storage::element_bytes;
  static constexpr int vector_elements = Storage::vector_elements;
  static constexpr int vector_bytes = 16;
  static constexpr int tile_outputs = 128;  // a product has 16 outputs along x in each of 8 columns

  static constexpr int first_column = Stencil::first_column;
  static constexpr int shift_count = Stencil::shift_count;
  static constexpr int tap_rows = Stencil::row_high - Stencil::row_low + 1;
  static constexpr int input_rows = Form::tile_rows + tap_rows - 1;
  static_assert(input_rows <= 32, "a lane looks after a row");

  // A warp's shared memory for a tile at an edge, or for unaligned rows.
  static constexpr int window_row_bytes = Stencil::window_vectors * vector_bytes;
  static constexpr int window_bytes = input_rows * window_row_bytes;

  SPIDER_DEVICE static Shared window_row(int row) {
    return device::warp_index() * window_bytes + row * window_row_bytes;
  }

  /// The window, for spider/loads/tile_window.h.
  struct WindowShape : Stencil {
    static constexpr int tile_rows = Form::tile_rows;
    static constexpr int warps = 1;

    SPIDER_DEVICE static int warp() { return 0; }
    SPIDER_DEVICE static Shared row_place(int row) { return window_row(row); }
  };
  using Window = TileWindow<WindowShape>;

  /// Finds the tile of this warp; there is none if the grid exceeds the box.
  SPIDER_DEVICE static bool find_tile(const ArgumentsOf<Stencil>& field, Tile& tile) {
    const BlockPlace block = find_block(field.grid.volume);
    const int warp = device::warp_index();
    tile = Tile(field, 1);
    tile.row += (block.down * Form::tiles_down + warp / Form::tiles_across) * Form::tile_rows;
    tile.column += (block.across * Form::tiles_across + warp % Form::tiles_across) * tile_outputs;
    if constexpr (!Form::allows_unaligned) tile.aligned_input = tile.aligned_output = true;
    return tile.row < tile.wanted.row_end && tile.column < tile.wanted.column_end;
  }

  SPIDER_DEVICE static bool stores_all(const Tile& tile) {
    return has_plain_outputs<Form::tile_rows, tile_outputs>(tile);
  }

  /// True if all inputs of the tile are in the box, and all outputs are stored. For unaligned rows, all words
  /// of memory that inputs span must be in it, too.
  SPIDER_DEVICE static bool is_inside(const Tile& tile) {
    constexpr int before = Form::allows_unaligned ? 1 : 0;
    constexpr int behind = Form::allows_unaligned ? 2 : 0;
    return Window::has_plain_rows(tile) && stores_all(tile) &&
           tile.column + first_column - before >= tile.wanted.column_begin &&
           tile.column + first_column + Window::columns + behind <= tile.wanted.column_end;
  }

  /// Computes a tile by the shortest code.
  SPIDER_DEVICE static void sweep_plain(const Tile& tile) {
    Tables tables;
    Fragments fragments;
    load_plain(tile, tables, fragments);
    if constexpr (Form::is_low) device::launch_dependents();
    compute_outputs<Stores::plain>(tile, tables, fragments);
  }

  /// Computes an unaligned tile away from edges.
  SPIDER_DEVICE static void sweep_shifted(const Tile& tile) {
    Tables tables;
    Fragments fragments;
    load_shifted(tile, tables, fragments);
    compute_outputs<Stores::anywhere>(tile, tables, fragments);
  }

  /// Computes a tile at an edge.
  SPIDER_DEVICE static void sweep_boundary(const Tile& tile) {
    Tables tables;
    Fragments fragments;
    load_with_care(tile, fragments);
    if constexpr (Form::is_low) device::launch_dependents();
    tables.template load<true>();
    if (Form::is_low && tile.aligned_output && stores_all(tile)) {
      compute_outputs<Stores::plain>(tile, tables, fragments);
    } else {
      compute_outputs<Stores::clipped>(tile, tables, fragments);
    }
  }

 private:
  /// The input rows of a tile, by shift.
  using Fragments = Fragment[input_rows][shift_count];

  /// The lane's vector of the window, at a shift.
  SPIDER_DEVICE static int lane_vector(int shift) {
    const int lane = device::lane_index();
    return pair_swap_group(lane) + Stencil::shift_group(shift);
  }

  using Tables = OperandTable<Stencil>;

  /// Loads a lane's inputs directly from memory.
  SPIDER_DEVICE static void load_plain(const Tile& tile, Tables& tables, Fragments& fragments) {
    const Element* from = Window::first_input(tile);
    tables.template load<true>();
    wait_unless_concurrent<Stencil>();
    SPIDER_UNROLL
    for (int row = 0; row < input_rows; ++row) {
      SPIDER_UNROLL
      for (int shift = 0; shift < shift_count; ++shift)
        fragments[row][shift] = {device::load_vector_if(true, from + lane_vector(shift) * vector_elements)};
      from += tile.input_stride;
    }
  }

  /// True if a cell is the second one of a word of memory.
  SPIDER_DEVICE static bool is_odd(const Element* cell) {
    return reinterpret_cast<std::uintptr_t>(cell) / element_bytes % 2 != 0;
  }

  /// The words of memory that a vector of cells spans; it may begin at any element.
  struct Words {
    std::uint32_t word[5];
  };

  /// Loads a lane's inputs from rows that may begin at any element.
  SPIDER_DEVICE static void load_shifted(const Tile& tile, Tables& tables, Fragments& fragments) {
    const Element* cells = Window::first_input(tile);
    Words words[input_rows][shift_count];
    wait_unless_concurrent<Stencil>();
    SPIDER_UNROLL
    for (int row = 0; row < input_rows; ++row) {
      const Element* from = cells + row * tile.input_stride;
      from -= is_odd(from) ? 1 : 0;
      SPIDER_UNROLL
      for (int shift = 0; shift < shift_count; ++shift) {
        const Element* vector = from + lane_vector(shift) * vector_elements;
        SPIDER_UNROLL
        for (int i = 0; i < 5; ++i)
          words[row][shift].word[i] = device::load_field(reinterpret_cast<const std::uint32_t*>(vector) + i);
      }
    }
    tables.template load<true>();
    SPIDER_UNROLL
    for (int row = 0; row < input_rows; ++row) {
      const int bits = is_odd(cells + row * tile.input_stride) ? 16 : 0;
      SPIDER_UNROLL
      for (int shift = 0; shift < shift_count; ++shift) {
        const Words& from = words[row][shift];
        SPIDER_UNROLL
        for (int i = 0; i < 4; ++i) {
          fragments[row][shift].inputs.word[i] =
              device::funnel_shift_right(from.word[i], from.word[i + 1], bits);
        }
      }
    }
  }

  /// The input row of the tile that a lane looks up: lane i has row i.
  struct OwnRow {
    RowIndex<Stencil> place;  ///< where it is read
    bool reached;
  };

  SPIDER_DEVICE static OwnRow find_own_row(const Tile& tile) {
    const std::int32_t y = tile.row + Stencil::row_low + device::lane_index();
    return {map_row<Stencil>(tile, y), row_is_reached<Stencil>(tile, y)};
  }

  /// True if the vector from `column` of the window on is aligned, and in memory in every row that is
  /// reached.
  SPIDER_DEVICE static bool is_whole(const Tile& tile, const Span& whole, int column) {
    return tile.aligned_input && column >= whole.begin && column < whole.end;
  }

  /// Loads a lane's whole vectors, those within `whole`, of all aligned input rows; zeros for the others.
  SPIDER_DEVICE static void load_whole(const Tile& tile, const Span& whole, const OwnRow& own,
                                       Fragments& fragments) {
    constexpr std::int32_t no_row = -2147483647;
    const std::int32_t own_row = own.reached && !own.place.constant ? own.place.index : no_row;
    SPIDER_UNROLL
    for (int row = 0; row < input_rows; ++row) {
      const auto from = static_cast<std::int32_t>(device::shuffle(static_cast<std::uint32_t>(own_row), row));
      const std::int64_t first = (from != no_row ? from : 0) * tile.input_stride + tile.column + first_column;
      SPIDER_UNROLL
      for (int shift = 0; shift < shift_count; ++shift) {
        const int column = lane_vector(shift) * vector_elements;
        const bool wanted = from != no_row && is_whole(tile, whole, column);
        fragments[row][shift] = {device::load_vector_or(wanted, tile.input + (first + column), &no_cells)};
      }
    }
  }

  /// Zeroes the window: an operand's zero times stale data could be NaN.
  SPIDER_DEVICE static void clear_window() {
    constexpr int vectors = input_rows * Stencil::window_vectors;
    SPIDER_UNROLL
    for (int first = 0; first < vectors; first += 32) {
      const int vector = first + device::lane_index();
      device::store_shared_if(vector < vectors, window_row(0) + vector * vector_bytes, Vector{});
    }
  }

  /// Loads a lane's inputs of a tile at an edge, or of unaligned rows: aligned whole vectors directly from
  /// memory, all others through the window, while the direct ones are in flight.
  SPIDER_DEVICE static void load_with_care(const Tile& tile, Fragments& fragments) {
    const Span whole = Window::whole_vectors(tile);
    const CellColumns columns = Window::cell_columns(tile, whole);
    const OwnRow own = find_own_row(tile);
    clear_window();
    device::sync_warp();
    wait_unless_concurrent<Stencil>();
    if (!tile.aligned_input) Window::gather_across(tile, whole);
    device::sync_warp();
    load_whole(tile, whole, own, fragments);
    SPIDER_NO_UNROLL
    for (int first = 0; first < columns.count; first += Window::cells_at_once) {
      const int row = device::lane_index();
      Window::put_cells(row, columns, first, Window::request_cells(tile, row, own.place, columns, first));
    }
    device::sync_warp();
    constexpr AxisRules rules = Stencil::row_rules();
    constexpr bool has_constants = rules.low == FaceRule::constant || rules.high == FaceRule::constant;
    const std::uint32_t own_constant =
        own.reached && own.place.constant ? Storage::repeat(static_cast<Element>(own.place.value)) : 0;
    const std::uint32_t own_sign = sign_word<Element>(own.reached && own.place.negated);
    SPIDER_UNROLL
    for (int row = 0; row < input_rows; ++row) {
      const std::uint32_t sign = negates(rules) ? device::shuffle(own_sign, row) : 0;
      const std::uint32_t constant = has_constants ? device::shuffle(own_constant, row) : 0;
      SPIDER_UNROLL
      for (int shift = 0; shift < shift_count; ++shift) {
        const int vector = lane_vector(shift);
        const Vector cells = device::load_shared(window_row(row) + vector * vector_bytes);
        const std::uint32_t word = is_whole(tile, whole, vector * vector_elements) ? constant : 0;
        SPIDER_UNROLL
        for (int i = 0; i < 4; ++i) fragments[row][shift].inputs.word[i] |= cells.word[i] | word;
        if constexpr (negates(rules)) {
          // Cells of the window have their signs already.
          change_signs(fragments[row][shift].inputs,
                       is_whole(tile, whole, vector * vector_elements) ? sign : 0);
        }
      }
    }
  }

  using Sums = TileSums<Stencil>;

  /// The sums of an output row, in ascending order of its input rows, beginning with `inputs`.
  SPIDER_DEVICE static Sums multiply_row(const Tables& tables, const Fragment (*inputs)[shift_count]) {
    typename Storage::Partial nothing_apart;
    Sums sums{};
    SPIDER_UNROLL
    for (int row = 0; row < tap_rows; ++row) {
      SPIDER_UNROLL
      for (int i = 0; i < Stencil::product_count; ++i) {
        const RowProduct product = Stencil::product(i);
        if (product.row != row) continue;
        multiply_selected<Storage>(product.selector, nothing_apart, sums.of[product.sum],
                                   tables.matrices[product.operand], inputs[row][product.fragment],
                                   tables.metadata[product.metadata], product.part);
      }
    }
    return sums;
  }

  /// How outputs are stored: all, aligned; from any element on; or only the sweep's.
  enum class Stores { plain, anywhere, clipped };

  /// Computes and stores a tile's outputs.
  template <Stores stores>
  SPIDER_DEVICE static void compute_outputs(const Tile& tile, const Tables& tables,
                                            const Fragments& fragments) {
    const std::int32_t x = tile.column + Storage::first_output(device::lane_index());
    Element* to = tile.output + (tile.row * tile.output_stride + x);
    const unsigned wanted = outputs_within<Storage>(columns_of(tile.wanted), x);
    const int rows = tile.wanted.row_end - tile.row;
    // Where a row's outputs lie, for the update; its inputs for some rows are in flight.
    [[maybe_unused]] const auto place_of = [&](int row) {
      const unsigned stored = stores != Stores::clipped ? 15 : row < rows ? wanted : 0;
      const bool aligned = stores == Stores::clipped ? tile.aligned_output : stores == Stores::plain;
      return OutputPlace{{0, tile.row + row, x}, stored, aligned};
    };
    constexpr int rows_ahead = 3;
    [[maybe_unused]] OutputUpdate<Stencil, Storage> updates[rows_ahead + 1] = {};
    if constexpr (HasUpdate<Stencil>::value) {
      SPIDER_UNROLL
      for (int row = 0; row < rows_ahead; ++row) updates[row].load(*tile.sweep, place_of(row));
    }
    SPIDER_UNROLL
    for (int row = 0; row < Form::tile_rows; ++row) {
      Outputs outputs;
      if constexpr (HasUpdate<Stencil>::value) {
        const int next = row + rows_ahead;
        if (next < Form::tile_rows) updates[next % (rows_ahead + 1)].load(*tile.sweep, place_of(next));
        if constexpr (stores == Stores::clipped) device::sync_warp();
        outputs = updates[row % (rows_ahead + 1)].apply(
            *tile.sweep, place_of(row), scale_sums<Stencil>(multiply_row(tables, fragments + row)));
      } else {
        outputs = finish_outputs<Stencil>(multiply_row(tables, fragments + row));
      }
      if constexpr (stores == Stores::clipped) {
        store_by_branches<Storage>(to, outputs, row < rows ? wanted : 0, tile.aligned_output);
      } else if constexpr (stores == Stores::anywhere) {
        store_anywhere(to, outputs.word[0], outputs.word[1]);
        device::sync_warp();
      } else {
        store_outputs<Storage>(to, outputs);
      }
      to += tile.output_stride;
    }
  }
};

template <class Stencil, class Form>
constexpr SweepForm tile2d_form(int min_blocks_per_sm) {
  using Kernel = Tile2d<Stencil, Form>;
  SweepForm form = tiles_form(
      sweep_tile2d<Stencil, Form>, Form::warps_per_block, Form::warps_per_block * Kernel::window_bytes, 8,
      Form::tiles_down * Form::tile_rows, Form::tiles_across * Kernel::tile_outputs, 1, min_blocks_per_sm);
  form.needs_aligned_rows = !Form::allows_unaligned;
  return form;
}

}  // namespace device_4
}  // namespace spider
