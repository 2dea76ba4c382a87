#include "fields.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace spider {
namespace {

using backend::Outcome;

constexpr std::array<std::string_view, 3> axis_names{"z", "y", "x"};
constexpr int axis_z = 0;
constexpr int axis_y = 1;
constexpr int axis_x = 2;
// Kernels index axes that are not streamed in one run with 32 bits, and look a strip and the reach beyond.
constexpr std::int64_t largest_extent = std::numeric_limits<std::int32_t>::max() - 65536;
constexpr std::int64_t largest_line = std::int64_t{1} << 40;  // the axis of a 1D field
constexpr std::int64_t largest_stride = std::int64_t{1} << 40;
// Addresses, and what is computed from them, stay within 64 bits.
constexpr std::int64_t largest_span_bytes = std::int64_t{1} << 60;

Outcome refuse(spider_status status, std::string reason) {
  return {status, std::move(reason)};
}

std::string on_axis(int axis) {
  return " on axis " + std::string(axis_names[axis]);
}

/// Cells along an axis with the halo that counts, from `first` (at most 0) relative to the first interior
/// one.
struct Cells {
  std::int64_t first = 0;
  std::int64_t count = 1;
};

using CellBox = std::array<Cells, 3>;

CellBox cells_of(const spider_kernel& kernel, const spider_field& field, const spider_part& part,
                 bool with_halo) {
  CellBox cells;
  for (int axis = 0; axis < 3; ++axis) {
    const HaloWidth halo = with_halo ? halo_width(kernel, field, part, axis) : HaloWidth{};
    cells[axis] = {-halo.low, halo.low + field.extent[axis] + halo.high};
  }
  return cells;
}

/// Those of a field without halo.
CellBox interior_of(const spider_field& field) {
  return {Cells{0, field.extent[0]}, Cells{0, field.extent[1]}, Cells{0, field.extent[2]}};
}

/// A stride counts where there is a second row or plane, in the interior or in the halo; else it is 0 here.
struct Strides {
  std::int64_t plane = 0;
  std::int64_t row = 0;
};

Strides strides_of(const spider_field& field, const CellBox& cells) {
  return {cells[axis_z].count > 1 ? field.stride[0] : 0, cells[axis_y].count > 1 ? field.stride[1] : 0};
}

Outcome check_stride(std::int64_t stride, std::int64_t needed, std::int64_t interior, const char* what,
                     const std::string& name) {
  if (stride >= needed && stride <= largest_stride) return {};
  const std::string parts = std::string(what) + "s";
  return refuse(SPIDER_ERROR_STRIDE,
                name + " has " + std::to_string(stride) + " elements from " + what + " to " + what + "; " +
                    (stride < needed ? "at least " + std::to_string(needed) + " keep " + parts +
                                           (needed > interior ? " with their halo" : "") + " apart"
                                     : "at most " + std::to_string(largest_stride) + " are supported"));
}

/// Rows must keep apart, and planes: one within the other, either way round.
Outcome check_strides(const spider_field& field, const CellBox& cells, std::int64_t bytes,
                      const std::string& name) {
  const Strides strides = strides_of(field, cells);
  const std::int64_t width = cells[axis_x].count;
  if (cells[axis_y].count > 1) {
    Outcome rows = check_stride(strides.row, width, field.extent[axis_x], "row", name);
    if (rows.status != SPIDER_OK) return rows;
  }
  const std::int64_t limit = largest_span_bytes / bytes;
  const std::int64_t rows_apart = cells[axis_y].count - 1;
  const std::int64_t planes_apart = cells[axis_z].count - 1;
  const bool rows_too_far = rows_apart > 0 && strides.row > (limit - width) / rows_apart;
  const std::int64_t plane_size = rows_too_far ? limit : rows_apart * strides.row + width;
  if (planes_apart > 0 && !rows_too_far) {
    const bool planes_within_rows = strides.plane >= width && strides.plane <= strides.row / planes_apart &&
                                    strides.row - planes_apart * strides.plane >= width;
    const std::int64_t needed = planes_within_rows ? width : plane_size;
    Outcome planes =
        check_stride(strides.plane, needed, field.extent[axis_y] * field.extent[axis_x], "plane", name);
    if (planes.status != SPIDER_OK) return planes;
  }
  if (rows_too_far || (planes_apart > 0 && strides.plane > (limit - plane_size) / planes_apart)) {
    return refuse(SPIDER_ERROR_STRIDE, name + " spans more than 2^60 bytes");
  }
  return {};
}

/// Addresses of the whole's cells, as the part's strides place them, are computed though they are not used.
Outcome check_whole_span(const spider_kernel& kernel, const spider_field& field, const spider_part& part,
                         bool with_halo, const std::string& name) {
  const Strides strides = strides_of(field, cells_of(kernel, field, part, with_halo));
  const std::int64_t limit = largest_span_bytes / element_bytes(kernel);
  for (const auto& [axis, stride] : {std::pair{axis_z, strides.plane}, std::pair{axis_y, strides.row}}) {
    if (stride == 0 || part.whole[axis] - 1 <= limit / stride) continue;
    return refuse(SPIDER_ERROR_STRIDE,
                  name + " is a part of a whole that spans more than 2^60 bytes" + on_axis(axis));
  }
  return {};
}

/// Rows of bytes, all of one length, in ascending order: the cells of a field, with or without halo.
struct ByteRows {
  std::intptr_t first = 0;
  std::int64_t bytes = 0;
  std::int64_t inner_pitch = 0;
  std::int64_t inner_count = 1;
  std::int64_t outer_pitch = 0;
  std::int64_t outer_count = 1;

