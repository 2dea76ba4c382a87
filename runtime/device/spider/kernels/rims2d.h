/// Time steps of the cells near faces of a 2D field, next to a form that takes all steps in one sweep.
///
/// A block has a rectangle of a box, and all cells that the steps reach from it as numbers in shared memory.
/// It takes one step after the other, each with fewer cells around the rectangle, alternating between two
/// buffers, and stores the result of the last one. A thread takes `run` vertically adjacent pairs of cells
/// together: they share loads.
///
/// Faces. Outside `halo` and `periodic` faces the field continues, and cells there are stepped like others.
/// Outside the others it ends, and ghost cells are filled after every step.
///
/// A `Stencil` has, as static members:
/// - Cells: of spider/values/cells.h;
/// - steps: time steps;
/// - cells: numbers of a buffer, a multiple of 4;
/// - warps of a block, blocks_per_multiprocessor, run;
/// - row_low, row_high, column_low, column_high: lowest and highest offset of a tap;
/// - weight(dy, dx), and `last`, the factor of results;
/// - row_rules(), column_rules(): the boundary; values are numbers, whatever the cells are.
#pragma once

#include <spider/field/beside_rims.h>
#include <spider/field/boundary.h>
#include <spider/field/boxes.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/steps/stepping.h>
#include <spider/values/cells.h>
#include <spider/values/spans.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

template <class Stencil>
struct Rims2d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps * 32, Stencil::blocks_per_multiprocessor)
sweep_rims2d(const BoxesArguments field) {
  SPIDER_ENTRY;
  device::wait_on_dependency();
  device::launch_dependents();  // the sweep inside the rims (spider/field/beside_rims.h), which touches
                                // fields immediately
  const BoxOfBlock of = find_box(field);
  Rims2d<Stencil>::run_block(field, of.cut, of.block);
}

template <class Stencil>
struct Rims2d {
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;
  using Shared = device::Shared;
  static_assert(sizeof(Number) == 4, "two numbers are a pair of words");
  static constexpr int steps = Stencil::steps;
  static constexpr int threads = 32 * Stencil::warps;
  static constexpr int run = Stencil::run;
  SPIDER_DEVICE static constexpr int larger(int a, int b) { return a > b ? a : b; }
  /// Mirrored taps reach as far on both sides.
  static constexpr int ry = larger(Stencil::row_high, -Stencil::row_low);
  static constexpr int rx = larger(Stencil::column_high, -Stencil::column_low);
  static constexpr auto y_rules = Stencil::row_rules();
  static constexpr auto x_rules = Stencil::column_rules();

  static constexpr int number_bytes = 4;
  static constexpr int side_pairs = (rx + 1) / 2;      ///< that taps reach, left and right of a pair
  static constexpr int side_columns = 2 * side_pairs;  ///< of a buffer, next to its cells
  static constexpr int buffer_bytes = Stencil::cells * number_bytes;
  static constexpr int shared_bytes = 2 * buffer_bytes;

  /// An axis of a block: the cells that it stores, the cells in its buffers, ghost cells included, and those
  /// of them that the sweep may read.
  struct Axis {
    Span stored, loaded;
    FarSpan readable;
    std::int32_t extent;

    SPIDER_DEVICE std::int32_t count() const { return loaded.end - loaded.begin; }
  };

  struct Block {
    Axis rows, columns;
    std::int32_t pitch;  ///< numbers from row to row of a buffer, an even number

    /// Address of a cell in a buffer.
    SPIDER_DEVICE Shared place(int buffer, std::int32_t y, std::int32_t x) const {
      const std::int32_t cell =
          (y - rows.loaded.begin + ry) * pitch + x - columns.loaded.begin + side_columns;
      return static_cast<Shared>(buffer * buffer_bytes + cell * number_bytes);
    }
  };

  /// A rectangle of cells.
  struct Cut {
    Span rows, columns;
  };

  SPIDER_DEVICE static int thread_index() { return 32 * device::warp_index() + device::lane_index(); }

