/// 2D stencils whose weights are a sum of few products of a list along y and a list along x, as Gaussians'
/// are, on CUDA cores: a pass along x and a pass along y for each of `rank` pairs of lists.
///
/// The warps of a block share a strip and a ring of groups of rows in shared memory. A lane has neighbouring
/// columns and walks down y: pass x adds a row up around each of them, pass y adds what that makes to the
/// sums of all output rows that it reaches, which stay in registers. Each row moves the sums on by one: a
/// multiply-add has its result in another register than its sum, so that this takes no instruction, and the
/// loop is one row long. A loop of more rows, whose warps are at different places of it, would wait for the
/// instruction cache: with eight rows a turn an H200 took half as long again. Several sums that an update
/// takes are complete with the same row; those whose lists end before it move on without a product.
///
/// A `Stencil` has, beside what spider/field/field2d.h wants, as static members:
/// - Cells: of spider/values/cells.h, for cells of 4 or 8 bytes;
/// - row_low, row_high: lowest and highest dy; highest_low, lowest_high: lowest and highest dx, the same of
///   all tap rows;
/// - rank: pairs of lists; along_x[rank], along_y[rank]: their weights, ascending, of all offsets; of several
///   sums sum_count and tap_sums[rank]: whose each pair is, in turn;
/// - outputs: neighbouring columns of a lane, 8 or 16 bytes;
/// - first_column: of a strip's inputs, from its first output, a multiple of a vector;
/// - warps_per_block; group_rows, ring_groups; blocks_per_multiprocessor.
#pragma once

