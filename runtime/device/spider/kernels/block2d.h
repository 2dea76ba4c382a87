/// 2D stencils of 16-bit fields, and of u8 ones, in tiles. All input rows of a tile are requested together.
/// They wait in shared memory, which the warps of a block share; in low tiles, and with few products, they
/// wait in registers, and a warp has a tile of its own.
///
/// A product makes 128 outputs, 8 columns of 16: 16 along x, or 8 along x in both of two rows. Fragments of
/// an input row are windows at the shifts, and the pair: the inputs of the outputs' own columns in two rows,
/// pair_distance apart, the row and an earlier one.
///
/// A `Stencil` has, besides the members that spider/sums/operands.h and spider/loads/tile_window.h require,
/// as static members:
/// - Storage: of spider/values/storage.h, for cells of 16 bits or 8;
/// - pairs_rows: does a product have outputs in two rows?
/// - rows_in_flight: output rows, or pairs of them, with partial sums at the same time;
/// - first_column, warp_window_vectors: of a warp's inputs, the first column and the vectors of 16 bytes;
/// - stage_bytes: per warp, for unaligned outputs of pairs of rows;
/// - shift_count, shift_group(i): the windows of an input row, in groups of eight inputs from first_column;
/// - pair_distance: 0 if there is no pair;
/// - product_count, product(i): RowProducts; rows may be pairs of rows;
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
struct Block2d;

template <class Stencil, class Form>
SPIDER_GLOBAL(Form::warps_per_block * 32, Form::blocks_per_multiprocessor)
sweep_block2d(const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  using Kernel = Block2d<Stencil, Form>;
  const JoinRimsAtExit<Stencil> ends_behind_rims;
  // In a small box, blocks of the next sweep would delay blocks of this one that are yet to start.
  if constexpr (!Form::in_registers) device::launch_dependents();
  typename Kernel::Tile tile;
  if (!Kernel::find_tile(field, tile)) return;
  // All warps of a tile take the same branch, so that they reach every barrier together.
  if constexpr (Form::in_registers) {
    if (Kernel::Window::has_plain_inputs(tile) && Kernel::stores_all(tile))
      return Kernel::sweep_from_registers(tile);
  }
  Kernel::sweep_from_window(tile, field.grid.volume);
}

/// Where the inputs of a tile wait: in shared memory, or in registers of the one warp that has the tile.
enum class Inputs { shared, registers };

/// Rows of a tile, warps side by side that share it, and tiles of a block. Consecutive blocks lie along x, so
/// that concurrent ones have a compact part of the field. A small box finishes sooner in low tiles: there are
/// more of them, and their warps wait for no others.
template <int rows, int warps, int across, int down, int blocks, Inputs inputs, bool any>
struct Block2dForm {
  static constexpr int tile_rows = rows;
  static constexpr int tile_warps = warps;
  static constexpr int tiles_across = across;
  static constexpr int tiles_down = down;
  static constexpr int tiles = across * down;
  static constexpr int warps_per_block = tiles * warps;
  static constexpr int blocks_per_multiprocessor = blocks;
  static constexpr bool in_registers = inputs == Inputs::registers;
  static constexpr bool allows_unaligned = any;  ///< otherwise only for aligned ones
  static_assert(tiles == 1 || warps == 1, "warps that share a tile wait for all of their block");
  static_assert(!in_registers || (warps == 1 && !any), "registers are a warp's own");
};

template <class Stencil, class Form>
struct Block2d {
  using Accumulator = device::Accumulator;
  using Shared = device::Shared;
  using Vector = device::Vector;
  using Storage = typename Stencil::Storage;
  using Element = typename Storage::Element;
  using OutElement = typename Storage::OutElement;
  using Fragment = typename Storage::Fragment;
  using Outputs = typename Storage::Outputs;
  using Tile = StencilTile<Stencil>;

