/// 2D stars of 16-bit fields with many rows of taps. Taps are on the two axes, and each axis is a band of
/// products. Both have 16 rows of outputs in 8 columns that are 4 apart: four such combs are a unit of 16
/// rows by 32 columns, and a lane ends with eight neighbours in each of two rows. A warp has units side by
/// side, and the warps of a block stand side by side, too: a tile. All input rows of a tile are requested
/// together, and wait in shared memory.
///
/// The band along y has kernel matrices of 16 outputs by 32 inputs, compressed 2:4. The band along x has for
/// each comb dense matrices of 16 inputs by 8 outputs, two words a lane each: the inputs are chunks of 16
/// columns, and the first begins eight columns before the unit.
///
/// A `Stencil` has, besides the members that spider/sums/operands.h (the bands along y, with one word of
/// metadata) and spider/loads/tile_window.h require, as static members:
/// - Storage: of spider/values/storage.h, for cells of 16 bits;
/// - row_bands: bands along x, one per sum and term;
/// - comb_word(i, lane): word i of a lane of their matrices, i < row_bands * comb_words;
/// - sum_of_operand(i), sum_of_row_band(i): the sum of an operand, and of a band along x;
/// - warps_per_block;
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

#include <cstdint>

namespace spider {
inline namespace device_4 {

template <class Stencil, class Form>
struct Star2d;

template <class Stencil, class Form>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Form::blocks_per_multiprocessor)
sweep_star2d(const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  using Kernel = Star2d<Stencil, Form>;
  using Window = typename Kernel::Window;
  const JoinRimsAtExit<Stencil> ends_behind_rims;
  device::launch_dependents();
  const typename Kernel::Tile tile = Kernel::find_tile(field);
  // All threads of a block take the same branch, so that they reach every barrier together.
  const bool in_bulk = Window::can_copy_in_bulk(tile);
  typename Kernel::Tables tables;
  tables.load();
  wait_unless_concurrent<Stencil>();
  if (in_bulk) {
    Window::stagger_first_wave(tile, field.grid.volume, Kernel::answers_of_turn());
    Kernel::copy_rows(tile);
  } else {
    Window::copy_any(tile);
    Window::sync();
  }
  const bool waits = in_bulk && tile.aligned_input;
  if (Kernel::stores_all(tile)) {
    Kernel::template compute_outputs<false>(tile, tables, waits);
  } else {
    Kernel::template compute_outputs<true>(tile, tables, waits);
  }
}

/// Rows and columns of a tile. Consecutive blocks lie along x, so that concurrent ones have a compact part of
/// the field. A small box finishes sooner in low and narrow tiles: there are more of them.
template <int rows, int warp_columns, int blocks>
struct Star2dForm {
  static constexpr int tile_rows = rows;
  static constexpr int warp_outputs = warp_columns;
  static constexpr int blocks_per_multiprocessor = blocks;
  static constexpr bool saves_registers = blocks > 4;  ///< with that many blocks, each has few
};

template <class Stencil, class Form>
struct Star2d {
  using Accumulator = device::Accumulator;
  using Shared = device::Shared;
  using Vector = device::Vector;
  using Storage = typename Stencil::Storage;
  using Element = typename Storage::Element;
  using Tile = StencilTile<Stencil>;

  static constexpr int element_bytes = Storage::element_bytes;
  static constexpr int vector_elements = Storage::vector_elements;
  static constexpr int vector_bytes = 16;
  static constexpr int unit_rows = 16;
  static constexpr int unit_columns = 32;
  static constexpr int combs = 4;
  static constexpr int chunks = 3;
  static constexpr int chunk_columns = 16;
  static constexpr int comb_words = combs * chunks * 2;  // of a band along x
  static constexpr int sum_count = SumsOf<Stencil>::count;
  static constexpr int band_low = -8;  // dy of the first input of a product along y, from its first output
  static constexpr int row_low = Stencil::row_low;
  static constexpr int row_high = Stencil::row_high;
  static constexpr int lead_rows = row_high - row_low;  // input rows of a tile besides its output rows
  static constexpr int input_rows = Form::tile_rows + lead_rows;
  static constexpr int tile_outputs = Stencil::warps_per_block * Form::warp_outputs;
  static_assert(Form::tile_rows % unit_rows == 0 && Form::warp_outputs % unit_columns == 0,
                "tiles have whole units");