  /// Ends a span at faces outside which the field does not continue.
  template <auto rules>
  SPIDER_DEVICE static Span end_at_faces(Span span, std::int32_t extent) {
    constexpr auto own = rules();
    if (!is_open(own.low) && span.begin < 0) span.begin = 0;
    if (!is_open(own.high) && span.end > extent) span.end = extent;
    return span;
  }

  template <auto rules>
  SPIDER_DEVICE static Axis find_axis(const SweepArguments& f, const Box& box, int axis, std::int32_t tile,
                                      std::int32_t size, int low, int high) {
    const int reach = steps * larger(high, -low);
    const auto end = static_cast<std::int32_t>(box.offset[axis] + box.extent[axis]);
    const std::int32_t begin = static_cast<std::int32_t>(box.offset[axis]) + tile * size;
    Axis found;
    found.extent = static_cast<std::int32_t>(f.extent[axis]);
    found.stored = {begin, size < end - begin ? begin + size : end};
    found.loaded = end_at_faces<rules>({begin - reach, found.stored.end + reach}, found.extent);
    found.readable = find_readable(rules(), {found.stored.begin, found.stored.end}, std::int64_t{steps} * low,
                                   std::int64_t{steps} * high, found.extent);
    return found;
  }

  /// The cells needed when `left` more steps follow.
  SPIDER_DEVICE static Cut find_wanted(const Block& block, int left) {
    const Span& rows = block.rows.stored;
    const Span& columns = block.columns.stored;
    return {
        end_at_faces<Stencil::row_rules>({rows.begin - left * ry, rows.end + left * ry}, block.rows.extent),
        end_at_faces<Stencil::column_rules>({columns.begin - left * rx, columns.end + left * rx},
                                            block.columns.extent)};
  }

  /// The cells that taps reach outside faces and a span lacks, at the low and at the high face.
  template <auto rules>
  SPIDER_DEVICE static Span find_beyond(const Span& span, int radius, std::int32_t extent) {
    constexpr auto own = rules();
    return {!is_open(own.low) && span.begin == 0 ? radius : 0,
            !is_open(own.high) && span.end == extent ? radius : 0};
  }

  /// Fills the ghost cells that taps reach around `cut`, whose cells are complete. Where two faces meet, the
  /// rule of x has precedence.
  SPIDER_DEVICE static void fill_beyond(const Block& block, int buffer, const Cut& cut) {
    const Span& rows = cut.rows;
    const Span& columns = cut.columns;
    const Span ends_y = find_beyond<Stencil::row_rules>(rows, ry, block.rows.extent);
    const Span ends_x = find_beyond<Stencil::column_rules>(columns, rx, block.columns.extent);
    const auto fill = [&](std::int32_t y, std::int32_t x) {
      constexpr auto of_rows = Stencil::row_rules();
      constexpr auto of_columns = Stencil::column_rules();
      const auto row = find_index(of_rows, y, block.rows.extent);
      const auto column = find_index(of_columns, x, block.columns.extent);
      std::uint32_t value = column.constant ? column.value : row.value;
      if (!column.constant && !row.constant) {
        value = device::load_shared_word(block.place(buffer, clamp(row.index, rows.begin, rows.end - 1),
                                                     clamp(column.index, columns.begin, columns.end - 1)));
      }
      device::store_shared(block.place(buffer, y, x), value);
    };
    const std::int32_t first_column = columns.begin - ends_x.begin;
    const std::int32_t width = columns.end + ends_x.end - first_column;
    for (int i = thread_index(); i < (ends_y.begin + ends_y.end) * width; i += threads) {
      const std::int32_t line = i / width;
      const std::int32_t y = line < ends_y.begin ? -1 - line : rows.end + line - ends_y.begin;
      fill(y, first_column + i - line * width);
    }
    const std::int32_t height = rows.end - rows.begin;
    for (int i = thread_index(); i < (ends_x.begin + ends_x.end) * height; i += threads) {
      const std::int32_t line = i / height;
      const std::int32_t x = line < ends_x.begin ? -1 - line : columns.end + line - ends_x.begin;
      fill(rows.begin + i - line * height, x);
    }
  }

