/// 2D stencils of f32 fields in two terms, by products of a warpgroup (sm_90a): for each of four warps 16
/// outputs along x in each of 64 columns, a strip. Warp w has the strip of output row w of four. All four
/// multiply the same input row, each with its own tap row, so that a block needs the products of step_rows
/// rows for four; an operand is zero where the input row is out of a warp's reach. Teams of more warps
/// prepare input rows as terms meanwhile, a group of four in turn, each warp a row: while one team stores a
/// group, the next one makes terms of inputs. Prepared rows wait in a ring in shared memory.
///
/// A `Stencil` has, beside what spider/field2d.h and spider/operands.h want, as static members:
/// - Storage: an F32Storage of two terms; terms: of weights, 1 or 2;
/// - row_low, row_high: lowest and highest dy; first_column: of the inputs of a strip, from its first column;
/// - row_operand(i, term): the RowOperand of a term of tap row i, from the lowest;
/// - metadata_is_one: one word of metadata a lane serves all operands, with selector 0;
/// - chained_rows: of leading terms: tensor cores cut sums towards zero;
/// - held_remainders: operands of remainders that registers hold, too; others come from shared memory, and
/// the
///   product takes half as long again;
/// - product_registers: of a lane that multiplies; teams: of producer warps;
/// - result_scale: of sums; product_unit: of products of scaled inputs.
#pragma once

#include <spider/boundary.h>
#include <spider/epilogue.h>
#include <spider/field2d.h>
#include <spider/input_range.h>
#include <spider/instructions.h>
#include <spider/kernel.h>
#include <spider/storage.h>
#include <spider/vectors.h>

#include <cstdint>

