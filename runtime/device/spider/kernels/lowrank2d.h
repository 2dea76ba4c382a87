/// 2D stencils of 16-bit fields whose weights are a sum of few products of a list along y and a list along x,
/// as those of many time steps and of Gaussians are: a pass along x and a pass along y, both of dense
/// products, for each of `rank` pairs of lists.
///
/// A warp has tiles of 16 columns side by side and walks down y in groups of 16 rows; the warps of a block
/// share a strip and a ring of groups in shared memory. Pass x: A are the weights of 16 outputs for 16
/// inputs, B are 16 inputs of each of eight rows. Its sums of 16 rows, rounded to the field's type, are as
/// they lie two operands B of pass y, each of 16 rows by eight columns; A are the weights of 16 output rows
/// for 16 rows. So they never leave registers: a warp adds them to the sums of all groups of outputs that
/// they reach. Groups of outputs begin at multiples of 16 rows, those of inputs `row_low` from there, tiles
/// at multiples of 16 columns of the field.
///
/// Each of several sums that an update takes has lists of its own, which reach as far as they do: along x in
/// steps of a vector, along y of eight rows, half a group. Its chunks of rows then begin in the middle of
/// groups, and the second half of a group waits for the next one. All are complete with the same group.
///
/// Faces. Ghost cells of the input are filled in the ring by the index map (fill_cells). Of many steps the
/// rules between steps are missing: what constants make of them is added to sums (add_constants); cells at
/// other faces are left to rims2d.h.
///
/// A `Stencil` has, beside what spider/field/field2d.h wants, as static members:
/// - Storage: of spider/values/storage.h, for cells of 16 bits;
/// - row_low, row_high: lowest and highest dy;
/// - first_column: of the inputs of a tile, from its first output, a multiple of 8; chunks: of 16 of them;
/// - row_chunks: groups of input rows that a group of outputs takes, the first of which begins with row_low;
/// - steps: time steps that the weights are of;
/// - lists: SumLists of each sum;
/// - x_operand(i, lane), y_operand(i, lane): where the vector of a lane is;
/// - tiles of a warp; warps_per_block; ring_groups; blocks_per_multiprocessor;
/// - preferred_groups: of a walk, or 0;
/// - result_scale: of sums; of several sum_count and result_scale_of(sum);
/// - where constants beyond faces add to sums, Constants: low_rows, high_rows, low_columns, high_columns, how
///   many are near a face; added_at(row, column), where the one far from both faces comes behind the low
///   ones.
#pragma once

#include <spider/field/beside_rims.h>
#include <spider/field/field2d.h>
#include <spider/kernel.h>
#include <spider/loads/row_groups.h>
#include <spider/machine/instructions.h>
#include <spider/sums/added_by_constants.h>
#include <spider/sums/epilogue.h>
#include <spider/sums/update.h>
#include <spider/values/storage.h>
#include <spider/values/vectors.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

/// The lists of a sum, and what they reach of its stencil's inputs.
struct SumLists {
  int rank, terms;   ///< pairs of lists; terms of a weight, of which each is a product
  int first_column;  ///< of the inputs of a tile, a multiple of 8
  int chunks;        ///< of 16 of them
  int first_row;     ///< of a group's, from that of the stencil's, a multiple of 8
  int row_chunks;    ///< of 16 of them
  int x_operands;    ///< x_operand of (pair, chunk, term) is (pair * chunks + chunk) * terms + term from here
                     ///< on
  int y_operands;    ///< the same of row_chunks
};

/// Does an update use the input at the points?
template <class Stencil>
constexpr bool reads_input() {
  if constexpr (HasUpdate<Stencil>::value) return Stencil::reads_input;
  return false;
}

template <class Stencil, RowAlignment row_starts>
struct Lowrank2d;

template <class Stencil, RowAlignment row_starts>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_lowrank2d(SPIDER_GRID_CONSTANT const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  const JoinRimsAtExit<Stencil> ends_behind_rims;
  walk_pieces<Lowrank2d<Stencil, row_starts>>(field);
}

template <class Stencil, RowAlignment row_starts>
struct Lowrank2d {
  static constexpr RowAlignment starts = row_starts;
  using Accumulator = device::Accumulator;
  using Pair = device::Pair;
  using Shared = device::Shared;
  using Vector = device::Vector;
  using Storage = typename Stencil::Storage;
  using Element = typename Storage::Element;
  using Outputs = typename Storage::Outputs;