  /// Clears both buffers: pairs at the ends of rows include one unneeded cell, and read its neighbours.
  SPIDER_DEVICE static void clear() {
    for (int i = thread_index(); i < shared_bytes / 16; i += threads)
      device::store_shared(static_cast<Shared>(16 * i), device::Vector{});
  }

  /// Loads the block's cells into the first buffer, as numbers; zeros for cells that no tap reads.
  SPIDER_DEVICE static void load_cells(const SweepArguments& f, const Block& block) {
    constexpr int at_once = 8;
    constexpr auto rows = Stencil::row_rules();
    constexpr auto columns = Stencil::column_rules();
    const auto* const input = static_cast<const Element*>(f.input);
    const std::int32_t width = block.columns.count();
    const std::int32_t total = block.rows.count() * width;
    SPIDER_NO_UNROLL
    for (std::int32_t first = thread_index(); first < total; first += at_once * threads) {
      Element cells[at_once];
      Shared places[at_once];
      SPIDER_UNROLL
      for (int i = 0; i < at_once; ++i) {
        const std::int32_t cell = first + i * threads;
        const std::int32_t row = cell / width;
        const std::int32_t y = block.rows.loaded.begin + row;
        const std::int32_t x = block.columns.loaded.begin + cell - row * width;
        const bool wanted = cell < total && block.rows.readable.holds(y) && block.columns.readable.holds(x);
        const std::int64_t from = wrap_index(rows, y, block.rows.extent) * f.input_stride[1] +
                                  wrap_index(columns, x, block.columns.extent);
        cells[i] = device::load_field_if(wanted, input + (wanted ? from : 0), Element{0});
        places[i] = block.place(0, y, x);
      }
      SPIDER_UNROLL
      for (int i = 0; i < at_once; ++i) {
        if (first + i * threads < total)
          device::store_shared(places[i], device::bits_of(Cells::number(cells[i], 0)));
      }
    }
  }

  SPIDER_DEVICE static bool has_weight(int dy, int dx) {
    return dy >= Stencil::row_low && dy <= Stencil::row_high && dx >= Stencil::column_low &&
           dx <= Stencil::column_high && Stencil::weight(dy, dx) != 0;
  }

  /// Adds up `run` vertically adjacent pairs of cells. Rows of `pitch_bytes` begin at `from`, the first one's
  /// left column; rows from `last` on repeat it.
  SPIDER_DEVICE static void add_up(Shared from, Shared pitch_bytes, std::int32_t last,
                                   Number (&sums)[run][2]) {
    SPIDER_UNROLL
    for (auto& pair : sums) pair[0] = pair[1] = Number{0};
    SPIDER_UNROLL
    for (int j = Stencil::row_low; j < run + Stencil::row_high; ++j) {
      const Shared row = from + static_cast<Shared>(j < last ? j : last) * pitch_bytes;
      SPIDER_UNROLL
      for (int pair = -side_pairs; pair <= side_pairs; ++pair) {
        bool is_read = false;
        SPIDER_UNROLL
        for (int i = 0; i < run; ++i) {
          SPIDER_UNROLL
          for (int dx = 2 * pair - 1; dx <= 2 * pair + 1; ++dx) is_read = is_read || has_weight(j - i, dx);
        }
        if (!is_read) continue;
        const device::Pair both = device::load_shared_pair(row + static_cast<Shared>(8 * pair));
        SPIDER_UNROLL
        for (int of_pair = 0; of_pair < 2; ++of_pair) {
          const Number u = device::float_of(both.word[of_pair]);
          SPIDER_UNROLL
          for (int i = 0; i < run; ++i) {
            SPIDER_UNROLL
            for (int c = 0; c < 2; ++c) {
              const int dx = 2 * pair + of_pair - c;
              if (has_weight(j - i, dx))
                sums[i][c] = device::multiply_add(Stencil::weight(j - i, dx), u, sums[i][c]);
            }
          }
        }
      }
    }
  }