namespace spider {
inline namespace device_3 {

template <class Stencil>
struct Split2d;

template <class Stencil>
SPIDER_GLOBAL(Split2d<Stencil>::block_threads, 1)
sweep_split2d(const SweepArguments field) {
  using Kernel = Split2d<Stencil>;
  using Path = typename Kernel::Path;
  const typename Kernel::Strip strip(field);
  if (strip.row >= strip.end_row) return;
  const Span whole = vectors_within<Kernel::vector_elements>(
      columns_in_memory<Stencil>(strip, strip.column + Stencil::first_column), 0, Kernel::window_vectors);
  const bool all_whole = whole.begin == 0 && whole.end == Kernel::window_vectors;
  if (!strip.aligned_input || !strip.aligned_output) {
    Kernel::template walk_down<Path::unaligned>(strip, whole);
  } else if (!all_whole || !strip.has_plain_outputs()) {
    Kernel::template walk_down<Path::boundary>(strip, whole);
  } else if (!strip.has_plain_rows()) {
    Kernel::template walk_down<Path::rows>(strip, whole);
  } else {
    Kernel::template walk_down<Path::interior>(strip, whole);
  }
}

/// A matrix of a tap row; `selector` picks what of the metadata is meant. An operand of -1 is none.
struct RowOperand {
  int operand, metadata, selector;
};

/// Steps that share a scale.
struct ScaledRun {
  int step, end_step;
  InputScale scale;
  bool adds;   ///< what the run before kept
  bool keeps;  ///< sums for the next run, instead of storing results
};

/// Which steps come next, and with which inputs: as many steps as fit one scale, or several times the same
/// step, whose inputs are too far apart for one, from the largest of them to the smallest.
class RunSchedule {
 public:
  SPIDER_DEVICE explicit RunSchedule(int steps) : steps_(steps) {}

  SPIDER_DEVICE bool is_complete() const { return step_ >= steps_; }
  SPIDER_DEVICE int step() const { return step_; }
  SPIDER_DEVICE std::uint32_t ceiling() const { return ceiling_; }

  /// Decides by the range of what the step reads below the ceiling.
  SPIDER_DEVICE ScaledRun begin(const MagnitudeRange& range) {
    ScaledRun run{step_, steps_, scale_with_room(range), ceiling_ <= magnitude_bits, false};
    if (run.adds || !run.scale.takes(range)) {
      run.end_step = step_ + 1;
      run.scale = scale_of_largest(range, ceiling_);
      run.keeps = run.scale.floor > 0;
    }
    return run;
  }

  SPIDER_DEVICE void end(const ScaledRun& run, int reached_step) {
    ceiling_ = run.keeps ? run.scale.floor : all;
    if (!run.keeps) step_ = reached_step;
  }

 private:
  static constexpr std::uint32_t all = magnitude_bits + 1;

  int steps_;
  int step_ = 0;
  std::uint32_t ceiling_ = all;
};

template <class Stencil>
struct Split2d {
  using Shared = device::Shared;
  using Vector = device::Vector;
  using Storage = typename Stencil::Storage;
  using Element = typename Storage::Element;
  using Outputs = typename Storage::Outputs;
  using Terms = typename Storage::Terms;

  static constexpr int element_bytes = Storage::element_bytes;
  static constexpr int vector_elements = Storage::vector_elements;
  static constexpr int vector_bytes = 16;

  static constexpr int row_low = Stencil::row_low;
  static constexpr int row_high = Stencil::row_high;
  static constexpr int tap_rows_apart = row_high - row_low + 1;
  /// Input rows before that which completes an output row.
  static constexpr int lead_rows = tap_rows_apart - 1;

  static_assert(device::group_columns == 64, "64 columns of 16 outputs");
  static constexpr int rows_at_once = 4;
  static constexpr int step_rows = tap_rows_apart + rows_at_once - 1;
  static constexpr int product_warps = rows_at_once;
  static constexpr int teams = Stencil::teams;
  static constexpr int producer_warps = rows_at_once * teams;
  static constexpr int warps_per_block = product_warps + producer_warps;
  static_assert(teams >= 2, "a team makes terms while another one stores");
  /// What nvcc makes for other architectures beside sm_90a takes no block of these warps, by which the
  /// runtime knows it.
  static constexpr int block_threads = device::has_warpgroups ? warps_per_block * 32 : 32;

  // Registers of a lane: as many as a block can begin with; producer warps leave some to those that
  // multiply.
  static constexpr int first_registers = 65536 / (32 * warps_per_block) / 8 * 8;
  static constexpr int product_registers = (Stencil::product_registers + 7) / 8 * 8;
  static constexpr int producer_registers =
      (first_registers * warps_per_block - product_registers * product_warps) / producer_warps / 8 * 8;
  static_assert(product_registers >= first_registers && first_registers >= producer_registers &&
                    producer_registers >= 24,
                "producer warps leave registers to those that multiply");

  static constexpr int strip_outputs = device::group_columns * 16;
  static constexpr int tile_outputs = 128;  // of eight columns, whose results a warp stores together
  static constexpr int tiles = device::group_columns / 8;

  // Input rows come in groups of four; the last of a step's rows is the last of a group. Of a walk's first
  // group skipped_rows are left out.
  static constexpr int step_groups = (step_rows + rows_at_once - 1) / rows_at_once;
  static constexpr int skipped_rows = step_groups * rows_at_once - step_rows;

  // Chains of leading terms.
  static constexpr int most_chained_rows = Stencil::chained_rows;
  static constexpr int chains = (step_rows + most_chained_rows - 1) / most_chained_rows;

  // An input row in vectors from column first_column of the strip on. Windows of neighbouring columns overlap
  // by half.
  static constexpr int first_column = Stencil::first_column;
  static constexpr int window_vectors = (strip_outputs + 16) / vector_elements;
  static constexpr int window_elements = window_vectors * vector_elements;

  // Shared memory: a ring of input rows as products want them (device::multiply_sparse_group), each term in
  // four parts: beside the rows of a step the four that are prepared for the next one. A step's products that
  // are still under way when the next but one is prepared read the rows of its last chain only.
  static constexpr int part_bytes = device::group_columns * vector_bytes;
  static constexpr int part_count = 4;
  static constexpr int term_bytes = part_count * part_bytes;
  static constexpr int prepared_row_bytes = Storage::terms * term_bytes;
  static constexpr int prepared_rows = step_rows + rows_at_once;
  static_assert((chains - 1) * most_chained_rows >= rows_at_once,
                "the last chain leaves the rows alone that come next");

  // Behind it the remainders of the operands, of all tap rows from the highest, and zeros of three beyond
  // either end.
  static constexpr int most_terms = Stencil::terms;  // of weights
  static constexpr int placed_operands = most_terms > 1 ? tap_rows_apart + 2 * (rows_at_once - 1) : 0;
  static constexpr Shared placed_begin = prepared_rows * prepared_row_bytes;

  // Then what warps tell each other: the range of inputs that each has seen, and which of two groups does not
  // fit.
  static constexpr Shared ranges_begin = placed_begin + placed_operands * device::group_operand_bytes;
  static constexpr Shared overflows_begin = ranges_begin + producer_warps * vector_bytes;

  // And sums that wait for another run.
  static constexpr Shared kept_begin = overflows_begin + 2 * vector_bytes;
  static constexpr int shared_bytes = kept_begin + rows_at_once * strip_outputs * element_bytes;

  /// What a block computes, and of which field.
  struct Strip : Field2d<Element> {
    std::int32_t row, end_row;  ///< of the outputs, from the first to before the end
    std::int32_t first_row;     ///< of the first step: cut alike in every box, as chains begin with steps
    std::int32_t column;        ///< of the first output

    /// That of this block; one without rows where the grid has a block too many.
    SPIDER_DEVICE explicit Strip(const SweepArguments& field) : Field2d<Element>(field) {
      const Walk walk = find_walk(field, device::block_index());
      row = walk.first_row;
      end_row = walk.first_row + walk.rows;
      first_row = row / rows_at_once * rows_at_once;
      column = field.grid.strips.first_column + walk.across * strip_outputs;
    }

    /// Are all rows that the outputs read in the box, and so at their own places and read?
    SPIDER_DEVICE bool has_plain_rows() const {
      constexpr int low = row_low < 0 ? row_low : 0;
      constexpr int high = row_high > 0 ? row_high : 0;
      return row + low >= this->wanted.row_begin && end_row + high <= this->wanted.row_end;
    }

    /// Are all outputs the sweep's?
    SPIDER_DEVICE bool has_plain_outputs() const {
      return column >= this->wanted.column_begin && column + strip_outputs <= this->wanted.column_end;
    }
  };

  /// Where input row `number` is prepared, counted from the first group's first.
  SPIDER_DEVICE static Shared prepared_row(int number) {
    return static_cast<unsigned>(number) % prepared_rows * prepared_row_bytes;
  }

  /// Number of this warp among the producers, its team, and which row of a group is its.
  SPIDER_DEVICE static int producer_warp() { return device::warp_index() - product_warps; }
  SPIDER_DEVICE static int team_of_warp() { return producer_warp() / rows_at_once; }
  SPIDER_DEVICE static int row_of_warp() { return producer_warp() % rows_at_once; }

  /// The field's row that is this warp's of a group.
  SPIDER_DEVICE static std::int32_t row_of_group(const Strip& strip, int group) {
    return strip.first_row + row_low - skipped_rows + group * rows_at_once + row_of_warp();
  }

  /// Is row y one that the strip's outputs may need?
  SPIDER_DEVICE static bool has_input_row(const Strip& strip, std::int32_t y) {
    return y >= strip.row + row_low && y < strip.end_row + row_high;
  }

  /// What a strip's walk must take care of.
  enum class Path {
    interior,   ///< nothing: every vector of every input row is in memory and aligned
    rows,       ///< some rows are not at their own places
    boundary,   ///< the field's edges cut some rows; some outputs may be beyond them
    unaligned,  ///< rows that are not aligned
  };

  // Vectors of an input row are a lane's in turn.
  static constexpr int lane_vectors = (window_vectors + 31) / 32;

  /// Which vector of its row is a lane's number `i`?
  SPIDER_DEVICE static int vector_of_lane(int i) { return 32 * i + device::lane_index(); }

  /// Is it one that comes whole?
  template <Path path>
  SPIDER_DEVICE static bool is_whole(const Span& whole, int vector) {
    constexpr bool all_whole = path == Path::interior || path == Path::rows;
    return all_whole ? vector < window_vectors : whole.holds(vector);
  }

  /// Starts to fetch this warp's row of a group: the whole vectors from wherever it is taken, or its
  /// constant, and zeros where no tap reaches it, for an operand's zero times what lay there could be NaN.
  template <Path path>
  SPIDER_DEVICE static void fetch_row(const Strip& strip, const Span& whole, int group,
                                      Vector (&cells)[lane_vectors]) {
    const std::int32_t y = row_of_group(strip, group);
    RowIndex<Stencil> row{};
    row.index = y;
    bool reached = has_input_row(strip, y);
    if constexpr (path != Path::interior) {
      row = map_row<Stencil>(strip, y);
      reached = reached && row_is_reached<Stencil>(strip, y);
    }
    const bool in_memory = reached && !row.constant;
    const Element* from = strip.input;
    if (in_memory) from += row.index * strip.input_stride + strip.column + first_column;
    const std::uint32_t word = reached ? Storage::repeat(static_cast<Element>(row.value)) : 0;
    const std::uint32_t sign = sign_word<Element>(reached && row.negated);
    SPIDER_UNROLL
    for (int i = 0; i < lane_vectors; ++i) {
      const int vector = vector_of_lane(i);
      const bool wanted = in_memory && is_whole<path>(whole, vector);
      cells[i] = {{word, word, word, word}};
      if (path == Path::unaligned && !strip.aligned_input) {
        if (wanted) cells[i] = load_across(true, from + vector * vector_elements);
      } else {
        device::load_field_vector_if(wanted, from + vector * vector_elements, cells[i]);
      }
      change_signs(cells[i], sign);
    }
  }

  // Cells of a lane beside the whole vectors of a row: each edge has what taps reach beyond it and a part of
  // a vector, and in rows that are not aligned up to another vector.
  static constexpr int cells_beyond = (Stencil::highest_low > 0 ? Stencil::highest_low : 0) -
                                      Stencil::column_reach_low + Stencil::column_reach_high -
                                      (Stencil::lowest_high < 0 ? Stencil::lowest_high : 0);
  static constexpr int edge_cells = (cells_beyond + 2 * vector_elements + 31) / 32;
  static constexpr int unaligned_edge_cells = (cells_beyond + 4 * vector_elements + 31) / 32;

  // One band of tap rows around a result's own place reaches all of them, or none of a row.
  static constexpr bool reaches_alike = Stencil::band_count == 1 && row_low <= 0 && row_high >= 0 &&
                                        Stencil::highest_low <= 0 && Stencil::lowest_high >= 0;

  /// Where a cell of a row, or the first of neighbours, is prepared: in its word of one part, for the column
  /// whose window begins with the 16 cells around it, and once more 12 bytes earlier, for the column before.
  /// (Of the pair swap groups of eight inputs have words 0, 2, 1 and 3.)
  SPIDER_DEVICE static Shared prepared_place(int cell) {
    return cell % 8 / 2 * part_bytes + cell / 16 * vector_bytes + cell % 16 / 8 * 8;
  }
  static constexpr Shared to_column_before = 12;
  SPIDER_DEVICE static bool begins_window(int cell) { return cell < strip_outputs; }
  SPIDER_DEVICE static bool ends_window(int cell) { return cell >= 16; }

  /// What taps reach beside the whole vectors of a row, a lane `cells` of it: where they come from.
  template <int cells>
  class EdgeCells {
   public:
    SPIDER_DEVICE EdgeCells(const Strip& strip, const Span& whole) {
      const std::int32_t left = strip.column + first_column;
      const CellColumns beside = columns_beside({whole.begin * vector_elements, whole.end * vector_elements},
                                                {strip.wanted.column_begin + Stencil::column_reach_low - left,
                                                 strip.wanted.column_end + Stencil::column_reach_high - left},
                                                window_elements);
      SPIDER_UNROLL
      for (int i = 0; i < cells; ++i) {
        const int number = device::lane_index() + 32 * i;
        column_[i] = number < beside.count ? beside.column(number) : none;
        place_[i] = map_column<Stencil>(strip, left + column_[i]);
      }
    }

    /// Starts to fetch those of this warp's row of a group; 0 where no tap reaches one.
    SPIDER_DEVICE void fetch(const Strip& strip, int group, Element (&values)[cells]) const {
      const std::int32_t y = row_of_group(strip, group);
      const RowIndex<Stencil> row = map_row<Stencil>(strip, y);
      const bool wanted = has_input_row(strip, y) && row_is_reached<Stencil>(strip, y);
      SPIDER_UNROLL
      for (int i = 0; i < cells; ++i) {
        const std::int32_t x = strip.column + first_column + column_[i];
        const bool reached =
            wanted && column_[i] != none && (reaches_alike || cell_is_reached<Stencil>(strip, y, x));
        values[i] = fetch_cell(strip, reached, row, place_[i]);
      }
    }

    /// Puts the terms of cell `i`, a half each, into a row that is prepared.
    SPIDER_DEVICE void place(Shared row, int i, std::uint32_t terms) const {
      const bool wanted = column_[i] != none;
      const int cell = wanted ? column_[i] : 0;
      const Shared to = row + prepared_place(cell) + cell % 2 * 2;
      SPIDER_UNROLL
      for (int term = 0; term < Storage::terms; ++term) {
        const auto half = static_cast<std::uint16_t>(terms >> 16 * term);
        device::store_shared_if(wanted && begins_window(cell), to + term * term_bytes, half);
        device::store_shared_if(wanted && ends_window(cell), to + term * term_bytes - to_column_before, half);
      }
    }

   private:
    static constexpr int none = -1;

    int column_[cells];
    ColumnIndex<Stencil> place_[cells];
  };

  /// Empties the ring, for nothing fills what is beyond every tap's reach.
  SPIDER_DEVICE static void clear_prepared() {
    const int thread = device::warp_index() * 32 + device::lane_index();
    SPIDER_NO_UNROLL
    for (int i = thread; i < prepared_rows * prepared_row_bytes / vector_bytes; i += warps_per_block * 32)
      device::store_shared(i * vector_bytes, Vector{});
  }

  /// A barrier of all warps of the block, which makes what they stored to shared memory visible to all.
  SPIDER_DEVICE static void block_barrier() {
    device::publish_shared();
    device::sync_block_from_anywhere<warps_per_block * 32>();
  }

  /// Did a warp flag an overflow in this group? To be asked behind the barrier that completes the group.
  SPIDER_DEVICE static bool has_overflowed(int group) {
    const Vector overflows = device::load_shared(overflows_begin + group % 2 * vector_bytes);
    return (overflows.word[0] | overflows.word[1] | overflows.word[2] | overflows.word[3]) != 0;
  }

  /// A producer warp: a row of each group that is its team's.
  template <Path path>
  class Producer {
   public:
    SPIDER_DEVICE Producer(const Strip& strip, const Span& whole)
        : strip_(strip), whole_(whole), edges_(strip, whole) {}

    /// Tells the others the range of the inputs that a step reads, of those below `ceiling`.
    SPIDER_DEVICE void publish_range(int step, std::uint32_t ceiling) const {
      MagnitudeRange range;
      SPIDER_NO_UNROLL
      for (int group = team_of_warp(); group < step_groups; group += teams) {
        Row fetched;
        fetch(step + group, fetched);
        extend_by(range, fetched, ceiling);
      }
      range = range_of_warp(range);
      const bool tells = device::lane_index() == 0;
      device::store_shared_if(tells, ranges_begin + producer_warp() * vector_bytes,
                              Vector{{range.largest, range.below_smallest, 0, 0}});
    }

    /// Prepares the inputs of a run's steps, a step ahead. Returns the step from which on they do not fit the
    /// scale.
    SPIDER_DEVICE int produce_run(const ScaledRun& run) const {
      const int groups = step_groups - 1 + run.end_step - run.step;
      int next = team_of_warp();  // the team's next group
      bool overflows = false;
      Row inputs;
      fetch(run.step + next, inputs);
      if (next == 0) make_terms(run, inputs, overflows);
      SPIDER_NO_UNROLL
      for (int group = 0; group < groups; ++group) {
        const bool may_overflow = group >= step_groups;
        if (group == next) {
          if (may_overflow) flag_overflow(group, overflows);
          place(run.step + group, inputs);
          next += teams;
          fetch(run.step + next, inputs);
        } else if (group + 1 == next) {
          make_terms(run, inputs, overflows);
        }
        if (group < step_groups - 1) continue;
        block_barrier();
        if (may_overflow && has_overflowed(group)) return run.step + group - step_groups + 1;
      }
      return run.end_step;
    }

   private:
    static constexpr bool has_edges = path == Path::boundary || path == Path::unaligned;
    static constexpr int cells_at_edges = path == Path::unaligned ? unaligned_edge_cells : edge_cells;

    /// What a lane has of a row: vectors, and cells beside them; first inputs, then their terms in the same
    /// registers.
    struct Row {
      Vector cells[lane_vectors];
      Element edges[cells_at_edges];
    };

    SPIDER_DEVICE void fetch(int group, Row& fetched) const {
      fetch_row<path>(strip_, whole_, group, fetched.cells);
      if constexpr (has_edges) edges_.fetch(strip_, group, fetched.edges);
    }

    SPIDER_DEVICE void extend_by(MagnitudeRange& range, const Row& fetched, std::uint32_t ceiling) const {
      SPIDER_UNROLL
      for (int i = 0; i < lane_vectors * 4; ++i) extend(range, fetched.cells[i / 4].word[i % 4], ceiling);
      if constexpr (has_edges) {
        SPIDER_UNROLL
        for (int i = 0; i < cells_at_edges; ++i) extend(range, fetched.edges[i], ceiling);
      }
    }

    /// Do inputs fit the run's scale?
    SPIDER_DEVICE bool fits(const ScaledRun& run, const Row& fetched) const {
      if (run.scale.takes(rough_range(fetched))) return true;
      // Infinities and zeros, which mean nothing for the scale, are looked at more closely.
      MagnitudeRange range;
      extend_by(range, fetched, magnitude_bits + 1);
      return run.scale.takes(range_of_warp(range));
    }

    /// Says whether the warp's row of a group fits.
    SPIDER_DEVICE void flag_overflow(int group, bool overflows) const {
      device::store_shared_if(device::lane_index() == 0,
                              overflows_begin + group % 2 * vector_bytes + row_of_warp() * 4,
                              static_cast<std::uint32_t>(overflows));
    }

    /// The range of all magnitudes, infinities and zeros included.
    SPIDER_DEVICE MagnitudeRange rough_range(const Row& fetched) const {
      float largest = 0;
      float smallest = device::float_of(infinite_bits);
      const auto take = [&](std::uint32_t word) {
        largest = device::larger_magnitude(largest, device::float_of(word));
        smallest = device::smaller_magnitude(smallest, device::float_of(word));
      };
      SPIDER_UNROLL
      for (int i = 0; i < lane_vectors * 4; ++i) {
        if (i / 4 < lane_vectors - 1) take(fetched.cells[i / 4].word[i % 4]);
      }
      // Of the last vectors few lanes have one; others have a zero there.
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t word = fetched.cells[lane_vectors - 1].word[i];
        take(vector_of_lane(lane_vectors - 1) < window_vectors ? word : fetched.cells[0].word[i]);
      }
      if constexpr (has_edges) {
        SPIDER_UNROLL
        for (int i = 0; i < cells_at_edges; ++i) take(fetched.edges[i]);
      }
      const std::uint32_t bits = device::bits_of(smallest);
      return range_of_warp({device::bits_of(largest), bits > 0 ? bits - 1 : 0});
    }

    /// Makes terms of inputs.
    SPIDER_DEVICE void make_terms(const ScaledRun& run, Row& row, bool& overflows) const {
      overflows = !fits(run, row);
      if (run.scale.takes_all()) {
        split<false>(run, row);
      } else {
        split<true>(run, row);
      }
    }
    template <bool filters>
    SPIDER_DEVICE static void split(const ScaledRun& run, Row& row) {
      static_assert(Storage::terms == 2, "as many registers as inputs have");
      SPIDER_UNROLL
      for (int i = 0; i < lane_vectors; ++i) {
        const Terms terms = Storage::template split<filters>(row.cells[i], run.scale);
        row.cells[i] = {{terms.word[0][0], terms.word[0][1], terms.word[1][0], terms.word[1][1]}};
      }
      if constexpr (has_edges) {
        SPIDER_UNROLL
        for (int i = 0; i < cells_at_edges; ++i) {
          const Terms terms = Storage::template split<filters>(Vector{{row.edges[i], 0, 0, 0}}, run.scale);
          row.edges[i] = (terms.word[0][0] & 0xffffU) | terms.word[1][0] << 16;
        }
      }
    }

    /// Places the terms of this warp's row of a group for products: in part i of a term the column n has of
    /// each of the four groups of eight inputs of its window word i, in the order of the pair swap.
    SPIDER_DEVICE void place(int group, const Row& terms) const {
      const Shared row = prepared_row(group * rows_at_once + row_of_warp());
      const Shared to = row + prepared_place(device::lane_index() * vector_elements);
      // Each word goes to two columns. Half of the lanes begin with the second: 32 words of one store lie in
      // 32 banks.
      const bool turned = device::lane_index() % 2 == 1;
      SPIDER_UNROLL
      for (int i = 0; i < lane_vectors; ++i) {
        const int vector = vector_of_lane(i);
        const bool whole = is_whole<path>(whole_, vector);
        const bool begins = whole && begins_window(vector * vector_elements);
        const bool ends = whole && ends_window(vector * vector_elements);
        const Shared place = to + i * 32 * vector_elements;
        SPIDER_UNROLL
        for (int word = 0; word < 4; ++word) {
          const Shared at = place + word / 2 * term_bytes + word % 2 * part_bytes;
          const std::uint32_t pair = terms.cells[i].word[word];
          device::store_shared_if(turned ? ends : begins, at - (turned ? to_column_before : 0), pair);
          device::store_shared_if(turned ? begins : ends, at - (turned ? 0 : to_column_before), pair);
        }
      }
      if constexpr (has_edges) {
        SPIDER_UNROLL
        for (int i = 0; i < cells_at_edges; ++i) edges_.place(row, i, terms.edges[i]);
      }
    }

    const Strip& strip_;
    const Span& whole_;
    EdgeCells<cells_at_edges> edges_;
  };

  /// What this warp multiplies the input rows of a step with, from the lowest: leading terms in registers.
  class WarpOperands {
   public:
    SPIDER_DEVICE WarpOperands() {
      const int lane = device::lane_index();
      SPIDER_UNROLL
      for (int row = 0; row < step_rows; ++row) {
        const int tap_row = row - device::warp_index();
        matrix_[row] = operand_of(tap_row, 0, lane);
        SPIDER_UNROLL
        for (int term = 0; term < most_terms; ++term) {
          const RowOperand& used = Stencil::row_operand(has_tap_row(tap_row) ? tap_row : 0, term);
          // Lanes 0 and 1 of four tell what selector 0 means.
          const int teller = lane / 4 * 4 + lane % 2 + 2 * used.selector;
          metadata_[metadata_is_one ? 0 : row][metadata_is_one ? 0 : term] = device::load_table(
              Stencil::metadata(metadata_is_one ? 0 : used.metadata, metadata_is_one ? lane : teller));
        }
      }
      SPIDER_UNROLL
      for (int row = 0; row < Stencil::held_remainders; ++row)
        remainder_[row] = operand_of(row - device::warp_index(), most_terms - 1, lane);
      SPIDER_NO_UNROLL
      for (int i = device::warp_index(); i < placed_operands; i += product_warps) {
        const int tap_row = tap_rows_apart + rows_at_once - 2 - i;
        device::place_group_operand(placed_begin + i * device::group_operand_bytes, lane,
                                    operand_of(tap_row, most_terms - 1, lane));
      }
    }

    /// Starts the products of a step's row of leading terms with leading weights.
    SPIDER_DEVICE void multiply(device::GroupSums& sums, int row, Shared inputs, bool adds) const {
      Storage::multiply_group(sums, matrix_[row], inputs, part_bytes, metadata(row, 0), adds);
    }

    /// Starts those of the row's leading terms with the weights' remainders.
    SPIDER_DEVICE void multiply_remainders(device::GroupSums& sums, int row, Shared inputs) const {
      if (row < Stencil::held_remainders) {
        Storage::multiply_group(sums, remainder_[row], inputs, part_bytes, metadata(row, most_terms - 1),
                                true);
      } else {
        const Shared placed = placed_begin + (step_rows - 1 - row) * device::group_operand_bytes;
        device::multiply_sparse_group_placed(sums, placed, inputs, part_bytes, metadata(row, most_terms - 1));
      }
    }

   private:
    static constexpr bool metadata_is_one = Stencil::metadata_is_one;

    SPIDER_DEVICE static bool has_tap_row(int tap_row) { return tap_row >= 0 && tap_row < tap_rows_apart; }
    SPIDER_DEVICE static Vector operand_of(int tap_row, int term, int lane) {
      const int operand =
          has_tap_row(tap_row) ? Stencil::row_operand(has_tap_row(tap_row) ? tap_row : 0, term).operand : -1;
      Vector matrix{};
      if (operand >= 0) matrix = device::load_table(Stencil::operand(operand, lane));
      return matrix;
    }
    SPIDER_DEVICE std::uint32_t metadata(int row, int term) const {
      return metadata_[metadata_is_one ? 0 : row][metadata_is_one ? 0 : term];
    }

    Vector matrix_[step_rows];
    Vector remainder_[Stencil::held_remainders > 0 ? Stencil::held_remainders : 1];
    std::uint32_t metadata_[metadata_is_one ? 1 : step_rows][metadata_is_one ? 1 : most_terms];
  };

  /// Where a lane keeps the sums of a tile for the run that adds the rest.
  SPIDER_DEVICE static Shared kept_place(int tile) {
    const int thread = device::warp_index() * 32 + device::lane_index();
    return kept_begin + (tile * product_warps * 32 + thread) * vector_bytes;
  }

  SPIDER_DEVICE static void keep(const device::GroupSums& sums) {
    SPIDER_UNROLL
    for (int tile = 0; tile < tiles; ++tile) {
      Vector kept;
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) kept.word[i] = device::bits_of(sums[tile].value[i]);
      device::store_shared(kept_place(tile), kept);
    }
  }

