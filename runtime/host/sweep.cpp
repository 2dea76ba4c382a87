/// A sweep on the host: its box in tiles, one at a time on each core. A tile's inputs are numbers in memory
/// of the thread, as far as its steps need them, and each step makes the next numbers of them. Fields whose
/// cells are such numbers are read where they are, where one step looks beyond no face along x.
#include <spider/host_form.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "axis.h"
#include "cells.h"
#include "parallel.h"

namespace spider::host {
namespace {

using loops::Stencil;

constexpr int axis_z = 0;
constexpr int axis_y = 1;
constexpr int axis_x = 2;

/// Cells along z, y, x.
using Tile = std::array<Range, 3>;

/// Numbers of a thread, which it keeps for its next tiles.
template <class Number>
struct Scratch {
  std::vector<Number> levels[2];      ///< before and after a step
  std::vector<Number> constants;      ///< rows beyond constant faces
  std::vector<Number> negated;        ///< the rows of taps whose negatives are taken
  std::vector<Number> sums;           ///< of a row
  std::vector<Number> before;         ///< `previous` of a row
  std::vector<const void*> rows;      ///< of a row's taps
  std::vector<Range> wanted_columns;  ///< of each row that is kept
  std::vector<Number> input;          ///< of a row: what an update reads
  std::vector<Number> points;         ///< and of further fields
};

template <class Number>
Scratch<Number>& scratch_of_thread() {
  thread_local Scratch<Number> scratch;
  return scratch;
}

/// Where a tile's numbers are: rows one after the other, with room beside them for what lies beyond faces.
struct Layout {
  Tile cells;  ///< that are kept, before the first step
  std::int64_t margin = 0;
  std::int64_t pitch = 0;

  [[nodiscard]] std::int64_t row(std::int64_t z, std::int64_t y) const {
    return (z - cells[axis_z].begin) * cells[axis_y].size() + y - cells[axis_y].begin;
  }
  [[nodiscard]] std::int64_t row_count() const { return cells[axis_z].size() * cells[axis_y].size(); }
  /// Of a column in its row.
  [[nodiscard]] std::int64_t column(std::int64_t x) const { return margin + x - cells[axis_x].begin; }
};

/// Tiles that divide a box.
struct Tiles {
  Tile box;
  std::array<std::int64_t, 3> extent;

  [[nodiscard]] std::int64_t along(int axis) const {
    return (box[axis].size() + extent[axis] - 1) / extent[axis];
  }
  [[nodiscard]] std::int64_t count() const {
    for (const Range& range : box) {
      if (range.empty()) return 0;
    }
    return along(axis_z) * along(axis_y) * along(axis_x);
  }
  [[nodiscard]] Tile tile(std::int64_t i) const {
    const std::int64_t place[3] = {i / (along(axis_x) * along(axis_y)), i / along(axis_x) % along(axis_y),
                                   i % along(axis_x)};
    Tile tile;
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t begin = box[axis].begin + place[axis] * extent[axis];
      tile[axis] = {begin, std::min(box[axis].end, begin + extent[axis])};
    }
    return tile;
  }
};

/// The rows of one step's taps, in their order.
std::vector<TapRow> rows_of(const Stencil& stencil) {
  std::vector<TapRow> rows;
  for (std::int32_t i = 0; i < stencil.tap_count; ++i) {
    const Tap& tap = stencil.taps[i];
    if (rows.empty() || rows.back().dz != tap.dz || rows.back().dy != tap.dy)
      rows.push_back({tap.dz, tap.dy, tap.dx, tap.dx});
    rows.back().high = tap.dx;
  }
  return rows;
}

template <class Cells>
class Sweep {
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;

 public:
  Sweep(const Stencil& stencil, const SweepArguments& arguments)
      : stencil_(stencil), arguments_(arguments), rows_(rows_of(stencil)) {
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
    if (stencil.steps == 1) {
      read_rows_ = rows_;
    } else {
      read_rows_.assign(stencil.tap_rows, stencil.tap_rows + stencil.tap_row_count);
    }
  }

