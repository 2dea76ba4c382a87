/// The inputs of a strip of a 2D field that the warps of a block walk down together: groups of rows that
/// asynchronous copies bring into a ring in shared memory, some groups ahead.
///
/// A `Stencil` has the members that spider/field/field2d.h requires, and row_low, row_high: lowest and
/// highest dy; first_column: of the inputs, from a strip's first output, which begins a vector. A `Layout`
/// has, as static members,
/// - Cells: of spider/values/cells.h, or a Storage;
/// - group_rows, ring_groups; lead_groups: groups of inputs that a walk takes besides those of its outputs;
/// - warps: of the block; strip_outputs, window_columns: of a strip, and of its inputs;
/// - takes_images: as the form does;
/// - exchanges_sectors: of each row by its number, so that four rows lie in different banks;
/// - starts: of the field's rows.
#pragma once

#include <spider/field/boundary.h>
#include <spider/field/field2d.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/values/vectors.h>
#include <spider/values/words.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// Where rows of a field begin in memory. Unaligned rows have a form of their own, whose code would cost the
/// other one registers.
enum class RowAlignment {
  aligned,  ///< with a vector of 16 bytes
  any,
};

/// The bits of a cell in shared memory.
template <class Element>
SPIDER_DEVICE Element load_shared_cell(device::Shared from) {
  if constexpr (sizeof(Element) == 2) {
    return device::load_shared_half(from);
  } else if constexpr (sizeof(Element) == 4) {
    return device::load_shared_word(from);
  } else {
    return word_of<Element>(device::load_shared_pair(from), 0);
  }
}

/// Copies the whole vectors of the group of inputs that begins with row y, for the strip from `column` on. A
/// separate function, so that walks that do not call it lose no registers.
template <class Ring>
SPIDER_DEVICE_NOINLINE void load_boundary_rows(const SweepArguments& field, std::int32_t column,
                                               std::int32_t y, device::Shared group) {
  const typename Ring::Window window(field, column);
  Ring::bring_vectors(window, y, group);
}

/// Shared memory for the index of the piece that a block takes next, a word per warp. Kernels whose walks
/// have no register for it store it there (`keeps_piece`): with a spill blocks start later, and 32 binomial
/// steps next to 1.5 took 127 us instead of 124.
constexpr int bytes_of_piece(int warps) {
  return 4 * warps;
}
template <class Kernel>
SPIDER_DEVICE device::Shared piece_place() {
  return static_cast<device::Shared>(Kernel::walk_bytes + 4 * device::warp_index());
}

/// Walks down a block's part of a sweep, one strip after the other, by the `walk_down` of a kernel whose
/// warps share a ring. Strips inside the field need no care for its faces. A kernel that stores the piece has
/// bytes_of_piece() after the `walk_bytes` of shared memory that its walks need.
template <class Kernel, class Arguments>
SPIDER_DEVICE void walk_pieces(const Arguments& field) {
  std::uint32_t piece = 0;
  SPIDER_NO_UNROLL
  do {
    const typename Kernel::Strip strip(field, static_cast<int>(piece));
    if (strip.steps == 0) return;
    if (piece > 0) device::sync_block();  // all warps are done with the ring
    // Looking again costs a block of few steps a tenth of its time.
    const std::uint32_t next = strip.is_last ? 0 : piece + 1;
    if constexpr (Kernel::keeps_piece)
      device::store_shared_if(device::lane_index() == 0, piece_place<Kernel>(), next);
    if constexpr (Kernel::starts == RowAlignment::aligned) {
      if (strip.is_inside()) {
        Kernel::template walk_down<true>(field, strip);
      } else {
        Kernel::template walk_down<false>(field, strip);
      }
    } else {
      Kernel::template walk_down<false>(field, strip);
    }
    piece = next;
    if constexpr (Kernel::keeps_piece) piece = device::load_shared_word(piece_place<Kernel>());
  } while (piece > 0);
}

template <class Stencil, class Layout>
struct RowGroups {
  using Cells = typename Layout::Cells;
  using Element = typename Cells::Element;
  using Shared = device::Shared;
  using Vector = device::Vector;

  static constexpr bool begins_anywhere = Layout::starts == RowAlignment::any;
  static constexpr int element_bytes = Cells::element_bytes;
  static constexpr int vector_bytes = 16;
  static constexpr int vector_elements = vector_bytes / element_bytes;
  static constexpr int line_bytes = 128;
  static constexpr int sector_bytes = 32;
  static constexpr int threads = Layout::warps * 32;
  static constexpr int group_rows = Layout::group_rows;
  static constexpr int strip_outputs = Layout::strip_outputs;

