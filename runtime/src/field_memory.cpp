#include "field_memory.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace spider {
namespace {

using backend::Outcome;

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

/// Distances in memory, along one axis, between rows of one field and rows of another: `pitch` times any of
/// `low` to `high`.
struct Differences {
  std::int64_t pitch = 0;
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// Distances from rows of `b` to rows of `a`; none if their pitches differ.
std::optional<Differences> find_differences(std::int64_t pitch_a, std::int64_t count_a, std::int64_t pitch_b,
                                            std::int64_t count_b) {
  if (count_a > 1 && count_b > 1 && pitch_a != pitch_b) return std::nullopt;
  return Differences{count_a > 1 ? pitch_a : pitch_b, 1 - count_b, count_a - 1};
}

/// Rounds down; `divisor` is positive.
std::int64_t floor_divide(std::int64_t dividend, std::int64_t divisor) {
  return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

/// The multiples of the pitch between the bounds, among those that occur.
Differences between(const Differences& all, std::int64_t above, std::int64_t below) {
  if (all.pitch == 0) return above < 0 && below > 0 ? all : Differences{0, 0, -1};
  return {all.pitch, std::max(all.low, floor_divide(above, all.pitch) + 1),
          std::min(all.high, -floor_divide(-below, all.pitch) - 1)};
}

/// Where the fields' pitches are the same, two rows share bytes if the sum of their differences lies between
/// `above` and `below`: few distances of the outer axis can, and for each the inner axis decides directly.
bool differ_by_little(const Differences& outer, const Differences& inner, std::int64_t above,
                      std::int64_t below) {
  const Differences near = between(outer, above - inner.high * inner.pitch, below - inner.low * inner.pitch);
  for (std::int64_t i = near.low; i <= near.high; ++i) {
    const Differences left = between(inner, above - i * outer.pitch, below - i * outer.pitch);
    if (left.low <= left.high) return true;
  }
  return false;
}

bool is_mirror_rule(FaceRule rule) {
  return rule == FaceRule::reflect || rule == FaceRule::mirror || rule == FaceRule::antisymmetric ||
         rule == FaceRule::antireflect || rule == FaceRule::antimirror;
}

/// Cells between a field's last one and the first that a fold repeats; -1 where a mirror skips the last one.
std::int64_t cells_between(FaceRule rule) {
  if (rule == FaceRule::mirror || rule == FaceRule::antimirror) return -1;
  return rule == FaceRule::antisymmetric ? 1 : 0;
}

/// How far outside the opposite end of the field the farthest mirrored cell of a `reach` lies. The field has
/// `extent` cells and ends `distance` cells before the folding face, in a whole of `whole`.
std::int64_t beyond_other_end(FaceRule rule, std::int64_t reach, std::int64_t extent, std::int64_t distance,
                              std::int64_t whole) {
  if (!is_mirror_rule(rule) || reach <= distance) return 0;
  if ((rule == FaceRule::mirror || rule == FaceRule::antimirror) && whole == 1) return 0;
  return std::max<std::int64_t>(0, reach - extent - 2 * distance - cells_between(rule));
}

}  // namespace

backend::Outcome refuse(spider_status status, std::string reason) {
  return {status, std::move(reason)};
}

std::string on_axis(int axis) {
  constexpr std::array<std::string_view, 3> axis_names{"z", "y", "x"};
  return " on axis " + std::string(axis_names[axis]);
}

bool is_cut_ring(const PlacedAxis& axis) {
  return axis.low == FaceRule::periodic && axis.whole != axis.extent;
}

HaloWidth halo_of_reach(const PlacedAxis& axis, const HaloWidth& reach) {
  if (is_cut_ring(axis)) return reach;
  const std::int64_t before = axis.origin;
  const std::int64_t behind = axis.whole - axis.extent - before;
  HaloWidth width{
      std::max(reach.low, beyond_other_end(axis.high, reach.high, axis.extent, behind, axis.whole)),
      std::max(reach.high, beyond_other_end(axis.low, reach.low, axis.extent, before, axis.whole))};
  if (axis.low != FaceRule::halo) width.low = std::min(width.low, before);
  if (axis.high != FaceRule::halo) width.high = std::min(width.high, behind);
  return width;
}

CellBox interior_of(const spider_field& field) {
  return {Cells{0, field.extent[0]}, Cells{0, field.extent[1]}, Cells{0, field.extent[2]}};
}

Strides strides_of(const spider_field& field, const CellBox& cells) {
  return {cells[axis_z].count > 1 ? field.stride[0] : 0, cells[axis_y].count > 1 ? field.stride[1] : 0};
}

Outcome check_strides(const spider_field& field, const CellBox& cells, std::int64_t bytes,
                      const std::string& name) {
  const Strides strides = strides_of(field, cells);
  const std::int64_t width = cells[axis_x].count;
  if (cells[axis_y].count > 1) {
    if (Outcome failed = check_stride(strides.row, width, field.extent[axis_x], "row", name)) return failed;
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
    if (planes) return planes;
  }
  if (rows_too_far || (planes_apart > 0 && strides.plane > (limit - plane_size) / planes_apart)) {
    return refuse(SPIDER_ERROR_STRIDE, name + " spans more than 2^60 bytes");
  }
  return {};
}

Outcome check_whole_span(const Strides& strides, std::int64_t bytes, const spider_part& part,
                         const std::string& name) {
  const std::int64_t limit = largest_span_bytes / bytes;
  for (const auto& [axis, stride] : {std::pair{axis_z, strides.plane}, std::pair{axis_y, strides.row}}) {
    if (stride == 0 || part.whole[axis] - 1 <= limit / stride) continue;
    return refuse(SPIDER_ERROR_STRIDE,
                  name + " is a part of a whole that spans more than 2^60 bytes" + on_axis(axis));
  }
  return {};
}

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

void move_to_first(spider_field& field, const Strides& strides, const std::int64_t (&origin)[3],
                   std::int64_t bytes) {
  const std::int64_t cells = origin[axis_z] * strides.plane + origin[axis_y] * strides.row + origin[axis_x];
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  field.data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(field.data) -
                                       static_cast<std::uintptr_t>(cells * bytes));
  field.stride[0] = strides.plane;
  field.stride[1] = strides.row;
}

}  // namespace spider