  static constexpr int element_bytes = Storage::element_bytes;
  static constexpr int vector_elements = Storage::vector_elements;
  static constexpr int vector_bytes = 16;
  static constexpr int group = 8;  ///< inputs of a lane in a fragment
  static constexpr int row_low = Stencil::row_low;
  static constexpr int first_column = Stencil::first_column;
  static constexpr bool pairs_rows = Stencil::pairs_rows;
  static constexpr int warp_outputs = 128;
  static constexpr int tile_outputs = Form::tile_warps * warp_outputs;
  static constexpr int product_rows = pairs_rows ? 2 : 1;
  static constexpr int products_abreast = pairs_rows ? 2 : 1;
  static constexpr int product_columns = warp_outputs / products_abreast;
  static constexpr int lead_rows =
      Stencil::row_high - row_low;  // before the row that completes the first outputs
  static constexpr int prologue_steps = lead_rows / product_rows;
  static constexpr int input_rows = Form::tile_rows + lead_rows;
  static constexpr int rows_in_flight = Stencil::rows_in_flight;
  static constexpr int shift_count = Stencil::shift_count;
  static constexpr int fragment_count = shift_count + (Stencil::pair_distance > 0 ? 1 : 0);
  static_assert(Form::tile_rows % product_rows == 0, "tiles have whole products");

  // A line of 128 bytes of a field begins a line of the window, too (generator/README.md).
  static constexpr int line_bytes = 128;
  static constexpr int window_offset = line_offset<vector_elements>(first_column);
  static constexpr int window_vectors =
      Stencil::warp_window_vectors + (Form::tile_warps - 1) * warp_outputs / vector_elements;
  static constexpr int window_row_bytes =
      ((window_vectors + 1) * vector_bytes + line_bytes - 1) / line_bytes * line_bytes;
  static constexpr int window_bytes = 2 * line_bytes + input_rows * window_row_bytes;

  // Unaligned outputs of pairs of rows: a warp's of two steps, in rows half of the banks apart.
  static constexpr int stage_bytes = Stencil::stage_bytes;
  static constexpr int stage_row_bytes = stage_bytes / (2 * product_rows);
  static constexpr bool has_stage = pairs_rows && stage_bytes > 0;
  static_assert(!has_stage || stage_row_bytes == warp_outputs * element_bytes + line_bytes / 2,
                "rows lie half of the banks apart");
  static constexpr int shared_bytes =
      Form::tiles * window_bytes + (Form::allows_unaligned ? Form::warps_per_block * stage_bytes : 0);

  /// This warp's tile among the block's, and this warp among the tile's.
  SPIDER_DEVICE static int tile_index() { return Form::tiles == 1 ? 0 : device::warp_index(); }
  SPIDER_DEVICE static int tile_warp() { return Form::tile_warps == 1 ? 0 : device::warp_index(); }

  SPIDER_DEVICE static bool find_tile(const ArgumentsOf<Stencil>& field, Tile& tile) {
    const BlockPlace block = find_block(field.grid.volume);
    const int index = tile_index();
    tile = Tile(field, product_rows);
    tile.row += (block.down * Form::tiles_down + index / Form::tiles_across) * Form::tile_rows;
    tile.column += (block.across * Form::tiles_across + index % Form::tiles_across) * tile_outputs;
    if constexpr (!Form::allows_unaligned) tile.aligned_input = tile.aligned_output = true;
    return tile.row < tile.wanted.row_end && tile.column < tile.wanted.column_end;
  }

  SPIDER_DEVICE static bool stores_all(const Tile& tile) {
    return has_plain_outputs<Form::tile_rows, tile_outputs>(tile);
  }

  /// The same, except for columns where a lane has all four outputs of a row or none.
  SPIDER_DEVICE static bool stores_by_lanes(const Tile& tile) {
    constexpr int lane_outputs = 4;
    const Region& wanted = tile.wanted;
    return tile.row >= wanted.row_begin && tile.row + Form::tile_rows <= wanted.row_end &&
           wanted.column_begin % lane_outputs == 0 && wanted.column_end % lane_outputs == 0;
  }

  /// The barrier of bulk copies; the window begins on the next line.
  SPIDER_DEVICE static Shared barrier() { return tile_index() * window_bytes; }

  SPIDER_DEVICE static Shared window_row(int row) {
    return barrier() + line_bytes + window_offset + row * window_row_bytes;
  }