  // A row of the window begins at the same place in its line of 128 bytes as in the field.
  static constexpr int first_column = Stencil::first_column;
  static constexpr int window_columns = Layout::window_columns;
  static constexpr int window_vectors = window_columns / vector_elements;
  static constexpr int window_offset = line_offset<vector_elements>(first_column);
  // Unaligned rows are copied in pieces of at least a word. A row that begins within a word takes one piece
  // more, which waits before the window, or after it if the window begins a line.
  static constexpr bool splits_words = element_bytes < 4;
  static constexpr int piece_bytes = splits_words ? 4 : element_bytes;
  static constexpr int piece_elements = piece_bytes / element_bytes;
  static constexpr int window_pieces = window_columns / piece_elements;
  static constexpr int pieces_of_lane = (window_pieces + 31) / 32;  ///< lines apart
  static_assert(32 * piece_bytes % line_bytes == 0, "pieces of a lane lie alike in their lines");
  static constexpr int window_bytes = window_columns * element_bytes;
  static constexpr int spare_byte = window_offset > 0 ? -piece_bytes : window_bytes;
  static constexpr int spare_bytes = splits_words && window_offset == 0 ? piece_bytes : 0;
  static constexpr int row_bytes =
      (window_offset + window_bytes + spare_bytes + line_bytes - 1) / line_bytes * line_bytes;
  static constexpr int group_bytes = group_rows * row_bytes;
  static constexpr int rows_of_warp = group_rows / Layout::warps;
  static_assert(group_rows % Layout::warps == 0, "warps have as many rows");
  // Vectors of whole lines, and the others.
  static constexpr int line_vectors = line_bytes / vector_bytes;
  static constexpr int left_vectors = vectors_before_line<vector_elements>(first_column);
  static constexpr int inner_vectors = (window_vectors - left_vectors) / line_vectors * line_vectors;
  static constexpr int outer_vectors = window_vectors - inner_vectors;
  static_assert(inner_vectors > 0, "strips are lines");
  static constexpr int ring_groups = Layout::ring_groups;
  static constexpr int ring_bytes = ring_groups * group_bytes;
  static_assert(first_column % vector_elements == 0 && ring_groups > 1, "cells come between two groups");
  static_assert(window_columns % vector_elements == 0, "the window is whole vectors");

  /// Where byte `byte` of a row of the window lies in its group.
  SPIDER_DEVICE static Shared place(int row, int byte) {
    if constexpr (Layout::exchanges_sectors) {
      return static_cast<Shared>(row * row_bytes + ((window_offset + byte) ^ row % 4 * sector_bytes));
    } else {
      return static_cast<Shared>(row * row_bytes + window_offset + byte);
    }
  }

  /// The columns of a strip's inputs. Besides the field's, columns outside a `halo` face are in memory, and
  /// outside a `periodic` one if vectors are whole on the other side.
  struct Window : Field2d<Element> {
    std::int32_t left;   ///< column of the first
    bool wraps = false;  ///< are vectors outside a periodic face those of the other side?
    Span whole;          ///< vectors that are in memory in every row
    CellColumns cells;   ///< other columns that taps reach

    SPIDER_DEVICE Window(const SweepArguments& field, std::int32_t first_output)
        : Field2d<Element>(field, Layout::takes_images ? device::image_index() : 0),
          left(first_output + first_column) {
      constexpr auto rules = Stencil::column_rules();
      if (begins_anywhere) this->aligned_input = false;
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

    /// The column of a row of memory at which a vector begins.
    SPIDER_DEVICE std::int32_t column_of(int vector) const {
      const std::int32_t column = left + vector * vector_elements;
      if (!wraps) return column;
      return column < 0 ? column + this->columns : (column < this->columns ? column : column - this->columns);
    }

    /// True if all columns are in memory, one after the other, in aligned rows.
    SPIDER_DEVICE bool is_plain() const {
      return this->aligned_input && whole.begin == 0 && whole.end == window_vectors &&
             (!wraps || (left >= 0 && left + window_columns <= this->columns));
    }
  };

  /// The walk of a block.
  struct Strip : Window {
    std::int32_t column;     ///< of the first output
    std::int32_t first_row;  ///< of the first group of inputs
    std::int32_t steps;      ///< groups of inputs
    bool is_last;            ///< of the block
    Span plain_rows;         ///< of the field, and reached

    SPIDER_DEVICE Strip(const SweepArguments& field, int piece)
        : Strip(field,
                find_shared_walk<group_rows, Layout::lead_groups>(field, device::block_index(), piece)) {}

    /// True if all columns are in memory, in place, and stored, and all rows aligned.
    SPIDER_DEVICE bool is_inside() const {
      return this->is_plain() && this->aligned_output && column >= this->wanted.column_begin &&
             column + strip_outputs <= this->wanted.column_end;
    }