  void run() const {
    Tile box;
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t begin = arguments_.box.offset[axis];
      box[axis] = {begin, begin + arguments_.box.extent[axis]};
    }
    if constexpr (std::is_same_v<Element, Number>) {
      if (stencil_.steps == 1) {
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
  void reach(int axis, std::int32_t low, std::int32_t high) {
    std::int64_t(&far)[2] = axes_[axis].reach;
    far[0] = std::max<std::int64_t>(far[0], -low);
    far[1] = std::max<std::int64_t>(far[1], high);
  }

  /// The columns whose taps stay on this side of all faces in x, but for halo.
  [[nodiscard]] Range columns_within_faces(const Range& columns) const {
    const Axis& axis = axes_[axis_x];
    Range within = columns;
    if (axis.rules[0] != FaceRule::halo) within.begin = std::max(within.begin, axis.reach[0]);
    if (axis.rules[1] != FaceRule::halo) within.end = std::min(within.end, axis.extent - axis.reach[1]);
    return within.empty() ? Range{columns.end, columns.end} : within;
  }

  /// Of all steps in a box, nearly.
  [[nodiscard]] double operations(const Tile& box) const {
    constexpr int of_cell = 4;  // beside its taps
    constexpr int of_update = 16;
    double of_box =
        stencil_.steps * (stencil_.tap_count + of_cell + (stencil_.update == nullptr ? 0 : of_update));
    for (const Range& range : box) of_box *= static_cast<double>(range.size());
    return of_box;
  }

  /// Tiles that are large enough not to compute much twice, and small enough for the caches, the cores and
  /// memory.
  [[nodiscard]] Tiles cut(const Tile& box, bool in_place, int threads) const {
    constexpr std::int64_t most_numbers = std::int64_t{1} << 22;
    constexpr std::int64_t fewest_rows = 8;
    const bool volume = box[axis_z].size() > 1;
    const bool plane = box[axis_y].size() > 1;
    Tiles tiles{box, {volume ? 16 : 1, volume ? 16 : 64, volume ? 256 : plane ? 1024 : 8192}};
    if (in_place) tiles.extent = {volume ? 16 : 1, volume ? 32 : 64, volume ? 512 : 4096};
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
    const auto& sweep = static_cast<const UpdateArguments&>(arguments_);
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
        // Only under f64, whose numbers have room for it.
        if constexpr (std::is_same_v<Number, double>)
          F64Cells::load(static_cast<const double*>(row) + first, to, count);
    }
  }

  /// Numbers of `count` cells from column x on, which may lie beyond periodic faces, of the row that begins
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

  /// Where an update sees cell i of an axis (UpdateArguments): steps go on beyond periodic faces.
  [[nodiscard]] std::int64_t place_in_whole(int axis, std::int64_t i) const {
    const auto& sweep = static_cast<const UpdateArguments&>(arguments_);
    const Axis whole{sweep.whole[axis], {axes_[axis].rules[0], axes_[axis].rules[1]}, {}};
    return sweep.first[axis] + whole.in_memory(i - sweep.first[axis]);
  }

  /// Makes a row's sums the results of a step; `input` are the numbers that the step began with, `before`
  /// those of the step before, of the first step null.
  void update_row(Scratch<Number>& scratch, std::int64_t z, std::int64_t y, std::int64_t x,
                  std::int64_t count, const Number* input, const Number* before, Number* sums) const {
    const auto& sweep = static_cast<const UpdateArguments&>(arguments_);
    const auto fields = static_cast<std::size_t>(stencil_.further_count);
    scratch.points.resize(fields * static_cast<std::size_t>(count));
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
      scratch.before.resize(static_cast<std::size_t>(count));
      load_points(stencil_.storage, sweep.before, row, x, scratch.before.data(), count);
      before = scratch.before.data();
    }
    // Of one step the points lie in the box; of several they may cross periodic faces.
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t first = place_in_whole(axis_x, x + done);
      const bool crosses = stencil_.steps > 1 && axes_[axis_x].periodic();
      const std::int64_t behind = sweep.first[axis_x] + sweep.whole[axis_x] - first;
      const std::int64_t now = crosses ? std::min(behind, count - done) : count;
      const void* further[most_further_fields] = {};
      for (std::size_t i = 0; i < fields; ++i)
        further[i] = scratch.points.data() + static_cast<std::int64_t>(i) * count + done;
      stencil_.update({sweep, place_in_whole(axis_z, z), place_in_whole(axis_y, y), first, input + done,
                       further, before == nullptr ? nullptr : before + done, sums + done, count, now});
      done += now;
    }
  }