  /// The window, for spider/loads/tile_window.h.
  struct WindowShape : Stencil {
    static constexpr int tile_rows = Form::tile_rows;
    static constexpr int warps = Form::tile_warps;
    static constexpr int window_vectors = Block2d::window_vectors;

    SPIDER_DEVICE static int warp() { return tile_warp(); }
    SPIDER_DEVICE static Shared row_place(int row) { return window_row(row); }
    SPIDER_DEVICE static Shared barrier_of(int /*row*/) { return barrier(); }
    SPIDER_DEVICE static Shared spare_place() { return barrier() + line_bytes - vector_bytes; }
    SPIDER_DEVICE static void begin_copies(std::uint32_t row_bytes) {
      device::begin_bulk_copies(barrier(), input_rows * row_bytes);
    }
  };
  using Window = TileWindow<WindowShape>;

  /// Memory round trips, on an H200 whose blocks all load, that take about as long as a tile on tensor cores.
  /// More than two would starve them of inputs (tests/benchmarks/README.md).
  SPIDER_DEVICE static constexpr int answers_of_turn() {
    constexpr int product_cycles = 8;
    constexpr int answer_cycles = 2000;
    constexpr int tile_cycles =
        Form::tile_rows / product_rows * products_abreast * Stencil::product_count * product_cycles;
    constexpr int answers = (tile_cycles + answer_cycles / 2) / answer_cycles;
    return answers < 2 ? answers : 2;
  }

  /// Copies the inputs of a tile whose rows need no care to the window.
  SPIDER_DEVICE static void copy_rows(const Tile& tile) {
    const Leads leads = Window::start_bulk_copies(tile);
    device::wait_for_bulk_copies(barrier());
    if (!tile.aligned_input) {
      Window::shift_rows(leads);
      Window::sync();
    }
  }

  using Tables = OperandTable<Stencil>;

  /// True if the product of a step belongs to an output row of the tile.
  SPIDER_DEVICE static bool is_of_tile(const RowProduct& product, int step) {
    const int output = step - prologue_steps + rows_in_flight - 1 - product.row;
    return output >= 0 && output < Form::tile_rows / product_rows;
  }

