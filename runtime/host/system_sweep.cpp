/// A sweep of a system of equations on the host: its box in tiles, one at a time on each core, row by row.
/// Rows whose cells are Numbers are read and written in place, unless they cross a face; other rows are
/// copied to memory of the thread, with their ghost cells.
#include <spider/system_form.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "axis.h"
#include "cells.h"
#include "parallel.h"
#include "row_reduction.h"
#include "src/fields.h"
#include "tiles.h"

namespace spider::host {
namespace {

using loops::SystemLoop;

/// Rows of a thread, reused for its next tiles.
template <class Number>
struct SystemScratch {
  std::vector<Number> cells;    ///< of rows that are copied
  std::vector<Number> results;  ///< of rows that are not stored as Numbers, then of reductions
  std::vector<const void*> rows;
  std::vector<void*> to;
};

template <class Number>
SystemScratch<Number>& system_scratch_of_thread() {
  thread_local SystemScratch<Number> scratch;
  return scratch;
}

/// Numbers of `count` cells.
template <class Number>
void load_cells(std::int32_t storage, const std::byte* from, Number* to, std::int64_t count) {
  switch (storage) {
    case SPIDER_F16:
      return F16Cells::load(reinterpret_cast<const std::uint16_t*>(from), to, count);
    case SPIDER_BF16:
      return Bf16Cells::load(reinterpret_cast<const std::uint16_t*>(from), to, count);
    case SPIDER_F32:
      return F32Cells::load(reinterpret_cast<const float*>(from), to, count);
    default:
      if constexpr (std::is_same_v<Number, double>)  // f64 fits no other number
        F64Cells::load(reinterpret_cast<const double*>(from), to, count);
  }
}

template <class Number>
class SystemSweeper {
  static constexpr std::int32_t own_storage = std::is_same_v<Number, double> ? SPIDER_F64 : SPIDER_F32;

 public:
  SystemSweeper(const SystemLoop& loop, const SystemArguments& arguments)
      : loop_(loop), sweep_(loop.sweep), arguments_(arguments) {
    places_.reserve(static_cast<std::size_t>(sweep_.row_count));
    for (std::int32_t i = 0; i < sweep_.row_count; ++i) add_row(sweep_.rows[i]);
    for (std::int32_t i = 0; i < sweep_.written_count; ++i) {
      const std::int32_t storage = loop_.fields[sweep_.written[i].field].storage;
      converts_ = converts_ || storage != own_storage;
      operations_ += 4;
    }
    if (arguments_.reductions != nullptr) reduced_count_ = sweep_.reduced_count;
    operations_ += 8 * reduced_count_;
  }

  void run() const {
    Tile box;
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t begin = arguments_.box.offset[axis];
      box[axis] = {begin, begin + arguments_.box.extent[axis]};
    }
    double operations = operations_;
    for (const Range& range : box) operations *= static_cast<double>(range.size());
    const int threads = threads_for(operations);
    const Tiles tiles = cut(box, threads);
    for_each(tiles.count(), threads, [&](std::int64_t i) { sweep_tile(tiles.tile(i)); });
  }

 private:
  /// A row that every point reads.
  struct RowPlace {
    ReadRow row{};
    const SystemField* field = nullptr;
    Axis axes[3];
    std::int64_t bytes = 0;           ///< of a cell
    const std::byte* base = nullptr;  ///< the cell under dx = 0 of the first point of the field
    std::int64_t pitch[3] = {};       ///< bytes between cells along z, y, x; 0 where the field has none
    std::int64_t margin = 0;          ///< of its copy: numbers before the cell of the first point
    std::int64_t first = 0;           ///< of its copy: its first number in the thread's memory
    bool is_wide = false;             ///< has it cells along x?
    bool is_own = false;              ///< are they Numbers?
    Range clear[3];                   ///< points whose rows cross no face
  };

  /// The row for some points.
  struct FoundRow {
    const std::byte* cells;  ///< where x is 0; null: all are `constant`
    Number constant;
    bool negated;
  };