  static constexpr int element_bytes = Storage::element_bytes;
  static constexpr int vector_elements = Storage::vector_elements;
  static constexpr int vector_bytes = 16;
  static constexpr int line_bytes = 128;
  static constexpr int sector_bytes = 32;
  static_assert(element_bytes == 2, "sums of pass x are operands of pass y");

  static constexpr int group_rows = 16;
  static constexpr int operand_rows = 8;  ///< of inputs, in a product of pass x
  static constexpr int tile_columns = 16;
  static constexpr int tiles = Stencil::tiles;
  static constexpr int row_chunks = Stencil::row_chunks;
  static constexpr int sum_count = SumsOf<Stencil>::count;
  static constexpr int threads = Stencil::warps_per_block * 32;
  static constexpr int strip_outputs = Stencil::warps_per_block * tiles * tile_columns;

  /// Of the ring: lanes load from four rows together, whose sectors lie in different banks.
  struct Layout {
    using Cells = Storage;
    static constexpr int group_rows = Lowrank2d::group_rows;
    static constexpr int lead_groups = row_chunks - 1;
    static constexpr int ring_groups = Stencil::ring_groups;
    static constexpr int warps = Stencil::warps_per_block;
    static constexpr int strip_outputs = Lowrank2d::strip_outputs;
    static constexpr int window_columns = strip_outputs + (Stencil::chunks - 1) * tile_columns;
    static constexpr bool exchanges_sectors = true;
    static constexpr bool takes_images = false;
    static constexpr RowAlignment starts = row_starts;
  };
  using Ring = RowGroups<Stencil, Layout>;
  struct Strip : Ring::Strip {
    using Ring::Strip::Strip;

    /// Do constants beyond faces add to any of so many columns, in all rows?
    SPIDER_DEVICE bool is_near_columns([[maybe_unused]] std::int32_t first,
                                       [[maybe_unused]] int count) const {
      if constexpr (HasConstants<Stencil>::value) {
        using Constants = typename Stencil::Constants;
        return is_near_face(first, count, this->columns, Constants::low_columns, Constants::high_columns);
      }
      return false;
    }
    /// Where lists are cut constants may reach farther than these.
    SPIDER_DEVICE bool is_inside() const {
      return Ring::Strip::is_inside() && !is_near_columns(this->column, strip_outputs);
    }
  };
  static constexpr int window_offset = Ring::window_offset;
  static constexpr int row_bytes = Ring::row_bytes;
  static constexpr int group_bytes = Ring::group_bytes;
  static constexpr int ring_groups = Ring::ring_groups;
  /// Groups of inputs behind that which completes a group of outputs, that the update reads.
  static constexpr int kept_groups =
      reads_input<Stencil>() ? row_chunks - 1 + Stencil::row_low / group_rows : 0;
  static constexpr int groups_ahead = ring_groups - 1 - kept_groups;
  static_assert(groups_ahead > 0, "the next group comes while one is multiplied");

  // Behind the ring the outputs of a warp's group wait for each other: memory takes rows of 128 bytes sooner
  // than sectors. Those are exchanged here, too.
  static constexpr int stage_row_bytes = tiles * tile_columns * element_bytes;
  static constexpr int stage_row_vectors = stage_row_bytes / vector_bytes;
  static constexpr int stage_bytes = group_rows * stage_row_bytes;
  // As spider/loads/row_groups.h has them.
  static constexpr bool keeps_piece = HasConstants<Stencil>::value;
  static constexpr int walk_bytes = Ring::ring_bytes + Stencil::warps_per_block * stage_bytes;
  static constexpr int shared_bytes = walk_bytes + bytes_of_piece(Stencil::warps_per_block);

  SPIDER_DEVICE static Shared stage_place(int row, int byte) {
    const int sector = row * tiles / 4 % tiles;
    return static_cast<Shared>(Ring::ring_bytes + device::warp_index() * stage_bytes + row * stage_row_bytes +
                               (byte ^ sector * sector_bytes));
  }

  /// The sums of pass x of 16 rows, of each tile: those of column lane / 4 of the mapping, and of column
  /// lane / 4 + 8, in rows 2 (lane % 4) and the next, and eight rows below these.
  using Passed = Pair[tiles][2];

  /// The sums of a group of outputs: rows lane / 4 and lane / 4 + 8, of columns 4 (lane % 4) and the next of
  /// a tile, and of the two behind these.
  using Sums = Accumulator[tiles][2];