   private:
    SPIDER_DEVICE Strip(const SweepArguments& field, const Walk& walk)
        : Window(field, field.grid.strips.first_column + walk.across * strip_outputs),
          column(this->left - first_column),
          first_row(walk.first_row * group_rows + Stencil::row_low),
          steps(walk.rows > 0 ? walk.rows + Layout::lead_groups : 0),
          is_last(walk.is_last),
          plain_rows{clamp(this->wanted.row_begin + Stencil::row_low, 0, this->rows),
                     clamp(this->wanted.row_end + Stencil::row_high, 0, this->rows)} {}
  };

  /// Zeroes cells that no copy fills: an operand's zero times stale data could be NaN.
  SPIDER_DEVICE static void clear_ring() {
    SPIDER_NO_UNROLL
    for (int i = device::warp_index() * 32 + device::lane_index(); i < ring_bytes / vector_bytes;
         i += threads)
      device::store_shared(static_cast<Shared>(i * vector_bytes), Vector{});
    device::sync_block();
  }

  /// Starts the copies of the whole vectors of a group whose rows are all in memory, in place. Each warp has
  /// rows, and copies their lines first: eight lanes that begin within a line request more sectors from L2,
  /// in two requests.
  template <bool inside>
  SPIDER_DEVICE static void start_copies(const Strip& strip, std::int32_t y, Shared group) {
    constexpr int rows = rows_of_warp;
    const int first_row = device::warp_index() * rows;
    const int lane = device::lane_index();
    const Element* from = strip.input + (y + first_row) * strip.input_stride;
    if (inside) from += strip.left;
    const auto copy = [&](bool there, int row, int vector) {
      const std::int32_t column = inside ? vector * vector_elements : strip.column_of(vector);
      device::copy_async_if(there && (inside || strip.whole.holds(vector)),
                            group + place(first_row + row, vector * vector_bytes),
                            from + (row * strip.input_stride + column));
    };
    SPIDER_UNROLL
    for (int first = 0; first < rows * inner_vectors; first += 32) {
      if constexpr (inner_vectors % 32 == 0) {
        copy(true, first / inner_vectors, left_vectors + first % inner_vectors + lane);
      } else {
        const int i = first + lane;
        copy(i < rows * inner_vectors, i / inner_vectors, left_vectors + i % inner_vectors);
      }
    }
    if constexpr (outer_vectors > 0) {
      SPIDER_UNROLL
      for (int first = 0; first < rows * outer_vectors; first += 32) {
        const int i = first + lane;
        const int vector = i % outer_vectors;
        copy(i < rows * outer_vectors, i / outer_vectors,
             vector < left_vectors ? vector : inner_vectors + vector);
      }
    }
  }

  /// The pieces of whole vectors.
  SPIDER_DEVICE static Span whole_pieces(const Strip& strip) {
    constexpr int pieces = vector_bytes / piece_bytes;
    return {strip.whole.begin * pieces, strip.whole.end * pieces};
  }

  /// Starts the copies of the whole vectors of a group whose unaligned rows are all in memory, in place. A
  /// row that begins within a word is copied from the cell before: settle_group() moves it.
  SPIDER_DEVICE static void start_copies_of_pieces(const Strip& strip, std::int32_t y, Shared group) {
    const Span pieces = whole_pieces(strip);
    const int lane = device::lane_index();
    const int first_row = device::warp_index() * rows_of_warp;
    const Element* const first = strip.input + ((y + first_row) * strip.input_stride + strip.left);
    const Element* cells = first;
    SPIDER_UNROLL
    for (int n = 0; n < rows_of_warp; ++n) {
      const Element* const from = (is_misaligned(cells) ? cells - 1 : cells) + lane * piece_elements;
      const Shared to = group + place(first_row + n, lane * piece_bytes);
      SPIDER_UNROLL
      for (int i = 0; i < pieces_of_lane; ++i) {
        copy_piece_async_if<piece_bytes>(pieces.holds(32 * i + lane),
                                         to + static_cast<Shared>(32 * i * piece_bytes),
                                         from + 32 * i * piece_elements);
      }
      cells += strip.input_stride;
    }
    if constexpr (splits_words) {  // a lane has the extra piece of one row
      const int n = lane < rows_of_warp ? lane : 0;
      const Element* const of_row = first + n * strip.input_stride;
      copy_piece_async_if<piece_bytes>(
          lane < rows_of_warp && is_misaligned(of_row) && pieces.begin < pieces.end,
          group + place(first_row + n, spare_byte), of_row + (pieces.end * piece_elements - 1));
    }
  }