  void add_row(const ReadRow& row) {
    const SystemField& field = loop_.fields[row.field];
    const SystemFieldPlace& memory = arguments_.fields[row.field];
    RowPlace place;
    place.row = row;
    place.field = &field;
    place.bytes = bytes_of(field.storage);
    place.is_wide = field.axes[axis_x];
    place.is_own = field.storage == own_storage;
    const std::int64_t low[3] = {row.dz, row.dy, row.low};
    const std::int64_t high[3] = {row.dz, row.dy, row.high};
    const std::int64_t strides[3] = {memory.stride[0], memory.stride[1], 1};
    for (int axis = 0; axis < 3; ++axis) {
      Axis& along = place.axes[axis];
      along.extent = field.axes[axis] ? arguments_.extent[axis] : 1;
      for (int side = 0; side < 2; ++side) along.rules[side] = field.faces[axis][side].rule;
      place.clear[axis] = clear_of_faces(field.axes[axis], along, low[axis], high[axis]);
      place.pitch[axis] = field.axes[axis] ? strides[axis] * place.bytes : 0;
      clear_[axis] = {std::max(clear_[axis].begin, place.clear[axis].begin),
                      std::min(clear_[axis].end, place.clear[axis].end)};
    }
    place.base = static_cast<const std::byte*>(memory.data) + row.dz * place.pitch[axis_z] +
                 row.dy * place.pitch[axis_y];
    constexpr std::int64_t line = 16;
    const auto round_up = [](std::int64_t n) { return (n + line - 1) / line * line; };
    place.margin = round_up(std::max(0, -row.low));
    place.first = copied_;
    copied_ += place.margin + (place.is_wide ? most_columns_ : 0) + round_up(std::max(0, row.high) + 1);
    converts_ = converts_ || (place.is_wide && !place.is_own);
    crossing_ += place.clear[axis_x].begin > 0 || place.clear[axis_x].end < arguments_.extent[axis_x] ? 1 : 0;
    operations_ += row.high - row.low + 1;
    places_.push_back(place);
  }

  /// The points along an axis whose taps need no index mapping.
  static Range clear_of_faces(bool has_cells, const Axis& axis, std::int64_t low, std::int64_t high) {
    constexpr std::int64_t far = std::int64_t{1} << 40;
    if (!has_cells) return {-far, far};
    return {axis.rules[0] == FaceRule::halo ? -far : std::max<std::int64_t>(0, -low),
            axis.rules[1] == FaceRule::halo ? far : axis.extent - std::max<std::int64_t>(0, high)};
  }

  /// Tiles small enough for the caches, the cores and the rows of the thread.
  [[nodiscard]] Tiles cut(const Tile& box, int threads) const {
    constexpr std::int64_t columns_of_copies = 512;
    constexpr std::int64_t columns_of_volumes = 512;
    constexpr std::int64_t fewest_rows = 8;
    const bool volume = box[axis_z].size() > 1;
    Tiles tiles{box, {volume ? 16 : 1, volume ? 32 : 64, most_columns_}};
    if (converts_) tiles.extent[axis_x] = columns_of_copies;
    if (volume) tiles.extent[axis_x] = std::min(tiles.extent[axis_x], columns_of_volumes);
    for (int axis = 0; axis < 3; ++axis) tiles.extent[axis] = std::min(tiles.extent[axis], box[axis].size());
    const std::int64_t wanted = threads == 1 ? 1 : 4 * threads;
    while (tiles.count() < wanted && std::max(tiles.extent[axis_z], tiles.extent[axis_y]) > fewest_rows) {
      std::int64_t& longest = tiles.extent[tiles.extent[axis_z] > tiles.extent[axis_y] ? axis_z : axis_y];
      longest = (longest + 1) / 2;
    }
    return tiles;
  }