  // The inputs of a row of outputs begin eight columns before them, and end eight columns after them. A line
  // of 128 bytes of a field begins 32 bytes into a line of the window (generator/README.md). Rows that lanes
  // load together lie in different banks: each next row 32 bytes further, and so each sixteenth.
  static constexpr int first_column = -vector_elements;
  static constexpr int line_bytes = 128;
  static constexpr int bank_shift = 32;
  static constexpr int window_offset = line_offset<vector_elements>(first_column);
  static constexpr int window_vectors = tile_outputs / vector_elements + 2;
  static constexpr int window_row_bytes =
      ((window_vectors + 1) * vector_bytes + line_bytes - 1) / line_bytes * line_bytes + bank_shift;
  static constexpr int stage_bytes =
      unit_rows / 2 * unit_columns * element_bytes;  // per warp: results before they are converted to cells
  static constexpr int shared_bytes = 2 * line_bytes + input_rows * window_row_bytes +
                                      (Form::tile_rows / unit_rows + 1) * bank_shift +
                                      Stencil::warps_per_block * stage_bytes;

  SPIDER_DEVICE static Tile find_tile(const ArgumentsOf<Stencil>& field) {
    const BlockPlace block = find_block(field.grid.volume);
    Tile tile(field, unit_rows);
    tile.row += block.down * Form::tile_rows;
    tile.column += block.across * tile_outputs;
    return tile;
  }

  /// True if all outputs are stored, and aligned.
  SPIDER_DEVICE static bool stores_all(const Tile& tile) {
    return tile.aligned_output && has_plain_outputs<Form::tile_rows, tile_outputs>(tile);
  }

  /// The barrier of the bulk copies that a row of units waits for, besides those of the row above; the window
  /// begins on the next line.
  SPIDER_DEVICE static constexpr Shared unit_barrier(int units_above) {
    constexpr Shared barrier_bytes = 8;
    return units_above * barrier_bytes;
  }

  /// How many rows of units of the tile do not need input row `row`.
  SPIDER_DEVICE static constexpr int units_above(int row) {
    return row < lead_rows ? 0 : (row - lead_rows) / unit_rows;
  }

  /// Where input row `row` of the tile waits; row 0 is row_low above the first output row.
  SPIDER_DEVICE static Shared window_row(int row) {
    const int band_row = row + row_low - band_low;
    return line_bytes + window_offset + row * window_row_bytes + band_row / unit_rows * bank_shift;
  }

  /// The window, for spider/loads/tile_window.h.
  struct WindowShape : Stencil {
    static constexpr int tile_rows = Form::tile_rows;
    static constexpr int warps = Stencil::warps_per_block;
    static constexpr int first_column = Star2d::first_column;
    static constexpr int window_vectors = Star2d::window_vectors;

    SPIDER_DEVICE static int warp() { return device::warp_index(); }
    SPIDER_DEVICE static Shared row_place(int row) { return window_row(row); }
    SPIDER_DEVICE static Shared barrier_of(int row) { return unit_barrier(units_above(row)); }
    SPIDER_DEVICE static Shared spare_place() { return line_bytes - vector_bytes; }
    SPIDER_DEVICE static void begin_copies(std::uint32_t row_bytes) {
      SPIDER_UNROLL
      for (int unit = 0; unit < Form::tile_rows / unit_rows; ++unit) {
        device::begin_bulk_copies(unit_barrier(unit),
                                  (unit == 0 ? unit_rows + lead_rows : unit_rows) * row_bytes);
      }
    }
  };
  using Window = TileWindow<WindowShape>;

  /// Memory round trips that blocks of high tiles wait, per earlier block (tests/benchmarks/README.md).
  SPIDER_DEVICE static constexpr int answers_of_turn() { return Form::tile_rows > 2 * unit_rows ? 1 : 0; }

  /// Starts the copies of the inputs of a tile whose rows need no care. Warps wait at the barrier of each row
  /// of units before they read it. For unaligned rows all copies are complete on return, and shifted.
  SPIDER_DEVICE static void copy_rows(const Tile& tile) {
    const Leads leads = Window::start_bulk_copies(tile);
    if (!tile.aligned_input) {
      SPIDER_UNROLL
      for (int unit = 0; unit < Form::tile_rows / unit_rows; ++unit)
        device::wait_for_bulk_copies(unit_barrier(unit));
      Window::shift_rows(leads);
      Window::sync();
    }
  }

