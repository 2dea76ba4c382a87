/// Time steps of those cells of a 2D field that lie near faces, beside a form that takes all steps at once.
///
/// A block has a rectangle of a box, and all cells that the steps reach from it as numbers in shared memory.
/// It takes one step after the other, each of fewer cells around the rectangle, to and fro between two
/// buffers, and stores what the last one leaves. A thread takes `run` cells below each other at once: they
/// share what they load.
///
/// Faces. Beyond `halo` and `periodic` ones the field goes on, and cells there are stepped like others.
/// Beyond the others it ends: tables say in which row and column of a buffer a tap finds its value, at every
/// step, and constants have a row or column of their own around the others.
///
/// A `Stencil` has, as static members:
/// - Cells: of spider/cells.h;
/// - steps: time steps;
/// - cells: numbers of a buffer; most_lines: its rows at most, and its columns;
/// - warps of a block, blocks_per_multiprocessor, run;
/// - row_low, row_high, column_low, column_high: lowest and highest offset of a tap;
/// - weight(dy, dx), and `last`, which results are multiplied by;
/// - row_rules(), column_rules(): the boundary; values are numbers, whatever the cells are.
#pragma once

#include <spider/boundary.h>
#include <spider/cells.h>
#include <spider/instructions.h>
#include <spider/kernel.h>
#include <spider/spans.h>
#include <spider/stepping.h>

#include <cstdint>

namespace spider {
inline namespace device_1 {

template <class Stencil>
struct Rims2d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps * 32, Stencil::blocks_per_multiprocessor)
sweep_rims2d(const BoxesArguments field) {
  device::launch_dependents();
  const std::int32_t block = device::block_index();
  CutBox cut = field.boxes[0];
  std::int32_t first = 0;
  SPIDER_UNROLL
  for (int i = 1; i < most_boxes; ++i) {
    const std::int32_t behind = field.boxes[i - 1].end_block;
    if (block < behind) break;
    cut = field.boxes[i];
    first = behind;
  }
  Rims2d<Stencil>::run_block(field, cut, block - first);
}

template <class Stencil>
struct Rims2d {
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;
  using Numbers = NumberCells<Cells>;
  static constexpr int steps = Stencil::steps;
  static constexpr int threads = 32 * Stencil::warps;
  static constexpr int run = Stencil::run;
  SPIDER_DEVICE static constexpr int larger(int a, int b) { return a > b ? a : b; }
  /// Faces turn taps round, so that they reach as far to both sides.
  static constexpr int ry = larger(Stencil::row_high, -Stencil::row_low);
  static constexpr int rx = larger(Stencil::column_high, -Stencil::column_low);
  static constexpr auto y_rules = Stencil::row_rules();
  static constexpr auto x_rules = Stencil::column_rules();

  static constexpr int number_bytes = Numbers::element_bytes;
  static constexpr int buffer_bytes = Stencil::cells * number_bytes;
  static constexpr int row_table = 2 * buffer_bytes;  ///< where rows begin in a buffer
  static constexpr int column_table = row_table + 4 * (Stencil::most_lines + 2 * ry);
  static constexpr int shared_bytes = column_table + 4 * (Stencil::most_lines + 2 * rx);

  /// An axis of a block: the cells that it stores, those of the field and beyond its faces that it holds, of
  /// which a buffer has one line each behind its first one, and those of them that the sweep may read.
  struct Axis {
    Span stored, held;
    FarSpan readable;
    std::int32_t extent;

    SPIDER_DEVICE std::int32_t count() const { return held.end - held.begin; }
  };

  struct Block {
    Axis rows, columns;
    std::int32_t pitch;  ///< cells from row to row of a buffer
  };

  template <auto rules>
  SPIDER_DEVICE static Axis find_axis(const SweepArguments& f, const Box& box, int axis, std::int32_t tile,
                                      std::int32_t size, int low, int high) {
    constexpr auto own = rules();
    const int reach = steps * larger(high, -low);
    const auto end = static_cast<std::int32_t>(box.offset[axis] + box.extent[axis]);
    Axis found;
    found.extent = static_cast<std::int32_t>(f.extent[axis]);
    const std::int32_t begin = static_cast<std::int32_t>(box.offset[axis]) + tile * size;
    found.stored = {begin, size < end - begin ? begin + size : end};
    found.held = {found.stored.begin - reach, found.stored.end + reach};
    if (!goes_on(own.low) && found.held.begin < 0) found.held.begin = 0;
    if (!goes_on(own.high) && found.held.end > found.extent) found.held.end = found.extent;
    found.readable = find_readable(own, {found.stored.begin, found.stored.end}, std::int64_t{steps} * low,
                                   std::int64_t{steps} * high, found.extent);
    return found;
  }