  void sweep_tile(const Tile& tile) const {
    auto& scratch = system_scratch_of_thread<Number>();
    grow(scratch.cells, copied_);
    const std::int32_t results = sweep_.written_count + reduced_count_;
    grow(scratch.results, results * most_columns_);
    scratch.rows.resize(places_.size());
    scratch.to.resize(static_cast<std::size_t>(results));
    std::array<RowReduction, most_reductions> reductions;
    const Range columns = tile[axis_x];
    // Columns whose rows cross no face have a loop of their own, unless copying all columns costs less.
    constexpr std::int64_t most_numbers_of_copies = 2048;
    Range clear{std::max(columns.begin, clear_[axis_x].begin), std::min(columns.end, clear_[axis_x].end)};
    if (clear.empty() || crossing_ * columns.size() <= most_numbers_of_copies) clear = columns;
    for (std::int64_t z = tile[axis_z].begin; z < tile[axis_z].end; ++z) {
      for (std::int64_t y = tile[axis_y].begin; y < tile[axis_y].end; ++y) {
        for (const Range& part : {Range{columns.begin, clear.begin}, clear, Range{clear.end, columns.end}}) {
          if (part.empty()) continue;
          sweep_row(scratch, z, y, part);
          for (std::int32_t i = 0; i < reduced_count_; ++i)
            reductions[static_cast<std::size_t>(i)].add(sweep_.reduced[i].kind, results_of(scratch, i),
                                                        part.size(), accumulator(i));
        }
      }
    }
    for (std::int32_t i = 0; i < reduced_count_; ++i)
      reductions[static_cast<std::size_t>(i)].finish(sweep_.reduced[i].kind, accumulator(i));
  }

  /// Values of a reduction at a row of points.
  [[nodiscard]] Number* results_of(SystemScratch<Number>& scratch, std::int32_t reduced) const {
    return scratch.results.data() + (sweep_.written_count + reduced) * most_columns_;
  }
  [[nodiscard]] std::int64_t* accumulator(std::int32_t reduced) const {
    return arguments_.reductions + sweep_.reduced[reduced].which * reduction_copies * reduction_words;
  }

  void sweep_row(SystemScratch<Number>& scratch, std::int64_t z, std::int64_t y, const Range& columns) const {
    const bool is_clear = clear_[axis_z].holds(z) && clear_[axis_y].holds(y);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const RowPlace& place = places_[i];
      const bool in_place = is_clear && place.is_own && columns.begin >= place.clear[axis_x].begin &&
                            columns.end <= place.clear[axis_x].end;
      scratch.rows[i] =
          in_place ? place.base + z * place.pitch[axis_z] + y * place.pitch[axis_y] +
                         columns.begin * place.pitch[axis_x]
                   : static_cast<const void*>(read_row(scratch, place, find_row(place, z, y), columns));
    }
    for (std::int32_t i = 0; i < sweep_.written_count; ++i) {
      const std::int32_t field = sweep_.written[i].field;
      const bool is_own = loop_.fields[field].storage == own_storage;
      scratch.to[static_cast<std::size_t>(i)] = is_own
                                                    ? static_cast<void*>(target(field, z, y, columns.begin))
                                                    : scratch.results.data() + i * most_columns_;
    }
    for (std::int32_t i = 0; i < reduced_count_; ++i)
      scratch.to[static_cast<std::size_t>(sweep_.written_count + i)] = results_of(scratch, i);
    loop_.compute({arguments_, z, y, columns.begin, columns.size(), scratch.rows.data(), scratch.to.data(),
                   reduced_count_ > 0});
    for (std::int32_t i = 0; i < sweep_.written_count && converts_; ++i) {
      const std::int32_t field = sweep_.written[i].field;
      const std::int32_t storage = loop_.fields[field].storage;
      if (storage == own_storage) continue;
      store_cells(storage, scratch.results.data() + i * most_columns_, target(field, z, y, columns.begin),
                  columns.size());
    }
  }