  /// update_row() of the first step, whose input is in the field's memory.
  void update_first_row(Scratch<Number>& scratch, std::int64_t z, std::int64_t y, std::int64_t x,
                        std::int64_t count) const {
    if (stencil_.reads_input) {
      scratch.input.resize(static_cast<std::size_t>(count));
      Cells::load(input_row(z, y) + x, scratch.input.data(), count);
    }
    update_row(scratch, z, y, x, count, scratch.input.data(), nullptr, scratch.sums.data());
  }

  [[nodiscard]] Layout lay_out(const Tile& tile) const {
    constexpr std::int64_t line = 16;  // numbers
    Layout layout;
    for (int axis = 0; axis < 3; ++axis) layout.cells[axis] = axes_[axis].needed(tile[axis], stencil_.steps);
    const Axis& columns = axes_[axis_x];
    layout.margin = (std::max(columns.reach[0], columns.reach[1]) + line - 1) / line * line;
    layout.pitch = (layout.cells[axis_x].size() + 2 * layout.margin + line - 1) / line * line;
    return layout;
  }

  /// Of the constant beyond a face.
  [[nodiscard]] Number constant(int axis, int side) const {
    return side == Place::zero ? Number{0} : static_cast<Number>(stencil_.faces[axis][side].value);
  }