  [[nodiscard]] std::int64_t count() const { return inner_count * outer_count; }
  [[nodiscard]] std::intptr_t begin(std::int64_t row) const {
    return first + row / inner_count * outer_pitch + row % inner_count * inner_pitch;
  }
  [[nodiscard]] std::intptr_t end(std::int64_t row) const { return begin(row) + bytes; }
};

ByteRows rows_of(const spider_field& field, const CellBox& cells, std::int64_t bytes) {
  const Strides strides = strides_of(field, cells);
  ByteRows rows{
      reinterpret_cast<std::intptr_t>(field.data) +
          (cells[axis_z].first * strides.plane + cells[axis_y].first * strides.row + cells[axis_x].first) *
              bytes,
      cells[axis_x].count * bytes,
      strides.row * bytes,
      cells[axis_y].count,
      strides.plane * bytes,
      cells[axis_z].count};
  if (rows.inner_count > 1 && rows.outer_count > 1 && rows.outer_pitch < rows.inner_pitch) {
    std::swap(rows.inner_pitch, rows.outer_pitch);
    std::swap(rows.inner_count, rows.outer_count);
  }
  return rows;
}

/// Along one axis, how far apart in memory a row of one field and a row of another may be: `pitch` times any
/// of `low` to `high`.
struct Differences {
  std::int64_t pitch = 0;
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// Those of rows of `a` less rows of `b`; none where their pitches differ.
std::optional<Differences> find_differences(std::int64_t pitch_a, std::int64_t count_a, std::int64_t pitch_b,
                                            std::int64_t count_b) {
  if (count_a > 1 && count_b > 1 && pitch_a != pitch_b) return std::nullopt;
  return Differences{count_a > 1 ? pitch_a : pitch_b, 1 - count_b, count_a - 1};
}

/// Rounds down; `divisor` is positive.
std::int64_t floor_divide(std::int64_t dividend, std::int64_t divisor) {
  return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

/// The multiples of the pitch that lie between the bounds, as far as there are such differences.
Differences between(const Differences& all, std::int64_t above, std::int64_t below) {
  if (all.pitch == 0) return above < 0 && below > 0 ? all : Differences{0, 0, -1};
  return {all.pitch, std::max(all.low, floor_divide(above, all.pitch) + 1),
          std::min(all.high, -floor_divide(-below, all.pitch) - 1)};
}

/// Where the fields' pitches are the same, two rows share bytes if the sum of their differences lies between
/// `above` and `below`: few of the outer axis can, and for each the inner one decides at once.
bool differ_by_little(const Differences& outer, const Differences& inner, std::int64_t above,
                      std::int64_t below) {
  const Differences near = between(outer, above - inner.high * inner.pitch, below - inner.low * inner.pitch);
  for (std::int64_t i = near.low; i <= near.high; ++i) {
    const Differences left = between(inner, above - i * outer.pitch, below - i * outer.pitch);
    if (left.low <= left.high) return true;
  }
  return false;
}

/// Two sub-fields of one array may interleave without sharing a cell.
bool overlap(const ByteRows& a, const ByteRows& b) {
  if (a.end(a.count() - 1) <= b.begin(0) || b.end(b.count() - 1) <= a.begin(0)) return false;
  const std::optional<Differences> outer =
      find_differences(a.outer_pitch, a.outer_count, b.outer_pitch, b.outer_count);
  const std::optional<Differences> inner =
      find_differences(a.inner_pitch, a.inner_count, b.inner_pitch, b.inner_count);
  if (outer && inner) {
    const std::int64_t apart = b.first - a.first;
    return differ_by_little(*outer, *inner, apart - a.bytes, apart + b.bytes);
  }
  // Row by row.
  for (std::int64_t i = 0, j = 0; i < a.count() && j < b.count();) {
    if (a.end(i) <= b.begin(j)) {
      ++i;
    } else if (b.end(j) <= a.begin(i)) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

Outcome check_alignment(const spider_field& field, std::int64_t bytes, const std::string& name) {
  if (reinterpret_cast<std::uintptr_t>(field.data) % static_cast<std::uintptr_t>(bytes) == 0) return {};
  return refuse(SPIDER_ERROR_ALIGNMENT, name + " does not start on a multiple of its element size, " +
                                            std::to_string(bytes) + " bytes");
}

/// Makes a field begin `origin` cells ahead. Through integers: that place is seldom in memory.
void move_to_first(spider_field& field, const Strides& strides, const std::int64_t (&origin)[3],
                   std::int64_t bytes) {
  const std::int64_t cells = origin[axis_z] * strides.plane + origin[axis_y] * strides.row + origin[axis_x];
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  field.data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(field.data) -
                                       static_cast<std::uintptr_t>(cells * bytes));
  field.stride[0] = strides.plane;
  field.stride[1] = strides.row;
}

bool is_mirror_rule(FaceRule rule) {
  return rule == FaceRule::reflect || rule == FaceRule::mirror || rule == FaceRule::antisymmetric;
}

/// Cells between a field's last one and the first that a fold repeats, of which mirror has one too few.
std::int64_t cells_between(FaceRule rule) {
  if (rule == FaceRule::mirror) return -1;
  return rule == FaceRule::antisymmetric ? 1 : 0;
}

/// How far beyond its other end the farthest cell of a `reach` comes out that a folding face turns round: of
/// `extent` cells that end `distance` cells before that face, in a whole of `whole`.
std::int64_t beyond_other_end(FaceRule rule, std::int64_t reach, std::int64_t extent, std::int64_t distance,
                              std::int64_t whole) {
  if (!is_mirror_rule(rule) || reach <= distance) return 0;
  if (rule == FaceRule::mirror && whole == 1) return 0;
  return std::max<std::int64_t>(0, reach - extent - 2 * distance - cells_between(rule));
}

/// Is a periodic axis cut, so that the other end of it is in other memory?
bool is_cut_ring(const spider_kernel& kernel, const spider_field& field, const spider_part& part, int axis) {
  return kernel.faces[axis][0].rule == FaceRule::periodic && part.whole[axis] != field.extent[axis];
}

/// halo_width() of taps that reach so far.
HaloWidth halo_of_reach(const spider_kernel& kernel, const spider_field& field, const spider_part& part,
                        int axis, const HaloWidth& reach) {
  const FaceRule low = kernel.faces[axis][0].rule;
  const FaceRule high = kernel.faces[axis][1].rule;
  if (is_cut_ring(kernel, field, part, axis)) return reach;
  const std::int64_t extent = field.extent[axis];
  const std::int64_t whole = part.whole[axis];
  const std::int64_t before = part.origin[axis];
  const std::int64_t behind = whole - extent - before;
  HaloWidth width{std::max(reach.low, beyond_other_end(high, reach.high, extent, behind, whole)),
                  std::max(reach.high, beyond_other_end(low, reach.low, extent, before, whole))};
  if (low != FaceRule::halo) width.low = std::min(width.low, before);
  if (high != FaceRule::halo) width.high = std::min(width.high, behind);
  return width;
}

CellBox further_cells(const spider_kernel& kernel, const spider_field& field, const spider_part& part) {
  CellBox cells;
  for (int axis = 0; axis < 3; ++axis) {
    const HaloWidth halo = further_halo_width(kernel, field, part, axis);
    cells[axis] = {-halo.low, halo.low + field.extent[axis] + halo.high};
  }
  return cells;
}

std::int64_t round_up(std::int64_t number, std::int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

/// Of how many cells along an axis blocks and aligned rows may be moved together without a change of either.
std::int64_t common_multiple(const spider_kernel& kernel, int axis) {
  // Vectors of columns, and the rows that a step of some kernels takes together.
  std::int64_t multiple = 16;
  for (std::int32_t i = 0; i < kernel.form_count; ++i) {
    const Tiling& tiling = kernel.forms[i].tiling;
    const std::int64_t anchor = axis == axis_x ? tiling.anchor : axis == axis_y ? tiling.row_anchor : 1;
    if (anchor > 0) multiple = std::lcm(multiple, anchor);
  }
  return multiple;
}

/// How many cells a periodic axis that is cut gets beyond each of its ends.
std::int64_t added_cells(const spider_kernel& kernel, int axis) {
  const std::int64_t reach = std::max(kernel.info.reach_low[axis], kernel.info.reach_high[axis]);
  return round_up(reach, common_multiple(kernel, axis));
}

}  // namespace

spider_part whole_part(const spider_field& field) {
  return {{0, 0, 0}, {field.extent[0], field.extent[1], field.extent[2]}};
}

HaloWidth halo_width(const spider_kernel& kernel, const spider_field& field, const spider_part& part,
                     int axis) {
  return halo_of_reach(kernel, field, part, axis,
                       {kernel.info.reach_low[axis], kernel.info.reach_high[axis]});
}

HaloWidth further_halo_width(const spider_kernel& kernel, const spider_field& field, const spider_part& part,
                             int axis) {
  const std::int32_t steps = kernel.info.steps;
  return halo_of_reach(kernel, field, part, axis,
                       {kernel.info.reach_low[axis] / steps * (steps - 1),
                        kernel.info.reach_high[axis] / steps * (steps - 1)});
}

spider_sweep extended(const spider_sweep& sweep) {
  spider_sweep whole{};
  std::memcpy(&whole, &sweep, sweep.size);
  whole.size = sizeof whole;
  return whole;
}

std::int64_t bytes_of(std::int32_t storage) {
  if (storage == SPIDER_F64) return 8;
  return storage == SPIDER_F32 ? 4 : 2;
}

std::int64_t element_bytes(const spider_kernel& kernel) {
  return bytes_of(kernel.info.storage);
}

Outcome check_extents(const spider_kernel& kernel, const spider_field& field, const std::string& name) {
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t extent = field.extent[axis];
    const bool absent = axis < 3 - kernel.info.dimensions;
    const std::int64_t largest = kernel.info.dimensions == 1 ? largest_line : largest_extent;
    if (extent < 0 || extent > largest || (absent && extent != 1)) {
      return refuse(SPIDER_ERROR_EXTENT, name + " has extent " + std::to_string(extent) + on_axis(axis) +
                                             (absent ? "; this kernel has no such axis, so it must be 1"
                                                     : "; it must be 0 to " + std::to_string(largest)));
    }
  }
  return {};
}

bool is_empty(const spider_field& field) {
  return std::any_of(std::begin(field.extent), std::end(field.extent),
                     [](std::int64_t extent) { return extent == 0; });
}

Outcome check_box(const spider_field& field, const Box& box) {
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t room = field.extent[axis];
    const std::int64_t offset = box.offset[axis];
    const std::int64_t extent = box.extent[axis];
    if (offset >= 0 && extent >= 1 && offset <= room && extent <= room - offset) continue;
    return refuse(SPIDER_ERROR_EXTENT, "the box has offset " + std::to_string(offset) + " and extent " +
                                           std::to_string(extent) + on_axis(axis) +
                                           "; it must have a point, and lie inside the field's " +
                                           std::to_string(room));
  }
  return {};
}

bool rows_aligned(const spider_kernel& kernel, const spider_field& field, std::int64_t bytes,
                  bool with_halo) {
  const Strides strides = strides_of(field, cells_of(kernel, field, whole_part(field), with_halo));
  const std::int64_t size = element_bytes(kernel);
  return reinterpret_cast<std::uintptr_t>(field.data) % static_cast<std::uintptr_t>(bytes) == 0 &&
         strides.row * size % bytes == 0 && strides.plane * size % bytes == 0;
}

bool plane_cells_fit_32_bits(const spider_kernel& kernel, const spider_field& field) {
  constexpr std::int64_t tile_columns = 128;  // offsets of a tile's columns beside the field's are found, too
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max() - tile_columns;
  const CellBox cells = cells_of(kernel, field, whole_part(field), true);
  const std::int64_t rows = cells[axis_y].count;
  return strides_of(field, cells).row <= (largest - cells[axis_x].count) / rows;
}

bool rows_aligned(const spider_field& field, std::int32_t storage, std::int64_t bytes) {
  const std::int64_t size = bytes_of(storage);
  return reinterpret_cast<std::uintptr_t>(field.data) % static_cast<std::uintptr_t>(bytes) == 0 &&
         field.stride[0] * size % bytes == 0 && field.stride[1] * size % bytes == 0;
}

Outcome check_part(const spider_kernel& kernel, const spider_field& field, const spider_part& part) {
  const spider_field whole{nullptr, {part.whole[0], part.whole[1], part.whole[2]}, {0, 0}};
  if (Outcome fit = check_extents(kernel, whole, "the whole"); fit.status != SPIDER_OK) return fit;
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t origin = part.origin[axis];
    const std::int64_t extent = field.extent[axis];
    if (origin >= 0 && origin <= part.whole[axis] - extent) continue;
    return refuse(SPIDER_ERROR_EXTENT,
                  "the part has origin " + std::to_string(origin) + " and extent " + std::to_string(extent) +
                      on_axis(axis) + "; it must lie inside the whole's " + std::to_string(part.whole[axis]));
  }
  return {};
}

PlacedFields place_fields(const spider_kernel& kernel, const spider_field& in, const spider_field& out,
                          const spider_part& part) {
  PlacedFields placed{in, out, {part.origin[0], part.origin[1], part.origin[2]}};
  const Strides in_strides = strides_of(in, cells_of(kernel, in, part, true));
  const Strides out_strides = strides_of(out, cells_of(kernel, out, part, false));
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t added = is_cut_ring(kernel, in, part, axis) ? added_cells(kernel, axis) : 0;
    placed.origin[axis] += added;
    placed.in.extent[axis] = placed.out.extent[axis] = part.whole[axis] + 2 * added;
  }
  const std::int64_t bytes = element_bytes(kernel);
  move_to_first(placed.in, in_strides, placed.origin, bytes);
  move_to_first(placed.out, out_strides, placed.origin, bytes);
  return placed;
}