  /// Where the inputs of a lane begin that every chunk modulo 4 of a group has, the first so many columns
  /// behind the window's: in four registers, or where sectors are whole and tiles begin a line in one, of
  /// which the others are known.
  template <int columns>
  struct InputPlaces {
    static constexpr int offset = columns * element_bytes;
    static constexpr bool has_whole_sectors = (window_offset + offset) % sector_bytes == 0 && tiles % 4 == 0;

    Shared place[has_whole_sectors ? 1 : 4];

    SPIDER_DEVICE void find(int lane) {
      const int first = device::warp_index() * tiles * tile_columns * element_bytes + 8 * (lane % 4);
      if constexpr (has_whole_sectors) {
        place[0] = static_cast<Shared>(lane / 4 * row_bytes + first + lane / 4 % 4 * sector_bytes);
      } else {
        SPIDER_UNROLL
        for (int i = 0; i < 4; ++i)
          place[i] = Ring::place(lane / 4, first + offset + i * tile_columns * element_bytes);
      }
    }
    /// In the group that begins at `group`, a multiple of a line.
    SPIDER_DEVICE Shared of_chunk(Shared group, int i) const {
      if constexpr (has_whole_sectors) {
        const int sector = (window_offset + offset) / sector_bytes + i;
        return ((place[0] + group) ^ static_cast<Shared>(sector % 4 * sector_bytes)) +
               static_cast<Shared>(sector / 4 * line_bytes);
      } else {
        return place[i % 4] + group + static_cast<Shared>(i / 4 * line_bytes);
      }
    }
  };

