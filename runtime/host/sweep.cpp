/// A sweep on the host: its box in tiles, one at a time on each core. A tile converts its inputs, as far as
/// its steps reach, to numbers in memory of the thread; each step computes the next numbers from them. Fields
/// whose cells are such numbers are read in place, where one step crosses no face along x.
#include <spider/host_form.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "axis.h"
#include "cells.h"
#include "parallel.h"
#include "src/fields.h"
#include "tiles.h"

namespace spider::host {
namespace {

using loops::Stencil;

/// Numbers of a thread, reused for its next tiles.
template <class Number>
struct Scratch {
  std::vector<Number> levels[2];      ///< before and after a step
  std::vector<Number> constants;      ///< rows outside constant faces
  std::vector<Number> negated;        ///< rows of taps that read negated values
  std::vector<Number> sums;           ///< of a row
  std::vector<Number> before;         ///< `previous` of a row
  std::vector<const void*> rows;      ///< of a row's taps
  std::vector<Range> wanted_columns;  ///< to read, of each stored row
  std::vector<Number> input;          ///< of a row, for an update
  std::vector<Number> points;         ///< and of further fields
};

template <class Number>
Scratch<Number>& scratch_of_thread() {
  thread_local Scratch<Number> scratch;
  return scratch;
}

/// Rows up to this width are too short for loops of their own: several are summed in one.
constexpr std::int64_t most_columns_of_lines = 256;
/// Numbers of such a line, which stay in the L1 cache.
constexpr std::int64_t most_numbers_of_line = 4096;
/// Shorter rows cost less than a call of memcpy.
constexpr std::int64_t fewest_columns_of_copies = 16;

/// Fields that are read in place take three passes, one for the columns at each face.
constexpr std::int64_t most_columns_of_copied_fields = 256;

/// Copies the cells of short rows, a number of columns at a time that the compiler knows.
template <int at_once, class Number>
void copy_short_rows(const Number* from, std::int64_t from_pitch, Number* __restrict to,
                     std::int64_t to_pitch, std::int64_t rows, std::int64_t columns) {
  for (; columns >= at_once; columns -= at_once, from += at_once, to += at_once) {
    for (std::int64_t y = 0; y < rows; ++y) {
      for (int x = 0; x < at_once; ++x) to[y * to_pitch + x] = from[y * from_pitch + x];
    }
  }
  if constexpr (at_once > 1) {
    if (columns > 0) copy_short_rows<at_once - 1>(from, from_pitch, to, to_pitch, rows, columns);
  }
}

/// Where a tile's numbers lie: rows one after the other, with margins for ghost cells.
struct Layout {
  Tile cells;  ///< stored before the first step
  std::int64_t margin = 0;
  std::int64_t pitch = 0;

  [[nodiscard]] std::int64_t row(std::int64_t z, std::int64_t y) const {
    return (z - cells[axis_z].begin) * cells[axis_y].size() + y - cells[axis_y].begin;
  }
  [[nodiscard]] std::int64_t row_count() const { return cells[axis_z].size() * cells[axis_y].size(); }
  [[nodiscard]] bool has_short_rows() const { return cells[axis_x].size() <= most_columns_of_lines; }
  /// Offset of a column in its row.
  [[nodiscard]] std::int64_t column(std::int64_t x) const { return margin + x - cells[axis_x].begin; }
};

template <class Cells>
class Sweep {
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;

 public:
  Sweep(const Stencil& stencil, const SweepArguments& arguments)
      : stencil_(stencil),
        arguments_(arguments),
        rows_(stencil.step_rows, static_cast<std::size_t>(stencil.step_row_count)) {
    const std::int64_t extent[3] = {arguments.extent[0], arguments.extent[1], arguments.extent[2]};
    for (int axis = 0; axis < 3; ++axis) {
      axes_[axis].extent = extent[axis];
      for (int side = 0; side < 2; ++side) axes_[axis].rules[side] = stencil.faces[axis][side].rule;
    }
    for (const TapRow& row : rows_) {
      reach(axis_z, row.dz, row.dz);
      reach(axis_y, row.dy, row.dy);
      reach(axis_x, row.low, row.high);
    }
    read_rows_ = stencil.steps == 1
                     ? rows_
                     : std::span(stencil.tap_rows, static_cast<std::size_t>(stencil.tap_row_count));
    reads_all_rows_ =
        static_cast<std::int64_t>(read_rows_.size()) == rows_within_reach(axis_z) * rows_within_reach(axis_y);
  }

