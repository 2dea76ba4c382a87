#include "fields.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>

namespace spider {
namespace {

using backend::Outcome;

constexpr std::int64_t largest_line = std::int64_t{1} << 40;  // the axis of a 1D field

PlacedAxis axis_of(const spider_kernel& kernel, const spider_field& field, const spider_part& part,
                   int axis) {
  return {kernel.faces[axis][0].rule, kernel.faces[axis][1].rule, field.extent[axis], part.origin[axis],
          part.whole[axis]};
}

CellBox cells_of(const spider_kernel& kernel, const spider_field& field, const spider_part& part,
                 bool with_halo) {
  CellBox cells;
  for (int axis = 0; axis < 3; ++axis) {
    const HaloWidth halo = with_halo ? halo_width(kernel, field, part, axis) : HaloWidth{};
    cells[axis] = {-halo.low, halo.low + field.extent[axis] + halo.high};
  }
  return cells;
}

/// check_whole_span() for a kernel's field.
Outcome check_whole_span(const spider_kernel& kernel, const spider_field& field, const spider_part& part,
                         bool with_halo, const std::string& name) {
  return check_whole_span(strides_of(field, cells_of(kernel, field, part, with_halo)),
                          with_halo ? element_bytes(kernel) : output_bytes(kernel), part, name);
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

/// The number of cells along an axis by which blocks and aligned rows can shift without changing either.
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

}  // namespace

std::int64_t added_cells(const spider_kernel& kernel, int axis) {
  const std::int64_t reach = std::max(kernel.info.reach_low[axis], kernel.info.reach_high[axis]);
  return round_up(reach, common_multiple(kernel, axis));
}

spider_part whole_part(const spider_field& field) {
  return {{0, 0, 0}, {field.extent[0], field.extent[1], field.extent[2]}};
}

HaloWidth halo_width(const spider_kernel& kernel, const spider_field& field, const spider_part& part,
                     int axis) {
  return halo_of_reach(axis_of(kernel, field, part, axis),
                       {kernel.info.reach_low[axis], kernel.info.reach_high[axis]});
}

HaloWidth further_halo_width(const spider_kernel& kernel, const spider_field& field, const spider_part& part,
                             int axis) {
  const std::int32_t steps = kernel.info.steps;
  return halo_of_reach(axis_of(kernel, field, part, axis),
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
  if (storage == SPIDER_U8) return 1;
  return storage == SPIDER_F32 ? 4 : 2;
}

std::int64_t element_bytes(const spider_kernel& kernel) {
  return bytes_of(kernel.info.storage);
}

std::int64_t output_bytes(const spider_kernel& kernel) {
  return bytes_of(kernel.info.output);
}

bool converts(const spider_kernel& kernel) {
  return kernel.info.output != kernel.info.storage;
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
  const std::int64_t size = with_halo ? element_bytes(kernel) : output_bytes(kernel);
  return reinterpret_cast<std::uintptr_t>(field.data) % static_cast<std::uintptr_t>(bytes) == 0 &&
         strides.row * size % bytes == 0 && strides.plane * size % bytes == 0;
}

bool plane_cells_fit_32_bits(const spider_kernel& kernel, const spider_field& field) {
  constexpr std::int64_t tile_columns = 128;  // covers a tile's columns outside the field
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
  if (Outcome failed = check_extents(kernel, whole, "the whole")) return failed;
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
    const std::int64_t added = is_cut_ring(axis_of(kernel, in, part, axis)) ? added_cells(kernel, axis) : 0;
    placed.origin[axis] += added;
    placed.in.extent[axis] = placed.out.extent[axis] = part.whole[axis] + 2 * added;
  }
  move_to_first(placed.in, in_strides, placed.origin, element_bytes(kernel));
  move_to_first(placed.out, out_strides, placed.origin, output_bytes(kernel));
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
    if (outcome) return outcome;
  }
  const std::int32_t read_in = other.takes_turns ? steps : kernel.info.steps;
  const CellBox read = read_in > 1 ? cells : interior_of(field);
  const bool overlaps =
      overlap(rows_of(field, read, bytes), rows_of(out, interior_of(out), output_bytes(kernel)));
  if (read_in > 1 && overlaps) {
    return refuse(
        SPIDER_ERROR_OVERLAP,
        other.name + " and the output share cells; a sweep of " + std::to_string(read_in) +
            " steps reads it at every step and writes elsewhere meanwhile: give it memory of its own");
  }
  if (other.storage == kernel.info.output && is_in_place(out, field)) return {};
  if (overlaps) {
    return refuse(SPIDER_ERROR_OVERLAP, other.name +
                                            " and the output share cells; the output may be its memory, with "
                                            "the same data, extents, strides and storage, but no part of it");
  }
  return {};
}

CellBox cells_read_of(const spider_kernel& kernel, const spider_field& in, const spider_part& part) {
  return cells_of(kernel, in, part, true);
}

CellBox cells_read_of(const spider_kernel& kernel, const OtherField& other, const spider_part& part) {
  return cells_read(kernel, other, *other.field, part);
}

bool share_cells(const spider_kernel& kernel, const spider_field& a, const spider_field& b) {
  const std::int64_t bytes = output_bytes(kernel);
  return overlap(rows_of(a, interior_of(a), bytes), rows_of(b, interior_of(b), bytes));
}

Outcome check_field_of_points(const PointStorage& storage, const spider_field& field,
                              const std::int64_t (&extent)[3], const void* values, std::int64_t count) {
  if (field.data == nullptr && !is_empty(field)) return refuse(SPIDER_ERROR_NULL, "the field has no data");
  for (int axis = 0; axis < 3; ++axis) {
    if (field.extent[axis] == extent[axis]) continue;
    return refuse(SPIDER_ERROR_EXTENT, "the field has extent " + std::to_string(field.extent[axis]) +
                                           on_axis(axis) + "; the points are of fields with " +
                                           std::to_string(extent[axis]));
  }
  if (is_empty(field)) return {};  // and no point
  const std::int64_t bytes = bytes_of(storage.cells);
  const CellBox cells = interior_of(field);
  for (Outcome outcome :
       {check_strides(field, cells, bytes, "the field"), check_alignment(field, bytes, "the field")}) {
    if (outcome) return outcome;
  }
  if (count == 0) return {};
  if (values == nullptr) return refuse(SPIDER_ERROR_NULL, "the values are null");
  const spider_field list{const_cast<void*>(values), {1, 1, count}, {0, 0}};
  const std::int64_t value_bytes = bytes_of(storage.values);
  if (Outcome failed = check_alignment(list, value_bytes, "the list of values")) return failed;
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
    if (outcome) return outcome;
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (in.extent[axis] != out.extent[axis]) {
      return refuse(SPIDER_ERROR_EXTENT, "input and output differ" + on_axis(axis) + ": " +
                                             std::to_string(in.extent[axis]) + " and " +
                                             std::to_string(out.extent[axis]));
    }
  }
  if (Outcome failed = check_part(kernel, in, part)) return failed;
  if (!reads) return {};
  const std::int64_t bytes = element_bytes(kernel);
  const std::int64_t out_bytes = output_bytes(kernel);
  const CellBox read = cells_of(kernel, in, part, true);
  const CellBox written = cells_of(kernel, out, part, false);
  for (Outcome outcome :
       {check_strides(in, read, bytes, "the input"), check_strides(out, written, out_bytes, "the output"),
        check_whole_span(kernel, in, part, true, "the input"),
        check_whole_span(kernel, out, part, false, "the output"), check_alignment(in, bytes, "the input"),
        check_alignment(out, out_bytes, "the output")}) {
    if (outcome) return outcome;
  }
  if (overlap(rows_of(in, read, bytes), rows_of(out, written, out_bytes))) {
    return refuse(SPIDER_ERROR_OVERLAP, "the input, with its halo, and the output share cells");
  }
  return {};
}

}  // namespace spider