  /// The cells whose step is taken when `left` more come behind it.
  template <auto rules>
  SPIDER_DEVICE static Span find_wanted(const Axis& axis, int reach) {
    constexpr auto own = rules();
    Span wanted{axis.stored.begin - reach, axis.stored.end + reach};
    if (!goes_on(own.low) && wanted.begin < 0) wanted.begin = 0;
    if (!goes_on(own.high) && wanted.end > axis.extent) wanted.end = axis.extent;
    return wanted;
  }

  /// Fills an axis's table: of the cells held and `radius` more on each side, the bytes to their line.
  template <auto rules>
  SPIDER_DEVICE static void fill_table(const Axis& axis, int radius, int table, std::int32_t line_bytes) {
    constexpr auto own = rules();
    const std::int32_t count = axis.count();
    for (int k = thread_index(); k < count + 2 * radius; k += threads) {
      const auto found = find_index(own, axis.held.begin - radius + k, axis.extent);
      std::int32_t line = clamp(found.index - axis.held.begin, 0, count - 1) + 1;
      if (found.constant) line = found.index < 0 ? 0 : count + 1;
      device::store_shared(static_cast<device::Shared>(table + 4 * k),
                           static_cast<std::uint32_t>(line * line_bytes));
    }
  }

  SPIDER_DEVICE static int thread_index() { return 32 * device::warp_index() + device::lane_index(); }

  SPIDER_DEVICE static void keep(int buffer, std::int32_t cell, typename Numbers::Element number) {
    device::store_shared(static_cast<device::Shared>(buffer * buffer_bytes + cell * number_bytes), number);
  }

  /// Constants around the cells of both buffers: where two faces meet, those along x.
  SPIDER_DEVICE static void keep_constants(const Block& block) {
    const std::int32_t rows = block.rows.count() + 2;
    const std::int32_t columns = block.columns.count() + 2;
    const auto keep_row = [&](std::int32_t row, typename Numbers::Element value) {
      for (int i = thread_index(); i < 2 * columns; i += threads) {
        const int buffer = i < columns ? 0 : 1;
        const std::int32_t column = i - buffer * columns;
        const bool is_other = (column == 0 && x_rules.low == FaceRule::constant) ||
                              (column == columns - 1 && x_rules.high == FaceRule::constant);
        if (!is_other) keep(buffer, row * block.pitch + column, value);
      }
    };
    const auto keep_column = [&](std::int32_t column, typename Numbers::Element value) {
      for (int i = thread_index(); i < 2 * rows; i += threads) {
        const int buffer = i < rows ? 0 : 1;
        keep(buffer, (i - buffer * rows) * block.pitch + column, value);
      }
    };
    if constexpr (y_rules.low == FaceRule::constant) keep_row(0, y_rules.low_value);
    if constexpr (y_rules.high == FaceRule::constant) keep_row(rows - 1, y_rules.high_value);
    if constexpr (x_rules.low == FaceRule::constant) keep_column(0, x_rules.low_value);
    if constexpr (x_rules.high == FaceRule::constant) keep_column(columns - 1, x_rules.high_value);
  }