  void run() const {
    Tile box;
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t begin = arguments_.box.offset[axis];
      box[axis] = {begin, begin + arguments_.box.extent[axis]};
    }
    if constexpr (std::is_same_v<Element, Number>) {
      if (stencil_.steps == 1 && !converts() && box[axis_x].size() > most_columns_of_copied_fields) {
        Tile low = box;
        Tile high = box;
        box[axis_x] = columns_within_faces(box[axis_x]);
        low[axis_x].end = box[axis_x].begin;
        high[axis_x].begin = box[axis_x].end;
        sweep_tiles(box, true);
        sweep_tiles(low, false);
        sweep_tiles(high, false);
        return;
      }
    }
    sweep_tiles(box, false);
  }

 private:
  /// True if results have another storage.
  [[nodiscard]] bool converts() const { return stencil_.output >= 0 && stencil_.output != stencil_.storage; }

  void reach(int axis, std::int32_t low, std::int32_t high) {
    std::int64_t(&far)[2] = axes_[axis].reach;
    far[0] = std::max<std::int64_t>(far[0], -low);
    far[1] = std::max<std::int64_t>(far[1], high);
  }

  [[nodiscard]] std::int64_t rows_within_reach(int axis) const {
    return stencil_.steps * (axes_[axis].reach[0] + axes_[axis].reach[1]) + 1;
  }

  /// The columns whose taps cross no face in x other than halo faces.
  [[nodiscard]] Range columns_within_faces(const Range& columns) const {
    const Axis& axis = axes_[axis_x];
    Range within = columns;
    if (axis.rules[0] != FaceRule::halo) within.begin = std::max(within.begin, axis.reach[0]);
    if (axis.rules[1] != FaceRule::halo) within.end = std::min(within.end, axis.extent - axis.reach[1]);
    return within.empty() ? Range{columns.end, columns.end} : within;
  }

  /// Operations of all steps in a box, approximately.
  [[nodiscard]] double operations(const Tile& box) const {
    constexpr int of_cell = 4;  // besides its taps
    constexpr int of_update = 16;
    double of_box =
        stencil_.steps * (stencil_.tap_count + of_cell + (stencil_.update == nullptr ? 0 : of_update));
    for (const Range& range : box) of_box *= static_cast<double>(range.size());
    return of_box;
  }

  /// The extents of tiles of one step.
  [[nodiscard]] static std::array<std::int64_t, 3> largest_tile(const Tile& box, bool in_place) {
    const bool volume = box[axis_z].size() > 1;
    const bool plane = box[axis_y].size() > 1;
    std::array<std::int64_t, 3> extent{volume ? 16 : 1, volume ? 16 : 64, volume ? 256 : plane ? 1024 : 8192};
    if (in_place) extent = {volume ? 16 : 1, volume ? 32 : 64, volume ? 512 : 4096};
    // Tiles of narrow boxes get more rows.
    constexpr std::int64_t least_cells_of_plane = 1 << 12;
    if (plane) extent[axis_y] = std::max(extent[axis_y], least_cells_of_plane / box[axis_x].size());
    return extent;
  }

  /// Tiles that are large enough to compute little twice, and small enough for the caches, the cores and
  /// memory.
  [[nodiscard]] Tiles cut(const Tile& box, bool in_place, int threads) const {
    constexpr std::int64_t most_numbers = std::int64_t{1} << 22;
    constexpr std::int64_t fewest_rows = 8;
    Tiles tiles{box, largest_tile(box, in_place)};
    std::int64_t far[3];
    for (int axis = 0; axis < 3; ++axis) {
      const Axis& along = axes_[axis];
      far[axis] = stencil_.steps * std::max(along.reach[0], along.reach[1]);
      if (stencil_.steps > 1) tiles.extent[axis] = std::max(tiles.extent[axis], 8 * far[axis]);
      tiles.extent[axis] = std::min(tiles.extent[axis], box[axis].size());
    }
    const auto kept = [&](int axis) { return tiles.extent[axis] + 2 * far[axis]; };
    const auto halve = [&](int axis) { tiles.extent[axis] = (tiles.extent[axis] + 1) / 2; };
    const auto longest = [&] {
      int axis = axis_x;
      for (const int other : {axis_y, axis_z}) {
        if (tiles.extent[other] > tiles.extent[axis]) axis = other;
      }
      return axis;
    };
    while (kept(axis_z) * kept(axis_y) > most_numbers / kept(axis_x) && tiles.extent[longest()] > fewest_rows)
      halve(longest());
    const std::int64_t wanted = threads == 1 ? 1 : 4 * threads;
    while (tiles.count() < wanted && std::max(tiles.extent[axis_z], tiles.extent[axis_y]) > fewest_rows)
      halve(tiles.extent[axis_z] > tiles.extent[axis_y] ? axis_z : axis_y);
    return tiles;
  }

