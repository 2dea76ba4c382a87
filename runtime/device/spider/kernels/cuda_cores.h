/// Stencils on CUDA cores that spider/kernels/cores2d.h and cores3d.h do not cover. Either the taps are in
/// the code: a warp walks down y (in 1D it has one row) with its sums in registers, and reads its inputs from
/// its own ring of rows in shared memory. Or there are too many taps: they are in a table, and every tap
/// loads its inputs itself, in any number of dimensions.
///
/// A `Stencil` has, as static members:
/// - Cells: of spider/values/cells.h;
/// - dimensions; step_axis, row_axis: axes (z, y, x) that the kernel walks along and has rows along; axes
///   that the stencil lacks have extent 1;
/// - tap_count, taps: CoreTap, ascending in row, step and column;
/// - step_low, step_high, row_low, row_high, column_low, column_high: of the taps' offsets;
/// - highest_low, lowest_high: columns that every tap row may read, from that far after a box's first column
///   to that far before its end;
/// - taps_in_code; outputs: of a thread in a step, neighbours where the taps are in the code, else 32 columns
///   apart;
/// - unrolled_steps: a multiple of the steps in flight, or 1, where sums move instead;
/// - ring_rows, ring_column, ring_vectors, ring_row_bytes: rows of a warp's ring, the column of a ring row's
///   first vector of 16 bytes from the warp's first output on, how many it has, and bytes from row to row, a
///   multiple of 128;
/// - edge_slots: cells of a ring row that a lane brings one by one, at edges;
/// - warps_per_block, blocks_per_multiprocessor, preferred_steps: the launch;
/// - band_count, band(i): the tap rows, as TapBand, where the taps are in the code;
/// - step_rules(), row_rules(), column_rules(): the boundary.
#pragma once