  /// True if any product of the tile uses the fragment of a step.
  SPIDER_DEVICE static bool is_used(int step, int fragment) {
    bool used = false;
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::product_count; ++i) {
      used |= Stencil::product(i).fragment == fragment && is_of_tile(Stencil::product(i), step);
    }
    return used;
  }

  /// The fragments of a step: of an input row, or of a pair of them; for pairs those of all products side by
  /// side.
  struct Fragments {
    Fragment of[fragment_count][products_abreast] = {};
  };

  /// Where a lane's inputs are: the row, relative to the step's, and the first of consecutive ones, relative
  /// to the first of the warp's window.
  struct LaneInputs {
    int row, column;
  };

  /// For windows: a column of a product has four groups of eight inputs from group 2 (lane / 4) on; the
  /// lane's is group (lane % 4) / 2 + 2 (lane % 2).
  SPIDER_DEVICE static LaneInputs window_inputs() {
    return {0, group * pair_swap_group(device::lane_index())};
  }

  /// For a pair of diagonals: lanes 4 n and 4 n + 1 have neighbouring groups of the earlier row, the others
  /// of the row itself.
  SPIDER_DEVICE static LaneInputs diagonal_inputs() {
    const int lane = device::lane_index();
    return {lane % 4 < 2 ? -Stencil::pair_distance : 0, group * (2 * (lane / 4) + lane % 2) - first_column};
  }

  /// For pairs of rows: lanes 4 n + 2 and 4 n + 3 have inputs of the second row, and groups begin in the
  /// middle of a vector. The order of halves avoids bank conflicts between lanes of both rows.
  SPIDER_DEVICE static LaneInputs row_pair_inputs(int half) {
    constexpr int half_group = group / 2;
    const int lane = device::lane_index();
    const int row = lane % 4 / 2;
    return {row, group * (lane / 4 + lane % 2) + half_group * (row == half ? 1 : 2)};
  }

  /// A lane's inputs in shared memory; it may load them in vectors, pairs of words or words.
  struct WindowInputs {
    Shared place;

    SPIDER_DEVICE explicit WindowInputs(const LaneInputs& inputs)
        : place(window_row(inputs.row) + (tile_warp() * warp_outputs + inputs.column) * element_bytes) {}
    SPIDER_DEVICE Vector load_vector(int row, int column) const {
      return device::load_shared(place + row * window_row_bytes + column * element_bytes);
    }
    SPIDER_DEVICE device::Pair load_pair(int row, int column) const {
      return device::load_shared_pair(place + row * window_row_bytes + column * element_bytes);
    }
    SPIDER_DEVICE std::uint32_t load_word(int row, int column) const {
      return device::load_shared_word(place + row * window_row_bytes + column * element_bytes);
    }
  };

  /// The same in memory, where all are in the field.
  struct FieldInputs {
    const Element* place;
    std::int64_t stride;

    SPIDER_DEVICE FieldInputs(const Tile& tile, const LaneInputs& inputs)
        : place(tile.input + ((tile.row + row_low + inputs.row) * tile.input_stride + tile.column +
                              first_column + tile_warp() * warp_outputs + inputs.column)),
          stride(tile.input_stride) {}
    SPIDER_DEVICE Vector load_vector(int row, int column) const {
      return device::load_field_vector(place + (row * stride + column));
    }
    SPIDER_DEVICE device::Pair load_pair(int row, int column) const {
      return device::load_field_pair(place + (row * stride + column));
    }
    SPIDER_DEVICE std::uint32_t load_word(int row, int column) const {
      return device::load_field_word(place + (row * stride + column));
    }
  };

  /// Where a lane's inputs of the tile's first step are, by kind of fragment.
  template <class Source>
  struct FragmentPlaces {
    Source first;   ///< of the first shift, or the first half of a pair of rows
    Source second;  ///< of pairs of diagonals, or the second half of a pair of rows
  };

  SPIDER_DEVICE static LaneInputs first_inputs() { return pairs_rows ? row_pair_inputs(0) : window_inputs(); }
  SPIDER_DEVICE static LaneInputs second_inputs() {
    return pairs_rows ? row_pair_inputs(1) : diagonal_inputs();
  }

  /// Loads the fragments of a step that are used.
  template <class Source>
  SPIDER_DEVICE static Fragments load_fragments(const FragmentPlaces<Source>& places, int step) {
    // Groups of pairs of rows begin in the middle of the group before the outputs.
    constexpr int pair_column = -group - first_column;
    static_assert(!pairs_rows || pair_column >= 0, "the window has that group");
    Fragments fragments;
    const int row = step * product_rows;
    SPIDER_UNROLL
    for (int i = 0; i < fragment_count; ++i) {
      if (!is_used(step, i)) continue;
      SPIDER_UNROLL
      for (int k = 0; k < products_abreast; ++k) {
        Vector& inputs = fragments.of[i][k].inputs;
        if constexpr (pairs_rows) {
          const int column = pair_column + k * product_columns;
          const device::Pair low = Storage::load_half_inputs(places.first, row, column);
          const device::Pair high = Storage::load_half_inputs(places.second, row, column);
          inputs = {{low.word[0], low.word[1], high.word[0], high.word[1]}};
        } else {
          inputs = i < shift_count ? Storage::load_inputs(places.first, row, Stencil::shift_group(i) * group)
                                   : Storage::load_inputs(places.second, row, 0);
        }
      }
    }
    return fragments;
  }

  /// The sums of a row of outputs, or of a pair of rows.
  struct RowSums {
    TileSums<Stencil> abreast[products_abreast];
  };

  /// Adds the inputs of a step to their sums, for output rows of the tile.
  SPIDER_DEVICE static void multiply_step(const Tables& tables, const Fragments& fragments,
                                          RowSums (&sums)[rows_in_flight], int step) {
    typename Storage::Partial nothing_apart;
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::product_count; ++i) {
      const RowProduct product = Stencil::product(i);
      if (!is_of_tile(product, step)) continue;
      RowSums& row_sums = sums[(step + rows_in_flight - product.row) % rows_in_flight];
      const Vector& matrix = tables.matrices[product.operand];
      SPIDER_UNROLL
      for (int k = 0; k < products_abreast; ++k) {
        Accumulator& sum = row_sums.abreast[k].of[product.sum];
        const Fragment& fragment = fragments.of[product.fragment][k];
        multiply_selected<Storage>(product.selector, nothing_apart, sum, matrix, fragment,
                                   tables.metadata[product.metadata], product.part);
      }
    }
  }

  /// A lane's first output of a product, from the product's first; the other three are its neighbours.
  struct LaneOutputs {
    int row, column;
  };

  SPIDER_DEVICE static LaneOutputs lane_outputs() {
    const int lane = device::lane_index();
    if constexpr (pairs_rows) {
      return {lane % 4 / 2, 8 * (lane / 4) + 4 * (lane % 2)};
    } else {
      return {0, Storage::first_output(lane)};
    }
  }

  /// The outputs of a lane's product to store: rows row_begin to row_end - 1 of the tile, and in a row those
  /// of the four whose bits are set.
  struct Clip {
    std::int32_t row_begin, row_end;
    unsigned columns;

    /// Tiles of pairs of rows may begin a row before the box.
    SPIDER_DEVICE bool has_row(int row) const { return row < row_end && (!pairs_rows || row >= row_begin); }
  };

  /// (y, x) is the lane's first output.
  SPIDER_DEVICE static Clip find_clip(const Tile& tile, std::int32_t y, std::int32_t x) {
    return {tile.wanted.row_begin - y, tile.wanted.row_end - y,
            outputs_within<Storage>(columns_of(tile.wanted), x)};
  }

  /// How outputs are stored: all, aligned; aligned by some lanes; from any element on; or only those of the
  /// sweep.
  enum class Stores { plain, lanes, anywhere, clipped };

  /// Stage of a row of outputs of a step that may begin at any element of memory; it has room for two steps.
  SPIDER_DEVICE static Shared stage_row(int step, int row) {
    return Form::tiles * window_bytes + device::warp_index() * stage_bytes +
           (step % 2 * product_rows + row) * stage_row_bytes;
  }

  /// The lanes with outputs of the same row of a product.
  SPIDER_DEVICE static RowOfLanes lanes_of_row() {
    const int lane = device::lane_index();
    if constexpr (pairs_rows) {
      const bool is_second = lane % 2 != 0;
      return {(lane + (is_second ? 3 : 1)) % 32, lane / 4 == 0 && !is_second, lane / 4 == 7 && is_second};
    } else {
      return {(lane + 1) % 32, lane == 0, lane == 31};
    }
  }

  /// Stores the outputs of a lane, which may begin at any element; pairs of rows of 16 bits to the stage.
  SPIDER_DEVICE static void store_or_stage(const LaneOutputs& own, int step, int column, OutElement* to,
                                           const Outputs& outputs) {
    if constexpr (sizeof(OutElement) == 1) {
      store_bytes(to + column, outputs.word[0], lanes_of_row());
    } else if constexpr (has_stage) {
      const Shared place = stage_row(step, own.row) + (column + own.column) * element_bytes;
      device::store_shared(place, device::Pair{{outputs.word[0], outputs.word[1]}});
    } else if constexpr (sizeof(OutElement) == 2) {
      store_anywhere(to + column, outputs.word[0], outputs.word[1]);
    } else {
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) device::store_field(to + column + i, Storage::output(outputs, i));
    }
  }

  /// Stores the rows of a step from the stage, so that a warp stores neighbouring words of one row at a time.
  /// Storing cells of two rows at a time takes more than twice as long (tests/benchmarks/README.md).
  SPIDER_DEVICE static void store_stage(int step, OutElement* to, std::int64_t stride) {
    if constexpr (has_stage) {
      device::sync_warp();
      SPIDER_UNROLL
      for (int row = 0; row < product_rows; ++row) {
        store_row<warp_outputs>(to + row * stride, stage_row(step, row));
      }
    }
  }

  /// Where the lane's outputs of product k of a step lie, for the update.
  template <Stores stores>
  SPIDER_DEVICE static OutputPlace find_place(const Tile& tile, const Clip& clip, const LaneOutputs& own,
                                              int step, int k) {
    const int row = (step - prologue_steps) * product_rows;
    const PointPlace first{0, tile.row + own.row + row,
                           tile.column + tile_warp() * warp_outputs + own.column + k * product_columns};
    const unsigned stored = stores != Stores::clipped ? 15 : clip.has_row(row) ? clip.columns : 0;
    const bool aligned = stores == Stores::clipped ? tile.aligned_output : stores == Stores::plain;
    return OutputPlace{first, stored, aligned};
  }
  /// Requests the update's inputs for a step's outputs, except inputs that taps reach in the window.
  template <bool in_window, class Place, class Updates>
  SPIDER_DEVICE static void load_products(const Tile& tile, const Place& place_of, int step,
                                          Updates& updates) {
    SPIDER_UNROLL
    for (int k = 0; k < products_abreast; ++k) {
      if (in_window && reaches_itself<Stencil>()) {
        updates[k].load_fields(*tile.sweep, place_of(step, k));
      } else {
        updates[k].load(*tile.sweep, place_of(step, k));
      }
    }
  }
  /// The place of that input, at the lane's first output of product k.
  SPIDER_DEVICE static Shared window_place(const LaneOutputs& own, int step, int k) {
    const int row = (step - prologue_steps) * product_rows + own.row - row_low;
    const int column = tile_warp() * warp_outputs + own.column + k * product_columns - first_column;
    return window_row(row) + column * element_bytes;
  }

  /// Computes and stores a warp's outputs of a tile. `load` gives its fragments step by step; its inputs are
  /// all `in_window`.
  template <Stores stores, bool in_window, class Load>
  SPIDER_DEVICE static void compute_outputs(const Tile& tile, const Tables& tables, const Load& load) {
    constexpr int steps = input_rows / product_rows;
    // All lanes have the first output of a row from the stage.
    constexpr bool is_staged = stores == Stores::anywhere && has_stage;
    const LaneOutputs own = lane_outputs();
    const std::int32_t x = tile.column + tile_warp() * warp_outputs + (is_staged ? 0 : own.column);
    const std::int32_t y = tile.row + (is_staged ? 0 : own.row);
    const std::int64_t stride = tile.output_stride;
    OutElement* to = tile.output + (y * stride + x);
    Clip clip[products_abreast];
    SPIDER_UNROLL
    for (int k = 0; k < products_abreast; ++k) clip[k] = find_clip(tile, y, x + k * product_columns);
    [[maybe_unused]] const auto place_of = [&](int step, int k) {
      return find_place<stores>(tile, clip[k], own, step, k);
    };
    // Update inputs of this many steps are in flight.
    constexpr int steps_ahead = pairs_rows ? 2 : 3;
    [[maybe_unused]] OutputUpdate<Stencil, Storage> updates[steps_ahead + 1][products_abreast] = {};
    [[maybe_unused]] const auto load_update = [&](int step) {
      if constexpr (HasUpdate<Stencil>::value) {
        if (step < prologue_steps || step >= steps) return;
        load_products<in_window>(tile, place_of, step, updates[step % (steps_ahead + 1)]);
        if constexpr (stores == Stores::clipped) device::sync_warp();
      }
    };
    SPIDER_UNROLL
    for (int step = 0; step < steps_ahead; ++step) load_update(step);
    RowSums sums[rows_in_flight] = {};
    SPIDER_UNROLL
    for (int step = 0; step < steps; ++step) {
      load_update(step + steps_ahead);
      multiply_step(tables, load(step), sums, step);
      RowSums& complete = sums[(step + 1) % rows_in_flight];
      if (step >= prologue_steps) {
        SPIDER_UNROLL
        for (int k = 0; k < products_abreast; ++k) {
          Outputs outputs;
          if constexpr (HasUpdate<Stencil>::value) {
            auto& update = updates[step % (steps_ahead + 1)][k];
            if (in_window && reaches_itself<Stencil>()) update.take_input(window_place(own, step, k));
            outputs = update.apply(*tile.sweep, place_of(step, k), scale_sums<Stencil>(complete.abreast[k]));
          } else {
            outputs = finish_outputs<Stencil>(complete.abreast[k]);
          }
          if constexpr (stores == Stores::clipped) {
            const bool has_row = clip[k].has_row((step - prologue_steps) * product_rows);
            store_by_branches<Storage>(to + k * product_columns, outputs, has_row ? clip[k].columns : 0,
                                       tile.aligned_output);
          } else if constexpr (stores == Stores::anywhere) {
            store_or_stage(own, step, k * product_columns, to, outputs);
          } else if constexpr (stores == Stores::lanes) {
            if (clip[k].columns != 0) store_outputs<Storage>(to + k * product_columns, outputs);
          } else {
            store_outputs<Storage>(to + k * product_columns, outputs);
          }
        }
        if constexpr (stores == Stores::anywhere) store_stage(step, to, stride);
        to = device::opaque_advance(to, product_rows * stride);
      }
      complete = RowSums{};
    }
  }

  /// Computes a tile whose inputs are in the window; a warp outside the box does nothing.
  SPIDER_DEVICE static void compute_from_window(const Tile& tile, const Tables& tables) {
    if (tile.column + tile_warp() * warp_outputs >= tile.wanted.column_end) return;
    using Source = WindowInputs;
    const FragmentPlaces<Source> places = {Source(first_inputs()), Source(second_inputs())};
    const auto load = [&places](int step) { return load_fragments(places, step); };
    if constexpr (Form::allows_unaligned) {
      if (stores_all(tile)) return compute_outputs<Stores::anywhere, true>(tile, tables, load);
    } else if constexpr (HasUpdate<Stencil>::value) {
      if (stores_all(tile)) return compute_outputs<Stores::plain, true>(tile, tables, load);
    } else {
      if (stores_by_lanes(tile)) return compute_outputs<Stores::lanes, true>(tile, tables, load);
    }
    compute_outputs<Stores::clipped, true>(tile, tables, load);
  }

  /// Computes a tile from shared memory: its rows are copied in bulk, or it is at an edge, or there is no
  /// quicker way.
  SPIDER_DEVICE static void sweep_from_window(const Tile& tile, const VolumeGrid& grid) {
    const bool in_bulk = !Form::in_registers && Window::can_copy_in_bulk(tile);
    Tables tables;
    if (in_bulk) {
      tables.load();
      wait_unless_concurrent<Stencil>();
      Window::stagger_first_wave(tile, grid, answers_of_turn());
      copy_rows(tile);
    } else {
      wait_unless_concurrent<Stencil>();
      Window::copy_any(tile);
      if constexpr (Form::in_registers) device::launch_dependents();
      Window::sync();
      tables.load();
    }
    compute_from_window(tile, tables);
  }

  /// Computes a tile in registers: its inputs are in the field, and all of its outputs are stored.
  SPIDER_DEVICE static void sweep_from_registers(const Tile& tile) {
    constexpr int steps = input_rows / product_rows;
    Tables tables;
    tables.load();
    using Source = FieldInputs;
    const FragmentPlaces<Source> places = {Source(tile, first_inputs()), Source(tile, second_inputs())};
    Fragments fragments[steps];
    wait_unless_concurrent<Stencil>();
    SPIDER_UNROLL
    for (int step = 0; step < steps; ++step) fragments[step] = load_fragments(places, step);
    device::launch_dependents();
    compute_outputs<Stores::plain, false>(
        tile, tables, [&fragments](int step) -> const Fragments& { return fragments[step]; });
  }
};

template <class Stencil, class Form>
constexpr SweepForm block2d_form(int min_blocks_per_sm) {
  using Kernel = Block2d<Stencil, Form>;
  constexpr int stored_at_once = 4 * static_cast<int>(sizeof(typename Kernel::OutElement));
  SweepForm form =
      tiles_form(sweep_block2d<Stencil, Form>, Form::warps_per_block, Kernel::shared_bytes, stored_at_once,
                 Form::tiles_down * Form::tile_rows, Form::tiles_across * Kernel::tile_outputs,
                 Kernel::product_rows, min_blocks_per_sm);
  form.tiling.anchor = Kernel::line_bytes / Kernel::element_bytes;
  form.needs_aligned_rows = !Form::allows_unaligned;
  return form;
}

}  // namespace device_4
}  // namespace spider