  void sweep_tiles(const Tile& box, bool in_place) const {
    if (box[axis_x].empty()) return;
    const int threads = threads_for(operations(box));
    const Tiles tiles = cut(box, in_place, threads);
    for_each(tiles.count(), threads, [&](std::int64_t i) {
      if (in_place) {
        sweep_in_place(tiles.tile(i));
      } else {
        sweep_copied(tiles.tile(i));
      }
    });
  }

  /// The arguments of a stencil with an update.
  [[nodiscard]] const UpdateArguments& update_arguments() const {
    // NOLINTNEXTLINE(*-static-cast-downcast)
    return static_cast<const UpdateArguments&>(arguments_);
  }

  [[nodiscard]] const Element* input_row(std::int64_t z, std::int64_t y) const {
    return static_cast<const Element*>(arguments_.input) +
           axes_[axis_z].in_memory(z) * arguments_.input_stride[0] +
           axes_[axis_y].in_memory(y) * arguments_.input_stride[1];
  }
  [[nodiscard]] Element* output_row(std::int64_t z, std::int64_t y) const {
    return static_cast<Element*>(arguments_.output) + z * arguments_.output_stride[0] +
           y * arguments_.output_stride[1];
  }

  [[nodiscard]] Element* output_row_before(std::int64_t z, std::int64_t y) const {
    const auto& sweep = update_arguments();
    return static_cast<Element*>(sweep.output_before) + z * sweep.output_before_stride[0] +
           y * sweep.output_before_stride[1];
  }

  /// Numbers of a row of cells of some storage.
  static void load_numbers(std::int32_t storage, const void* row, std::int64_t first, Number* to,
                           std::int64_t count) {
    switch (storage) {
      case SPIDER_F16:
        return F16Cells::load(static_cast<const std::uint16_t*>(row) + first, to, count);
      case SPIDER_BF16:
        return Bf16Cells::load(static_cast<const std::uint16_t*>(row) + first, to, count);
      case SPIDER_F32:
        return F32Cells::load(static_cast<const float*>(row) + first, to, count);
      default:
        // Only f64 numbers have room for it.
        if constexpr (std::is_same_v<Number, double>)
          F64Cells::load(static_cast<const double*>(row) + first, to, count);
    }
  }

  /// Numbers of `count` cells from column x on, which may lie outside periodic faces, of the row that begins
  /// at element `row`.
  void load_points(std::int32_t storage, const void* data, std::int64_t row, std::int64_t x, Number* to,
                   std::int64_t count) const {
    const Axis& axis = axes_[axis_x];
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t first = axis.in_memory(x + done);
      const std::int64_t now = axis.periodic() ? std::min(axis.extent - first, count - done) : count;
      load_numbers(storage, data, row + first, to + done, now);
      done += now;
    }
  }

  /// Where an update sees cell i of an axis (UpdateArguments): steps continue across periodic faces.
  [[nodiscard]] std::int64_t place_in_whole(int axis, std::int64_t i) const {
    const auto& sweep = update_arguments();
    const Axis whole{sweep.whole[axis], {axes_[axis].rules[0], axes_[axis].rules[1]}, {}};
    return sweep.first[axis] + whole.in_memory(i - sweep.first[axis]);
  }