  /// Brings the cells held into the first buffer, as numbers; zeros for those that no tap reads.
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
      std::int32_t places[at_once];
      SPIDER_UNROLL
      for (int i = 0; i < at_once; ++i) {
        const std::int32_t cell = first + i * threads;
        const std::int32_t row = cell / width;
        const std::int32_t column = cell - row * width;
        const std::int32_t y = block.rows.held.begin + row;
        const std::int32_t x = block.columns.held.begin + column;
        const bool wanted = cell < total && block.rows.readable.holds(y) && block.columns.readable.holds(x);
        const std::int64_t from = wrap_index(rows, y, block.rows.extent) * f.input_stride[1] +
                                  wrap_index(columns, x, block.columns.extent);
        cells[i] = device::load_field_if(wanted, input + (wanted ? from : 0), Element{0});
        places[i] = (row + 1) * block.pitch + column + 1;
      }
      SPIDER_UNROLL
      for (int i = 0; i < at_once; ++i) {
        if (first + i * threads < total) keep(0, places[i], device::bits_of(Cells::number(cells[i], 0)));
      }
    }
  }

  SPIDER_DEVICE static bool has_weight(int dy, int dx) {
    return dy >= Stencil::row_low && dy <= Stencil::row_high && Stencil::weight(dy, dx) != 0;
  }

  /// Adds up `run` cells from row `y` on, of which those of rows before `end_row` count.
  SPIDER_DEVICE static void add_up(const Block& block, int buffer, std::int32_t y, std::int32_t x,
                                   std::int32_t end_row, Number (&sums)[run]) {
    device::Shared columns[2 * rx + 1];
    SPIDER_UNROLL
    for (int dx = Stencil::column_low; dx <= Stencil::column_high; ++dx) {
      const std::int32_t entry = x + dx - block.columns.held.begin + rx;
      columns[dx + rx] = static_cast<device::Shared>(buffer * buffer_bytes) +
                         device::load_shared_word(static_cast<device::Shared>(column_table + 4 * entry));
    }
    SPIDER_UNROLL
    for (int i = 0; i < run; ++i) sums[i] = Number{0};
    SPIDER_UNROLL
    for (int j = Stencil::row_low; j < run + Stencil::row_high; ++j) {
      const std::int32_t row = y + j < end_row + Stencil::row_high ? y + j : end_row + Stencil::row_high - 1;
      const std::int32_t entry = row - block.rows.held.begin + ry;
      const device::Shared place =
          device::load_shared_word(static_cast<device::Shared>(row_table + 4 * entry));
      SPIDER_UNROLL
      for (int dx = Stencil::column_low; dx <= Stencil::column_high; ++dx) {
        bool is_read = false;
        SPIDER_UNROLL
        for (int i = 0; i < run; ++i) is_read = is_read || has_weight(j - i, dx);
        if (!is_read) continue;
        const Number u = load_number<Numbers>(place + columns[dx + rx]);
        SPIDER_UNROLL
        for (int i = 0; i < run; ++i) {
          if (has_weight(j - i, dx)) sums[i] = device::multiply_add(Stencil::weight(j - i, dx), u, sums[i]);
        }
      }
    }
  }

  /// Step `step`, from one buffer to the other, or the last one to the field.
  template <bool is_last>
  SPIDER_DEVICE static void take_step(const SweepArguments& f, const Block& block, int step) {
    constexpr auto number_bits = [](Number number) { return device::bits_of(number); };
    const int left = steps - 1 - step;
    const Span rows = find_wanted<Stencil::row_rules>(block.rows, left * ry);
    const Span columns = find_wanted<Stencil::column_rules>(block.columns, left * rx);
    const std::int32_t width = columns.end - columns.begin;
    const std::int32_t items = width * ((rows.end - rows.begin + run - 1) / run);
    auto* const output = static_cast<Element*>(f.output);
    SPIDER_NO_UNROLL
    for (std::int32_t item = thread_index(); item < items; item += threads) {
      const std::int32_t number = item / width;
      const std::int32_t y = rows.begin + number * run;
      const std::int32_t x = columns.begin + item - number * width;
      Number sums[run];
      add_up(block, step % 2, y, x, rows.end, sums);
      std::int32_t cell = (y - block.rows.held.begin + 1) * block.pitch + x - block.columns.held.begin + 1;
      SPIDER_UNROLL
      for (int i = 0; i < run; ++i) {
        if (y + i >= rows.end) break;
        if constexpr (is_last) {
          device::store_field(output + (y + i) * f.output_stride[1] + x,
                              Cells::cell(Stencil::last * sums[i]));
        } else {
          keep((step + 1) % 2, cell, number_bits(sums[i]));
          cell += block.pitch;
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
    block.pitch = block.columns.count() + 2;
    fill_table<Stencil::row_rules>(block.rows, ry, row_table, block.pitch * number_bytes);
    fill_table<Stencil::column_rules>(block.columns, rx, column_table, number_bytes);
    keep_constants(block);
    device::wait_on_dependency();
    load_cells(f, block);
    device::sync_block();
    SPIDER_NO_UNROLL
    for (int step = 0; step < steps - 1; ++step) {
      take_step<false>(f, block, step);
      device::sync_block();
    }
    take_step<true>(f, block, steps - 1);
  }
};

/// For the rims of the forms ahead of it.
template <class Stencil>
constexpr SweepForm rims2d_form() {
  using Kernel = Rims2d<Stencil>;
  SweepForm form;
  form.sweep = sweep_rims2d<Stencil>;
  form.tiling.kind = TilingKind::rectangles;
  form.tiling.warps_per_block = Stencil::warps;
  form.tiling.shared_bytes = Kernel::shared_bytes;
  form.tiling.input_alignment = form.tiling.output_alignment = 16;
  form.tiling.tile_extent[0] = 1;
  form.tiling.tile_extent[1] = Stencil::most_lines;
  form.tiling.tile_extent[2] = Stencil::cells;
  form.tiling.lead_steps = Stencil::steps * Kernel::ry;
  form.tiling.left_margin = form.tiling.right_margin = Stencil::steps * Kernel::rx;
  form.tiling.anchor = 8;
  form.starts_early = true;
  form.steps = Stencil::steps;
  return form;
}

}  // namespace device_1
}  // namespace spider