namespace {

/// The cells of another field that a sweep reads.
CellBox cells_read(const spider_kernel& kernel, const OtherField& other, const spider_field& field,
                   const spider_part& part) {
  return other.takes_turns ? cells_of(kernel, field, part, true) : further_cells(kernel, field, part);
}

}  // namespace

spider_field place_other(const spider_kernel& kernel, const PlacedFields& placed, const OtherField& other,
                         const spider_part& part) {
  spider_field field = *other.field;
  const Strides strides = strides_of(field, cells_read(kernel, other, field, part));
  std::copy(std::begin(placed.in.extent), std::end(placed.in.extent), std::begin(field.extent));
  move_to_first(field, strides, placed.origin, bytes_of(other.storage));
  return field;
}

bool is_in_place(const spider_field& out, const spider_field& field) {
  return out.data == field.data &&
         std::equal(std::begin(out.extent), std::end(out.extent), std::begin(field.extent)) &&
         (out.extent[axis_z] == 1 || out.stride[0] == field.stride[0]) &&
         (out.extent[axis_y] == 1 || out.stride[1] == field.stride[1]);
}

Outcome check_other(const spider_kernel& kernel, const spider_field& in, const spider_field& out,
                    const OtherField& other, const spider_part& part, std::int32_t steps) {
  if (other.field == nullptr) {
    return refuse(SPIDER_ERROR_NULL,
                  "the kernel " + std::string(kernel.info.name) + " takes " + other.name + ", which is null");
  }
  const spider_field& field = *other.field;
  if (field.data == nullptr && !is_empty(field))
    return refuse(SPIDER_ERROR_NULL, other.name + " has no data");
  if (!std::equal(std::begin(in.extent), std::end(in.extent), std::begin(field.extent)))
    return refuse(SPIDER_ERROR_EXTENT, other.name + " has other extents than the input");
  if (is_empty(field)) return {};
  const std::int64_t bytes = bytes_of(other.storage);
  const CellBox cells = cells_read(kernel, other, field, part);
  for (Outcome outcome :
       {check_strides(field, cells, bytes, other.name), check_alignment(field, bytes, other.name)}) {
    if (outcome.status != SPIDER_OK) return outcome;
  }
  const std::int32_t read_in = other.takes_turns ? steps : kernel.info.steps;
  const CellBox read = read_in > 1 ? cells : interior_of(field);
  const bool overlaps =
      overlap(rows_of(field, read, bytes), rows_of(out, interior_of(out), element_bytes(kernel)));
  if (read_in > 1 && overlaps) {
    return refuse(
        SPIDER_ERROR_OVERLAP,
        other.name + " and the output share cells; a sweep of " + std::to_string(read_in) +
            " steps reads it at every step and writes elsewhere meanwhile: give it memory of its own");
  }
  if (other.storage == kernel.info.storage && is_in_place(out, field)) return {};
  if (overlaps) {
    return refuse(SPIDER_ERROR_OVERLAP, other.name +
                                            " and the output share cells; the output may be its memory, with "
                                            "the same data, extents, strides and storage, but no part of it");
  }
  return {};
}

