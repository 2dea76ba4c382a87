/// 2D stencils of few taps on CUDA cores. A warp has a tile of some output rows and requests all of its input
/// rows together. They wait in registers, one vector of each row per lane. Lanes exchange the cells that taps
/// reach in other lanes' vectors. The first and last lanes, whose neighbours would be in other warps, only
/// pass cells on and have no outputs.
///
/// A `Stencil` has, as static members, taps and boundary as spider/loads/tile_window.h requires, and
/// - Cells: of spider/values/cells.h;
/// - tap_count, taps: CoreTap, ascending in step and column;
/// - tile_rows: output rows of a warp;
/// - left_lanes, right_lanes: lanes without outputs;
/// - warps_per_block, blocks_per_multiprocessor.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/loads/tile_window.h>
#include <spider/machine/instructions.h>
#include <spider/sums/cores.h>
#include <spider/sums/point_inputs.h>
#include <spider/values/cells.h>
#include <spider/values/words.h>

#include <cstdint>
#include <utility>

namespace spider {
inline namespace device_4 {

template <class Stencil>
struct Cores2d;

/// The inputs of the updates of some rows; empty if there is no update.
template <class Stencil, int outputs, int rows, bool updates = HasUpdate<Stencil>::value>
struct UpdatesAhead {};
template <class Stencil, int outputs, int rows>
struct UpdatesAhead<Stencil, outputs, rows, true> {
  PointInputs<Stencil, outputs> of_row[rows];
};

// All lanes of a warp agree whether its tile needs care. A warp vote tells the compiler so, and the code
// after it needs no divergence.
template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_cores2d(const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  using Kernel = Cores2d<Stencil>;
  typename Kernel::Tile tile;
  if (!Kernel::find_tile(field, tile)) return;
  typename Kernel::Rows rows;
  if (device::warp_max(Kernel::is_interior(tile) ? 1 : 0) != 0) {
    Kernel::load_rows(tile, rows);
  } else {
    Kernel::fetch_rows(tile, rows);
  }
  Kernel::compute(field, tile, rows, std::make_integer_sequence<int, Kernel::input_rows>{});
}

template <class Stencil>
struct Cores2d {
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;
  using Word = typename Cells::Word;
  using Vector = device::Vector;
  static constexpr int per_word = Cells::per_word;
  static constexpr int vector_bytes = 16;
  static constexpr int vector_words = vector_bytes / static_cast<int>(sizeof(Word));
  static constexpr int outputs = vector_words * per_word;  // of a lane in a row
  static constexpr int row_low = Stencil::row_low;
  static constexpr int row_high = Stencil::row_high;
  static constexpr int steps = row_high - row_low + 1;
  static constexpr int band_count = Stencil::band_count;
  static constexpr int tile_rows = Stencil::tile_rows;
  static constexpr int input_rows = tile_rows + steps - 1;
  static constexpr int left_lanes = Stencil::left_lanes;
  static constexpr int right_lanes = Stencil::right_lanes;
  static constexpr int tile_columns = (32 - left_lanes - right_lanes) * outputs;
  static constexpr int column_anchor =
      128 / Cells::element_bytes;  // tiles of a box begin on a line of 128 bytes
  static_assert(left_lanes * outputs >= -Stencil::column_reach_low &&
                    right_lanes * outputs >= Stencil::column_reach_high,
                "lanes without outputs hold what taps reach");
  static_assert(Stencil::highest_low >= Stencil::column_reach_low &&
                    Stencil::lowest_high <= Stencil::column_reach_high,
                "no tap row reaches farther than all");

  /// The tile of a warp, and the lane's part of it.
  struct Tile : FieldTile<Cells> {
    std::int32_t lane_column;  ///< of this lane's first cell
    bool has_outputs;          ///< of this lane
  };

  /// Finds the tile of this warp; there is none if the grid exceeds the box. Tiles at the upper end come
  /// first: they may need care and take longer, and would delay the end if they came last.
  SPIDER_DEVICE static bool find_tile(const SweepArguments& field, Tile& tile) {
    const BlockPlace block = find_block(field.grid.volume);
    const int lane = device::lane_index();
    static_cast<FieldTile<Cells>&>(tile) = FieldTile<Cells>(field, 1);
    tile.row += block.down * tile_rows;
    tile.column += (block.across * Stencil::warps_per_block + device::warp_index()) * tile_columns;
    tile.lane_column = tile.column + (lane - left_lanes) * outputs;
    tile.has_outputs = lane >= left_lanes && lane < 32 - right_lanes;
    return tile.column < tile.wanted.column_end;
  }

  /// True if `rows` rows of results, from the tile's on, are in the box with all their inputs, and all
  /// columns from `left` before the tile's to before `end` after it, and all of it is aligned.
  template <int rows, int left, int end>
  SPIDER_DEVICE static bool is_inside(const Tile& tile) {
    constexpr int first_row = row_low < 0 ? row_low : 0;
    constexpr int end_row = rows + (row_high > 0 ? row_high : 0);
    const Region& box = tile.wanted;
    return tile.aligned_input && tile.aligned_output && tile.row + first_row >= box.row_begin &&
           tile.row + end_row <= box.row_end && tile.column - left >= box.column_begin &&
           tile.column + end <= box.column_end;
  }

  /// True if all inputs of the tile are in the box and aligned, and all outputs are stored.
  SPIDER_DEVICE static bool is_interior(const Tile& tile) {
    return is_inside<tile_rows, left_lanes * outputs, (32 - left_lanes) * outputs>(tile);
  }

  /// The input rows of a tile: a vector of each, as it lies in memory.
  using Rows = Vector[input_rows];

  /// Requests all rows, from their own places.
  SPIDER_DEVICE static void load_rows(const Tile& tile, Rows& rows) {
    const Element* from = tile.input + ((tile.row + row_low) * tile.input_stride + tile.lane_column);
    SPIDER_UNROLL
    for (int i = 0; i < input_rows; ++i) {
      rows[i] = device::load_field_vector(from);
      from += tile.input_stride;
    }
  }

  static constexpr bool has_signs = negates(Stencil::row_rules()) || negates(Stencil::column_rules());

  /// Where an input row is read, as lanes tell each other. `place` is its index, or a word of its constant.
  struct RowPlace {
    static constexpr std::uint32_t constant = 0x80000000U;
    static constexpr std::uint32_t negated = 0x40000000U;
    static_assert(band_count < 31, "flags are bits of a word");

    Word place;
    std::uint32_t flags;  ///< bit i: band i reaches it; and whether it is `constant`, or `negated`
  };

  SPIDER_DEVICE static RowPlace find_row(const Tile& tile, std::int32_t y) {
    const RowIndex<Stencil> row = map_row<Stencil>(tile, y);
    RowPlace found{static_cast<Word>(row.index), 0};
    if (row.constant) found = {Cells::repeat(static_cast<Element>(row.value)), RowPlace::constant};
    if (row.negated) found.flags |= RowPlace::negated;
    SPIDER_UNROLL
    for (int i = 0; i < band_count; ++i) {
      if (reaches_row(Stencil::band(i), y, tile.wanted)) found.flags |= 1U << i;
    }
    return found;
  }

  /// Where a lane's cells are read in any row; bit j of a word stands for cell j.
  struct CellPlaces {
    static constexpr std::uint32_t all = (1U << outputs) - 1;

    std::int32_t column[outputs];
    std::uint32_t reached[band_count];  ///< by each band, in rows that it reaches
    std::uint32_t constant;
    std::uint32_t negated;
    Element value[outputs];  ///< of constant cells
    bool whole;              ///< all are in memory at their own places, and aligned
  };

  SPIDER_DEVICE static CellPlaces find_cells(const Tile& tile) {
    CellPlaces places{};
    places.whole = tile.aligned_input;
    SPIDER_UNROLL
    for (int j = 0; j < outputs; ++j) {
      const std::int32_t x = tile.lane_column + j;
      const ColumnIndex<Stencil> column = map_column<Stencil>(tile, x);
      places.column[j] = column.index;
      places.whole &= !column.constant && column.index == x && !column.negated;
      if (column.negated) places.negated |= 1U << j;
      if (column.constant) {
        places.constant |= 1U << j;
        places.value[j] = static_cast<Element>(column.value);
      }
      SPIDER_UNROLL
      for (int i = 0; i < band_count; ++i) {
        const TapBand band = Stencil::band(i);
        const bool reached =
            x >= tile.wanted.column_begin + band.low && x - band.high < tile.wanted.column_end;
        if (reached) places.reached[i] |= 1U << j;
      }
    }
    return places;
  }

  /// Requests a vector from wherever the boundary takes its cells. Skips cells that no tap reaches. If two
  /// rules give constants, x has precedence over y.
  SPIDER_DEVICE static Vector fetch_vector(const Tile& tile, const CellPlaces& places, const RowPlace& row) {
    const bool constant_row = (row.flags & RowPlace::constant) != 0;
    std::uint32_t reached = 0;
    SPIDER_UNROLL
    for (int i = 0; i < band_count; ++i) reached |= (row.flags >> i & 1U) != 0 ? places.reached[i] : 0;
    const std::uint32_t in_memory = constant_row ? 0 : reached & ~places.constant;
    const std::int64_t index = constant_row ? 0 : static_cast<std::int32_t>(row.place);
    const Element* cells = tile.input + index * tile.input_stride;
    Vector vector{};
    const bool whole = places.whole && in_memory == CellPlaces::all;
    device::load_field_vector_if(whole, cells + tile.lane_column, vector);
    SPIDER_UNROLL
    for (int j = 0; j < outputs; ++j) {
      Word word = word_of<Word>(vector, j / per_word);
      const Element row_value =
          constant_row ? Cells::cell_of(row.place, 0) : Cells::cell_of(word, j % per_word);
      const Element otherwise = (places.constant >> j & 1U) != 0 ? places.value[j] : row_value;
      const bool wanted = !whole && (in_memory >> j & 1U) != 0;
      Cells::put(word, j % per_word, device::load_field_if(wanted, cells + places.column[j], otherwise));
      put_word(vector, j / per_word, word);
    }
    if constexpr (has_signs) {
      const bool negated_row = (row.flags & RowPlace::negated) != 0;
      const std::uint32_t negated = places.negated ^ (negated_row ? ~places.constant : 0);
      SPIDER_UNROLL
      for (int j = 0; j < outputs; ++j) {
        Word word = word_of<Word>(vector, j / per_word);
        const Element cell = Cells::cell_of(word, j % per_word);
        Cells::put(word, j % per_word,
                   static_cast<Element>(cell ^ sign_of<Element>((reached & negated) >> j & 1U)));
        put_word(vector, j / per_word, word);
      }
    }
    return vector;
  }

  /// Requests the input rows from wherever the boundary takes them. All lanes of the warp call this together.
  SPIDER_DEVICE static void fetch_rows(const Tile& tile, Rows& rows) {
    static_assert(input_rows <= 32, "each lane finds the place of one row");
    const RowPlace own = find_row(tile, tile.row + row_low + device::lane_index());
    const CellPlaces places = find_cells(tile);
    SPIDER_UNROLL
    for (int i = 0; i < input_rows; ++i) {
      const RowPlace row{device::shuffle(own.place, i), device::shuffle(own.flags, i)};
      rows[i] = fetch_vector(tile, places, row);
    }
  }

  /// Word `word` of an input row, counted from this lane's first.
  SPIDER_DEVICE static Word find_word(const Vector& own, int word) {
    const int lanes = floor_divide(word, vector_words);
    const Word value = word_of<Word>(own, word - lanes * vector_words);
    return lanes == 0 ? value : device::shuffle(value, device::lane_index() + 32 + lanes);
  }

  /// Sums of the output rows in flight, in turn.
  using Sums = OutputSums<Stencil, outputs>[steps];

  /// Adds input row i to the sums of the output row that tap t leads to, if the tile has that row.
  template <int i, int t, int first>
  SPIDER_DEVICE static void add_tap_of_row(const Number* numbers, Sums& sums) {
    constexpr int row = i - (Stencil::taps[t].step - row_low);
    constexpr bool is_shared = first_shared_row<Stencil>(SumsOf<Stencil>::of_tap(t)) >= 0;
    if constexpr (row >= 0 && row < tile_rows && !is_shared)
      add_tap<Stencil, t, first>(numbers, sums[row % steps]);
  }

  using Shared = SharedRowsOf<Stencil>;

  /// True if a sum shares its tap rows, and one of them takes input row i to an output row of the tile.
  SPIDER_DEVICE static constexpr bool shares_row(int i, int sum) {
    for (int k = 0; k < Shared::count; ++k) {
      const int row = i - (Shared::row(k).step - row_low);
      if (Shared::row(k).sum == sum && row >= 0 && row < tile_rows) return true;
    }
    return false;
  }

  /// The first tap of a sum.
  SPIDER_DEVICE static constexpr int first_tap(int sum) {
    int t = 0;
    while (SumsOf<Stencil>::of_tap(t) != sum) ++t;
    return t;
  }

  /// Adds a tap of the first tap row of a sum.
  template <int sum, int t, int first>
  SPIDER_DEVICE static void add_tap_of_shared(const Number* numbers, Number (&row)[outputs]) {
    constexpr auto tap = Stencil::taps[t];
    if constexpr (SumsOf<Stencil>::of_tap(t) == sum && tap.step == Stencil::taps[first_tap(sum)].step) {
      SPIDER_UNROLL
      for (int i = 0; i < outputs; ++i) {
        const Number number = numbers[i + tap.column - first];
        row[i] = t == first_tap(sum) ? first_product(tap.weight, number)
                                     : device::multiply_add(tap.weight, number, row[i]);
      }
    }
  }

  /// Adds shared row k, a multiple of that row, to the sums of its output row.
  template <int i, int sum, int k>
  SPIDER_DEVICE static void add_shared_to(const Number (&of_row)[outputs], Sums& sums) {
    constexpr SharedRow shared = Shared::row(k);
    constexpr int row = i - (shared.step - row_low);
    if constexpr (shared.sum == sum && row >= 0 && row < tile_rows) {
      Number(&to)[outputs] = sums[row % steps][sum];
      constexpr auto weight = static_cast<Number>(shared.weight);
      SPIDER_UNROLL
      for (int j = 0; j < outputs; ++j) {
        // The lowest step adds to an output row first.
        to[j] = k == first_shared_row<Stencil>(sum) ? first_product(weight, of_row[j])
                                                    : device::multiply_add(weight, of_row[j], to[j]);
      }
    }
  }

  template <int i, int sum, int first, int... t, int... k>
  SPIDER_DEVICE static void add_shared_rows(const Number* numbers, Sums& sums,
                                            std::integer_sequence<int, t...> /*taps*/,
                                            std::integer_sequence<int, k...> /*shared rows*/) {
    if constexpr (shares_row(i, sum)) {
      Number row[outputs];
      (add_tap_of_shared<sum, t, first>(numbers, row), ...);
      (add_shared_to<i, sum, k>(row, sums), ...);
    }
  }

  template <int i, int first, int... sum>
  SPIDER_DEVICE static void add_all_shared(const Number* numbers, Sums& sums,
                                           std::integer_sequence<int, sum...> /*sums*/) {
    (add_shared_rows<i, sum, first>(numbers, sums, std::make_integer_sequence<int, Stencil::tap_count>{},
                                    std::make_integer_sequence<int, Shared::count>{}),
     ...);
  }

  template <int i, int first, int... t>
  SPIDER_DEVICE static void add_taps(const Number* numbers, Sums& sums,
                                     std::integer_sequence<int, t...> /*taps*/) {
    (add_tap_of_row<i, t, first>(numbers, sums), ...);
  }

  /// Adds input row i to all sums that it reaches.
  template <int i>
  SPIDER_DEVICE static void add_row(const Vector& own, Sums& sums) {
    constexpr TapColumns columns = tap_columns<Stencil>(row_low + i - (tile_rows - 1), row_low + i, 0, 0);
    if constexpr (!columns.empty()) {
      constexpr int first_word = floor_divide(columns.low, per_word);
      constexpr int words = floor_divide(outputs - 1 + columns.high, per_word) - first_word + 1;
      Number numbers[words * per_word];
      SPIDER_UNROLL
      for (int w = 0; w < words; ++w) {
        const Word word = find_word(own, first_word + w);
        SPIDER_UNROLL
        for (int j = 0; j < per_word; ++j) numbers[w * per_word + j] = Cells::number(word, j);
      }
      add_taps<i, first_word * per_word>(numbers, sums,
                                         std::make_integer_sequence<int, Stencil::tap_count>{});
      if constexpr (Shared::count > 0) {
        add_all_shared<i, first_word * per_word>(numbers, sums,
                                                 std::make_integer_sequence<int, SumsOf<Stencil>::count>{});
      }
    }
  }

  /// True if a lane's own vector has the inputs at its outputs. Cells that no tap reaches are not loaded.
  SPIDER_DEVICE static constexpr bool holds_inputs() {
    for (int t = 0; t < Stencil::tap_count; ++t) {
      if (Stencil::taps[t].step == 0 && Stencil::taps[t].column == 0) return true;
    }
    return false;
  }

  /// Rows ahead for which update inputs are requested: their latency is that of inputs.
  static constexpr int update_rows_ahead = 4;
  using RowInputs = UpdatesAhead<Stencil, outputs, update_rows_ahead>;

  /// Requests the update's inputs of output row `row`, except this lane's vector of inputs.
  template <int row>
  SPIDER_DEVICE static void request_update(const ArgumentsOf<Stencil>& field, const Tile& tile,
                                           const OutputClip& clip, int rows_left, RowInputs& ahead) {
    if constexpr (HasUpdate<Stencil>::value && row < tile_rows) {
      const PointPlace place{0, tile.row + row, tile.lane_column};
      const bool wanted = row < rows_left;
      const bool whole = wanted && clip.whole;
      const std::uint32_t bits = wanted ? clip.single : 0;
      PointInputs<Stencil, outputs>& inputs = ahead.of_row[row % update_rows_ahead];
      if constexpr (holds_inputs()) {
        inputs.load_fields(field, place, whole, bits, typename Stencil::FurtherFields{});
      } else {
        inputs.load(field, place, whole, bits);
      }
    }
  }

  template <int... row>
  SPIDER_DEVICE static void request_updates(const ArgumentsOf<Stencil>& field, const Tile& tile,
                                            const OutputClip& clip, int rows_left, RowInputs& ahead,
                                            std::integer_sequence<int, row...> /*first rows*/) {
    (request_update<row>(field, tile, clip, rows_left, ahead), ...);
  }

  /// Updates a complete row of the tile; `own` is this lane's vector of its inputs.
  SPIDER_DEVICE static void update_row(const ArgumentsOf<Stencil>& field, const Tile& tile, int row,
                                       const Vector& own, PointInputs<Stencil, outputs>& inputs,
                                       OutputSums<Stencil, outputs>& sums) {
    if constexpr (holds_inputs()) {
      SPIDER_UNROLL
      for (int i = 0; i < vector_words; ++i) inputs.input[i] = word_of<Word>(own, i);
    }
    inputs.update(field, {0, tile.row + row, tile.lane_column}, sums);
  }

  /// The input row of an output row; the first one if the taps' rows do not include it.
  template <int row>
  SPIDER_DEVICE static constexpr int own_row() {
    return row_low > 0 || row_high < 0 ? 0 : row - row_low;
  }

  /// Adds input row i, and stores the output row that it completes.
  template <int i>
  SPIDER_DEVICE static void take_row(const ArgumentsOf<Stencil>& field, const Tile& tile,
                                     const OutputClip& clip, int rows_left, const Rows& rows, Sums& sums,
                                     [[maybe_unused]] RowInputs& ahead, Element*& to) {
    add_row<i>(rows[i], sums);
    constexpr int complete = i - (steps - 1);
    if constexpr (complete >= 0) {
      OutputSums<Stencil, outputs>& row = sums[complete % steps];
      if constexpr (HasUpdate<Stencil>::value) {
        update_row(field, tile, complete, rows[own_row<complete>()],
                   ahead.of_row[complete % update_rows_ahead], row);
        request_update<complete + update_rows_ahead>(field, tile, clip, rows_left, ahead);
      }
      store_outputs<Cells, false, HasUpdate<Stencil>::value>(to, complete < rows_left, clip, row[0]);
      to += tile.output_stride;
      clear_sums(row);
    }
  }

  template <int... i>
  SPIDER_DEVICE static void compute(const ArgumentsOf<Stencil>& field, const Tile& tile, const Rows& rows,
                                    std::integer_sequence<int, i...> /*input rows*/) {
    OutputClip clip = clip_outputs<outputs>(tile.lane_column, tile.wanted.column_begin,
                                            tile.wanted.column_end, tile.aligned_output);
    if (!tile.has_outputs) clip = {0, false};
    const int rows_left = tile.wanted.row_end - tile.row;
    Sums sums = {};
    Element* to = tile.output + (tile.row * tile.output_stride + tile.lane_column);
    RowInputs ahead{};
    request_updates(field, tile, clip, rows_left, ahead,
                    std::make_integer_sequence<int, update_rows_ahead>{});
    (take_row<i>(field, tile, clip, rows_left, rows, sums, ahead, to), ...);
  }
};

template <class Stencil>
constexpr SweepForm cores2d_form() {
  using Kernel = Cores2d<Stencil>;
  return of_images({sweep_cores2d<Stencil>,
                    {TilingKind::blocks,
                     Stencil::warps_per_block,
                     0,
                     Kernel::vector_bytes,
                     Kernel::vector_bytes,
                     {1, Kernel::tile_rows, Stencil::warps_per_block * Kernel::tile_columns},
                     Kernel::left_lanes * Kernel::outputs,
                     Kernel::right_lanes * Kernel::outputs,
                     Kernel::column_anchor,
                     0,
                     0}});
}

}  // namespace device_4
}  // namespace spider