  /// Step `step`, from one buffer to the other, or the last one to the field.
  template <bool is_last>
  SPIDER_DEVICE static void take_step(const SweepArguments& f, const Block& block, int step,
                                      const Cut& wanted) {
    const Span& rows = wanted.rows;
    const Span& columns = wanted.columns;
    const auto pitch_bytes = static_cast<Shared>(block.pitch * number_bytes);
    // Pairs begin at even places of a buffer.
    const std::int32_t first = columns.begin - (columns.begin - block.columns.loaded.begin) % 2;
    const std::int32_t pairs = (columns.end - first + 1) / 2;
    const std::int32_t items = pairs * ((rows.end - rows.begin + run - 1) / run);
    auto* const output = static_cast<Element*>(f.output);
    SPIDER_NO_UNROLL
    for (std::int32_t item = thread_index(); item < items; item += threads) {
      const std::int32_t number = item / pairs;
      const std::int32_t y = rows.begin + number * run;
      const std::int32_t x = first + 2 * (item - number * pairs);
      const std::int32_t count = rows.end - y;
      Number sums[run][2];
      add_up(block.place(step % 2, y, x), pitch_bytes, count - 1 + Stencil::row_high, sums);
      SPIDER_UNROLL
      for (int i = 0; i < run; ++i) {
        if constexpr (is_last) {
          SPIDER_UNROLL
          for (int c = 0; c < 2; ++c) {
            const bool is_wanted = i < count && x + c >= columns.begin && x + c < columns.end;
            device::store_field_if(is_wanted, output + (is_wanted ? (y + i) * f.output_stride[1] + x + c : 0),
                                   Cells::cell(Stencil::last * sums[i][c]));
          }
        } else {
          const std::uint64_t both =
              std::uint64_t{device::bits_of(sums[i][1])} << 32U | device::bits_of(sums[i][0]);
          device::store_shared_if(i < count, block.place((step + 1) % 2, y + i, x), both);
        }
      }
    }
  }

  SPIDER_DEVICE static void run_block(const SweepArguments& f, const CutBox& cut, std::int32_t index) {
    const auto across =
        static_cast<std::int32_t>((cut.box.extent[2] + cut.tile_columns - 1) / cut.tile_columns);
    const std::int32_t down = index / across;
    Block block;
    block.rows = find_axis<Stencil::row_rules>(f, cut.box, 1, down, cut.tile_rows, Stencil::row_low,
                                               Stencil::row_high);
    block.columns = find_axis<Stencil::column_rules>(f, cut.box, 2, index - down * across, cut.tile_columns,
                                                     Stencil::column_low, Stencil::column_high);
    block.pitch = (block.columns.count() + 1) / 2 * 2 + 2 * side_columns;
    clear();
    device::sync_block();
    load_cells(f, block);
    device::sync_block();
    fill_beyond(block, 0, {block.rows.loaded, block.columns.loaded});
    SPIDER_NO_UNROLL
    for (int step = 0; step < steps - 1; ++step) {
      device::sync_block();
      const Cut wanted = find_wanted(block, steps - 1 - step);
      take_step<false>(f, block, step, wanted);
      device::sync_block();
      fill_beyond(block, (step + 1) % 2, wanted);
    }
    device::sync_block();
    take_step<true>(f, block, steps - 1, find_wanted(block, 0));
  }
};

/// For the rims of the forms before it.
template <class Stencil>
constexpr SweepForm rims2d_form() {
  using Kernel = Rims2d<Stencil>;
  SweepForm form;
  form.sweep = sweep_rims2d<Stencil>;
  form.tiling.kind = TilingKind::rectangles;
  form.tiling.warps_per_block = Stencil::warps;
  form.tiling.shared_bytes = Kernel::shared_bytes;
  form.tiling.input_alignment = form.tiling.output_alignment = 16;
  form.tiling.tile_extent[1] = 2 * Kernel::ry;
  form.tiling.tile_extent[2] = 2 * Kernel::side_columns + 1;
  form.tiling.tile_cells = Stencil::cells;
  form.tiling.prologue_steps = Stencil::steps * Kernel::ry;
  form.tiling.left_margin = form.tiling.right_margin = Stencil::steps * Kernel::rx;
  form.tiling.anchor = 8;
  form.steps = Stencil::steps;
  form.starts_early = true;
  return form;
}

}  // namespace device_4
}  // namespace spider