  /// Moves rows that began within words in a group of start_copies_of_pieces(), once the lanes' copies have
  /// arrived.
  SPIDER_DEVICE static void realign_rows(const Strip& strip, std::int32_t y, Shared group) {
    const Span pieces = whole_pieces(strip);
    const int lane = device::lane_index();
    const int first_row = device::warp_index() * rows_of_warp;
    const Element* cells = strip.input + ((y + first_row) * strip.input_stride + strip.left);
    device::sync_warp();
    SPIDER_UNROLL
    for (int n = 0; n < rows_of_warp; ++n) {
      const bool is_split = is_misaligned(cells);
      cells += strip.input_stride;
      if (!is_split) continue;
      const Shared own = group + place(first_row + n, lane * piece_bytes);
      const Shared next = group + place(first_row + n, (lane + 1) * piece_bytes);
      std::uint32_t moved[pieces_of_lane];
      SPIDER_UNROLL
      for (int i = 0; i < pieces_of_lane; ++i) {
        const int piece = 32 * i + lane;
        const bool is_moved = pieces.holds(piece);
        const auto further = static_cast<Shared>(32 * i * piece_bytes);
        const Shared spare = group + place(first_row + n, spare_byte);
        moved[i] = device::funnel_shift_right(
            device::load_shared_word(is_moved ? own + further : own),
            device::load_shared_word(is_moved && piece + 1 != pieces.end ? next + further : spare), 16);
      }
      device::sync_warp();
      SPIDER_UNROLL
      for (int i = 0; i < pieces_of_lane; ++i) {
        device::store_shared_if(pieces.holds(32 * i + lane), own + static_cast<Shared>(32 * i * piece_bytes),
                                moved[i]);
      }
    }
  }

  /// Copies the whole vectors of a group from where the boundary has their rows; for unaligned rows from the
  /// two vectors of memory that they span.
  SPIDER_DEVICE static void bring_vectors(const Window& window, std::int32_t y, Shared group) {
    SPIDER_NO_UNROLL
    for (int row = device::warp_index(); row < group_rows; row += Layout::warps) {
      const RowIndex<Stencil> index = map_row<Stencil>(window, y + row);
      const bool reached = row_is_reached<Stencil>(window, y + row);
      const bool in_memory = reached && !index.constant;
      const bool copies = in_memory && window.aligned_input && !index.negated;
      const WordOf<Element> word =
          reached && index.constant ? Cells::repeat(static_cast<Element>(index.value)) : 0;
      const Element* from = window.input + (in_memory ? index.index : 0) * window.input_stride;
      SPIDER_UNROLL
      for (int first = 0; first < window_vectors; first += 32) {
        const int vector = first + device::lane_index();
        const bool wanted = window.whole.holds(vector);
        const Element* cells = wanted ? from + window.column_of(vector) : window.input;
        const Shared to = group + place(row, vector * vector_bytes);
        device::copy_async_if(wanted && copies, to, cells);
        Vector across = load_unaligned(wanted && in_memory && !copies, cells);
        if (!in_memory) across = repeat_word(word);
        change_signs(across, sign_word<Element>(index.negated));
        device::store_shared_if(wanted && !copies, to, across);
      }
    }
  }

  /// Fills the cells next to whole vectors: from these, if the boundary's rule maps them to one, or else from
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
        cell = load_shared_cell<Element>(group + place(row, from * element_bytes));
        cell = static_cast<Element>(cell ^ sign_of<Element>(index.negated));
      } else {
        cell = fetch_cell(window, reached, map_row<Stencil>(window, y + row), index);
      }
      device::store_shared(group + place(row, to * element_bytes), cell);
    }
  }

  /// Copies a step's inputs to a group of the ring, as one group of copies.
  template <bool inside>
  SPIDER_DEVICE static void bring_group(const SweepArguments& field, const Strip& strip, int step,
                                        Shared group) {
    const std::int32_t y = strip.first_row + step * group_rows;
    if (step < strip.steps) {
      if (strip.plain_rows.holds(Span{y, y + group_rows})) {
        if constexpr (begins_anywhere) {
          start_copies_of_pieces(strip, y, group);
        } else {
          start_copies<inside>(strip, y, group);
        }
      } else {
        load_boundary_rows<RowGroups>(field, strip.column, y, group);
      }
    }
    device::copy_async_commit();
  }

  /// Completes the rows of a step's inputs whose copies have arrived.
  SPIDER_DEVICE static void settle_group(const Strip& strip, int step, Shared group) {
    const std::int32_t y = strip.first_row + step * group_rows;
    if (begins_anywhere && splits_words && strip.plain_rows.holds(Span{y, y + group_rows}))
      realign_rows(strip, y, group);
  }
};

}  // namespace device_4
}  // namespace spider