  SPIDER_DEVICE static void add_kept(device::GroupSums& sums) {
    SPIDER_UNROLL
    for (int tile = 0; tile < tiles; ++tile) {
      const Vector kept = device::load_shared(kept_place(tile));
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) sums[tile].value[i] += device::float_of(kept.word[i]);
    }
  }

  /// Stores the sums of a step: this warp's row of outputs.
  SPIDER_DEVICE static void store_row(const Strip& strip, int step, bool stores_all,
                                      const device::GroupSums& sums) {
    const std::int32_t y = strip.first_row + step * rows_at_once + device::warp_index();
    const std::int32_t x = strip.column + Storage::first_output(device::lane_index());
    Element* to = strip.output + (y * strip.output_stride + x);
    SPIDER_UNROLL
    for (int tile = 0; tile < tiles; ++tile) {
      const Outputs outputs = finish_outputs<Stencil>(TileSums<Stencil>{{sums[tile]}});
      if (y < strip.row || y >= strip.end_row) continue;
      if (stores_all) {
        store_outputs<Storage>(to + tile * tile_outputs, outputs);
      } else {
        store_clipped<Storage>(to + tile * tile_outputs, outputs, columns_of(strip.wanted),
                               x + tile * tile_outputs, strip.aligned_output);
      }
    }
  }

  /// Multiplies the inputs of a run's steps. A chain of leading terms is added to the sums, rounded to
  /// nearest, while the tensor cores work at the remainders of the same rows; what a step gave is stored
  /// during the next one. Returns the step from which on inputs do not fit the scale.
  template <bool always_stores_all>
  SPIDER_DEVICE static int multiply_run(const Strip& strip, const ScaledRun& run, bool stores_all,
                                        const WarpOperands& operands) {
    const float unit = run.scale.unit() * Stencil::product_unit;
    device::GroupSums leading = {};
    device::GroupSums remainders = {};
    device::GroupSums sums = {};
    device::GroupSums complete = {};
    const auto finish = [&]() {
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) {
        SPIDER_UNROLL
        for (int i = 0; i < 4; ++i)
          complete[tile].value[i] = Storage::join(sums[tile].value[i], remainders[tile].value[i], unit);
      }
    };
    int first_place = static_cast<unsigned>(run.step * rows_at_once + skipped_rows) % prepared_rows;
    int step = run.step;
    block_barrier();
    SPIDER_NO_UNROLL
    for (;;) {
      const std::int32_t last_y = strip.first_row + (step - 1) * rows_at_once + device::warp_index();
      const bool has_last_row = step > run.step && last_y >= strip.row && last_y < strip.end_row;
      Element* last_row = strip.output + last_y * strip.output_stride + strip.column +
                          Storage::first_output(device::lane_index());
      SPIDER_UNROLL
      for (int chain = 0; chain < chains; ++chain) {
        const int begin = chain * most_chained_rows;
        const int end = begin + most_chained_rows < step_rows ? begin + most_chained_rows : step_rows;
        const auto inputs_of = [&](int row) -> Shared {
          const int place = first_place + row;
          return (place < prepared_rows ? place : place - prepared_rows) * prepared_row_bytes;
        };
        device::open_group();
        SPIDER_UNROLL
        for (int row = begin; row < end; ++row) operands.multiply(leading, row, inputs_of(row), row > begin);
        device::close_group();
        if (chain == 0) {
          device::wait_for_group<1>(remainders);  // they are complete; ptxas would wait for all
          finish();
        }
        device::open_group();
        SPIDER_UNROLL
        for (int row = begin; row < end; ++row) {
          operands.multiply(remainders, row, inputs_of(row) + term_bytes, row > 0);
          if constexpr (most_terms > 1) operands.multiply_remainders(remainders, row, inputs_of(row));
          if (chain > 0 || !always_stores_all) continue;
          // Between products, which wait for each other, stores take no time of their own.
          SPIDER_UNROLL
          for (int tile = row * tiles / end; tile < (row + 1) * tiles / end; ++tile) {
            store_outputs_if<Storage>(has_last_row, last_row + tile * tile_outputs,
                                      finish_outputs<Stencil>(TileSums<Stencil>{{complete[tile]}}));
          }
        }
        device::close_group();
        if (chain == 0 && !always_stores_all && step > run.step)
          store_row(strip, step - 1, stores_all, complete);
        device::wait_for_group<1>(leading);
        SPIDER_UNROLL
        for (int tile = 0; tile < tiles; ++tile) {
          SPIDER_UNROLL
          for (int i = 0; i < 4; ++i) {
            sums[tile].value[i] =
                chain == 0 ? leading[tile].value[i] : sums[tile].value[i] + leading[tile].value[i];
          }
        }
      }
      ++step;
      if (step == run.end_step) break;
      first_place += rows_at_once;
      if (first_place >= prepared_rows) first_place -= prepared_rows;
      block_barrier();
      // Behind the barrier: the products of the last chain take longer than it.
      device::wait_for_group<0>(remainders);
      if (has_overflowed(step_groups - 1 + step - run.step)) break;
    }
    device::wait_for_group<0>(remainders);
    finish();
    if (run.adds) add_kept(complete);
    if (run.keeps) {
      keep(complete);
    } else {
      store_row(strip, step - 1, stores_all, complete);
    }
    return step;
  }

  /// The range of the inputs of a step, as the producer warps published it.
  SPIDER_DEVICE static MagnitudeRange published_range() {
    MagnitudeRange range;
    SPIDER_UNROLL
    for (int i = 0; i < producer_warps; ++i) {
      const Vector told = device::load_shared(ranges_begin + i * vector_bytes);
      range.largest = told.word[0] > range.largest ? told.word[0] : range.largest;
      range.below_smallest = told.word[1] < range.below_smallest ? told.word[1] : range.below_smallest;
    }
    return range;
  }

  /// Walks down a strip, four rows a step.
  template <Path path>
  SPIDER_DEVICE static void walk_down(const Strip& strip, const Span& whole) {
    constexpr bool has_edges = path == Path::boundary || path == Path::unaligned;
    const bool stores_all = !has_edges || (strip.aligned_output && strip.has_plain_outputs());
    if constexpr (has_edges) {
      clear_prepared();
      block_barrier();
    }
    RunSchedule schedule((strip.end_row - strip.first_row + rows_at_once - 1) / rows_at_once);
    if (device::warp_index() < product_warps) {
      device::take_registers<product_registers>();
      const WarpOperands loaded;
      SPIDER_NO_UNROLL
      while (!schedule.is_complete()) {
        block_barrier();
        const ScaledRun run = schedule.begin(published_range());
        schedule.end(run, multiply_run<!has_edges>(strip, run, stores_all, loaded));
      }
    } else {
      device::leave_registers<producer_registers>();
      const Producer<path> producer(strip, whole);
      SPIDER_NO_UNROLL
      while (!schedule.is_complete()) {
        producer.publish_range(schedule.step(), schedule.ceiling());
        block_barrier();
        const ScaledRun run = schedule.begin(published_range());
        schedule.end(run, producer.produce_run(run));
      }
    }
  }
};

/// Boxes are cut into strips that blocks walk down.
template <class Stencil>
constexpr SweepForm split2d_form() {
  using Kernel = Split2d<Stencil>;
  SweepForm form =
      strips_form<Stencil>(sweep_split2d<Stencil>, Kernel::warps_per_block, Kernel::warps_per_block,
                           Kernel::shared_bytes, Kernel::strip_outputs, Kernel::window_elements);
  form.tiling.edge_percent = 80;
  return form;
}

}  // namespace device_3
}  // namespace spider