#include <spider/field/boundary.h>
#include <spider/field/field2d.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/sums/cores.h>
#include <spider/sums/point_inputs.h>
#include <spider/values/cells.h>
#include <spider/values/vectors.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace spider {
inline namespace device_4 {

template <class Stencil>
struct CudaCores;

// All lanes of a warp take the same kind of walk.
template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_cuda_cores(const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  using Kernel = CudaCores<Stencil>;
  const typename Kernel::Place place = Kernel::find_place(field);
  if (place.steps <= 0) return;
  const typename Kernel::Walk walk = Kernel::make_walk(field, place);
  const bool inside = Kernel::lies_inside(field, place);
  if constexpr (!Stencil::taps_in_code) {
    if (inside) {
      Kernel::template walk_by_table<true>(field, walk);
    } else {
      Kernel::template walk_by_table<false>(field, walk);
    }
  } else if (inside && field.aligned_input && field.aligned_output) {
    Kernel::template walk_by_ring<Path::interior>(field, walk);
  } else if (field.aligned_input) {
    Kernel::template walk_by_ring<Path::boundary>(field, walk);
  } else {
    Kernel::template walk_by_ring<Path::unaligned>(field, walk);
  }
}

template <class Stencil>
struct CudaCores {
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;
  using Word = typename Cells::Word;
  using OutCells = typename OutCellsOf<Stencil>::Type;
  using OutElement = typename OutCells::Element;
  using Shared = device::Shared;
  using Vector = device::Vector;
  using Pair = device::Pair;
  // In 1D there may be more columns than 32 bits count.
  using Column = std::conditional_t<Stencil::dimensions == 1, std::int64_t, std::int32_t>;
  static constexpr int per_word = Cells::per_word;
  static constexpr int word_bytes = static_cast<int>(sizeof(Word));
  static constexpr int step_axis = Stencil::step_axis;
  static constexpr int row_axis = Stencil::row_axis;
  static constexpr int step_low = Stencil::step_low;
  static constexpr int row_low = Stencil::row_low;
  static constexpr bool taps_in_code = Stencil::taps_in_code;
  static constexpr bool takes_images = Stencil::dimensions < 3 && !HasUpdate<Stencil>::value;
  static constexpr int outputs = Stencil::outputs;
  static constexpr int warp_columns = 32 * outputs;
  static constexpr int column_anchor =
      128 / Cells::element_bytes;  // walks of a box begin on a line of 128 bytes
  static constexpr int vector_words = taps_in_code ? outputs / per_word : 1;
  static constexpr int vector_bytes = taps_in_code ? word_bytes * vector_words : Cells::element_bytes;
  /// The results that a lane stores together.
  static constexpr int out_bytes = (taps_in_code ? outputs : 1) * OutCells::element_bytes;
  static constexpr int out_vector_bytes = out_bytes < 16 ? out_bytes : 16;

  // An input step adds to this many output steps, whose sums are a ring. Unrolling rotates it; otherwise sums
  // move.
  static constexpr int steps_in_flight = taps_in_code ? Stencil::step_high - step_low + 1 : 1;
  static_assert(steps_in_flight <= 32, "tap rows are bits of a word");
  static_assert(Stencil::unrolled_steps == 1 || Stencil::unrolled_steps % steps_in_flight == 0,
                "sums come round");
  static_assert(Stencil::highest_low >= Stencil::column_low && Stencil::lowest_high <= Stencil::column_high,
                "no tap row reaches farther than all");
  static_assert(Stencil::edge_slots > 0 && std::is_same_v<decltype(Stencil::band(0)), TapBand>,
                "tap rows as bands");

  // Copies run ahead by one row less than the ring has. A line of 128 bytes of a field begins a line of the
  // ring, too: if source and destination differ in their place within 32 bytes, a copy requests every vector
  // from L2 separately.
  static constexpr int ring_column = Stencil::ring_column;
  static constexpr int ring_vectors = Stencil::ring_vectors;
  static constexpr int ring_vector_cells = 16 / Cells::element_bytes;
  static constexpr int ring_columns = ring_vectors * ring_vector_cells;
  static constexpr int line_bytes = 128;
  static constexpr int ring_lead =
      (ring_column * Cells::element_bytes % line_bytes + line_bytes) % line_bytes;
  static constexpr int vectors_before_line = (line_bytes - ring_lead) % line_bytes / 16;
  static constexpr int ring_bytes = Stencil::ring_rows * Stencil::ring_row_bytes;
  static constexpr int shared_bytes = taps_in_code ? Stencil::warps_per_block * ring_bytes + line_bytes : 0;

  // The inputs of a walk around its outputs: in whole vectors if it has a ring.
  static constexpr int margin_low = taps_in_code ? -ring_column : -Stencil::column_low;
  static constexpr int margin_high =
      taps_in_code ? ring_column + ring_columns - warp_columns : Stencil::column_high;

  /// Where a warp begins; without steps, nowhere.
  struct Place {
    std::int32_t first_step, steps;
    std::int32_t row;
    Column column;
  };

  /// The outputs of a thread.
  struct Walk {
    const Element* input;  ///< the field's first interior element
    OutElement* output;
    std::int64_t input_stride[2];  ///< from step to step, from row to row
    std::int64_t output_stride[2];
    std::int32_t extent[2];  ///< of the field: steps, rows
    Column columns;          ///< of the field
    Column box_begin, box_end;
    std::int32_t first_step, steps;  ///< of the outputs
    std::int32_t row;
    Column column;  ///< of the first output
    bool aligned_output;
  };

  /// This warp's part of a 1D field: it does not walk.
  SPIDER_DEVICE static Place find_part_of_line(const SweepArguments& field) {
    const std::int64_t index =
        std::int64_t{device::block_index()} * Stencil::warps_per_block + device::warp_index();
    const std::int64_t column = field.box.offset[2] / column_anchor * column_anchor + index * warp_columns;
    return {0, column < field.box.offset[2] + field.box.extent[2] ? 1 : 0, 0, static_cast<Column>(column)};
  }

  /// The walk of this warp down a strip of a 2D field.
  SPIDER_DEVICE static Place find_strip(const SweepArguments& field) {
    const spider::Walk walk =
        find_walk(field, device::block_index() * Stencil::warps_per_block + device::warp_index());
    return {walk.first_row, walk.rows, 0, field.grid.strips.first_column + walk.across * warp_columns};
  }

  /// The walk of this warp: a row of a block of a 3D field.
  SPIDER_DEVICE static Place find_row_of_block(const SweepArguments& field) {
    const VolumeGrid& grid = field.grid.volume;
    const int index = device::block_index();
    const int above = index / grid.across;
    const std::int32_t row = above % grid.down * Stencil::warps_per_block + device::warp_index();
    const std::int32_t first = above / grid.down * grid.planes;
    const std::int32_t remaining = static_cast<std::int32_t>(field.box.extent[step_axis]) - first;
    Place place{};
    if (row < field.box.extent[row_axis]) place.steps = remaining < grid.planes ? remaining : grid.planes;
    place.first_step = static_cast<std::int32_t>(field.box.offset[step_axis]) + first;
    place.row = static_cast<std::int32_t>(field.box.offset[row_axis]) + row;
    place.column = grid.first_column + index % grid.across * warp_columns;
    return place;
  }

  SPIDER_DEVICE static Place find_place(const SweepArguments& field) {
    if constexpr (Stencil::dimensions == 1) {
      return find_part_of_line(field);
    } else if constexpr (Stencil::dimensions == 2) {
      return find_strip(field);
    } else {
      return find_row_of_block(field);
    }
  }

  /// True if all steps, rows and columns that a warp reads lie in the box, and all its outputs are stored.
  SPIDER_DEVICE static bool lies_inside(const SweepArguments& field, const Place& place) {
    const auto holds = [&](int axis, std::int64_t first, std::int64_t last) {
      const std::int64_t begin = field.box.offset[axis];
      return first >= begin && last < begin + field.box.extent[axis];
    };
    const std::int64_t first = place.column;
    const std::int64_t last = first + warp_columns - 1;
    return holds(step_axis, place.first_step + step_low,
                 place.first_step + place.steps - 1 + Stencil::step_high) &&
           holds(row_axis, place.row + row_low, place.row + Stencil::row_high) && holds(2, first, last) &&
           holds(2, first - margin_low, last + margin_high);
  }

  /// The walk of this thread.
  SPIDER_DEVICE static Walk make_walk(const SweepArguments& field, const Place& place) {
    Walk walk;
    walk.input = static_cast<const Element*>(field.input);
    walk.output = static_cast<OutElement*>(field.output);
    if constexpr (takes_images) {
      walk.input += device::image_index() * field.input_stride[0];
      walk.output += device::image_index() * field.output_stride[0];
    }
    walk.input_stride[0] = field.input_stride[step_axis];
    walk.input_stride[1] = field.input_stride[row_axis];
    walk.output_stride[0] = field.output_stride[step_axis];
    walk.output_stride[1] = field.output_stride[row_axis];
    walk.extent[0] = static_cast<std::int32_t>(field.extent[step_axis]);
    walk.extent[1] = static_cast<std::int32_t>(field.extent[row_axis]);
    walk.columns = static_cast<Column>(field.extent[2]);
    walk.box_begin = static_cast<Column>(field.box.offset[2]);
    walk.box_end = static_cast<Column>(field.box.offset[2] + field.box.extent[2]);
    walk.first_step = place.first_step;
    walk.steps = place.steps;
    walk.row = place.row;
    walk.column = place.column + device::lane_index() * (taps_in_code ? outputs : 1);
    walk.aligned_output = field.aligned_output;
    return walk;
  }

  static constexpr bool has_signs =
      negates(Stencil::step_rules()) || negates(Stencil::row_rules()) || negates(Stencil::column_rules());

  /// Where an input row is read: `offset` elements from the field's first, or not in memory but `value`.
  struct RowPlace {
    std::int64_t offset;
    bool constant;
    Element value;
    bool negated = false;  ///< if it is in memory
  };

  /// If two rules give constants, rows have precedence over steps, and columns over both.
  SPIDER_DEVICE static RowPlace find_row(const Walk& walk, std::int32_t step, std::int32_t row) {
    const auto mapped_step = map_by<Stencil::step_rules>(step, walk.extent[0]);
    const auto mapped_row = map_by<Stencil::row_rules>(row, walk.extent[1]);
    const bool negated = negates_cell(mapped_step, mapped_row);
    const bool constant = mapped_step.constant || mapped_row.constant;
    return {mapped_step.index * walk.input_stride[0] + mapped_row.index * walk.input_stride[1], constant,
            static_cast<Element>((mapped_row.constant ? mapped_row.value : mapped_step.value) ^
                                 sign_of<Element>(constant && negated)),
            negated};
  }

  /// Where column x is read: an IndexBy, or in 1D a far one.
  SPIDER_DEVICE static auto find_column(const Walk& walk, Column x) {
    if constexpr (Stencil::dimensions == 1) {
      return map_far_by<Stencil::column_rules>(x, walk.columns);
    } else {
      return map_by<Stencil::column_rules>(x, walk.columns);
    }
  }

  // Taps in the code.

  /// A row of inputs around a thread's outputs: columns from first_column on, in as many words as taps reach.
  static constexpr int first_word = floor_divide(Stencil::column_low, per_word);
  static constexpr int window_words =
      floor_divide(outputs - 1 + Stencil::column_high, per_word) - first_word + 1;
  using Numbers = Number[window_words * per_word];

  /// Sums of the output steps in flight.
  using Sums = OutputSums<Stencil, outputs>[steps_in_flight];

  /// Loads the window of this lane, whose first output's cell is at `cells`, by the widest aligned loads.
  SPIDER_DEVICE static void load_window(Shared cells, Numbers& numbers) {
    constexpr int begin = floor_divide(first_word, vector_words) * vector_words;
    SPIDER_UNROLL
    for (int base = begin; base < first_word + window_words; base += vector_words) {
      Word words[vector_words] = {};
      load_words(cells, base, words);
      SPIDER_UNROLL
      for (int i = 0; i < vector_words; ++i) {
        const int place = base + i - first_word;
        if (place < 0 || place >= window_words) continue;
        SPIDER_UNROLL
        for (int j = 0; j < per_word; ++j) numbers[place * per_word + j] = Cells::number(words[i], j);
      }
    }
  }

  /// Loads the words of the window from `base` on; for a single word the pair that contains it.
  SPIDER_DEVICE static void load_words(Shared cells, int base, Word (&words)[vector_words]) {
    const auto place = [&](int i) { return cells + static_cast<Shared>(word_bytes * (base + i)); };
    const auto needs = [&](int first, int last) {
      return base + last >= first_word && base + first < first_word + window_words;
    };
    constexpr int pair_words = 8 / word_bytes;
    if constexpr (vector_bytes == 4) {
      words[0] = device::load_shared_word(place(0));
    } else if (vector_bytes == 16 && needs(0, pair_words - 1) && needs(pair_words, vector_words - 1)) {
      const Vector v = device::load_shared(place(0));
      SPIDER_UNROLL
      for (int i = 0; i < vector_words; ++i) words[i] = word_of<Word>(v, i);
    } else {
      SPIDER_UNROLL
      for (int first = 0; first < vector_words; first += pair_words) {
        if (!needs(first, first + pair_words - 1)) continue;
        const Pair v = device::load_shared_pair(place(first));
        SPIDER_UNROLL
        for (int i = 0; i < pair_words; ++i) words[first + i] = word_of<Word>(v, i);
      }
    }
  }

  /// The sums that an input step adds to through taps of step_low + `distance`. In a loop of several turns
  /// they stay in place and the index rotates; otherwise they move.
  template <int turns>
  SPIDER_DEVICE static constexpr int slot_of(int turn, int distance) {
    return turns == 1 ? distance : (turn + steps_in_flight - distance) % steps_in_flight;
  }

  /// Adds an input row to the sums of all steps that it reaches.
  template <int turns, int... t>
  SPIDER_DEVICE static void add_row(const Numbers& numbers, Sums& sums, int turn,
                                    std::integer_sequence<int, t...> /*taps*/) {
    (add_tap<Stencil, t, first_word * per_word>(numbers,
                                                sums[slot_of<turns>(turn, Stencil::taps[t].step - step_low)]),
     ...);
  }

  /// Empties the sums of a complete step, or moves all sums by one.
  template <int turns>
  SPIDER_DEVICE static void retire_step(Sums& sums, int complete) {
    constexpr bool moves = turns == 1;
    if constexpr (moves) {
      SPIDER_UNROLL
      for (int j = steps_in_flight - 1; j > 0; --j) copy_sums(sums[j - 1], sums[j]);
    }
    clear_sums(sums[moves ? 0 : complete]);
  }

  /// The tap rows of a band, as bits from step_low on.
  SPIDER_DEVICE static constexpr std::uint32_t steps_of(const TapBand& band) {
    return (0xffffffffU >> (31 - (band.dy_high - band.dy_low))) << (band.dy_low - step_low);
  }

  /// The tap rows, as bits from step_low on, that take an input step to a stored output step.
  SPIDER_DEVICE static std::uint32_t active_steps(const Walk& walk, int step) {
    const int first = step - walk.steps + 1 > 0 ? step - walk.steps + 1 : 0;
    const int last = step < steps_in_flight - 1 ? step : steps_in_flight - 1;
    std::uint32_t steps = 0;  // between tap rows there may be rows without taps
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::band_count; ++i) steps |= steps_of(Stencil::band(i));
    return first > last ? 0 : steps & (0xffffffffU >> (31 - last)) & (0xffffffffU << first);
  }

  /// The tap rows, as bits, that reach column x from any output of the sweep.
  SPIDER_DEVICE static std::uint32_t steps_that_reach(const Walk& walk, Column x) {
    std::uint32_t steps = 0;
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::band_count; ++i) {
      const TapBand band = Stencil::band(i);
      if (x >= walk.box_begin + band.low && x < walk.box_end + band.high) steps |= steps_of(band);
    }
    return steps;
  }

  /// The copies of a warp for each input row: lanes take the vectors from the first line on, and the ones
  /// before it last, so that a warp's copies cover whole lines.
  template <class Use>
  SPIDER_DEVICE static void for_each_copy(const Use& use) {
    const int lane = device::lane_index();
    SPIDER_UNROLL
    for (int first = 0; first < ring_vectors; first += 32) {
      const int rotated = first + lane + vectors_before_line;
      use(first + 32 <= ring_vectors || first + lane < ring_vectors,
          rotated < ring_vectors ? rotated : rotated - ring_vectors);
    }
  }

  /// Copies the rows of a walk to its warp's ring at `ring`, one after the other.
  template <Path path>
  class RowSupply {
   public:
    SPIDER_DEVICE RowSupply(const Walk& walk, Shared ring)
        : ring_(ring), first_(walk.column - device::lane_index() * outputs + ring_column) {
      if constexpr (path == Path::interior) {
        next_row_ = walk.input + ((walk.first_step + step_low) * walk.input_stride[0] + first_);
      } else {
        find_edge_cells(walk);
        // Not all cells are copied: cells that no stored result needs are added as they are.
        SPIDER_NO_UNROLL
        for (int i = device::lane_index() * 16; i < ring_bytes; i += 32 * 16)
          device::store_shared(ring + static_cast<Shared>(i), Vector{});
        device::sync_warp();
      }
    }

    /// Starts the copies of input step `step`, if there is one, to ring row `slot`.
    SPIDER_DEVICE void start_row(const Walk& walk, int step, Shared slot) {
      if constexpr (path != Path::interior) place_late_cells();
      if (step < walk.steps + steps_in_flight - 1) {
        const Shared to = ring_ + slot * Stencil::ring_row_bytes;
        if constexpr (path == Path::interior) {
          for_each_copy([&](bool wanted, int vector) {
            device::copy_async_if(wanted, to + vector * 16, next_row_ + vector * ring_vector_cells);
          });
          next_row_ += walk.input_stride[0];
        } else {
          bring_row(walk, step, to);
        }
      }
      device::copy_async_commit();
    }

   private:
    // Cells of a row that a lane copies one by one: all cells of an unaligned row.
    static constexpr int slots = path == Path::unaligned ? (ring_columns + 31) / 32 : Stencil::edge_slots;
    static constexpr Shared nowhere = 0xffffffffU;

    /// A column, or a cell's bits.
    using From = std::conditional_t<(Cells::element_bytes > sizeof(Column)), std::int64_t, Column>;

    /// One such cell. Columns count from the ring's first.
    struct Cell {
      int column;
      From from;            ///< its column in the field, or its bits where the boundary makes it constant
      std::uint32_t steps;  ///< the tap rows that reach it, as bits
      bool constant;
      bool negated;
      // There are no asynchronous copies of one or two bytes: such a cell is stored to the ring a row later.
      Element late;
      Shared late_to = nowhere;
    };

    SPIDER_DEVICE static int clamp(Column value, int low, int high) {
      return value < low ? low : (value > high ? high : static_cast<int>(value));
    }

    /// Finds the cells that a lane copies of each row. Vectors that are in the box in every row that is
    /// reached are copied as elsewhere.
    SPIDER_DEVICE void find_edge_cells(const Walk& walk) {
      const Column inside_begin =
          walk.box_begin + (Stencil::highest_low > 0 ? Stencil::highest_low : 0) - first_;
      const Column inside_end = walk.box_end + (Stencil::lowest_high < 0 ? Stencil::lowest_high : 0) - first_;
      if constexpr (path == Path::boundary) {
        fast_.begin = clamp((inside_begin + ring_vector_cells - 1) / ring_vector_cells, 0, ring_vectors);
        fast_.end = clamp(inside_end / ring_vector_cells, fast_.begin, ring_vectors);
      }
      const int fast_columns_begin = fast_.begin * ring_vector_cells;
      const int fast_columns_end = fast_.end * ring_vector_cells;
      const int begin = clamp(walk.box_begin + Stencil::column_low - first_, 0, fast_columns_begin);
      const int before = fast_columns_begin - begin;
      SPIDER_UNROLL
      for (int k = 0; k < slots; ++k) {
        const int i = device::lane_index() + 32 * k;
        const int column = i < before ? begin + i : fast_columns_end + i - before;
        const auto mapped = find_column(walk, first_ + column);
        cells_[k].column = column;
        cells_[k].steps = column < ring_columns ? steps_that_reach(walk, first_ + column) : 0;
        cells_[k].constant = mapped.constant;
        cells_[k].negated = mapped.negated;
        cells_[k].from = mapped.constant ? static_cast<From>(mapped.value) : static_cast<From>(mapped.index);
      }
    }

    SPIDER_DEVICE void place_late_cells() {
      if constexpr (Cells::element_bytes < 4) {
        SPIDER_UNROLL
        for (Cell& cell : cells_) {
          if (cell.late_to != nowhere) device::store_shared(cell.late_to, cell.late);
          cell.late_to = nowhere;
        }
      }
    }

    /// Copies from wherever the boundary takes the row.
    SPIDER_DEVICE void bring_row(const Walk& walk, int step, Shared to) {
      const std::uint32_t active = active_steps(walk, step);
      if (active == 0) return;
      const RowPlace row = find_row(walk, walk.first_step + step_low + step, walk.row + row_low);
      if constexpr (path == Path::boundary) {
        const Element* from = walk.input + (row.offset + first_);
        const Vector constants = repeat_word(Cells::repeat(row.value));
        for_each_copy([&](bool wanted, int vector) {
          const bool fast = wanted && fast_.holds(vector);
          if (fast && row.constant) device::store_shared(to + vector * 16, constants);
          if constexpr (has_signs) {
            if (fast && !row.constant && row.negated) {
              Vector cells = device::load_field_vector(from + vector * ring_vector_cells);
              change_signs(cells, sign_word<Element>(true));
              device::store_shared(to + vector * 16, cells);
            }
          }
          device::copy_async_if(fast && !row.constant && !row.negated, to + vector * 16,
                                from + vector * ring_vector_cells);
        });
      }
      SPIDER_UNROLL
      for (Cell& cell : cells_) {
        const bool wanted = (cell.steps & active) != 0;
        const bool constant = cell.constant || row.constant;
        const Shared place = to + static_cast<Shared>(cell.column * Cells::element_bytes);
        const Element* from = walk.input + (row.offset + cell.from);
        const auto sign = sign_of<Element>(cell.negated != (!cell.constant && !row.constant && row.negated));
        if (wanted && constant) {
          const Element value = cell.constant ? static_cast<Element>(cell.from) : row.value;
          device::store_shared(place, static_cast<Element>(value ^ sign));
        }
        if constexpr (Cells::element_bytes >= 4) {
          if constexpr (has_signs) {
            if (wanted && !constant && sign != 0)
              device::store_shared(place, device::load_field(from) ^ sign);
          }
          copy_cell_async_if(wanted && !constant && sign == 0, place, from);
        } else if (wanted && !constant) {
          cell.late = static_cast<Element>(device::load_field(from) ^ sign);
          cell.late_to = place;
        }
      }
    }

    Shared ring_;
    Column first_;             ///< of the ring, in the field
    const Element* next_row_;  ///< inside: the first cell of the next row
    Span fast_{0, 0};          ///< vectors
    Cell cells_[slots];
  };

  /// Where a lane's outputs of a step lie.
  SPIDER_DEVICE static PointPlace place_of(const Walk& walk, std::int32_t step) {
    PointPlace place{0, 0, walk.column};
    if constexpr (Stencil::dimensions == 2) {
      place.y = step;
    } else if constexpr (Stencil::dimensions == 3) {
      place.z = step;
      place.y = walk.row;
    }
    return place;
  }

  /// Updates the sums of a complete step, counted from the walk's first.
  template <bool inside>
  SPIDER_DEVICE static void update_step(const ArgumentsOf<Stencil>& field, const Walk& walk, int step,
                                        const OutputClip& clip, OutputSums<Stencil, outputs>& sums) {
    const PointPlace place = place_of(walk, walk.first_step + step);
    PointInputs<Stencil, outputs> inputs{};
    inputs.load(field, place, inside || clip.whole, clip.single);
    inputs.update(field, place, sums);
  }

  /// Walks with the taps in the code and the rows in the ring. All lanes of the warp call this together.
  template <Path path>
  SPIDER_DEVICE static void walk_by_ring(const ArgumentsOf<Stencil>& field, const Walk& walk) {
    // Unaligned rows need more registers and time: no more code for them.
    constexpr int turns = path == Path::unaligned ? 1 : Stencil::unrolled_steps;
    constexpr int rows = Stencil::ring_rows;
    constexpr int rows_ahead = rows - 1;
    constexpr bool slots_are_constant = turns % rows == 0;
    static_assert(rows_ahead >= 2, "late cells are placed before their row is read");
    const int steps = walk.steps + steps_in_flight - 1;
    const Shared ring = device::warp_index() * ring_bytes + ring_lead;
    const Shared own_cells =
        ring + static_cast<Shared>(device::lane_index() * vector_bytes - ring_column * Cells::element_bytes);
    RowSupply<path> supply(walk, ring);
    SPIDER_UNROLL
    for (int step = 0; step < rows_ahead; ++step) supply.start_row(walk, step, step);

    const std::int64_t stride = walk.output_stride[0];
    const OutputClip clip =
        clip_outputs<outputs>(walk.column, walk.box_begin, walk.box_end, walk.aligned_output);
    OutElement* to = walk.output + ((walk.first_step - (steps_in_flight - 1)) * stride + walk.column);
    Sums sums = {};
    Shared slot = 0;
    SPIDER_NO_UNROLL
    for (int first = 0; first < steps; first += turns) {
      SPIDER_UNROLL
      for (int turn = 0; turn < turns; ++turn) {
        const int step = first + turn;
        if (step >= steps) return;
        if constexpr (slots_are_constant) slot = turn % rows;
        device::copy_async_wait<rows_ahead - 1>();
        device::sync_warp();
        Numbers numbers;
        load_window(own_cells + slot * Stencil::ring_row_bytes, numbers);
        // All lanes have read the row before this one.
        supply.start_row(walk, step + rows_ahead, slot == 0 ? rows_ahead : slot - 1);
        if constexpr (!slots_are_constant) slot = slot == rows_ahead ? 0 : slot + 1;
        add_row<turns>(numbers, sums, turn, std::make_integer_sequence<int, Stencil::tap_count>{});
        const int complete = slot_of<turns>(turn, steps_in_flight - 1);
        // The first sums to complete belong to steps before the walk.
        if constexpr (HasUpdate<Stencil>::value) {
          if (step >= steps_in_flight - 1) {
            update_step<path == Path::interior>(field, walk, step - (steps_in_flight - 1), clip,
                                                sums[complete]);
          }
        }
        if constexpr (std::is_same_v<Cells, OutCells>) {
          store_outputs<Cells, path == Path::interior>(to, step >= steps_in_flight - 1, clip,
                                                       sums[complete][0]);
        } else {
          store_converted<OutCells, path == Path::interior>(to, step >= steps_in_flight - 1, clip,
                                                            sums[complete][0]);
        }
        to += stride;
        retire_step<turns>(sums, complete);
      }
    }
  }

  // Taps in a table.

  template <int... t>
  SPIDER_DEVICE static CoreTapOf<Number> tap_of_table(int i, std::integer_sequence<int, t...> /*taps*/) {
    SPIDER_CONSTANTS CoreTapOf<Number> table[] = {Stencil::taps[t]...};
    return table[i];
  }

  /// The sum that tap i belongs to.
  template <int... t>
  SPIDER_DEVICE static int sum_of_table([[maybe_unused]] int i, std::integer_sequence<int, t...> /*taps*/) {
    if constexpr (SumsOf<Stencil>::count == 1) {
      return 0;
    } else {
      SPIDER_CONSTANTS int table[] = {SumsOf<Stencil>::of_tap(t)...};
      return table[i];
    }
  }

  /// The bits of a cell of an input row, wherever the boundary takes it from.
  SPIDER_DEVICE static Element fetch_cell(const Walk& walk, const RowPlace& row, Column x) {
    const auto column = find_column(walk, x);
    const Element sign = sign_of<Element>(column.negated);
    if (column.constant) return static_cast<Element>(column.value ^ sign);
    if (row.constant) return static_cast<Element>(row.value ^ sign);
    return static_cast<Element>(device::load_field(walk.input + (row.offset + column.index)) ^ sign ^
                                sign_of<Element>(row.negated));
  }

  /// The outputs of a thread, 32 columns apart, that the sweep covers: all if `inside`.
  template <bool inside>
  SPIDER_DEVICE static void walk_by_table(const ArgumentsOf<Stencil>& field, const Walk& walk) {
    const auto is_wanted = [&](int i) {
      const Column x = walk.column + 32 * i;
      return inside || (x >= walk.box_begin && x < walk.box_end);
    };
    SPIDER_NO_UNROLL
    for (std::int32_t step = walk.first_step; step < walk.first_step + walk.steps; ++step) {
      OutputSums<Stencil, outputs> sums = {};
      SPIDER_NO_UNROLL
      for (int t = 0; t < Stencil::tap_count; ++t) {
        const auto taps = std::make_integer_sequence<int, Stencil::tap_count>{};
        const CoreTapOf<Number> tap = tap_of_table(t, taps);
        const int sum_of_tap = sum_of_table(t, taps);
        const std::int64_t offset =
            (step + tap.step) * walk.input_stride[0] + (walk.row + tap.row) * walk.input_stride[1];
        const RowPlace row =
            inside ? RowPlace{offset, false, 0} : find_row(walk, step + tap.step, walk.row + tap.row);
        SPIDER_UNROLL
        for (int i = 0; i < outputs; ++i) {
          if (!is_wanted(i)) continue;
          const Column x = walk.column + tap.column + 32 * i;
          const Element bits =
              inside ? device::load_field(walk.input + (row.offset + x)) : fetch_cell(walk, row, x);
          SPIDER_UNROLL
          for (int sum = 0; sum < SumsOf<Stencil>::count; ++sum) {  // the index is constant
            if (sum == sum_of_tap)
              sums[sum][i] = device::multiply_add(tap.weight, Cells::number(bits, 0), sums[sum][i]);
          }
        }
      }
      OutElement* to =
          walk.output + (step * walk.output_stride[0] + walk.row * walk.output_stride[1] + walk.column);
      SPIDER_UNROLL
      for (int i = 0; i < outputs; ++i) {
        if constexpr (HasUpdate<Stencil>::value) {
          PointPlace place = place_of(walk, step);
          place.x += 32 * i;
          PointInputs<Stencil, 1> inputs{};
          inputs.load(field, place, false, is_wanted(i) ? 1 : 0);
          OutputSums<Stencil, 1> of_point;
          SPIDER_UNROLL
          for (int sum = 0; sum < SumsOf<Stencil>::count; ++sum) of_point[sum][0] = sums[sum][i];
          inputs.update(field, place, of_point);
          sums[0][i] = of_point[0][0];
        }
        device::store_field_if(is_wanted(i), to + 32 * i, cell_of_number<OutCells>(sums[0][i]));
      }
    }
  }
};

template <class Stencil>
constexpr SweepForm cuda_cores_form() {
  using Kernel = CudaCores<Stencil>;
  constexpr TilingKind kinds[] = {TilingKind::lines, TilingKind::strips, TilingKind::blocks};
  const int rows = Stencil::dimensions == 3 ? Stencil::warps_per_block : 1;
  SweepForm form{sweep_cuda_cores<Stencil>,
                 {kinds[Stencil::dimensions - 1],
                  Stencil::warps_per_block,
                  Kernel::shared_bytes,
                  Kernel::taps_in_code ? 16 : Kernel::vector_bytes,
                  Kernel::out_vector_bytes,
                  {1, rows, Kernel::warp_columns},
                  Kernel::margin_low > 0 ? Kernel::margin_low : 0,
                  Kernel::margin_high > 0 ? Kernel::margin_high : 0,
                  Kernel::column_anchor,
                  Kernel::steps_in_flight - 1,
                  Stencil::preferred_steps}};
  form.takes_images = Kernel::takes_images;
  return form;
}

}  // namespace device_4
}  // namespace spider