  /// Writes what lies beyond the faces in x beside `columns` of a row.
  void fill_margins(Number* row, const Layout& layout, const Range& columns) const {
    const Axis& axis = axes_[axis_x];
    const auto fill = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t x = begin; x < end; ++x) {
        const Place place = axis.find(x);
        const Number number = place.constant ? constant(axis_x, place.side) : row[layout.column(place.index)];
        row[layout.column(x)] = place.negated ? -number : number;
      }
    };
    if (columns.begin == 0 && !axis.open(0)) fill(-axis.reach[0], 0);
    if (columns.end == axis.extent && !axis.open(1)) fill(axis.extent, axis.extent + axis.reach[1]);
  }

  /// Rows beyond constant faces in z and y.
  void fill_constants(Scratch<Number>& scratch, const Layout& layout) const {
    scratch.constants.resize(static_cast<std::size_t>(6 * layout.pitch));
    scratch.negated.resize(rows_.size() * static_cast<std::size_t>(layout.pitch));
    for (const int axis : {axis_z, axis_y}) {
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

  /// A row that a tap reaches, to where dx is 0, and whether its negative is meant.
  struct FoundRow {
    const Number* row;
    bool negated;
  };

  /// The row that a tap reaches at column `x`: that of a constant, or what `kept` gives for its indices.
  /// Where faces meet, that in y counts.
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

  /// The rows of all taps of `columns`; `in_place`: those of the field, of which no other cells are read.
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
      fill_margins(row, layout, readable);  // anew: what lies beyond faces in x is that of the negatives
      scratch.rows[i] = row + layout.column(columns.begin);
    }
  }

  /// One step of a tile whose columns' taps are all in the field's memory.
  void sweep_in_place(const Tile& tile) const {
    auto& scratch = scratch_of_thread<Number>();
    const Layout layout = lay_out(tile);
    fill_constants(scratch, layout);
    scratch.rows.resize(rows_.size());
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
          scratch.sums.resize(static_cast<std::size_t>(stencil_.sum_count * count));
          stencil_.sum(scratch.rows.data(), scratch.sums.data(), count);
          update_first_row(scratch, z, y, x, count);
          Cells::store(scratch.sums.data(), output_row(z, y) + x, count);
        }
      }
    }
  }

  /// All steps of a tile.
  void sweep_copied(const Tile& tile) const {
    auto& scratch = scratch_of_thread<Number>();
    const Layout layout = lay_out(tile);
    const auto numbers = static_cast<std::size_t>(layout.row_count() * layout.pitch);
    for (int level = 0; level < (stencil_.steps > 1 ? 2 : 1); ++level) {
      if (scratch.levels[level].size() < numbers) scratch.levels[level].resize(numbers);
    }
    scratch.rows.resize(rows_.size());
    scratch.sums.resize(static_cast<std::size_t>(stencil_.sum_count * layout.pitch));
    fill_constants(scratch, layout);
    load(scratch, layout, tile);
    for (std::int32_t step = 1; step <= stencil_.steps; ++step) {
      Number* from = scratch.levels[(step - 1) % 2].data();
      Number* to = scratch.levels[step % 2].data();
      Tile cells;
      for (int axis = 0; axis < 3; ++axis)
        cells[axis] = axes_[axis].needed(tile[axis], stencil_.steps - step);
      const std::int64_t x = cells[axis_x].begin;
      const auto kept = [&](std::int64_t z, std::int64_t y) -> const Number* {
        return from + layout.row(z, y) * layout.pitch + layout.column(x);
      };
      for (std::int64_t z = cells[axis_z].begin; z < cells[axis_z].end; ++z) {
        for (std::int64_t y = cells[axis_y].begin; y < cells[axis_y].end; ++y) {
          find_rows(scratch, layout, z, y, cells[axis_x], false, kept);
          const std::int64_t count = cells[axis_x].size();
          const bool is_last = step == stencil_.steps;
          Number* row = is_last ? nullptr : to + layout.row(z, y) * layout.pitch;
          const bool apart = is_last || stencil_.sum_count > 1 || stencil_.reads_before;
          Number* sums = apart ? scratch.sums.data() : row + layout.column(x);
          stencil_.sum(scratch.rows.data(), sums, count);
          if (stencil_.update != nullptr && stencil_.steps == 1) {
            update_first_row(scratch, z, y, x, count);
          } else if (stencil_.update != nullptr) {
            // What the row held two steps ago is still there.
            const Number* before =
                step == 1 ? nullptr : to + layout.row(z, y) * layout.pitch + layout.column(x);
            update_row(scratch, z, y, x, count, kept(z, y), before, sums);
          }
          if (is_last) {
            Cells::store(sums, output_row(z, y) + x, count);
            if (stencil_.reads_before && stencil_.steps > 1)
              Cells::store(kept(z, y), output_row_before(z, y) + x, count);
          } else {
            if (apart) std::copy_n(sums, count, row + layout.column(x));
            fill_margins(row, layout, cells[axis_x]);
          }
        }
      }
    }
  }

  /// Reads what is kept before the first step.
  void load(Scratch<Number>& scratch, const Layout& layout, const Tile& tile) const {
    find_wanted_columns(scratch, layout, tile);
    for (std::int64_t z = layout.cells[axis_z].begin; z < layout.cells[axis_z].end; ++z) {
      for (std::int64_t y = layout.cells[axis_y].begin; y < layout.cells[axis_y].end; ++y) {
        const std::int64_t at = layout.row(z, y);
        const Range columns = scratch.wanted_columns[static_cast<std::size_t>(at)];
        Number* row = scratch.levels[0].data() + at * layout.pitch;
        if (!columns.empty()) load_row(input_row(z, y), row + layout.column(columns.begin), columns);
        fill_margins(row, layout, layout.cells[axis_x]);
      }
    }
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

  /// Of each row that is kept the columns to read: those that taps reach, since there may be no memory for
  /// others. Of several steps, whose way may be another where faces turn, those of them that are kept and all
  /// that is no halo.
  void find_wanted_columns(Scratch<Number>& scratch, const Layout& layout, const Tile& tile) const {
    std::vector<Range>& wanted = scratch.wanted_columns;
    wanted.assign(static_cast<std::size_t>(layout.row_count()), Range{});
    for (const TapRow& taps : read_rows_) {
      Range columns = axes_[axis_x].kept({tile[axis_x].begin + taps.low, tile[axis_x].end + taps.high});
      columns = {std::max(columns.begin, layout.cells[axis_x].begin),
                 std::min(columns.end, layout.cells[axis_x].end)};
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
    const auto inside = [&](int axis) {
      const Range& cells = layout.cells[axis];
      if (axes_[axis].periodic()) return cells;
      return Range{std::max<std::int64_t>(cells.begin, 0), std::min(cells.end, axes_[axis].extent)};
    };
    const Tile inner{inside(axis_z), inside(axis_y), inside(axis_x)};
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
  std::vector<TapRow> rows_;       ///< of the taps of a step
  std::vector<TapRow> read_rows_;  ///< of all steps
};

}  // namespace
}  // namespace spider::host

namespace spider {
inline namespace device_3 {
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
    default:
      throw std::logic_error("a storage that this runtime does not know");
  }
}

}  // namespace loops
}  // namespace device_3
}  // namespace spider
