/// 2D stencils of 16-bit fields whose weights are a sum of few products of a list along y and a list along x,
/// as those of many time steps and of Gaussians are: a pass along x and a pass along y, both of dense
/// products, for each of `rank` pairs of lists.
///
/// A warp has tiles of 16 columns side by side and walks down y in groups of eight rows; the warps of a block
/// share a strip and a ring of groups in shared memory. Pass x: A are the weights of 16 outputs for 16
/// inputs, B are 16 inputs of each of eight rows. Its sums, rounded to the field's type, are as they lie half
/// of the operand A of pass y, which holds two of those of 16 columns by eight rows; B are the weights of
/// eight output rows for 16 inputs. So they never leave registers: a warp keeps those of all groups that an
/// output group takes. Groups begin at multiples of eight rows, tiles at multiples of 16 columns of the
/// field.
///
/// A `Stencil` has, beside what spider/field2d.h wants, as static members:
/// - Storage: of spider/storage.h, for cells of 16 bits;
/// - row_low, row_high: lowest and highest dy;
/// - first_column: of the inputs of a tile, from its first output, a multiple of 8; chunks: of 16 of them;
/// - groups_above, groups_below: whole groups of rows that taps reach, from an output's own;
/// - steps: time steps that the weights are of;
/// - rank, terms: pairs of lists; terms of a weight, of which each is a product;
/// - x_operand(i, lane): where the vector of a lane is, i = (pair * chunks + chunk) * terms + term;
/// - y_word(i, lane): where a word of a lane is, i = 2 * (half operand / 2 * terms + term) + half operand %
/// 2;
///   half operand k is that of group k / rank and pair k % rank;
/// - tiles of a warp; warps_per_block; ring_groups; blocks_per_multiprocessor;
/// - result_scale: of sums.
#pragma once

#include <spider/boundary.h>
#include <spider/epilogue.h>
#include <spider/field2d.h>
#include <spider/instructions.h>
#include <spider/kernel.h>
#include <spider/storage.h>
#include <spider/vectors.h>

#include <cstdint>