#include <spider/field/field2d.h>
#include <spider/kernel.h>
#include <spider/loads/row_groups.h>
#include <spider/machine/instructions.h>
#include <spider/sums/cores.h>
#include <spider/sums/point_inputs.h>
#include <spider/sums/update.h>
#include <spider/values/cells.h>
#include <spider/values/words.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace spider {
inline namespace device_4 {

template <class Stencil, RowAlignment row_starts>
struct Passes2d;

template <class Stencil, RowAlignment row_starts>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_passes2d(SPIDER_GRID_CONSTANT const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  walk_pieces<Passes2d<Stencil, row_starts>>(field);
}

template <class Stencil, RowAlignment row_starts>
struct Passes2d {
  static constexpr RowAlignment starts = row_starts;
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;
  using Word = typename Cells::Word;
  using Shared = device::Shared;
  static_assert(Cells::per_word == 1, "a cell is a word");

  static constexpr int rank = Stencil::rank;
  static constexpr int outputs = Stencil::outputs;
  static constexpr int x_low = Stencil::highest_low;
  static constexpr int x_count = Stencil::lowest_high - x_low + 1;
  static constexpr int y_count = Stencil::row_high - Stencil::row_low + 1;
  static constexpr int vector_elements = 16 / Cells::element_bytes;
  static_assert(x_low == Stencil::column_reach_low && Stencil::lowest_high == Stencil::column_reach_high,
                "all tap rows reach as far");

  struct Layout {
    using Cells = typename Stencil::Cells;
    static constexpr int group_rows = Stencil::group_rows;
    static constexpr int lead_groups = (y_count - 1 + group_rows - 1) / group_rows;
    static constexpr int ring_groups = Stencil::ring_groups;
    static constexpr int warps = Stencil::warps_per_block;
    static constexpr int strip_outputs = warps * 32 * outputs;
    static constexpr int window_columns =
        (strip_outputs + Stencil::lowest_high - Stencil::first_column + vector_elements - 1) /
        vector_elements * vector_elements;
    static constexpr bool exchanges_sectors = false;
    static constexpr bool takes_images = true;
    static constexpr RowAlignment starts = row_starts;
  };
  using Ring = RowGroups<Stencil, Layout>;
  using Strip = typename Ring::Strip;
  static constexpr int group_rows = Layout::group_rows;
  static constexpr int ring_groups = Layout::ring_groups;
  static constexpr bool keeps_piece = false;  ///< as spider/loads/row_groups.h has it

  /// The inputs around a lane's outputs, from column `window_low` on.
  static constexpr int window_low = floor_divide(x_low, outputs) * outputs;
  static constexpr int window_count =
      (outputs - 1 + Stencil::lowest_high - window_low) / outputs * outputs + outputs;
  using Window = Number[window_count];

  /// What pass x makes of a row, by pair of lists.
  using Passed = Number[rank][outputs];

  /// Of the output rows under way, that which is complete last first.
  using Sums = OutputSums<Stencil, outputs>[y_count];

  /// The window of the lane whose cell at `window_low` is at `cells`.
  SPIDER_DEVICE static void load_window(Shared cells, Window& window) {
    constexpr int bytes = outputs * Cells::element_bytes;
    static_assert(bytes == 8 || bytes == 16, "a lane loads pairs of words or vectors");
    using Words = std::conditional_t<bytes == 16, device::Vector, device::Pair>;
    SPIDER_UNROLL
    for (int i = 0; i < window_count; i += outputs) {
      const Shared from = cells + static_cast<Shared>(i * Cells::element_bytes);
      Words words;
      if constexpr (bytes == 16) {
        words = device::load_shared(from);
      } else {
        words = device::load_shared_pair(from);
      }
      SPIDER_UNROLL
      for (int j = 0; j < outputs; ++j) window[i + j] = Cells::number(word_of<Word>(words, j), 0);
    }
  }

  /// Adds the products of weight k of a list along x.
  template <int pair, int k>
  SPIDER_DEVICE static void add_column(const Window& window, Passed& passed) {
    constexpr Number weight = Stencil::along_x[pair][k];
    if constexpr (weight != 0) {
      SPIDER_UNROLL
      for (int i = 0; i < outputs; ++i) {
        passed[pair][i] = device::multiply_add(weight, window[x_low - window_low + k + i], passed[pair][i]);
      }
    }
  }

  /// Pass x of a row.
  template <int... i>
  SPIDER_DEVICE static void pass_along_x(const Window& window, Passed& passed,
                                         std::integer_sequence<int, i...> /*weights*/) {
    (add_column<i / x_count, i % x_count>(window, passed), ...);
  }

  /// Adds the products of weight k of a list along y to a sum, which the first pair of lists moves on.
  template <int pair, int k>
  SPIDER_DEVICE static void add_row(const Passed& passed, Sums& sums) {
    constexpr Number weight = Stencil::along_y[pair][k];
    constexpr int which = SumsOf<Stencil>::of_tap(pair);
    constexpr bool is_first = pair == 0 || SumsOf<Stencil>::of_tap(pair == 0 ? 0 : pair - 1) != which;
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) {
      Number& sum = sums[k][which][i];
      if constexpr (is_first) sum = k == 0 ? 0 : sums[k == 0 ? 0 : k - 1][which][i];
      if constexpr (weight != 0) sum = device::multiply_add(weight, passed[pair][i], sum);
    }
  }

  /// Pass y of a row: the last sums are complete. Those behind come first, whose place the next ones take.
  template <int... i>
  SPIDER_DEVICE static void pass_along_y(const Passed& passed, Sums& sums,
                                         std::integer_sequence<int, i...> /*weights*/) {
    (add_row<i / y_count, y_count - 1 - i % y_count>(passed, sums), ...);
  }

  /// `inside`: nothing but rows beyond the field, or not wanted, asks for care.
  template <bool inside>
  SPIDER_DEVICE static void walk_down(const ArgumentsOf<Stencil>& field, const Strip& strip) {
    if (!inside) Ring::clear_ring();
    SPIDER_NO_UNROLL
    for (int step = 0; step < ring_groups - 1; ++step)
      Ring::template bring_group<inside>(field, strip, step, static_cast<Shared>(step * Ring::group_bytes));

    const int first_output = (device::warp_index() * 32 + device::lane_index()) * outputs;
    const std::int32_t x = strip.column + first_output;
    const auto own =
        Ring::place(0, (first_output + window_low - Stencil::first_column) * Cells::element_bytes);
    const OutputClip clip =
        clip_outputs<outputs>(x, strip.wanted.column_begin, strip.wanted.column_end, strip.aligned_output);
    // An input row completes the output row row_high above it; the first ones belong to the walk above.
    std::int32_t y = strip.first_row - Stencil::row_high;
    const std::int32_t first_wanted = strip.first_row - Stencil::row_low;
    const std::int32_t begin = first_wanted > strip.wanted.row_begin ? first_wanted : strip.wanted.row_begin;
    const std::int32_t last = first_wanted + (strip.steps - Layout::lead_groups) * group_rows;
    const std::int32_t end = last < strip.wanted.row_end ? last : strip.wanted.row_end;
    Element* to = strip.output + ((y - 1) * strip.output_stride + x);

    Sums sums = {};
    int slot = 0;  // of the ring
    SPIDER_NO_UNROLL
    for (int step = 0; step < strip.steps; ++step) {
      device::copy_async_wait<ring_groups - 2>();
      if constexpr (!inside) Ring::settle_group(strip, step, static_cast<Shared>(slot * Ring::group_bytes));
      device::sync_block();
      const auto next = static_cast<Shared>((slot == 0 ? ring_groups - 1 : slot - 1) * Ring::group_bytes);
      Ring::template bring_group<inside>(field, strip, step + ring_groups - 1, next);
      const auto group = static_cast<Shared>(slot * Ring::group_bytes);
      slot = slot + 1 == ring_groups ? 0 : slot + 1;
      if (!inside && strip.cells.count > 0) {
        Ring::fill_cells(strip, strip.first_row + step * group_rows, group);
        device::sync_block();
      }
      const int rows = end - y < group_rows ? end - y : group_rows;
      Shared cells = group + own;
      Window window;
      load_window(cells, window);
      SPIDER_NO_UNROLL
      for (int row = 0; row < rows; ++row) {
        to += strip.output_stride;
        Passed passed = {};
        pass_along_x(window, passed, std::make_integer_sequence<int, rank * x_count>{});
        // The next row is under way while this one is added.
        cells += Ring::row_bytes;
        if (row + 1 < rows) load_window(cells, window);
        pass_along_y(passed, sums, std::make_integer_sequence<int, rank * y_count>{});
        OutputSums<Stencil, outputs>& results = sums[y_count - 1];
        if constexpr (HasUpdate<Stencil>::value) {
          if (y >= begin) {
            const PointPlace place{0, y, x};
            PointInputs<Stencil, outputs> inputs{};
            inputs.load(field, place, inside || clip.whole, clip.single);
            inputs.update(field, place, results);
          }
        }
        store_outputs<Cells, inside>(to, y >= begin, clip, results[0]);
        ++y;
      }
    }
  }
};

/// Boxes are cut into strips, which blocks walk down in groups of rows.
template <class Stencil, RowAlignment row_starts>
constexpr SweepForm passes2d_form() {
  using Kernel = Passes2d<Stencil, row_starts>;
  SweepForm form = strips_form<Stencil>(sweep_passes2d<Stencil, row_starts>, Stencil::warps_per_block,
                                        Stencil::warps_per_block, Kernel::Ring::ring_bytes,
                                        Kernel::Layout::strip_outputs, Kernel::Layout::window_columns);
  form.tiling.row_anchor = Kernel::group_rows;
  form.tiling.output_alignment = Stencil::outputs * Kernel::Cells::element_bytes;
  form.tiling.edge_walk_percent = 78;  // measured on an H200
  form.tiling.balances_tail = true;
  form.needs_aligned_rows = row_starts == RowAlignment::aligned;
  form.tiling.prologue_steps = Kernel::Layout::lead_groups;
  form.takes_images = Kernel::Layout::takes_images;
  return form;
}

}  // namespace device_4
}  // namespace spider
