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
/// A `Stencil` has, beside what spider/field2d.h wants, as static members:
/// - Storage: of spider/storage.h, for cells of 16 bits;
/// - row_low, row_high: lowest and highest dy;
/// - first_column: of the inputs of a tile, from its first output, a multiple of 8; chunks: of 16 of them;
/// - row_chunks: groups of input rows that a group of outputs takes, the first of which begins with row_low;
/// - steps: time steps that the weights are of;
/// - rank, terms: pairs of lists; terms of a weight, of which each is a product;
/// - x_operand(i, lane): where the vector of a lane is, i = (pair * chunks + chunk) * terms + term;
/// - y_operand(i, lane): the same of row_chunks;
/// - tiles of a warp; warps_per_block; ring_groups; blocks_per_multiprocessor;
/// - preferred_groups: of a walk, or 0;
/// - result_scale: of sums;
/// - where faces have a constant c about which steps continue the field, 2 c - u, Constant: the sums are
/// those
///   of cells that are continued as if c were 0, and near such faces `value`, c, times what they lack is
///   added for results i rows and j columns from a face: row_part(i) and for each pair of lists
///   row_share(pair, i) times column_part(pair, j); parts are 0 from rows_far and columns_far on. at_low_row
///   and so on: which faces count.
#pragma once

#include <spider/epilogue.h>
#include <spider/field2d.h>
#include <spider/instructions.h>
#include <spider/kernel.h>
#include <spider/row_groups.h>
#include <spider/storage.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_1 {

/// Do steps continue the field about a constant?
template <class Stencil, class = void>
struct HasConstant : std::false_type {};
template <class Stencil>
struct HasConstant<Stencil, std::void_t<typename Stencil::Constant>> : std::true_type {};

template <class Stencil>
struct Lowrank2d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_lowrank2d(SPIDER_GRID_CONSTANT const SweepArguments field) {
  walk_pieces<Lowrank2d<Stencil>>(field);
}