  /// The operands of a lane: the bands along y, and the words of the bands along x.
  struct Tables : OperandTable<Stencil> {
    std::uint32_t words[Stencil::row_bands * comb_words];

    SPIDER_DEVICE void load() {
      OperandTable<Stencil>::load();
      SPIDER_UNROLL
      for (int i = 0; i < Stencil::row_bands * comb_words; ++i)
        words[i] = device::load_table(Stencil::comb_word(i, device::lane_index()));
    }
  };

  /// Where a lane's inputs of the warp's first unit lie.
  struct InputPlaces {
    Shared along_y[4][2];  ///< for each register, four columns of two neighbouring inputs
    Shared along_x[2];     ///< four columns of the first chunk, in its two rows of outputs
  };

  /// The input of a product along y that lanes of column `quarter` have in a register, the first or second of
  /// a pair: pairs that share a group of four are 16 rows apart. Inputs that no tap of the unit's outputs
  /// reaches are multiplied by zeros, so any cell will do: a row eight further is in the same banks, and is
  /// reached.
  SPIDER_DEVICE static int band_input(int word, int quarter, int second) {
    const int input = 2 * (2 * word + quarter / 2) + unit_rows * (quarter % 2) + second;
    if (input < row_low - band_low) return input + 8;
    return input >= unit_rows + row_high - band_low ? input - 8 : input;
  }

  SPIDER_DEVICE static InputPlaces find_inputs() {
    constexpr int lane_bytes = combs * element_bytes;
    const int row = device::lane_index() / 4;
    const int quarter = device::lane_index() % 4;
    const Shared first = device::warp_index() * Form::warp_outputs * element_bytes;
    InputPlaces places;
    SPIDER_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int input = band_input(i / 2, quarter, i % 2);
      places.along_y[i / 2][i % 2] =
          window_row(input + band_low - row_low) + first + vector_bytes + row * lane_bytes;
    }
    SPIDER_UNROLL
    for (int half = 0; half < 2; ++half) {
      places.along_x[half] = window_row(row + 8 * half - row_low) + first + quarter * lane_bytes;
    }
    return places;
  }

  /// The lane's part of a chunk's matrix of 16 rows of outputs by 16 columns of inputs, which is A. Without
  /// settled loads the compiler copies words to other registers for every product.
  SPIDER_DEVICE static Vector load_chunk(const InputPlaces& places, Shared offset) {
    const device::Pair low = device::load_settled_pair(places.along_x[0] + offset);
    const device::Pair high = device::load_settled_pair(places.along_x[1] + offset);
    return {{device::pin_in_register(low.word[0]), device::pin_in_register(high.word[0]),
             device::pin_in_register(low.word[1]), device::pin_in_register(high.word[1])}};
  }

  /// The lane's parts of B: the matrices of 32 rows of inputs by the 8 columns of each comb.
  struct CombInputs {
    Vector comb[combs];
  };

  SPIDER_DEVICE static CombInputs load_combs(const InputPlaces& places, Shared offset) {
    CombInputs inputs;
    SPIDER_UNROLL
    for (int word = 0; word < 4; ++word) {
      const device::Pair first = device::load_settled_pair(places.along_y[word][0] + offset);
      const device::Pair second = device::load_settled_pair(places.along_y[word][1] + offset);
      SPIDER_UNROLL
      for (int i = 0; i < 2; ++i) {
        inputs.comb[2 * i].word[word] = device::join_low_halves(first.word[i], second.word[i]);
        inputs.comb[2 * i + 1].word[word] = device::join_high_halves(first.word[i], second.word[i]);
      }
    }
    return inputs;
  }

  /// The sums of a unit.
  struct UnitSums {
    TileSums<Stencil> comb[combs];
  };