bool share_cells(const spider_kernel& kernel, const spider_field& a, const spider_field& b) {
  const std::int64_t bytes = element_bytes(kernel);
  return overlap(rows_of(a, interior_of(a), bytes), rows_of(b, interior_of(b), bytes));
}

Outcome check_field_of_points(const spider_kernel& kernel, const spider_field& field,
                              const std::int64_t (&extent)[3], const void* values, std::int64_t count) {
  if (field.data == nullptr && !is_empty(field)) return refuse(SPIDER_ERROR_NULL, "the field has no data");
  for (int axis = 0; axis < 3; ++axis) {
    if (field.extent[axis] == extent[axis]) continue;
    return refuse(SPIDER_ERROR_EXTENT, "the field has extent " + std::to_string(field.extent[axis]) +
                                           on_axis(axis) + "; the points are of fields with " +
                                           std::to_string(extent[axis]));
  }
  if (is_empty(field)) return {};  // and no point
  const std::int64_t bytes = element_bytes(kernel);
  const CellBox cells = interior_of(field);
  for (Outcome outcome :
       {check_strides(field, cells, bytes, "the field"), check_alignment(field, bytes, "the field")}) {
    if (outcome.status != SPIDER_OK) return outcome;
  }
  if (count == 0) return {};
  if (values == nullptr) return refuse(SPIDER_ERROR_NULL, "the values are null");
  const spider_field list{const_cast<void*>(values), {1, 1, count}, {0, 0}};
  const std::int64_t value_bytes = bytes_of(kernel.info.accumulate);
  if (Outcome aligned = check_alignment(list, value_bytes, "the list of values"); aligned.status != SPIDER_OK)
    return aligned;
  if (overlap(rows_of(list, interior_of(list), value_bytes), rows_of(field, cells, bytes)))
    return refuse(SPIDER_ERROR_OVERLAP, "the values and the field share cells");
  return {};
}