  [[nodiscard]] std::byte* target(std::int32_t field, std::int64_t z, std::int64_t y, std::int64_t x) const {
    const SystemFieldPlace& place = arguments_.fields[field];
    return static_cast<std::byte*>(place.target) +
           (z * place.target_stride[0] + y * place.target_stride[1] + x) *
               bytes_of(loop_.fields[field].storage);
  }

  /// The number of a face's constant.
  [[nodiscard]] static Number constant(const RowPlace& place, int axis, int side) {
    return side == Place::zero ? Number{0} : static_cast<Number>(place.field->faces[axis][side].value);
  }

  /// Where faces meet, y has precedence over z.
  [[nodiscard]] FoundRow find_row(const RowPlace& place, std::int64_t z, std::int64_t y) const {
    const Place plane = place.field->axes[axis_z] ? place.axes[axis_z].find(z + place.row.dz) : Place{};
    const Place row = place.field->axes[axis_y] ? place.axes[axis_y].find(y + place.row.dy) : Place{};
    if (row.constant) return {nullptr, constant(place, axis_y, row.side), row.negated};
    const bool negated = plane.negated != row.negated;
    if (plane.constant) return {nullptr, constant(place, axis_z, plane.side), negated};
    const SystemFieldPlace& memory = arguments_.fields[place.row.field];
    return {static_cast<const std::byte*>(memory.data) +
                (place.axes[axis_z].in_memory(plane.index) * memory.stride[0] +
                 place.axes[axis_y].in_memory(row.index) * memory.stride[1]) *
                    place.bytes,
            Number{0}, negated};
  }

  /// Numbers of a row, from dx = 0 of the first column on: in the field's memory, or copied.
  const Number* read_row(SystemScratch<Number>& scratch, const RowPlace& place, const FoundRow& found,
                         const Range& columns) const {
    const Range cells =
        place.is_wide ? Range{columns.begin + place.row.low, columns.end + place.row.high} : Range{0, 1};
    const Axis& axis = place.axes[axis_x];
    // Cells that need no index mapping, of fields with cells along x.
    const Range inside{axis.rules[0] == FaceRule::halo ? cells.begin : std::max<std::int64_t>(cells.begin, 0),
                       axis.rules[1] == FaceRule::halo ? cells.end : std::min(cells.end, axis.extent)};
    const bool is_inside = !place.is_wide || (inside.begin == cells.begin && inside.end == cells.end);
    const std::int64_t origin = place.is_wide ? columns.begin : 0;
    if (is_inside && found.cells != nullptr && !found.negated && place.is_own)
      return reinterpret_cast<const Number*>(found.cells) + origin;
    Number* const to = scratch.cells.data() + place.first + place.margin;
    const Range loaded = is_inside ? cells : inside;
    if (!loaded.empty()) load_row(place, found, loaded, to + (loaded.begin - origin));
    if (is_inside) return to;
    const auto beyond = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t x = begin; x < end; ++x) to[x - origin] = find_cell(place, found, x);
    };
    if (loaded.empty()) {
      beyond(cells.begin, cells.end);
    } else {
      beyond(cells.begin, loaded.begin);
      beyond(loaded.end, cells.end);
    }
    return to;
  }

  /// Copies cells that need no index mapping.
  static void load_row(const RowPlace& place, const FoundRow& found, const Range& cells, Number* to) {
    if (found.cells == nullptr) {
      std::fill_n(to, cells.size(), found.negated ? -found.constant : found.constant);
      return;
    }
    load_cells(place.field->storage, found.cells + cells.begin * place.bytes, to, cells.size());
    if (!found.negated) return;
    for (std::int64_t i = 0; i < cells.size(); ++i) to[i] = -to[i];
  }

  /// A cell that may be a ghost cell in x. A constant in x replaces the rules of z and y.
  static Number find_cell(const RowPlace& place, FoundRow found, std::int64_t x) {
    const Place cell = place.axes[axis_x].find(x);
    if (cell.constant) {
      const Number value = constant(place, axis_x, cell.side);
      return cell.negated ? -value : value;
    }
    found.negated = found.negated != cell.negated;
    const std::int64_t index = place.axes[axis_x].in_memory(cell.index);
    Number value{};
    load_row(place, found, {index, index + 1}, &value);
    return value;
  }

  static constexpr std::int64_t most_columns_ = 4096;  ///< of a tile

  const SystemLoop& loop_;
  const SystemSweep& sweep_;
  const SystemArguments& arguments_;
  std::vector<RowPlace> places_;
  std::int64_t copied_ = 0;    ///< numbers of all copies of rows
  std::int64_t crossing_ = 0;  ///< rows that cross a face in x
  /// Points whose rows cross no face.
  Range clear_[3] = {{0, std::int64_t{1} << 40}, {0, std::int64_t{1} << 40}, {0, std::int64_t{1} << 40}};
  std::int32_t reduced_count_ = 0;  ///< reductions to compute
  bool converts_ = false;           ///< does a row have cells that are not Numbers?
  double operations_ = 4;           ///< of a point, approximately
};

}  // namespace
}  // namespace spider::host