  SPIDER_DEVICE static UnitSums multiply_unit(const Tables& tables, const CombInputs& inputs,
                                              const Vector (&chunk)[chunks]) {
    typename Storage::Partial nothing_apart;
    UnitSums sums{};
    SPIDER_UNROLL
    for (int i = 0; i < combs; ++i) {
      SPIDER_UNROLL
      for (int k = 0; k < Stencil::operand_count; ++k) {
        Storage::template multiply<0>(nothing_apart, sums.comb[i].of[Stencil::sum_of_operand(k)],
                                      tables.matrices[k], {inputs.comb[i]}, tables.metadata[0], 0);
      }
      SPIDER_UNROLL
      for (int k = 0; k < Stencil::row_bands * chunks; ++k) {
        const int band = k / chunks;
        const std::uint32_t* words = tables.words + comb_words * band + 2 * (chunks * i + k % chunks);
        Storage::multiply_inputs(sums.comb[i].of[Stencil::sum_of_row_band(band)], chunk[k % chunks],
                                 device::Pair{{words[0], words[1]}});
      }
    }
    return sums;
  }

  /// One of a lane's eight neighbouring results in its first or second row, for one sum.
  SPIDER_DEVICE static float result_of(const UnitSums& sums, int half, int neighbour, int sum = 0) {
    return scale_sum<Stencil>(sums.comb[neighbour % combs].of[sum].value[2 * half + neighbour / combs], sum);
  }
  /// All eight, by their places, rounded.
  template <class Result>
  SPIDER_DEVICE static Vector round_row(const Result& result) {
    Vector row;
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) row.word[i] = Storage::pack_pair(result(2 * i), result(2 * i + 1));
    return row;
  }

  /// The update of a lane's eight neighbours in a row, if the stencil has one.
  template <bool exists = HasUpdate<Stencil>::value, class Points = WithCells<Stencil, Storage>>
  struct RowUpdate {};
  template <class Points>
  struct RowUpdate<true, Points> {
    PointPlace first;
    PointInputs<Points, vector_elements> inputs;

    /// For row y from column x on; all are stored unless it clips. The tile's inputs are in shared memory, or
    /// in flight to it.
    template <bool clips>
    SPIDER_DEVICE void load(const Tile& tile, std::int32_t y, std::int32_t x) {
      constexpr unsigned all = (1U << vector_elements) - 1;
      first = {0, y, x};
      unsigned wanted = clips ? 0 : all;
      SPIDER_UNROLL
      for (int i = 0; i < vector_elements; ++i) {
        if (clips && has_point(tile.wanted, y, x + i)) wanted |= 1U << i;
      }
      const bool whole = !clips || (tile.aligned_output && wanted == all);
      if (reaches_itself<Stencil>()) {
        inputs.load_fields(*tile.sweep, first, whole, wanted, typename Stencil::FurtherFields{});
      } else {
        inputs.load(*tile.sweep, first, whole, wanted);
      }
    }

    /// The results of the sums of the lane's first or second row.
    SPIDER_DEVICE Vector apply(const Tile& tile, const UnitSums& sums, int half) {
      if (Stencil::reads_input && reaches_itself<Stencil>()) {
        const auto column = static_cast<Shared>(first.x - tile.column - first_column);
        const Vector cells = device::load_shared(window_row(static_cast<int>(first.y) - tile.row - row_low) +
                                                 column * element_bytes);
        SPIDER_UNROLL
        for (int i = 0; i < 4; ++i) inputs.input[i] = cells.word[i];
      }
      OutputSums<Points, vector_elements> numbers;
      SPIDER_UNROLL
      for (int sum = 0; sum < sum_count; ++sum) {
        SPIDER_UNROLL
        for (int i = 0; i < vector_elements; ++i) numbers[sum][i] = result_of(sums, half, i, sum);
      }
      inputs.update(*tile.sweep, first, numbers);
      device::sync_warp();
      return round_row([&](int neighbour) { return numbers[0][neighbour]; });
    }
  };

  /// Stores half of a unit's rows from row y and column x on, cell by cell, and only the sweep's. Goes
  /// through shared memory, so that the lanes of a warp have the cells of a row.
  SPIDER_DEVICE static void store_clipped(const Tile& tile, std::int32_t y, std::int32_t x,
                                          const Vector& results) {
    const int lane = device::lane_index();
    const Shared stage = shared_bytes - (device::warp_index() + 1) * stage_bytes;
    const std::int32_t column = x + lane;
    const bool wanted = column >= tile.wanted.column_begin && column < tile.wanted.column_end;
    device::store_shared(stage + lane * vector_bytes, results);
    device::sync_warp();
    SPIDER_UNROLL
    for (int row = 0; row < unit_rows / 2; ++row) {
      const std::uint16_t cell =
          device::load_shared_half(stage + (row * unit_columns + lane) * element_bytes);
      Element* to = tile.output + ((y + row) * tile.output_stride + column);
      device::store_field_if(wanted && has_row(tile.wanted, y + row), to, cell);
    }
    device::sync_warp();
  }

  /// Computes and stores a warp's outputs of a tile. If it `clips`, only the sweep's. If it `waits`, rows of
  /// inputs are still in flight.
  template <bool clips>
  SPIDER_DEVICE static void compute_outputs(const Tile& tile, const Tables& tables, bool waits) {
    constexpr int units = Form::warp_outputs / unit_columns;
    constexpr int units_at_once = units % 2 == 0 && !clips ? 2 : 1;
    constexpr Shared unit_bytes = unit_columns * element_bytes;
    constexpr Shared chunk_bytes = chunk_columns * element_bytes;
    const InputPlaces places = find_inputs();
    const int lane = device::lane_index();
    const std::int32_t x = tile.column + device::warp_index() * Form::warp_outputs;
    const std::int64_t half_stride = unit_rows / 2 * tile.output_stride;
    std::int32_t y = tile.row;
    Element* to = tile.output + ((y + lane / 4) * tile.output_stride + x + lane % 4 * vector_elements);
    Shared from = 0;
    SPIDER_NO_UNROLL
    for (int row = 0; row < Form::tile_rows; row += unit_rows) {
      if (waits) device::wait_for_bulk_copies(unit_barrier(row / unit_rows));
      Vector chunk[chunks] = {{}, {}, load_chunk(places, from)};
      SPIDER_NO_UNROLL
      for (int first = 0; first < units; first += units_at_once) {
        [[maybe_unused]] RowUpdate<> updates[units_at_once][2];
        if constexpr (HasUpdate<Stencil>::value) {
          SPIDER_UNROLL
          for (int i = 0; i < 2 * units_at_once; ++i) {
            updates[i / 2][i % 2].template load<clips>(
                tile, y + unit_rows / 2 * (i % 2) + lane / 4,
                x + (first + i / 2) * unit_columns + lane % 4 * vector_elements);
          }
          if constexpr (clips) device::sync_warp();
        }
        SPIDER_UNROLL
        for (int i = 0; i < units_at_once; ++i) {
          const int unit = first + i;
          const Shared offset = from + unit * unit_bytes;
          chunk[0] = chunk[2];
          chunk[1] = load_chunk(places, offset + chunk_bytes);
          chunk[2] = load_chunk(places, offset + 2 * chunk_bytes);
          const UnitSums sums = multiply_unit(tables, load_combs(places, offset), chunk);
          SPIDER_UNROLL
          for (int half = 0; half < 2; ++half) {
            Vector results;
            if constexpr (HasUpdate<Stencil>::value) {
              results = updates[i][half].apply(tile, sums, half);
            } else {
              results = round_row([&](int neighbour) { return result_of(sums, half, neighbour); });
            }
            if constexpr (clips) {
              store_clipped(tile, y + unit_rows / 2 * half, x + unit * unit_columns, results);
            } else {
              device::store_field_vector(to + (unit * unit_columns + half * half_stride), results);
            }
          }
        }
      }
      from += unit_rows * window_row_bytes + bank_shift;
      y += unit_rows;
      // The compiler's own addresses make stores shorter but use more registers.
      to = Form::saves_registers ? device::opaque_advance(to, unit_rows * tile.output_stride)
                                 : to + unit_rows * tile.output_stride;
    }
  }
};

template <class Stencil, class Form>
constexpr SweepForm star2d_form(int min_blocks_per_sm) {
  using Kernel = Star2d<Stencil, Form>;
  return tiles_form(sweep_star2d<Stencil, Form>, Stencil::warps_per_block, Kernel::shared_bytes, 16,
                    Form::tile_rows, Kernel::tile_outputs, Kernel::unit_rows, min_blocks_per_sm);
}

}  // namespace device_4
}  // namespace spider