namespace spider {
inline namespace device_1 {

template <class Stencil>
struct Lowrank2d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_lowrank2d(SPIDER_GRID_CONSTANT const SweepArguments field) {
  using Kernel = Lowrank2d<Stencil>;
  SPIDER_NO_UNROLL
  for (int piece = 0;; ++piece) {
    const typename Kernel::Strip strip(field, piece);
    if (strip.steps == 0) return;
    if (piece > 0) device::sync_block();  // who has the ring
    if (strip.is_inside()) {
      Kernel::template walk_down<true>(field, strip);
    } else {
      Kernel::template walk_down<false>(field, strip);
    }
  }
}

/// Brings the whole vectors of the group of inputs that begins with row y, for the strip from `column` on.
/// Apart, so that what it needs takes no registers of walks that do not come here.
template <class Stencil>
SPIDER_DEVICE_APART void bring_with_care(const SweepArguments& field, std::int32_t column, std::int32_t y,
                                         device::Shared group) {
  using Kernel = Lowrank2d<Stencil>;
  const typename Kernel::Window window(field, column);
  Kernel::bring_vectors(window, y, group);
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

  static constexpr int group_rows = 8;
  static constexpr int tile_columns = 16;
  static constexpr int tiles = Stencil::tiles;
  static constexpr int chunks = Stencil::chunks;
  static constexpr int rank = Stencil::rank;
  static constexpr int terms = Stencil::terms;
  static constexpr int groups = Stencil::groups_above + 1 + Stencil::groups_below;  ///< that an output takes
  static constexpr int halves = groups * rank;                                      ///< of operands of pass y
  static constexpr int y_products = (halves + 1) / 2;
  static constexpr int early_products = (halves - rank) / 2;  ///< that do not take the newest group
  static constexpr int threads = Stencil::warps_per_block * 32;
  static constexpr int strip_outputs = Stencil::warps_per_block * tiles * tile_columns;

  // A row of the window begins in its line of 128 bytes where it does in the field; its sectors are exchanged
  // by row, so that the four rows that lanes load from together lie in different banks.
  static constexpr int first_column = Stencil::first_column;
  static constexpr int window_columns = strip_outputs + (chunks - 1) * tile_columns;
  static constexpr int window_vectors = window_columns / vector_elements;
  static constexpr int window_offset = line_offset<vector_elements>(first_column);
  static constexpr int row_bytes =
      (window_offset + window_columns * element_bytes + line_bytes - 1) / line_bytes * line_bytes;
  static constexpr int group_bytes = group_rows * row_bytes;
  static constexpr int ring_groups = Stencil::ring_groups;
  static constexpr int shared_bytes = ring_groups * group_bytes;
  static_assert(first_column % vector_elements == 0 && ring_groups > 2, "cells come between two groups");

  /// Where byte `byte` of a row of the window lies in its group.
  SPIDER_DEVICE static Shared place(int row, int byte) {
    return static_cast<Shared>(row * row_bytes + ((window_offset + byte) ^ row % 4 * sector_bytes));
  }

  /// The columns of a strip's inputs. Beside the field's they are in memory beyond a `halo` face, and where
  /// vectors are whole on the other side of a `periodic` one.
  struct Window : Field2d<Element> {
    std::int32_t left;   ///< column of the first
    bool wraps = false;  ///< are vectors beyond a periodic face those of the other side?
    Span whole;          ///< vectors that are in memory in every row
    CellColumns cells;   ///< columns beside them that taps reach

    SPIDER_DEVICE Window(const SweepArguments& field, std::int32_t first_output)
        : Field2d<Element>(field), left(first_output + first_column) {
      constexpr AxisRules rules = Stencil::column_rules();
      const Span reached = {this->wanted.column_begin + Stencil::column_reach_low,
                            this->wanted.column_end + Stencil::column_reach_high};
      Span there = columns_in_memory<Stencil>(*this, left);
      if (this->aligned_input) {
        wraps = rules.low == FaceRule::periodic && this->columns % vector_elements == 0 &&
                this->columns >= window_columns;
        const bool from_halo = wraps || rules.low == FaceRule::halo || reached.begin > 0;
        const bool to_halo = wraps || rules.high == FaceRule::halo || reached.end < this->columns;
        there = {(from_halo ? reached.begin : 0) - left, (to_halo ? reached.end : this->columns) - left};
      }
      whole = vectors_within<vector_elements>(there, 0, window_vectors);
      cells = columns_beside({whole.begin * vector_elements, whole.end * vector_elements},
                             {reached.begin - left, reached.end - left}, window_columns);
    }

    /// From where in a row of memory a vector is.
    SPIDER_DEVICE std::int32_t column_of(int vector) const {
      const std::int32_t column = left + vector * vector_elements;
      if (!wraps) return column;
      return column < 0 ? column + this->columns : (column < this->columns ? column : column - this->columns);
    }

    /// Are all columns in memory, one after the other, in aligned rows?
    SPIDER_DEVICE bool is_plain() const {
      return this->aligned_input && whole.begin == 0 && whole.end == window_vectors &&
             (!wraps || (left >= 0 && left + window_columns <= this->columns));
    }
  };

  /// What a block walks down.
  struct Strip : Window {
    std::int32_t column;     ///< of the first output
    std::int32_t first_row;  ///< of the first group of inputs
    std::int32_t steps;      ///< groups of inputs
    Span plain_rows;         ///< of the field, and reached

    SPIDER_DEVICE Strip(const SweepArguments& field, int piece)
        : Strip(field, find_shared_walk<group_rows, groups - 1>(field, device::block_index(), piece)) {}

    /// Are all columns in memory, at their own places, and wanted, and all rows aligned?
    SPIDER_DEVICE bool is_inside() const {
      return this->is_plain() && this->aligned_output && column >= this->wanted.column_begin &&
             column + strip_outputs <= this->wanted.column_end;
    }

   private:
    SPIDER_DEVICE Strip(const SweepArguments& field, const Walk& walk)
        : Window(field, field.grid.strips.first_column + walk.across * strip_outputs),
          column(this->left - first_column),
          first_row((walk.first_row - Stencil::groups_above) * group_rows),
          steps(walk.rows > 0 ? walk.rows + groups - 1 : 0),
          plain_rows{clamp(this->wanted.row_begin + Stencil::row_low, 0, this->rows),
                     clamp(this->wanted.row_end + Stencil::row_high, 0, this->rows)} {}
  };

  /// Zeroes what no copy fills: an operand's zero times what lay there could be NaN.
  SPIDER_DEVICE static void clear_ring() {
    SPIDER_NO_UNROLL
    for (int i = device::warp_index() * 32 + device::lane_index(); i < shared_bytes / vector_bytes;
         i += threads)
      device::store_shared(static_cast<Shared>(i * vector_bytes), Vector{});
    device::sync_block();
  }

  /// Starts the copies of the whole vectors of a group whose rows are all in memory, at their own places.
  /// Each warp has rows.
  template <bool inside>
  SPIDER_DEVICE static void start_copies(const Strip& strip, std::int32_t y, Shared group) {
    constexpr int rows = group_rows / Stencil::warps_per_block;
    static_assert(group_rows % Stencil::warps_per_block == 0, "warps have as many rows");
    const int first_row = device::warp_index() * rows;
    const int lane = device::lane_index();
    const Element* from = strip.input + (y + first_row) * strip.input_stride;
    if (inside) from += strip.left;
    SPIDER_UNROLL
    for (int row = 0; row < rows; ++row) {
      SPIDER_UNROLL
      for (int first = 0; first < window_vectors; first += 32) {
        const int vector = first + lane;
        const bool wanted =
            inside ? first + 32 <= window_vectors || vector < window_vectors : strip.whole.holds(vector);
        const std::int32_t column = inside ? vector * vector_elements : strip.column_of(vector);
        device::copy_async_if(wanted, group + place(first_row + row, vector * vector_bytes),
                              from + (row * strip.input_stride + column));
      }
    }
  }

  /// Brings the whole vectors of a group from where the boundary has their rows; of rows that are not
  /// aligned from the two vectors of memory that they lie across.
  SPIDER_DEVICE static void bring_vectors(const Window& window, std::int32_t y, Shared group) {
    SPIDER_NO_UNROLL
    for (int row = device::warp_index(); row < group_rows; row += Stencil::warps_per_block) {
      const RowIndex<Stencil> index = map_row<Stencil>(window, y + row);
      const bool reached = row_is_reached<Stencil>(window, y + row);
      const bool in_memory = reached && !index.constant;
      const bool copies = in_memory && window.aligned_input && !index.negated;
      const std::uint32_t word =
          reached && index.constant ? Storage::repeat(static_cast<Element>(index.value)) : 0;
      const Element* from = window.input + (in_memory ? index.index : 0) * window.input_stride;
      SPIDER_UNROLL
      for (int first = 0; first < window_vectors; first += 32) {
        const int vector = first + device::lane_index();
        const bool wanted = window.whole.holds(vector);
        const Element* cells = wanted ? from + window.column_of(vector) : window.input;
        const Shared to = group + place(row, vector * vector_bytes);
        device::copy_async_if(wanted && copies, to, cells);
        Vector across = load_across(wanted && in_memory && !copies, cells);
        if (!in_memory) across = Vector{{word, word, word, word}};
        change_signs(across, sign_word<Element>(index.negated));
        device::store_shared_if(wanted && !copies, to, across);
      }
    }
  }

  /// Fills the cells beside whole vectors: from these, where the boundary's rule takes them to one, else from
  /// memory.
  SPIDER_DEVICE static void fill_cells(const Window& window, std::int32_t y, Shared group) {
    constexpr int columns_at_once = threads / group_rows;
    const int thread = device::warp_index() * 32 + device::lane_index();
    const int row = thread % group_rows;
    const Span there = {window.whole.begin * vector_elements, window.whole.end * vector_elements};
    const bool reached = row_is_reached<Stencil>(window, y + row);
    SPIDER_NO_UNROLL
    for (int i = thread / group_rows; i < window.cells.count; i += columns_at_once) {
      const int to = window.cells.column(i);
      const ColumnIndex<Stencil> index = map_column<Stencil>(window, window.left + to);
      const int from = index.index - window.left;
      Element cell = 0;
      if (!index.constant && there.holds(from)) {
        cell = device::load_shared_half(group + place(row, from * element_bytes));
        cell = static_cast<Element>(cell ^ sign_of<Element>(index.negated));
      } else {
        cell = fetch_cell(window, reached, map_row<Stencil>(window, y + row), index);
      }
      device::store_shared(group + place(row, to * element_bytes), cell);
    }
  }

  /// Brings a step's inputs into a group of the ring; its copies are one group of these.
  template <bool inside>
  SPIDER_DEVICE static void bring_group(const SweepArguments& field, const Strip& strip, int step,
                                        Shared group) {
    const std::int32_t y = strip.first_row + step * group_rows;
    if (step < strip.steps) {
      if ((inside || strip.aligned_input) && strip.plain_rows.holds(Span{y, y + group_rows})) {
        start_copies<inside>(strip, y, group);
      } else {
        bring_with_care<Stencil>(field, strip.column, y, group);
      }
    }
    device::copy_async_commit();
  }

  /// The weights of a lane.
  struct Weights {
    Vector x[rank][chunks][terms];
    Pair y[y_products][terms];

    SPIDER_DEVICE void load() {
      const int lane = device::lane_index();
      SPIDER_UNROLL
      for (int i = 0; i < rank * chunks * terms; ++i) {
        x[i / terms / chunks][i / terms % chunks][i % terms] =
            device::load_table(Stencil::x_operand(i, lane));
      }
      SPIDER_UNROLL
      for (int i = 0; i < y_products * terms; ++i) {
        SPIDER_UNROLL
        for (int half = 0; half < 2; ++half)
          y[i / terms][i % terms].word[half] = device::load_table(Stencil::y_word(2 * i + half, lane));
      }
    }
  };

  /// The sums of pass x of a group: for each pair of lists and tile the words of columns lane / 4 and lane /
  /// 4 + 8 of the mapping, in rows 2 (lane % 4) and the next.
  using Passed = std::uint32_t[rank][tiles][2];

  /// Adds product i of pass y to the sums of all tiles; the first group of the outputs is in slot `first`.
  SPIDER_DEVICE static void multiply_rows(const Weights& weights, const Passed (&passed)[groups], int first,
                                          int i, Accumulator (&sums)[tiles]) {
    SPIDER_UNROLL
    for (int tile = 0; tile < tiles; ++tile) {
      Vector inputs{};
      SPIDER_UNROLL
      for (int half = 0; half < 2 && 2 * i + half < halves; ++half) {
        const int k = 2 * i + half;
        const int slot = (first + k / rank) % groups;
        inputs.word[2 * half] = passed[slot][k % rank][tile][0];
        inputs.word[2 * half + 1] = passed[slot][k % rank][tile][1];
      }
      SPIDER_UNROLL
      for (int term = 0; term < terms; ++term)
        Storage::multiply_inputs(sums[tile], inputs, weights.y[i][term]);
    }
  }

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
          place[i] = Lowrank2d::place(lane / 4, first + i * tile_columns * element_bytes);
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

  /// Pass x of a group.
  SPIDER_DEVICE static void pass_columns(const Weights& weights, const InputPlaces& from, Shared group,
                                         Passed& passed) {
    Pair inputs[tiles + chunks - 1];
    SPIDER_UNROLL
    for (int i = 0; i < tiles + chunks - 1; ++i)
      inputs[i] = device::load_settled_pair(from.of_chunk(group, i));
    // As many sums at once as hide the latency of products; more would take registers.
    constexpr int at_once = tiles >= 4 ? 1 : rank;
    SPIDER_UNROLL
    for (int first = 0; first < rank; first += at_once) {
      Accumulator sums[at_once][tiles] = {};
      SPIDER_UNROLL
      for (int i = 0; i < chunks * terms; ++i) {
        SPIDER_UNROLL
        for (int pair = 0; pair < at_once; ++pair) {
          SPIDER_UNROLL
          for (int tile = 0; tile < tiles; ++tile) {
            Storage::multiply_inputs(sums[pair][tile], weights.x[first + pair][i / terms][i % terms],
                                     inputs[tile + i / terms]);
          }
        }
      }
      SPIDER_UNROLL
      for (int pair = 0; pair < at_once; ++pair) {
        SPIDER_UNROLL
        for (int tile = 0; tile < tiles; ++tile) {
          const float(&sum)[4] = sums[pair][tile].value;
          passed[first + pair][tile][0] = Storage::pack_pair(sum[0], sum[1]);
          passed[first + pair][tile][1] = Storage::pack_pair(sum[2], sum[3]);
        }
      }
    }
  }

  SPIDER_DEVICE static void move_group(const Passed& from, Passed& to) {
    SPIDER_UNROLL
    for (int i = 0; i < rank * tiles * 2; ++i)
      to[i / 2 / tiles][i / 2 % tiles][i % 2] = from[i / 2 / tiles][i / 2 % tiles][i % 2];
  }

  /// `inside`: nothing but rows beyond the field, or not wanted, asks for care.
  template <bool inside>
  SPIDER_DEVICE static void walk_down(const SweepArguments& field, const Strip& strip) {
    Weights weights;
    weights.load();
    if (!inside) clear_ring();
    SPIDER_NO_UNROLL
    for (int step = 0; step < ring_groups - 1; ++step)
      bring_group<inside>(field, strip, step, static_cast<Shared>(step * group_bytes));

    const int lane = device::lane_index();
    const int lane_row = lane / 4;
    const int first_tile = device::warp_index() * tiles * tile_columns;
    const InputPlaces from(lane);
    const std::int32_t x = strip.column + first_tile + 4 * (lane % 4);

    // Where all is plain the loop is unrolled once a group in flight, so that no group moves. Elsewhere that
    // would be more code than the instruction cache holds.
    constexpr int turns = inside ? groups : 1;
    Passed passed[groups] = {};
    int slot = 0;  // of the ring
    std::int32_t y = strip.first_row - Stencil::groups_below * group_rows;
    Element* to = strip.output + ((y + lane_row) * strip.output_stride + x);
    SPIDER_NO_UNROLL
    for (int first_step = 0; first_step < strip.steps; first_step += turns) {
      SPIDER_UNROLL
      for (int turn = 0; turn < turns; ++turn) {
        const int step = first_step + turn;
        if (step >= strip.steps) break;
        device::copy_async_wait<ring_groups - 2>();
        device::sync_block();
        const auto next = static_cast<Shared>((slot == 0 ? ring_groups - 1 : slot - 1) * group_bytes);
        bring_group<inside>(field, strip, step + ring_groups - 1, next);
        const auto group = static_cast<Shared>(slot * group_bytes);
        if constexpr (!inside) {
          fill_cells(strip, strip.first_row + step * group_rows, group);
          device::sync_block();
        }
        // What does not take the newest group comes first: it waits for nothing.
        Accumulator sums[tiles] = {};
        const int oldest = inside ? (turn + 1) % groups : 0;
        SPIDER_UNROLL
        for (int i = 0; i < early_products; ++i) multiply_rows(weights, passed, oldest, i, sums);
        pass_columns(weights, from, group, passed[(oldest + groups - 1) % groups]);
        SPIDER_UNROLL
        for (int i = early_products; i < y_products; ++i) multiply_rows(weights, passed, oldest, i, sums);
        slot = slot + 1 == ring_groups ? 0 : slot + 1;

        // The first groups to complete belong to the walk above.
        const bool wanted = step >= groups - 1 && has_row(strip.wanted, y + lane_row);
        SPIDER_UNROLL
        for (int tile = 0; tile < tiles; ++tile) {
          const Outputs outputs = finish_outputs<Stencil>(sums[tile]);
          Element* tile_to = to + tile * tile_columns;
          if constexpr (inside) {
            store_outputs_if<Storage>(wanted, tile_to, outputs);
          } else if (wanted) {
            store_clipped<Storage>(tile_to, outputs, columns_of(strip.wanted), x + tile * tile_columns,
                                   strip.aligned_output);
          }
        }
        y += group_rows;
        to += group_rows * strip.output_stride;
        if constexpr (!inside) {
          SPIDER_UNROLL
          for (int i = 0; i + 1 < groups; ++i) move_group(passed[i + 1], passed[i]);
        }
      }
    }
  }
};

/// Boxes are cut into strips, which blocks walk down in groups of rows.
template <class Stencil>
constexpr SweepForm lowrank2d_form() {
  using Kernel = Lowrank2d<Stencil>;
  SweepForm form =
      strips_form<Stencil>(sweep_lowrank2d<Stencil>, Stencil::warps_per_block, Stencil::warps_per_block,
                           Kernel::shared_bytes, Kernel::strip_outputs, Kernel::window_columns);
  form.tiling.row_anchor = Kernel::group_rows;
  form.tiling.edge_percent = 60;  // measured on an H200
  form.tiling.shares_rest = true;
  form.tiling.lead_steps = Kernel::groups - 1;
  form.steps = Stencil::steps;
  return form;
}

}  // namespace device_1
}  // namespace spider