template <class Stencil>
struct Lowrank2d {
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
  static constexpr int chunks = Stencil::chunks;
  static constexpr int rank = Stencil::rank;
  static constexpr int terms = Stencil::terms;
  static constexpr int row_chunks = Stencil::row_chunks;
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
    static constexpr int window_columns = strip_outputs + (chunks - 1) * tile_columns;
    static constexpr bool exchanges_sectors = true;
  };
  using Ring = RowGroups<Stencil, Layout>;
  using Strip = typename Ring::Strip;
  static constexpr int window_offset = Ring::window_offset;
  static constexpr int row_bytes = Ring::row_bytes;
  static constexpr int group_bytes = Ring::group_bytes;
  static constexpr int ring_groups = Ring::ring_groups;

  // Behind the ring the outputs of a warp's group wait for each other: memory takes rows of 128 bytes sooner
  // than sectors. Those are exchanged here, too.
  static constexpr int stage_row_bytes = tiles * tile_columns * element_bytes;
  static constexpr int stage_row_vectors = stage_row_bytes / vector_bytes;
  static constexpr int stage_bytes = group_rows * stage_row_bytes;
  static constexpr int shared_bytes = Ring::ring_bytes + Stencil::warps_per_block * stage_bytes;

  SPIDER_DEVICE static Shared stage_place(int row, int byte) {
    const int sector = row * tiles / 4 % tiles;
    return static_cast<Shared>(Ring::ring_bytes + device::warp_index() * stage_bytes + row * stage_row_bytes +
                               (byte ^ sector * sector_bytes));
  }

  /// The weights of a lane.
  struct Weights {
    Vector x[rank][chunks][terms];
    Vector y[rank][row_chunks][terms];

    SPIDER_DEVICE void load() {
      const int lane = device::lane_index();
      SPIDER_UNROLL
      for (int i = 0; i < rank * chunks * terms; ++i) {
        x[i / terms / chunks][i / terms % chunks][i % terms] =
            device::load_table(Stencil::x_operand(i, lane));
      }
      SPIDER_UNROLL
      for (int i = 0; i < rank * row_chunks * terms; ++i) {
        y[i / terms / row_chunks][i / terms % row_chunks][i % terms] =
            device::load_table(Stencil::y_operand(i, lane));
      }
    }
  };

  /// The sums of pass x of 16 rows, of each tile: those of column lane / 4 of the mapping, and of column
  /// lane / 4 + 8, in rows 2 (lane % 4) and the next, and eight rows below these.
  using Passed = Pair[tiles][2];

  /// The sums of a group of outputs: rows lane / 4 and lane / 4 + 8, of columns 4 (lane % 4) and the next of
  /// a tile, and of the two behind these.
  using Sums = Accumulator[tiles][2];

  /// Where the inputs of a lane begin that every chunk modulo 4 of a group has: in four registers, or where
  /// sectors are whole and tiles begin a line in one, of which the others are known.
  static constexpr bool has_whole_sectors = window_offset % sector_bytes == 0 && tiles % 4 == 0;
  struct InputPlaces {
    Shared place[has_whole_sectors ? 1 : 4];

    SPIDER_DEVICE explicit InputPlaces(int lane) {
      const int first = device::warp_index() * tiles * tile_columns * element_bytes + 8 * (lane % 4);
      if constexpr (has_whole_sectors) {
        place[0] = static_cast<Shared>(lane / 4 * row_bytes + first + lane / 4 % 4 * sector_bytes);
      } else {
        SPIDER_UNROLL
        for (int i = 0; i < 4; ++i)
          place[i] = Ring::place(lane / 4, first + i * tile_columns * element_bytes);
      }
    }
    /// In the group that begins at `group`, a multiple of a line.
    SPIDER_DEVICE Shared of_chunk(Shared group, int i) const {
      if constexpr (has_whole_sectors) {
        const int sector = window_offset / sector_bytes + i;
        return ((place[0] + group) ^ static_cast<Shared>(sector % 4 * sector_bytes)) +
               static_cast<Shared>(sector / 4 * line_bytes);
      } else {
        return place[i % 4] + group + static_cast<Shared>(i / 4 * line_bytes);
      }
    }
  };

  /// Pass x of a group, by a pair of lists.
  SPIDER_DEVICE static void pass_columns(const Vector (&weights)[chunks][terms], const InputPlaces& from,
                                         Shared group, Passed& passed) {
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

  /// Pass y: adds a group to those of the outputs that take it, by a pair of lists; sums[0] is that which it
  /// completes.
  SPIDER_DEVICE static void add_rows(const Vector (&weights)[row_chunks][terms], const Passed& passed,
                                     Sums (&sums)[row_chunks]) {
    SPIDER_UNROLL
    for (int i = 0; i < row_chunks; ++i) {
      SPIDER_UNROLL
      for (int term = 0; term < terms; ++term) {
        SPIDER_UNROLL
        for (int k = 0; k < 2 * tiles; ++k) {
          Storage::multiply_inputs(sums[i][k / 2][k % 2], weights[row_chunks - 1 - i][term],
                                   passed[k / 2][k % 2]);
        }
      }
    }
  }

  /// The next group of outputs is the first one.
  SPIDER_DEVICE static void move_on(Sums (&sums)[row_chunks]) {
    SPIDER_UNROLL
    for (int i = 0; i < row_chunks; ++i) {
      SPIDER_UNROLL
      for (int k = 0; k < 2 * tiles; ++k)
        sums[i][k / 2][k % 2] = i + 1 < row_chunks ? sums[i + 1][k / 2][k % 2] : Accumulator{};
    }
  }

  /// How far index i is from the nearer of the faces that count, at most `far`.
  SPIDER_DEVICE static int distance_to_face(std::int32_t i, std::int32_t extent, bool at_low, bool at_high,
                                            int far) {
    const std::int32_t high = extent - 1 - i;
    const int low = at_low && i < far ? i : far;
    const int nearer = at_high && high < low ? high : low;
    return nearer < 0 ? 0 : nearer;
  }

  /// Is one of `count` indices from `first` on nearer than `far`?
  SPIDER_DEVICE static bool is_near_face(std::int32_t first, int count, std::int32_t extent, bool at_low,
                                         bool at_high, int far) {
    return (at_low && first < far) || (at_high && first + count > extent - far);
  }

  /// Adds to the sums of a group what the constant of faces near it makes of them; it begins with row y, and
  /// those of the warp with column x. `inside`: no column is near.
  template <bool inside>
  SPIDER_DEVICE static void add_constant(const Strip& strip, Accumulator (&sums)[tiles][2], std::int32_t y,
                                         std::int32_t x) {
    using Constant = typename Stencil::Constant;
    const int lane = device::lane_index();
    const bool near = is_near_face(y, group_rows, strip.rows, Constant::at_low_row, Constant::at_high_row,
                                   Constant::rows_far);
    if (inside && !near) return;
    SPIDER_UNROLL
    for (int tile = 0; tile < tiles; ++tile) {
      const std::int32_t first = x + tile * tile_columns;
      if (!near && !is_near_face(first, tile_columns, strip.columns, Constant::at_low_column,
                                 Constant::at_high_column, Constant::columns_far))
        continue;
      SPIDER_UNROLL
      for (int row = 0; row < 2; ++row) {
        const int down = distance_to_face(y + lane / 4 + row * operand_rows, strip.rows, Constant::at_low_row,
                                          Constant::at_high_row, Constant::rows_far);
        SPIDER_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int across =
              distance_to_face(first + 4 * (lane % 4) + i, strip.columns, Constant::at_low_column,
                               Constant::at_high_column, Constant::columns_far);
          float lacking = Constant::row_part(down);
          SPIDER_UNROLL
          for (int pair = 0; pair < rank; ++pair) {
            lacking = device::multiply_add(Constant::row_share(pair, down),
                                           Constant::column_part(pair, across), lacking);
          }
          float& sum = sums[tile][i / 2].value[2 * row + i % 2];
          sum = device::multiply_add(Constant::value, lacking, sum);
        }
      }
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

  /// Stores a group of outputs that are all in columns of the sweep, from row y on; `to` is where the lane's
  /// vector of the first rows goes.
  SPIDER_DEVICE static void store_group(const Strip& strip, const Accumulator (&sums)[tiles][2],
                                        bool complete, std::int32_t y, Element* to) {
    const int lane = device::lane_index();
    SPIDER_UNROLL
    for (int row = 0; row < 2; ++row) {
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) {
        const Outputs outputs = finish_row(sums[tile], row);
        device::store_shared(stage_place(lane / 4 + row * operand_rows, tile * sector_bytes + 8 * (lane % 4)),
                             Pair{{outputs.word[0], outputs.word[1]}});
      }
    }
    device::sync_warp();
    constexpr int rows_at_once = 32 / stage_row_vectors;
    SPIDER_UNROLL
    for (int row = 0; row < group_rows; row += rows_at_once) {
      const Shared from =
          stage_place(row + lane / stage_row_vectors, lane % stage_row_vectors * vector_bytes);
      device::store_field_vector_if(complete && has_row(strip.wanted, y + row + lane / stage_row_vectors),
                                    to + row * strip.output_stride, device::load_shared(from));
    }
  }

  /// Stores those of a group of outputs that are the sweep's; (y, x) is the lane's first.
  SPIDER_DEVICE static void store_wanted(const Strip& strip, const Accumulator (&sums)[tiles][2],
                                         bool complete, std::int32_t y, std::int32_t x) {
    SPIDER_UNROLL
    for (int row = 0; row < group_rows; row += operand_rows) {
      if (!complete || !has_row(strip.wanted, y + row)) continue;
      Element* to = strip.output + ((y + row) * strip.output_stride + x);
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) {
        store_clipped<Storage>(to + tile * tile_columns, finish_row(sums[tile], row / operand_rows),
                               columns_of(strip.wanted), x + tile * tile_columns, strip.aligned_output);
      }
    }
  }

  /// `inside`: nothing but rows beyond the field, or not wanted, asks for care.
  template <bool inside>
  SPIDER_DEVICE static void walk_down(const SweepArguments& field, const Strip& strip) {
    Weights weights;
    weights.load();
    if (!inside) Ring::clear_ring();
    SPIDER_NO_UNROLL
    for (int step = 0; step < ring_groups - 1; ++step)
      Ring::template bring_group<inside>(field, strip, step, static_cast<Shared>(step * group_bytes));

    const int lane = device::lane_index();
    const int first_tile = device::warp_index() * tiles * tile_columns;
    const InputPlaces from(lane);

    Sums sums[row_chunks] = {};
    int slot = 0;  // of the ring
    std::int32_t y = strip.first_row - Stencil::row_low - (row_chunks - 1) * group_rows;
    Element* to = strip.output + ((y + lane / stage_row_vectors) * strip.output_stride + strip.column +
                                  first_tile + lane % stage_row_vectors * vector_elements);
    SPIDER_NO_UNROLL
    for (int step = 0; step < strip.steps; ++step) {
      device::copy_async_wait<ring_groups - 2>();
      device::sync_block();
      const auto next = static_cast<Shared>((slot == 0 ? ring_groups - 1 : slot - 1) * group_bytes);
      Ring::template bring_group<inside>(field, strip, step + ring_groups - 1, next);
      const auto group = static_cast<Shared>(slot * group_bytes);
      if constexpr (!inside) {
        Ring::fill_cells(strip, strip.first_row + step * group_rows, group);
        device::sync_block();
      }
      SPIDER_UNROLL
      for (int pair = 0; pair < rank; ++pair) {
        Passed passed;
        pass_columns(weights.x[pair], from, group, passed);
        add_rows(weights.y[pair], passed, sums);
      }
      slot = slot + 1 == ring_groups ? 0 : slot + 1;

      // The first groups to complete belong to the walk above.
      const bool complete = step >= row_chunks - 1;
      if constexpr (HasConstant<Stencil>::value) {
        add_constant<inside>(strip, sums[0], y, strip.column + first_tile);
      }
      if constexpr (inside) {
        store_group(strip, sums[0], complete, y, to);
      } else {
        store_wanted(strip, sums[0], complete, y + lane / 4, strip.column + first_tile + 4 * (lane % 4));
      }
      y += group_rows;
      to += group_rows * strip.output_stride;
      move_on(sums);
    }
  }
};

/// Boxes are cut into strips, which blocks walk down in groups of rows.
template <class Stencil>
constexpr SweepForm lowrank2d_form() {
  using Kernel = Lowrank2d<Stencil>;
  SweepForm form =
      strips_form<Stencil>(sweep_lowrank2d<Stencil>, Stencil::warps_per_block, Stencil::warps_per_block,
                           Kernel::shared_bytes, Kernel::strip_outputs, Kernel::Ring::window_columns);
  form.tiling.row_anchor = Kernel::group_rows;
  form.tiling.output_alignment = Kernel::vector_bytes;
  form.tiling.preferred_steps = Stencil::preferred_groups;
  form.tiling.edge_percent = 60;  // measured on an H200
  form.tiling.shares_rest = true;
  form.tiling.lead_steps = Kernel::row_chunks - 1;
  form.steps = Stencil::steps;
  return form;
}

}  // namespace device_1
}  // namespace spider