  /// Replaces a row's sums, `apart` from one to the next, by the results of a step. `input`: the numbers that
  /// the step began with; `before`: those of the step before, null in the first step.
  void update_row(Scratch<Number>& scratch, std::int64_t z, std::int64_t y, std::int64_t x,
                  std::int64_t count, const Number* input, const Number* before, Number* sums,
                  std::int64_t apart) const {
    const auto& sweep = update_arguments();
    const auto fields = static_cast<std::size_t>(stencil_.further_count);
    grow(scratch.points, stencil_.further_count * count);
    Number* to = scratch.points.data();
    for (std::size_t i = 0; i < fields; ++i, to += count) {
      const FurtherField& field = sweep.further[i];
      const std::int64_t row =
          axes_[axis_z].in_memory(z) * field.stride[0] + axes_[axis_y].in_memory(y) * field.stride[1];
      load_points(stencil_.further_storages[i], field.data, row, x, to, count);
    }
    if (stencil_.reads_before && before == nullptr) {
      const std::int64_t row = axes_[axis_z].in_memory(z) * sweep.before_stride[0] +
                               axes_[axis_y].in_memory(y) * sweep.before_stride[1];
      grow(scratch.before, count);
      load_points(stencil_.storage, sweep.before, row, x, scratch.before.data(), count);
      before = scratch.before.data();
    }
    // In one step the points lie in the box; in several they may cross periodic faces.
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t first = place_in_whole(axis_x, x + done);
      const bool crosses = stencil_.steps > 1 && axes_[axis_x].periodic();
      const std::int64_t behind = sweep.first[axis_x] + sweep.whole[axis_x] - first;
      const std::int64_t now = crosses ? std::min(behind, count - done) : count;
      const void* further[most_further_fields] = {};
      for (std::size_t i = 0; i < fields; ++i)
        further[i] = scratch.points.data() + static_cast<std::int64_t>(i) * count + done;
      stencil_.update({sweep, place_in_whole(axis_z, z), place_in_whole(axis_y, y), first, input + done,
                       further, before == nullptr ? nullptr : before + done, sums + done, apart, now});
      done += now;
    }
  }

  /// update_row() of the first step, whose input is in the field's memory.
  void update_first_row(Scratch<Number>& scratch, std::int64_t z, std::int64_t y, std::int64_t x,
                        std::int64_t count, Number* sums, std::int64_t apart) const {
    if (stencil_.reads_input) {
      grow(scratch.input, count);
      Cells::load(input_row(z, y) + x, scratch.input.data(), count);
    }
    update_row(scratch, z, y, x, count, scratch.input.data(), nullptr, sums, apart);
  }

  [[nodiscard]] Layout lay_out(const Tile& tile) const {
    Layout layout;
    for (int axis = 0; axis < 3; ++axis) layout.cells[axis] = axes_[axis].needed(tile[axis], stencil_.steps);
    const Axis& columns = axes_[axis_x];
    // Rows of numbers begin where vectors do, except short ones.
    const std::int64_t line = layout.has_short_rows() ? 1 : 16;
    layout.margin = (std::max(columns.reach[0], columns.reach[1]) + line - 1) / line * line;
    layout.pitch = (layout.cells[axis_x].size() + 2 * layout.margin + line - 1) / line * line;
    return layout;
  }

  /// The constant outside a face.
  [[nodiscard]] Number constant(int axis, int side) const {
    return side == Place::zero ? Number{0} : static_cast<Number>(stencil_.faces[axis][side].value);
  }

  /// Writes the ghost cells in x next to `columns` of that many rows.
  void fill_margins(Number* rows, const Layout& layout, const Range& columns, std::int64_t count = 1) const {
    const Axis& axis = axes_[axis_x];
    const auto fill = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t x = begin; x < end; ++x) {
        const Place place = axis.find(x);
        const Number number = place.constant ? constant(axis_x, place.side) : 0;
        for (std::int64_t row = 0; row < count * layout.pitch; row += layout.pitch) {
          const Number found = place.constant ? number : rows[row + layout.column(place.index)];
          rows[row + layout.column(x)] = place.negated ? -found : found;
        }
      }
    };
    if (columns.begin == 0 && !axis.open(0)) fill(-axis.reach[0], 0);
    if (columns.end == axis.extent && !axis.open(1)) fill(axis.extent, axis.extent + axis.reach[1]);
  }

  /// Rows outside constant faces in z and y.
  void fill_constants(Scratch<Number>& scratch, const Layout& layout) const {
    const auto has = [&](int axis, FaceRule rule) {
      return axes_[axis].rules[0] == rule || axes_[axis].rules[1] == rule;
    };
    for (const int axis : {axis_z, axis_y}) {
      const bool is_signed = has(axis, FaceRule::antisymmetric);
      if (is_signed) grow(scratch.negated, stencil_.step_row_count * layout.pitch);
      if (!is_signed && !has(axis, FaceRule::constant)) continue;
      grow(scratch.constants, 6 * layout.pitch);
      for (int side = 0; side <= Place::zero; ++side) {
        if (side != Place::zero && stencil_.faces[axis][side].rule != FaceRule::constant) continue;
        Number* row = constant_row(scratch, layout, axis, side);
        std::fill_n(row, layout.pitch, constant(axis, side));
        fill_margins(row, layout, layout.cells[axis_x]);
      }
    }
  }

  static Number* constant_row(Scratch<Number>& scratch, const Layout& layout, int axis, int side) {
    return scratch.constants.data() + (3 * axis + side) * layout.pitch;
  }

  /// A row that a tap reaches, at dx = 0, and whether it is negated.
  struct FoundRow {
    const Number* row;
    bool negated;
  };

  /// The row that a tap reaches at column `x`: a constant one, or the result of `kept` for its indices. Where
  /// faces meet, y has precedence.
  template <class Kept>
  FoundRow find_row(Scratch<Number>& scratch, const Layout& layout, std::int64_t z, std::int64_t y,
                    std::int64_t x, const Kept& kept) const {
    const Place plane = axes_[axis_z].find(z);
    const Place row = axes_[axis_y].find(y);
    if (row.constant)
      return {constant_row(scratch, layout, axis_y, row.side) + layout.column(x), row.negated};
    const bool negated = plane.negated != row.negated;
    if (plane.constant)
      return {constant_row(scratch, layout, axis_z, plane.side) + layout.column(x), negated};
    return {kept(plane.index, row.index), negated};
  }

  /// The rows of all taps of `columns`; if `in_place`, rows of the field, and no other cells are read.
  template <class Kept>
  void find_rows(Scratch<Number>& scratch, const Layout& layout, std::int64_t z, std::int64_t y,
                 const Range& columns, bool in_place, const Kept& kept) const {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const TapRow& taps = rows_[i];
      const FoundRow found = find_row(scratch, layout, z + taps.dz, y + taps.dy, columns.begin, kept);
      scratch.rows[i] = found.row;
      if (!found.negated) continue;
      Number* row = scratch.negated.data() + static_cast<std::int64_t>(i) * layout.pitch;
      const Range readable =
          in_place ? Range{columns.begin + taps.low, columns.end + taps.high} : layout.cells[axis_x];
      for (std::int64_t x = readable.begin; x < readable.end; ++x)
        row[layout.column(x)] = -found.row[x - columns.begin];
      fill_margins(row, layout, readable);  // again: the ghost cells in x are those of the negatives
      scratch.rows[i] = row + layout.column(columns.begin);
    }
  }

  /// One step of a tile whose columns' taps are all in the field's memory.
  void sweep_in_place(const Tile& tile) const {
    auto& scratch = scratch_of_thread<Number>();
    const Layout layout = lay_out(tile);
    fill_constants(scratch, layout);
    grow(scratch.rows, stencil_.step_row_count);
    const std::int64_t x = tile[axis_x].begin;
    const auto in_memory = [&](std::int64_t z, std::int64_t y) {
      return reinterpret_cast<const Number*>(input_row(z, y) + x);
    };
    for (std::int64_t z = tile[axis_z].begin; z < tile[axis_z].end; ++z) {
      for (std::int64_t y = tile[axis_y].begin; y < tile[axis_y].end; ++y) {
        find_rows(scratch, layout, z, y, tile[axis_x], true, in_memory);
        const std::int64_t count = tile[axis_x].size();
        if (stencil_.update == nullptr) {
          stencil_.sum(scratch.rows.data(), output_row(z, y) + x, count);
        } else {
          grow(scratch.sums, stencil_.sum_count * count);
          stencil_.sum(scratch.rows.data(), scratch.sums.data(), count);
          update_first_row(scratch, z, y, x, count, scratch.sums.data(), count);
          Cells::store(scratch.sums.data(), output_row(z, y) + x, count);
        }
      }
    }
  }

  /// A step of a tile: its source and destination, and the cells that it computes. `to` still contains the
  /// input of the step before.
  struct Step {
    std::int32_t number = 1;
    const Number* from = nullptr;
    Number* to = nullptr;
    Tile cells;
  };

  /// All steps of a tile.
  void sweep_copied(const Tile& tile) const {
    auto& scratch = scratch_of_thread<Number>();
    const Layout layout = lay_out(tile);
    for (int level = 0; level < (stencil_.steps > 1 ? 2 : 1); ++level)
      grow(scratch.levels[level], layout.row_count() * layout.pitch);
    grow(scratch.rows, stencil_.step_row_count);
    fill_constants(scratch, layout);
    load(scratch, layout, tile);
    for (Step step; step.number <= stencil_.steps; ++step.number) {
      step.from = scratch.levels[(step.number - 1) % 2].data();
      step.to = scratch.levels[step.number % 2].data();
      for (int axis = 0; axis < 3; ++axis)
        step.cells[axis] = axes_[axis].needed(tile[axis], stencil_.steps - step.number);
      const Range rows = step.cells[axis_y];
      for (std::int64_t z = step.cells[axis_z].begin; z < step.cells[axis_z].end; ++z) {
        for (std::int64_t y = rows.begin; y < rows.end;) {
          const std::int64_t count = rows_of_line(layout, step.cells, z, y);
          advance_rows(scratch, layout, step, z, y, count);
          y += count;
        }
      }
    }
  }

  /// The cells along an axis whose taps need no index mapping.
  [[nodiscard]] Range clear_of_faces(int axis, const Range& cells) const {
    const Axis& along = axes_[axis];
    return {along.open(0) ? cells.begin : std::max(cells.begin, along.reach[0]),
            along.open(1) ? cells.end : std::min(cells.end, along.extent - along.reach[1])};
  }

  /// How many short rows from this one on are summed as one line, including the gaps between them.
  [[nodiscard]] std::int64_t rows_of_line(const Layout& layout, const Tile& cells, std::int64_t z,
                                          std::int64_t y) const {
    if (!layout.has_short_rows() || layout.pitch > 8 * cells[axis_x].size()) return 1;
    const Range rows = clear_of_faces(axis_y, cells[axis_y]);
    if (!rows.holds(y) || !clear_of_faces(axis_z, cells[axis_z]).holds(z)) return 1;
    return std::min(rows.end - y, most_numbers_of_line / layout.pitch);
  }

  /// A step of the rows that rows_of_line() joins into one line.
  void advance_rows(Scratch<Number>& scratch, const Layout& layout, const Step& step, std::int64_t z,
                    std::int64_t y, std::int64_t rows) const {
    const Range columns = step.cells[axis_x];
    const std::int64_t x = columns.begin;
    const std::int64_t count = columns.size();
    const std::int64_t line = (rows - 1) * layout.pitch + count;
    const auto kept = [&](std::int64_t at_z, std::int64_t at_y) -> const Number* {
      return step.from + layout.row(at_z, at_y) * layout.pitch + layout.column(x);
    };
    find_rows(scratch, layout, z, y, columns, false, kept);
    const bool is_last = step.number == stencil_.steps;
    Number* to = step.to + layout.row(z, y) * layout.pitch;
    const bool apart = is_last || stencil_.sum_count > 1 || stencil_.reads_before;
    if (apart) grow(scratch.sums, stencil_.sum_count * line);
    Number* const sums = apart ? scratch.sums.data() : to + layout.column(x);
    stencil_.sum(scratch.rows.data(), sums, line);
    for (std::int64_t row = 0; row < rows && stencil_.update != nullptr; ++row) {
      const std::int64_t first = row * layout.pitch;
      if (stencil_.steps == 1) {
        update_first_row(scratch, z, y + row, x, count, sums + first, line);
      } else {
        const Number* before = step.number == 1 ? nullptr : to + first + layout.column(x);
        update_row(scratch, z, y + row, x, count, kept(z, y) + first, before, sums + first, line);
      }
    }
    if (is_last && converts()) return store_converted(sums, layout.pitch, z, y, rows, columns);
    if (is_last) {
      store_rows(sums, layout.pitch, output_row(z, y) + x, arguments_.output_stride[1], rows, count);
      if (stencil_.reads_before && stencil_.steps > 1) {
        const auto& sweep = update_arguments();
        store_rows(kept(z, y), layout.pitch, output_row_before(z, y) + x, sweep.output_before_stride[1], rows,
                   count);
      }
      return;
    }
    for (std::int64_t first = 0; first < rows * layout.pitch && apart; first += layout.pitch)
      std::copy_n(sums + first, count, to + first + layout.column(x));
    fill_margins(to, layout, columns, rows);
  }

  static void store_rows(const Number* from, std::int64_t from_pitch, Element* to, std::int64_t to_pitch,
                         std::int64_t rows, std::int64_t columns) {
    if constexpr (std::is_same_v<Element, Number>) {
      if (columns < fewest_columns_of_copies)
        return copy_short_rows<4>(from, from_pitch, to, to_pitch, rows, columns);
    }
    for (std::int64_t row = 0; row < rows; ++row)
      Cells::store(from + row * from_pitch, to + row * to_pitch, columns);
  }

  /// Stores results in another storage.
  void store_converted(const Number* from, std::int64_t from_pitch, std::int64_t z, std::int64_t y,
                       std::int64_t rows, const Range& columns) const {
    const std::int64_t bytes = bytes_of(stencil_.output);
    const std::int64_t first =
        z * arguments_.output_stride[0] + y * arguments_.output_stride[1] + columns.begin;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::byte* const to =
          static_cast<std::byte*>(arguments_.output) + (first + row * arguments_.output_stride[1]) * bytes;
      store_cells(stencil_.output, from + row * from_pitch, to, columns.size());
    }
  }

  /// Loads the cells that are stored before the first step.
  void load(Scratch<Number>& scratch, const Layout& layout, const Tile& tile) const {
    const Range rows = layout.cells[axis_y];
    const Range alike = columns_of_all_rows(layout, tile);
    if (alike.empty()) find_wanted_columns(scratch, layout, tile);
    for (std::int64_t z = layout.cells[axis_z].begin; z < layout.cells[axis_z].end; ++z) {
      Number* const plane = scratch.levels[0].data() + layout.row(z, rows.begin) * layout.pitch;
      if (!alike.empty()) {
        load_plane(plane + layout.column(alike.begin), layout.pitch, z, rows, alike);
      } else {
        for (std::int64_t y = rows.begin; y < rows.end; ++y) {
          const Range columns = scratch.wanted_columns[static_cast<std::size_t>(layout.row(z, y))];
          if (columns.empty()) continue;
          load_row(input_row(z, y), plane + (y - rows.begin) * layout.pitch + layout.column(columns.begin),
                   columns);
        }
      }
      fill_margins(plane, layout, layout.cells[axis_x], rows.size());
    }
  }

  /// The same columns of each row of a plane.
  void load_plane(Number* to, std::int64_t pitch, std::int64_t z, const Range& rows,
                  const Range& columns) const {
    const Axis& axis = axes_[axis_y];
    for (std::int64_t y = rows.begin; y < rows.end;) {
      const std::int64_t left = rows.end - y;
      const std::int64_t count = axis.periodic() ? std::min(left, axis.extent - axis.in_memory(y)) : left;
      load_rows(input_row(z, y), to, pitch, count, columns);
      to += count * pitch;
      y += count;
    }
  }

  void load_rows(const Element* from, Number* to, std::int64_t pitch, std::int64_t rows,
                 const Range& columns) const {
    const std::int64_t stride = arguments_.input_stride[1];
    if constexpr (std::is_same_v<Element, Number>) {
      if (columns.size() < fewest_columns_of_copies && !axes_[axis_x].periodic())
        return copy_short_rows<4>(from + columns.begin, stride, to, pitch, rows, columns.size());
    }
    for (std::int64_t row = 0; row < rows; ++row) load_row(from + row * stride, to + row * pitch, columns);
  }

  void load_row(const Element* from, Number* to, const Range& columns) const {
    const Axis& axis = axes_[axis_x];
    if (!axis.periodic()) return Cells::load(from + columns.begin, to, columns.size());
    for (std::int64_t x = columns.begin; x < columns.end;) {
      const std::int64_t first = axis.in_memory(x);
      const std::int64_t count = std::min(axis.extent - first, columns.end - x);
      Cells::load(from + first, to, count);
      x += count;
      to += count;
    }
  }

  /// The columns to read of every stored row, if they are the same and taps reach all rows; else none.
  [[nodiscard]] Range columns_of_all_rows(const Layout& layout, const Tile& tile) const {
    if (!reads_all_rows_) return {};
    const Range first = read_columns(layout, tile, read_rows_.front());
    for (const TapRow& taps : read_rows_) {
      const Range columns = read_columns(layout, tile, taps);
      if (columns.begin != first.begin || columns.end != first.end) return {};
    }
    if (stencil_.steps == 1) return first;
    const Range inside = inside_or_periodic(layout, axis_x);
    return hull(first, inside).size() == first.size() ? first : Range{};
  }

  /// The stored columns that a row of taps reaches from a tile.
  [[nodiscard]] Range read_columns(const Layout& layout, const Tile& tile, const TapRow& taps) const {
    const Range& kept = layout.cells[axis_x];
    const Range columns = axes_[axis_x].kept({tile[axis_x].begin + taps.low, tile[axis_x].end + taps.high});
    return {std::max(columns.begin, kept.begin), std::min(columns.end, kept.end)};
  }

  /// The stored cells of an axis without its halo.
  [[nodiscard]] Range inside_or_periodic(const Layout& layout, int axis) const {
    const Range& cells = layout.cells[axis];
    if (axes_[axis].periodic()) return cells;
    return {std::max<std::int64_t>(cells.begin, 0), std::min(cells.end, axes_[axis].extent)};
  }

  /// Finds the columns to read of each stored row: those that taps reach, since there may be no memory for
  /// others. Several steps may take another way where faces mirror: they also read all stored cells without
  /// the halo.
  void find_wanted_columns(Scratch<Number>& scratch, const Layout& layout, const Tile& tile) const {
    std::vector<Range>& wanted = scratch.wanted_columns;
    wanted.assign(static_cast<std::size_t>(layout.row_count()), Range{});
    for (const TapRow& taps : read_rows_) {
      const Range columns = read_columns(layout, tile, taps);
      for (std::int64_t z = tile[axis_z].begin; z < tile[axis_z].end; ++z) {
        const Place plane = axes_[axis_z].find(z + taps.dz);
        if (plane.constant) continue;
        for (std::int64_t y = tile[axis_y].begin; y < tile[axis_y].end; ++y) {
          const Place row = axes_[axis_y].find(y + taps.dy);
          const bool kept = layout.cells[axis_z].holds(plane.index) && layout.cells[axis_y].holds(row.index);
          if (row.constant || !kept) continue;
          Range& range = wanted[static_cast<std::size_t>(layout.row(plane.index, row.index))];
          range = hull(range, columns);
        }
      }
    }
    if (stencil_.steps == 1) return;
    const Tile inner{inside_or_periodic(layout, axis_z), inside_or_periodic(layout, axis_y),
                     inside_or_periodic(layout, axis_x)};
    for (std::int64_t z = inner[axis_z].begin; z < inner[axis_z].end; ++z) {
      for (std::int64_t y = inner[axis_y].begin; y < inner[axis_y].end; ++y) {
        Range& range = wanted[static_cast<std::size_t>(layout.row(z, y))];
        range = hull(range, inner[axis_x]);
      }
    }
  }

  const Stencil& stencil_;
  const SweepArguments& arguments_;
  std::array<Axis, 3> axes_;
  std::span<const TapRow> rows_;       ///< of the taps of a step
  std::span<const TapRow> read_rows_;  ///< of all steps
  bool reads_all_rows_ = false;        ///< within their reach, in z and y
};

}  // namespace
}  // namespace spider::host

namespace spider {
inline namespace device_4 {
namespace loops {

void sweep(const Stencil& stencil, const SweepArguments& arguments) {
  switch (stencil.storage) {
    case SPIDER_F16:
      return host::Sweep<host::F16Cells>(stencil, arguments).run();
    case SPIDER_BF16:
      return host::Sweep<host::Bf16Cells>(stencil, arguments).run();
    case SPIDER_F32:
      return host::Sweep<host::F32Cells>(stencil, arguments).run();
    case SPIDER_F64:
      return host::Sweep<host::F64Cells>(stencil, arguments).run();
    case SPIDER_U8:
      return host::Sweep<host::U8Cells>(stencil, arguments).run();
    case SPIDER_U16:
      return host::Sweep<host::U16Cells>(stencil, arguments).run();
    case SPIDER_I16:
      return host::Sweep<host::I16Cells>(stencil, arguments).run();
    default:
      throw std::logic_error("a storage that this runtime does not know");
  }
}

}  // namespace loops
}  // namespace device_4
}  // namespace spider