Outcome check_fields(const spider_kernel& kernel, const spider_field& in, const spider_field& out,
                     const spider_part& part) {
  const bool reads = !is_empty(in);
  const bool writes = !is_empty(out);
  if ((reads && in.data == nullptr) || (writes && out.data == nullptr)) {
    return refuse(SPIDER_ERROR_NULL,
                  std::string(reads && in.data == nullptr ? "the input" : "the output") + " has no data");
  }
  for (Outcome outcome : {check_extents(kernel, in, "the input"), check_extents(kernel, out, "the output")}) {
    if (outcome.status != SPIDER_OK) return outcome;
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (in.extent[axis] != out.extent[axis]) {
      return refuse(SPIDER_ERROR_EXTENT, "input and output differ" + on_axis(axis) + ": " +
                                             std::to_string(in.extent[axis]) + " and " +
                                             std::to_string(out.extent[axis]));
    }
  }
  if (Outcome placed = check_part(kernel, in, part); placed.status != SPIDER_OK) return placed;
  if (!reads) return {};
  const std::int64_t bytes = element_bytes(kernel);
  const CellBox read = cells_of(kernel, in, part, true);
  const CellBox written = cells_of(kernel, out, part, false);
  for (Outcome outcome :
       {check_strides(in, read, bytes, "the input"), check_strides(out, written, bytes, "the output"),
        check_whole_span(kernel, in, part, true, "the input"),
        check_whole_span(kernel, out, part, false, "the output"), check_alignment(in, bytes, "the input"),
        check_alignment(out, bytes, "the output")}) {
    if (outcome.status != SPIDER_OK) return outcome;
  }
  if (overlap(rows_of(in, read, bytes), rows_of(out, written, bytes))) {
    return refuse(SPIDER_ERROR_OVERLAP, "the input, with its halo, and the output share cells");
  }
  return {};
}

}  // namespace spider
