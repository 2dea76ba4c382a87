/// 2D stencils of f64 fields on CUDA cores with so many taps that multiply-adds take as long as memory. The
/// warps of a block have tiles in two columns, whose inputs wait in one window in shared memory: a lane finds
/// there what taps reach beside its own vector, so that all lanes have outputs, where in registers
/// (spider/kernels/cores2d.h) some lanes would do multiply-adds for nothing. Warps begin with the first rows
/// as soon as these have come. Weights wait in constant memory, and rows are a loop: an f64 constant in the
/// code takes two instructions for every use or two, and what all rows need of them does not fit the
/// instruction cache.
///
/// A `Stencil` is one of cores2d.h with one sum; its left_lanes and right_lanes are vectors of the window
/// before and behind those that lanes have outputs in.
#pragma once

#include <spider/instructions.h>
#include <spider/kernel.h>
#include <spider/kernels/cores2d.h>

#include <cstdint>
#include <utility>

namespace spider {
inline namespace device_3 {

template <class Stencil>
struct Window2d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_window2d(const ArgumentsOf<Stencil> field) {
  using Kernel = Window2d<Stencil>;
  const typename Kernel::Block block(field);
  if (Kernel::is_interior(block)) {
    Kernel::start_bulk_copies(block);
    Kernel::template walk_down<true>(field, block);
  } else {
    Kernel::fetch_window(block);
    device::sync_block();
    Kernel::template walk_down<false>(field, block);
  }
}

/// The weights of all taps, in constant memory.
template <class Stencil>
struct TapWeights {
  typename Stencil::Cells::Number of_tap[Stencil::tap_count];
};

template <class Stencil, int... t>
constexpr TapWeights<Stencil> list_tap_weights(std::integer_sequence<int, t...> /*taps*/) {
  return {{Stencil::taps[t].weight...}};
}

template <class Stencil>
SPIDER_CONSTANT_MEMORY TapWeights<Stencil> tap_weights =
    list_tap_weights<Stencil>(std::make_integer_sequence<int, Stencil::tap_count>{});

template <class Stencil>
struct Window2d : Cores2d<Stencil> {
  using Base = Cores2d<Stencil>;
  using Cells = typename Base::Cells;
  using Element = typename Base::Element;
  using Number = typename Base::Number;
  using Shared = device::Shared;
  using Tile = typename Base::Tile;
  using Vector = device::Vector;
  using Word = typename Base::Word;
  static constexpr int outputs = Base::outputs;
  static constexpr int vector_bytes = Base::vector_bytes;
  static constexpr int row_low = Base::row_low;
  static constexpr int steps = Base::steps;
  static constexpr int tile_rows = Base::tile_rows;
  static constexpr int unit_rows = 8;  // of a barrier
  static constexpr int warps = Stencil::warps_per_block;
  static constexpr int threads = warps * 32;
  static constexpr int warps_across = warps % 2 == 0 ? 2 : 1;
  static constexpr int warps_down = warps / warps_across;
  static constexpr int block_columns = warps_across * 32 * outputs;
  static constexpr int block_rows = warps_down * tile_rows;
  static_assert(Base::per_word == 1 && sizeof(Word) == 8, "weights take two registers");
  static_assert(SumsOf<Stencil>::count == 1, "sums of one output follow each other");
  static_assert(tile_rows >= steps, "some rows add to all sums in flight");
  static_assert(tile_rows % unit_rows == 0, "a warp's first row is the first of a unit");

  // Rows of the window begin in a line of 128 bytes where they do in the field. Before them are the barriers
  // of their copies, one for some rows: warps begin with those that are there.
  static constexpr int line_bytes = 128;
  static constexpr int window_rows = block_rows + steps - 1;
  static constexpr int units = (window_rows + unit_rows - 1) / unit_rows;
  static constexpr int barrier_bytes = 8;
  static constexpr int left_vectors = Stencil::left_lanes;
  static constexpr int vectors_beside = left_vectors + Stencil::right_lanes;
  static constexpr int own_row_vectors = warps_across * 32;
  static constexpr int row_bytes = (own_row_vectors + vectors_beside) * vector_bytes;
  static constexpr int row_pitch = (row_bytes + line_bytes - 1) / line_bytes * line_bytes;
  static constexpr int own_vectors = (units * barrier_bytes + line_bytes - 1) / line_bytes * line_bytes +
                                     (left_vectors * vector_bytes + line_bytes - 1) / line_bytes * line_bytes;
  static constexpr int shared_bytes = own_vectors + window_rows * row_pitch;

  /// Of the copies of so many rows.
  SPIDER_DEVICE static Shared unit_barrier(int unit) { return static_cast<Shared>(unit * barrier_bytes); }

  /// What a block computes, as the tile of its first warp.
  struct Block : Tile {
    SPIDER_DEVICE explicit Block(const SweepArguments& field) {
      const BlockPlace place = find_block_from_lowest(field.grid.volume);
      static_cast<FieldTile<Cells>&>(*this) = FieldTile<Cells>(field, 1);
      this->row += place.down * block_rows;
      this->column += place.across * block_columns;
      this->lane_column = this->column + device::lane_index() * outputs;
      this->has_outputs = true;
    }
  };

  /// Are all inputs of the block in the box and aligned, and all outputs wanted?
  SPIDER_DEVICE static bool is_interior(const Block& block) {
    constexpr int end = block_columns + Stencil::right_lanes * outputs;
    return device::has_bulk_copies &&
           Base::template is_inside<block_rows, left_vectors * outputs, end>(block);
  }

  /// Where a row of the window has a vector, counted from that of the first lane.
  SPIDER_DEVICE static Shared place(int row, int vector) {
    return static_cast<Shared>(own_vectors + row * row_pitch + vector * vector_bytes);
  }

  /// Vector i of those beside the lanes', which threads take in turn.
  struct VectorBeside {
    static constexpr int count = window_rows * vectors_beside;
    static constexpr int of_row = vectors_beside > 0 ? vectors_beside : 1;
    int row, vector;

    SPIDER_DEVICE explicit VectorBeside(int i) : row(i / of_row), vector(i % of_row - left_vectors) {
      if (vector >= 0) vector += own_row_vectors;
    }
  };

  /// Starts the copies of a block's inputs, a row by one. Each warp has some, for one lane after the other
  /// issues them.
  SPIDER_DEVICE static void start_bulk_copies(const Block& block) {
    const int warp = device::warp_index();
    SPIDER_UNROLL
    for (int unit = 0; unit < units; ++unit) {
      const int rows = unit + 1 < units ? unit_rows : window_rows - unit * unit_rows;
      if (unit % warps == warp)
        device::begin_bulk_copies(unit_barrier(unit), static_cast<std::uint32_t>(rows * row_bytes));
    }
    device::sync_block();
    const Element* first =
        block.input + ((block.row + row_low) * block.input_stride + block.column - left_vectors * outputs);
    SPIDER_UNROLL
    for (int i = 0; i < window_rows; i += threads) {
      const int row = i + device::lane_index() * warps + warp;
      if (row < window_rows) {
        device::copy_bulk_async(place(row, -left_vectors), first + row * block.input_stride, row_bytes,
                                unit_barrier(row / unit_rows));
      }
    }
    device::sync_block();  // none waits for copies that another has yet to start
  }

  /// Puts a block's inputs into the window from wherever the boundary takes them.
  SPIDER_DEVICE static void fetch_window(const Block& block) {
    constexpr int rows_at_once = 4;
    const int warp = device::warp_index();
    const int lane = device::lane_index();
    const std::int32_t first_row = block.row + row_low;
    const int own_vector = warp % warps_across * 32 + lane;
    Tile own = block;
    own.lane_column = block.column + own_vector * outputs;
    const auto places = Base::find_cells(own);
    SPIDER_NO_UNROLL
    for (int first = warp / warps_across; first < window_rows; first += rows_at_once * warps_down) {
      Vector vectors[rows_at_once];
      SPIDER_UNROLL
      for (int k = 0; k < rows_at_once; ++k)
        vectors[k] = Base::fetch_vector(own, places, Base::find_row(own, first_row + first + k * warps_down));
      SPIDER_UNROLL
      for (int k = 0; k < rows_at_once; ++k) {
        const int row = first + k * warps_down;
        device::store_shared_if(row < window_rows, place(row, own_vector), vectors[k]);
      }
    }
    SPIDER_NO_UNROLL
    for (int i = warp * 32 + lane; i < VectorBeside::count; i += threads) {
      const VectorBeside beside(i);
      Tile at = block;
      at.lane_column = block.column + beside.vector * outputs;
      const Vector vector =
          Base::fetch_vector(at, Base::find_cells(at), Base::find_row(at, first_row + beside.row));
      device::store_shared(place(beside.row, beside.vector), vector);
    }
  }

  /// Sums of the output rows in flight, from the one that is complete next on.
  using Sums = Number[steps][outputs];

  // What taps reach of a row: whole vectors.
  static constexpr TapColumns columns = tap_columns<Stencil>(row_low, Base::row_high, 0, 0);
  static constexpr int first_vector = floor_divide(columns.low, outputs);
  static constexpr int vectors = floor_divide(outputs - 1 + columns.high, outputs) - first_vector + 1;
  using Numbers = Number[vectors * outputs];

  /// Those of an input row; this lane's own vector is at `own`.
  SPIDER_DEVICE static void load_numbers(Shared own, Numbers& numbers) {
    SPIDER_UNROLL
    for (int v = 0; v < vectors; ++v) {
      const Vector vector = device::load_shared(own + static_cast<Shared>((first_vector + v) * vector_bytes));
      SPIDER_UNROLL
      for (int i = 0; i < outputs; ++i) numbers[v * outputs + i] = Cells::number(word_of<Word>(vector, i), 0);
    }
  }

  /// Adds a tap's products: those of the highest row complete an output row, and of each row below it go to
  /// the sums that move up by one.
  template <int t, int first, int last>
  SPIDER_DEVICE static void add_tap_of_row(const Numbers& numbers, Sums& sums) {
    constexpr auto tap = Stencil::taps[t];
    constexpr int step = tap.step - row_low;
    if constexpr (step >= first && step <= last) {
      SPIDER_UNROLL
      for (int i = 0; i < outputs; ++i) {
        Number& sum = sums[steps - 1 - step][i];
        sum = device::multiply_add(tap_weights<Stencil>.of_tap[t],
                                   numbers[i + tap.column - first_vector * outputs], sum);
      }
    }
  }

  /// Where a warp is in the window: a row, counted from its first one, and this lane's own vector of it. In
  /// an `interior` block rows come by bulk copies, and are waited for.
  template <bool interior>
  struct Cursor {
    Shared own, first_barrier;
    int row = 0;

    SPIDER_DEVICE void arrive() const {
      if constexpr (interior) {
        if (row % unit_rows == 0)
          device::wait_for_bulk_copies(first_barrier + static_cast<Shared>(row / unit_rows * barrier_bytes));
      }
    }

    SPIDER_DEVICE void move_on() {
      ++row;
      own += static_cast<Shared>(row_pitch);
    }
  };

  /// Adds the row at the cursor by taps of steps `first` to `last` from the lowest row.
  template <int first, int last, bool interior, int... t>
  SPIDER_DEVICE static void add_row(const Cursor<interior>& cursor, Sums& sums,
                                    std::integer_sequence<int, t...> /*taps*/) {
    cursor.arrive();
    Numbers numbers;
    load_numbers(cursor.own, numbers);
    (add_tap_of_row<t, first, last>(numbers, sums), ...);
  }

  /// Of a warp's tile: where outputs go, and which of them are the sweep's.
  struct Outputs {
    const ArgumentsOf<Stencil>& field;
    Tile tile;
    OutputClip clip;
    int rows_left;
    Element* to;

    SPIDER_DEVICE Outputs(const ArgumentsOf<Stencil>& sweep, const Tile& of_warp)
        : field(sweep),
          tile(of_warp),
          clip(clip_outputs<outputs>(tile.lane_column, tile.wanted.column_begin, tile.wanted.column_end,
                                     tile.aligned_output)),
          rows_left(tile.wanted.row_end - tile.row),
          to(tile.output + (tile.row * tile.output_stride + tile.lane_column)) {}

    /// Stores the next row, which is complete; `row` counts from the tile's first, and `own` is where the
    /// input row is that completes it.
    template <bool interior>
    SPIDER_DEVICE void store(int row, [[maybe_unused]] Shared own, Sums& sums) {
      OutputSums<Stencil, outputs> results;
      SPIDER_UNROLL
      for (int i = 0; i < outputs; ++i) results[0][i] = sums[0][i];
      if constexpr (HasUpdate<Stencil>::value) {
        Vector inputs{};
        if constexpr (Base::holds_inputs())
          inputs = device::load_shared(own - static_cast<Shared>(Base::row_high * row_pitch));
        Base::update_row(field, tile, clip, row, interior || row < rows_left, inputs, results);
      }
      store_outputs<Cells, interior, HasUpdate<Stencil>::value>(to, interior || row < rows_left, clip,
                                                                results[0]);
      to += tile.output_stride;
    }
  };

  /// The next output row is the first one.
  SPIDER_DEVICE static void move_on(Sums& sums) {
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) {
      SPIDER_UNROLL
      for (int step = 0; step < steps; ++step) sums[step][i] = step + 1 < steps ? sums[step + 1][i] : 0;
    }
  }

  static constexpr auto all_taps = std::make_integer_sequence<int, Stencil::tap_count>{};

  /// Rows before the first output is complete: taps of steps 0 to i.
  template <bool interior, int... i>
  SPIDER_DEVICE static void begin(Cursor<interior>& cursor, Sums& sums,
                                  std::integer_sequence<int, i...> /*rows*/) {
    ((add_row<0, i>(cursor, sums, all_taps), move_on(sums), cursor.move_on()), ...);
  }

  /// Rows behind the last one that begins an output: taps of all steps but the first i + 1.
  template <bool interior, int... i>
  SPIDER_DEVICE static void end(Cursor<interior>& cursor, Sums& sums, Outputs& outputs_of_warp,
                                std::integer_sequence<int, i...> /*rows*/) {
    ((add_row<i + 1, steps - 1>(cursor, sums, all_taps),
      outputs_of_warp.template store<interior>(tile_rows - (steps - 1) + i, cursor.own, sums), move_on(sums),
      cursor.move_on()),
     ...);
  }

  /// Computes the tile of this warp.
  template <bool interior>
  SPIDER_DEVICE static void walk_down(const ArgumentsOf<Stencil>& field, const Block& block) {
    constexpr auto few_rows = std::make_integer_sequence<int, steps - 1>{};
    const int first_row = device::warp_index() / warps_across * tile_rows;
    const int own_vector = device::warp_index() % warps_across * 32 + device::lane_index();
    Tile tile = block;
    tile.row += first_row;
    tile.lane_column = block.column + own_vector * outputs;
    Outputs of_warp(field, tile);
    Cursor<interior> cursor{place(first_row, own_vector), unit_barrier(first_row / unit_rows)};
    Sums sums = {};
    begin(cursor, sums, few_rows);
    SPIDER_NO_UNROLL
    for (int row = 0; row < tile_rows - (steps - 1); ++row) {
      add_row<0, steps - 1>(cursor, sums, all_taps);
      of_warp.template store<interior>(row, cursor.own, sums);
      move_on(sums);
      cursor.move_on();
    }
    end(cursor, sums, of_warp, few_rows);
  }
};

template <class Stencil>
constexpr SweepForm window2d_form() {
  using Kernel = Window2d<Stencil>;
  return {sweep_window2d<Stencil>,
          {TilingKind::blocks,
           Stencil::warps_per_block,
           Kernel::shared_bytes,
           Kernel::vector_bytes,
           Kernel::vector_bytes,
           {1, Kernel::block_rows, Kernel::block_columns},
           Stencil::left_lanes * Kernel::outputs,
           Stencil::right_lanes * Kernel::outputs,
           Kernel::column_anchor,
           0,
           0}};
}

}  // namespace device_3
}  // namespace spider