  /// Pass x of a group, by a pair of lists.
  template <int chunks, int terms, int columns>
  SPIDER_DEVICE static void pass_columns(const Vector (&weights)[chunks][terms],
                                         const InputPlaces<columns>& from, Shared group, Passed& passed) {
    SPIDER_UNROLL
    for (int half = 0; half < 2; ++half) {
      Pair inputs[tiles + chunks - 1];
      SPIDER_UNROLL
      for (int i = 0; i < tiles + chunks - 1; ++i)
        inputs[i] = device::load_settled_pair(from.of_chunk(group, i) + half * operand_rows * row_bytes);
      Accumulator sums[tiles] = {};
      SPIDER_UNROLL
      for (int i = 0; i < chunks * terms; ++i) {
        SPIDER_UNROLL
        for (int tile = 0; tile < tiles; ++tile)
          Storage::multiply_inputs(sums[tile], weights[i / terms][i % terms], inputs[tile + i / terms]);
      }
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) {
        const float(&sum)[4] = sums[tile].value;
        passed[tile][0].word[half] = Storage::pack_pair(sum[0], sum[1]);
        passed[tile][1].word[half] = Storage::pack_pair(sum[2], sum[3]);
      }
    }
  }

  /// Pass y: adds a group to those of the outputs that take it, by a pair of lists: the last of the sums.
  template <int count, int terms, int in_flight>
  SPIDER_DEVICE static void add_rows(const Vector (&weights)[count][terms], const Passed& passed,
                                     Sums (&sums)[in_flight]) {
    SPIDER_UNROLL
    for (int i = 0; i < count; ++i) {
      SPIDER_UNROLL
      for (int term = 0; term < terms; ++term) {
        SPIDER_UNROLL
        for (int k = 0; k < 2 * tiles; ++k) {
          Storage::multiply_inputs(sums[in_flight - count + i][k / 2][k % 2], weights[count - 1 - i][term],
                                   passed[k / 2][k % 2]);
        }
      }
    }
  }

  /// The next group of outputs is the first one.
  template <int in_flight>
  SPIDER_DEVICE static void move_on(Sums (&sums)[in_flight]) {
    SPIDER_UNROLL
    for (int i = 0; i < in_flight; ++i) {
      SPIDER_UNROLL
      for (int k = 0; k < 2 * tiles; ++k)
        sums[i][k / 2][k % 2] = i + 1 < in_flight ? sums[i + 1][k / 2][k % 2] : Accumulator{};
    }
  }

  /// What a lane holds of a sum: its weights, and the sums of the groups of outputs that are not complete.
  template <int sum>
  struct OfSum {
    static constexpr SumLists lists = Stencil::lists[sum];
    static constexpr int terms = lists.terms;
    /// Do its chunks of rows begin in the middle of groups?
    static constexpr bool begins_within = lists.first_row / operand_rows % 2 != 0;
    static constexpr int in_flight = row_chunks - (lists.first_row + operand_rows) / group_rows;
    static_assert(lists.first_row % operand_rows == 0, "halves of groups are operands");
    static_assert(in_flight >= lists.row_chunks, "sums are complete in time");

    Vector x[lists.rank][lists.chunks][terms];
    Vector y[lists.rank][lists.row_chunks][terms];
    InputPlaces<lists.first_column - Stencil::first_column> from;
    Sums sums[in_flight] = {};
    std::uint32_t waiting[begins_within ? lists.rank : 1][tiles][2] = {};  ///< the second half of a group

    SPIDER_DEVICE void load() {
      const int lane = device::lane_index();
      SPIDER_UNROLL
      for (int i = 0; i < lists.rank * lists.chunks * terms; ++i) {
        x[i / terms / lists.chunks][i / terms % lists.chunks][i % terms] =
            device::load_table(Stencil::x_operand(lists.x_operands + i, lane));
      }
      SPIDER_UNROLL
      for (int i = 0; i < lists.rank * lists.row_chunks * terms; ++i) {
        y[i / terms / lists.row_chunks][i / terms % lists.row_chunks][i % terms] =
            device::load_table(Stencil::y_operand(lists.y_operands + i, lane));
      }
    }

    SPIDER_DEVICE void add_group(Shared group) {
      SPIDER_UNROLL
      for (int pair = 0; pair < lists.rank; ++pair) {
        Passed passed;
        pass_columns(x[pair], from, group, passed);
        if constexpr (begins_within) {
          SPIDER_UNROLL
          for (int k = 0; k < 2 * tiles; ++k) {
            Pair& halves = passed[k / 2][k % 2];
            const std::uint32_t second = halves.word[1];
            halves = {{waiting[pair][k / 2][k % 2], halves.word[0]}};
            waiting[pair][k / 2][k % 2] = second;
          }
        }
        add_rows(y[pair], passed, sums);
      }
    }
  };

  /// The same of all sums from `first` on.
  template <int first = 0, bool exists = (first < sum_count)>
  struct OfSums {
    OfSum<first> own;
    OfSums<first + 1> others;

    SPIDER_DEVICE void load() {
      own.load();
      others.load();
    }
    SPIDER_DEVICE void find_inputs(int lane) {
      own.from.find(lane);
      others.find_inputs(lane);
    }
    SPIDER_DEVICE void add_group(Shared group) {
      own.add_group(group);
      others.add_group(group);
    }
    /// Of the group that is complete a row of a lane's results of a tile, before they are rounded.
    SPIDER_DEVICE void scale_row(int tile, int row, float (&results)[sum_count][4]) const {
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) {
        results[first][i] = scale_sum<Stencil>(own.sums[0][tile][i / 2].value[2 * row + i % 2], first);
      }
      others.scale_row(tile, row, results);
    }
    SPIDER_DEVICE void move_on() {
      Lowrank2d::move_on(own.sums);
      others.move_on();
    }
  };
  template <int first>
  struct OfSums<first, false> {
    SPIDER_DEVICE void load() {}
    SPIDER_DEVICE void find_inputs(int /*lane*/) {}
    SPIDER_DEVICE void add_group(Shared /*group*/) {}
    SPIDER_DEVICE void scale_row(int /*tile*/, int /*row*/, float (&/*results*/)[sum_count][4]) const {}
    SPIDER_DEVICE void move_on() {}
  };

  // What constants beyond faces add. Rows from a table, which all lanes see at once, or two numbers a lane: a
  // look-up for each sum would hold up the walk, and take registers from all of it. What finds them is apart:
  // walks that do not come there have its registers.

  /// Where what is added to a row of a warp's columns waits, where outputs wait for each other at other
  /// times.
  SPIDER_DEVICE static Shared share_place(int row, int column) {
    return static_cast<Shared>(Ring::ring_bytes + device::warp_index() * stage_bytes +
                               (row * tiles * tile_columns + column) * static_cast<int>(sizeof(float)));
  }
  static_assert(operand_rows * static_cast<int>(sizeof(float)) <= group_rows * element_bytes,
                "eight rows of numbers find room");

  /// Brings what is added to `count` rows from row y on; the warp's first column is x.
  template <int count>
  SPIDER_DEVICE_NOINLINE void bring_shares(std::int32_t y, std::int32_t x, std::int32_t rows,
                                           std::int32_t columns_of_field) {
    using Constants = typename Stencil::Constants;
    constexpr int columns = tiles * tile_columns;
    constexpr int loads = (count * columns + 31) / 32;  // all at once
    device::sync_warp();
    float shares[loads];
    SPIDER_UNROLL
    for (int n = 0; n < loads; ++n) {
      const int i = 32 * n + device::lane_index();
      const int row = place_by_faces(y + i / columns, rows, Constants::low_rows, Constants::high_rows);
      const int column =
          place_by_faces(x + i % columns, columns_of_field, Constants::low_columns, Constants::high_columns);
      shares[n] = Constants::added_at(row, column);
    }
    SPIDER_UNROLL
    for (int n = 0; n < loads; ++n) {
      const int i = 32 * n + device::lane_index();
      if (i < count * columns)
        device::store_shared(share_place(i / columns, i % columns), device::bits_of(shares[n]));
    }
    device::sync_warp();
  }
  /// The same of a row that is near no face: walks along faces in x, which stage no outputs, keep it.
  SPIDER_DEVICE static void keep_shares(const Strip& strip, std::int32_t x) {
    using Constants = typename Stencil::Constants;
    bring_shares<1>(Constants::low_rows, x, strip.rows, strip.columns);
  }
  /// What is added to all sums of a lane's two rows, away from faces in x.
  SPIDER_DEVICE_NOINLINE Pair find_row_shares(std::int32_t y, std::int32_t rows) {
    using Constants = typename Stencil::Constants;
    Pair shares;
    SPIDER_UNROLL
    for (int row = 0; row < 2; ++row) {
      const int down =
          place_by_faces(y + row * operand_rows, rows, Constants::low_rows, Constants::high_rows);
      shares.word[row] = device::bits_of(Constants::added_at(down, Constants::low_columns));
    }
    return shares;
  }

  /// Adds a row that waits to a lane's first row of sums, its second one or both.
  template <bool first, bool second>
  SPIDER_DEVICE static void add_shares(int row, Accumulator (&sums)[tiles][2]) {
    SPIDER_UNROLL
    for (int tile = 0; tile < tiles; ++tile) {
      const Vector shares =
          device::load_shared(share_place(row, tile * tile_columns + 4 * (device::lane_index() % 4)));
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) {
        float(&sum)[4] = sums[tile][i / 2].value;
        if (first) sum[i % 2] += device::float_of(shares.word[i]);
        if (second) sum[2 + i % 2] += device::float_of(shares.word[i]);
      }
    }
  }

  /// Adds to the sums of a group what constants beyond faces make of them; it begins with row y, and those of
  /// the warp with column x. `near_columns`: one of these is near a face.
  SPIDER_DEVICE static void add_constants(const Strip& strip, bool near_columns, std::int32_t y,
                                          std::int32_t x, Accumulator (&sums)[tiles][2]) {
    using Constants = typename Stencil::Constants;
    const bool near_rows = is_near_face(y, group_rows, strip.rows, Constants::low_rows, Constants::high_rows);
    const int lane_row = device::lane_index() / 4;
    if (near_columns && near_rows) {
      bring_shares<operand_rows>(y, x, strip.rows, strip.columns);
      add_shares<true, false>(lane_row, sums);
      bring_shares<operand_rows>(y + operand_rows, x, strip.rows, strip.columns);
      add_shares<false, true>(lane_row, sums);
      keep_shares(strip, x);
    } else if (near_columns) {
      add_shares<true, true>(0, sums);
    } else if (near_rows) {
      const Pair shares = find_row_shares(y + lane_row, strip.rows);
      SPIDER_UNROLL
      for (int i = 0; i < 8 * tiles; ++i)
        sums[i / 8][i / 4 % 2].value[i % 4] += device::float_of(shares.word[i / 2 % 2]);
    }
  }

  /// A row of a lane's results of a tile: its sums 2 `row` and the next.
  SPIDER_DEVICE static Outputs finish_row(const Accumulator (&sums)[2], int row) {
    Outputs outputs;
    SPIDER_UNROLL
    for (int i = 0; i < 2; ++i) {
      outputs.word[i] = Storage::pack_pair(scale_sum<Stencil>(sums[i].value[2 * row]),
                                           scale_sum<Stencil>(sums[i].value[2 * row + 1]));
    }
    return outputs;
  }

  /// What the update reads of a lane's outputs of a group, by row and tile.
  using Updates = OutputUpdate<Stencil, Storage>[2][tiles];

  /// The slot of the ring so many groups before another.
  template <int groups>
  SPIDER_DEVICE static int slot_before(int slot) {
    if constexpr (groups == 0) {
      return slot;
    } else {
      return slot_before<groups - 1>(slot == 0 ? ring_groups - 1 : slot - 1);
    }
  }

  /// Takes the input of a lane's outputs from the ring, where `slot` has the group that completes them: from
  /// the first that is kept, or the one behind it.
  SPIDER_DEVICE static void take_inputs(int slot, Updates& updates) {
    const int lane = device::lane_index();
    const int first = (device::warp_index() * tiles * tile_columns - Stencil::first_column) * element_bytes +
                      8 * (lane % 4);
    const int kept = slot_before<kept_groups>(slot);
    const int behind = kept + 1 == ring_groups ? 0 : kept + 1;
    SPIDER_UNROLL
    for (int row = 0; row < 2; ++row) {
      const int own = lane / 4 + row * operand_rows - Stencil::row_low % group_rows;
      const auto group = static_cast<Shared>((own < group_rows ? kept : behind) * group_bytes);
      // Tiles begin where sectors do, those of a warp within a line.
      static_assert((window_offset - Stencil::first_column * element_bytes) % line_bytes == 0);
      const Shared first_tile = group + Ring::place(own % group_rows, first);
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile)
        updates[row][tile].take_input(first_tile ^ static_cast<Shared>(tile * sector_bytes));
    }
  }

  /// Asks L2 for what the update reads of a group of outputs that are all in columns of the sweep, a lane for
  /// a line; the warp's first is at (y, x).
  template <class... Each>
  SPIDER_DEVICE static void prefetch_fields([[maybe_unused]] const UpdateArguments& sweep, const Strip& strip,
                                            std::int32_t y, [[maybe_unused]] std::int32_t x,
                                            FurtherFields<Each...> /*fields*/) {
    const std::int32_t row = y + device::lane_index() % group_rows;
    if (!has_row(strip.wanted, row)) return;
    [[maybe_unused]] int i = 0;
    (prefetch_field<Each>(sweep.further[i++], row, x), ...);
  }
  template <class Each>
  SPIDER_DEVICE static void prefetch_field(const FurtherField& field, std::int32_t row, std::int32_t x) {
    const int column = device::lane_index() / group_rows * (line_bytes / Each::element_bytes);
    if (column >= tiles * tile_columns) return;
    const auto* cells = static_cast<const typename Each::Element*>(field.data);
    device::prefetch_point(cells + (row * field.stride[1] + x + column));
  }

  /// Where a lane's four outputs of a tile lie, the first at (y, x), as the update sees them.
  template <bool inside>
  SPIDER_DEVICE static OutputPlace place_of(const Strip& strip, std::int32_t y, std::int32_t x) {
    const unsigned wanted = inside ? 15 : outputs_within<Storage>(columns_of(strip.wanted), x);
    return {{0, y, x}, wanted, inside || strip.aligned_output};
  }

  /// Puts a group of outputs where rows of them wait. `finish(row, tile)` are a lane's.
  template <class Finish>
  SPIDER_DEVICE static void stage_group(const Finish& finish) {
    const int lane = device::lane_index();
    // The others' places are made from it: all of them kept would take registers that the loop lacks.
    const Shared first = stage_place(lane / 4, 8 * (lane % 4));
    SPIDER_UNROLL
    for (int row = 0; row < 2; ++row) {
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) {
        const Outputs outputs = finish(row, tile);
        device::store_shared((first ^ static_cast<Shared>(tile * sector_bytes)) +
                                 static_cast<Shared>(row * operand_rows * stage_row_bytes),
                             Pair{{outputs.word[0], outputs.word[1]}});
      }
    }
    device::sync_warp();
  }

  /// Stores a group of outputs that are all in columns of the sweep, from row y on; `to` is where the lane's
  /// vector of the first rows goes.
  template <class Finish>
  SPIDER_DEVICE static void store_group(const Strip& strip, const Finish& finish, bool complete,
                                        std::int32_t y, Element* to) {
    const int lane = device::lane_index();
    stage_group(finish);
    constexpr int rows_at_once = 32 / stage_row_vectors;
    SPIDER_UNROLL
    for (int row = 0; row < group_rows; row += rows_at_once) {
      const Shared from =
          stage_place(row + lane / stage_row_vectors, lane % stage_row_vectors * vector_bytes);
      device::store_field_vector_if(complete && has_row(strip.wanted, y + row + lane / stage_row_vectors),
                                    to + row * strip.output_stride, device::load_shared(from));
    }
  }

  /// The same of rows that begin anywhere: `to` is where the warp's first row of outputs goes. Lanes store
  /// neighbouring words of memory; of a row that begins within one the first and the last cell are apart.
  template <class Finish>
  SPIDER_DEVICE static void store_shifted_group(const Strip& strip, const Finish& finish, bool complete,
                                                std::int32_t y, Element* to) {
    constexpr int word_bytes = 4;
    constexpr int row_words = stage_row_bytes / word_bytes;
    constexpr int rows_at_once = 32 / row_words;
    const int lane = device::lane_index();
    stage_group(finish);
    std::uint32_t stored = 0;  // rows
    if (complete) {
      const int begin = clamp(strip.wanted.row_begin - y, 0, group_rows);
      const int end = clamp(strip.wanted.row_end - y, 0, group_rows);
      stored = (1U << end) - (1U << begin);
    }
    // Of rows so far apart every second one begins alike.
    const int row = lane / row_words;
    const int word = lane % row_words;
    Element* cells[2];
    int before[2];
    std::uint32_t stored_of_lane[2];
    SPIDER_UNROLL
    for (int i = 0; i < 2; ++i) {
      cells[i] = to + (i * rows_at_once + row) * strip.output_stride;
      before[i] = is_misaligned(cells[i]) ? 1 : 0;
      cells[i] += 2 * word + before[i];
      stored_of_lane[i] = word + before[i] < row_words ? stored >> row : 0;
    }
    SPIDER_UNROLL
    for (int first = 0; first < group_rows; first += rows_at_once) {
      const int i = first / rows_at_once % 2;
      const std::uint32_t value = device::funnel_shift_right(
          device::load_shared_word(stage_place(first + row, word * word_bytes)),
          device::load_shared_word(stage_place(first + row, (word + 1) % row_words * word_bytes)),
          16 * before[i]);
      device::store_field_word_if((stored_of_lane[i] >> first & 1U) != 0, cells[i], value);
      cells[i] = device::opaque_advance(cells[i], 2 * rows_at_once * strip.output_stride);
    }
    static_assert(2 * group_rows == 32, "a lane for each end of a row");
    const int cell = lane % 2 * (tiles * tile_columns - 1);
    Element* const of_row = to + lane / 2 * strip.output_stride;
    device::store_field_if((stored >> lane / 2 & 1U) != 0 && is_misaligned(of_row), of_row + cell,
                           device::load_shared_half(stage_place(lane / 2, cell * element_bytes)));
  }

  /// Stores those of a group of outputs that are the sweep's; (y, x) is the lane's first.
  template <class Finish>
  SPIDER_DEVICE static void store_wanted(const Strip& strip, const Finish& finish, bool complete,
                                         std::int32_t y, std::int32_t x) {
    SPIDER_UNROLL
    for (int row = 0; row < group_rows; row += operand_rows) {
      if (!complete || !has_row(strip.wanted, y + row)) continue;
      Element* to = strip.output + ((y + row) * strip.output_stride + x);
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) {
        store_clipped<Storage>(to + tile * tile_columns, finish(row / operand_rows, tile),
                               columns_of(strip.wanted), x + tile * tile_columns, strip.aligned_output);
      }
    }
  }

  /// `inside`: nothing but rows beyond the field, or not wanted, asks for care.
  template <bool inside>
  SPIDER_DEVICE static void walk_down(const ArgumentsOf<Stencil>& field, const Strip& strip) {
    OfSums<> sums;
    sums.load();
    if (!inside) Ring::clear_ring();
    SPIDER_NO_UNROLL
    for (int step = 0; step < groups_ahead; ++step)
      Ring::template bring_group<inside>(field, strip, step, static_cast<Shared>(step * group_bytes));

    const int lane = device::lane_index();
    const int first_tile = device::warp_index() * tiles * tile_columns;
    sums.find_inputs(lane);

    const bool near_columns =
        !inside && strip.is_near_columns(strip.column + first_tile, tiles * tile_columns);
    if constexpr (HasConstants<Stencil>::value) {
      if (near_columns) keep_shares(strip, strip.column + first_tile);
    }
    // Shares near faces in x wait where outputs would.
    const bool shifts_outputs = starts == RowAlignment::any && !strip.aligned_output && !near_columns &&
                                strip.column + first_tile >= strip.wanted.column_begin &&
                                strip.column + first_tile + tiles * tile_columns <= strip.wanted.column_end;
    int slot = 0;  // of the ring
    std::int32_t y = strip.first_row - Stencil::row_low - (row_chunks - 1) * group_rows;
    Element* to = strip.output + ((y + lane / stage_row_vectors) * strip.output_stride + strip.column +
                                  first_tile + lane % stage_row_vectors * vector_elements);
    SPIDER_NO_UNROLL
    for (int step = 0; step < strip.steps; ++step) {
      device::copy_async_wait<groups_ahead - 1>();
      if constexpr (!inside) Ring::settle_group(strip, step, static_cast<Shared>(slot * group_bytes));
      device::sync_block();
      const auto next = static_cast<Shared>(slot_before<kept_groups + 1>(slot) * group_bytes);
      Ring::template bring_group<inside>(field, strip, step + groups_ahead, next);
      const auto group = static_cast<Shared>(slot * group_bytes);
      if (!inside && strip.cells.count > 0) {
        Ring::fill_cells(strip, strip.first_row + step * group_rows, group);
        device::sync_block();
      }
      if constexpr (inside && HasUpdate<Stencil>::value) {
        if (step + 1 >= row_chunks - 1 && step + 1 < strip.steps) {
          prefetch_fields(field, strip, y + group_rows, strip.column + first_tile,
                          typename Stencil::FurtherFields{});
        }
      }
      [[maybe_unused]] Updates updates = {};
      [[maybe_unused]] const auto place = [&](int row, int tile) {
        return place_of<inside>(strip, y + lane / 4 + row * operand_rows,
                                strip.column + first_tile + tile * tile_columns + 4 * (lane % 4));
      };
      sums.add_group(group);
      if constexpr (HasUpdate<Stencil>::value) {
        if (step >= row_chunks - 1) {
          SPIDER_UNROLL
          for (int row = 0; row < 2; ++row) {
            if (!has_row(strip.wanted, y + lane / 4 + row * operand_rows)) continue;
            SPIDER_UNROLL
            for (int tile = 0; tile < tiles; ++tile) updates[row][tile].load_fields(field, place(row, tile));
          }
          take_inputs(slot, updates);
        }
      }
      slot = slot + 1 == ring_groups ? 0 : slot + 1;

      // The first groups to complete belong to the walk above.
      const bool complete = step >= row_chunks - 1;
      if constexpr (HasConstants<Stencil>::value)
        add_constants(strip, near_columns, y, strip.column + first_tile, sums.own.sums[0]);
      const auto finish = [&](int row, int tile) {
        if constexpr (HasUpdate<Stencil>::value) {
          float results[sum_count][4];
          sums.scale_row(tile, row, results);
          updates[row][tile].inputs[0].update(field, place(row, tile).first, results);
          return Storage::pack_ordered(results[0]);
        } else {
          return finish_row(sums.own.sums[0][tile], row);
        }
      };
      if constexpr (inside) {
        store_group(strip, finish, complete, y, to);
      } else if (shifts_outputs) {
        store_shifted_group(strip, finish, complete, y,
                            strip.output + (y * strip.output_stride + strip.column + first_tile));
      } else {
        store_wanted(strip, finish, complete, y + lane / 4, strip.column + first_tile + 4 * (lane % 4));
        if constexpr (HasUpdate<Stencil>::value) device::sync_warp();
      }
      y += group_rows;
      to += group_rows * strip.output_stride;
      sums.move_on();
    }
  }
};

/// Boxes are cut into strips, which blocks walk down in groups of rows.
template <class Stencil, RowAlignment row_starts>
constexpr SweepForm lowrank2d_form() {
  using Kernel = Lowrank2d<Stencil, row_starts>;
  SweepForm form = strips_form<Stencil>(sweep_lowrank2d<Stencil, row_starts>, Stencil::warps_per_block,
                                        Stencil::warps_per_block, Kernel::shared_bytes, Kernel::strip_outputs,
                                        Kernel::Ring::window_columns);
  form.tiling.row_anchor = Kernel::group_rows;
  form.tiling.output_alignment = Kernel::vector_bytes;
  form.tiling.preferred_steps = Stencil::preferred_groups;
  form.tiling.edge_walk_percent = 50;  // measured on an H200
  form.tiling.balances_tail = true;
  form.needs_aligned_rows = row_starts == RowAlignment::aligned;
  form.tiling.prologue_steps = Kernel::row_chunks - 1;
  form.steps = Stencil::steps;
  return form;
}

}  // namespace device_4
}  // namespace spider