namespace spider {
inline namespace device_4 {
namespace loops {
namespace {

host::Axis axis_of(const SystemField& field, int axis, std::int64_t extent) {
  host::Axis along;
  along.extent = extent;
  for (int side = 0; side < 2; ++side) along.rules[side] = field.faces[axis][side].rule;
  return along;
}

double load_cell(std::int32_t storage, const void* data, std::int64_t offset) {
  double number = 0;
  host::load_cells(storage, static_cast<const std::byte*>(data) + offset * bytes_of(storage), &number, 1);
  return number;
}

}  // namespace

/// Where faces meet, the faster axis has precedence, and its constant replaces the signs of the slower ones.
double find_cell(const SystemField& field, const SystemFieldPlace& memory, const std::int64_t (&extent)[3],
                 const std::int64_t (&at)[3]) {
  const std::int64_t strides[3] = {memory.stride[0], memory.stride[1], 1};
  std::int64_t offset = 0;
  bool negated = false;
  for (int axis = 2; axis >= 0; --axis) {
    if (!field.axes[axis]) continue;
    const host::Axis along = axis_of(field, axis, extent[axis]);
    const host::Place place = along.find(at[axis]);
    negated = negated != place.negated;
    if (place.constant) {
      const double value = place.side == host::Place::zero ? 0 : field.faces[axis][place.side].value;
      return negated ? -value : value;
    }
    offset += along.in_memory(place.index) * strides[axis];
  }
  const double value = load_cell(field.storage, memory.data, offset);
  return negated ? -value : value;
}

int takes_value(const SystemField& field, int axis, std::int64_t extent, std::int64_t at,
                std::int64_t point) {
  const host::Axis along = axis_of(field, axis, extent);
  const host::Place place = along.find(at);
  if (place.constant || along.in_memory(place.index) != point) return 0;
  return place.negated ? -1 : 1;
}

float as_stored(std::int32_t storage, float number) {
  std::uint64_t cell = 0;
  host::store_cells(storage, &number, reinterpret_cast<std::byte*>(&cell), 1);
  host::load_cells(storage, reinterpret_cast<const std::byte*>(&cell), &number, 1);
  return number;
}
double as_stored(std::int32_t storage, double number) {
  std::uint64_t cell = 0;
  host::store_cells(storage, &number, reinterpret_cast<std::byte*>(&cell), 1);
  host::load_cells(storage, reinterpret_cast<const std::byte*>(&cell), &number, 1);
  return number;
}

void sweep_system(const SystemLoop& loop, const SystemArguments& arguments) {
  if (loop.number == SPIDER_F64) return host::SystemSweeper<double>(loop, arguments).run();
  return host::SystemSweeper<float>(loop, arguments).run();
}

}  // namespace loops
}  // namespace device_4
}  // namespace spider
