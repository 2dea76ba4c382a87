#include "fields.h"

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace spider {
namespace {

using backend::Outcome;

constexpr std::array<std::string_view, 3> axis_names{"z", "y", "x"};
constexpr int axis_y = 1;
constexpr int axis_x = 2;
constexpr std::int64_t element_bytes = 2;
// Kernels index with 32 bits, and look a strip and the reach beyond an axis.
constexpr std::int64_t largest_extent = std::numeric_limits<std::int32_t>::max() - 65536;
// Products of extents and strides stay within 64 bits of bytes.
constexpr std::int64_t largest_stride = std::int64_t{1} << 31;

Outcome refuse(spider_status status, std::string reason) {
  return {status, std::move(reason)};
}

std::string on_axis(int axis) {
  return " on axis " + std::string(axis_names[axis]);
}

Outcome check_extents(const spider_kernel& kernel, const spider_field& field, const std::string& name) {
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t extent = field.extent[axis];
    const bool absent = axis < 3 - kernel.info.dimensions;
    if (extent < 1 || extent > largest_extent || (absent && extent != 1)) {
      return refuse(SPIDER_ERROR_EXTENT,
                    name + " has extent " + std::to_string(extent) + on_axis(axis) +
                        (absent ? "; this kernel has no such axis, so it must be 1"
                                : "; it must be 1 to " + std::to_string(largest_extent)));
    }
  }
  return {};
}

/// The stride counts where there is a second row, in the interior or in the halo.
bool row_stride_counts(const spider_kernel& kernel, const spider_field& field) {
  const HaloWidth halo = halo_width(kernel, axis_y);
  return field.extent[axis_y] > 1 || halo.low > 0 || halo.high > 0;
}

Outcome check_stride(const spider_kernel& kernel, const spider_field& field, bool with_halo,
                     const std::string& name) {
  const bool counts = with_halo ? row_stride_counts(kernel, field) : field.extent[axis_y] > 1;
  if (!counts) return {};
  const HaloWidth halo = with_halo ? halo_width(kernel, axis_x) : HaloWidth{};
  const std::int64_t needed = field.extent[axis_x] + halo.low + halo.high;
  const std::int64_t stride = field.stride[1];
  if (stride < needed || stride > largest_stride) {
    return refuse(
        SPIDER_ERROR_STRIDE,
        name + " has " + std::to_string(stride) + " elements from row to row; " +
            (stride < needed
                 ? "at least " + std::to_string(needed) + " keep rows" +
                       (with_halo && needed > field.extent[axis_x] ? " with their halo" : "") + " apart"
                 : "at most " + std::to_string(largest_stride) + " are supported"));
  }
  return {};
}

/// Rows of bytes, all of one length, at one pitch: the cells of a field, with or without halo.
struct ByteRows {
  std::intptr_t first = 0;
  std::int64_t bytes = 0;
  std::int64_t pitch = 0;
  std::int64_t count = 0;

  [[nodiscard]] std::intptr_t begin(std::int64_t row) const { return first + row * pitch; }
  [[nodiscard]] std::intptr_t end(std::int64_t row) const { return begin(row) + bytes; }
};

ByteRows rows_of(const spider_field& field, HaloWidth y, HaloWidth x) {
  const std::int64_t pitch = field.stride[1] * element_bytes;
  const std::int64_t count = field.extent[axis_y] + y.low + y.high;
  const auto data = reinterpret_cast<std::intptr_t>(field.data);
  return {data - y.low * (count > 1 ? pitch : 0) - x.low * element_bytes,
          (field.extent[axis_x] + x.low + x.high) * element_bytes, count > 1 ? pitch : 0, count};
}

bool overlap(const ByteRows& a, const ByteRows& b) {
  if (a.end(a.count - 1) <= b.begin(0) || b.end(b.count - 1) <= a.begin(0)) return false;
  // Two sub-fields of one array may interleave without sharing a cell: walk both, row by row.
  for (std::int64_t i = 0, j = 0; i < a.count && j < b.count;) {
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

Outcome check_alignment(const spider_field& field, const std::string& name) {
  if (reinterpret_cast<std::uintptr_t>(field.data) % element_bytes == 0) return {};
  return refuse(SPIDER_ERROR_ALIGNMENT, name + " does not start on a multiple of its element size, 2 bytes");
}

}  // namespace

HaloWidth halo_width(const spider_kernel& kernel, int axis) {
  const Face* faces = kernel.faces[axis];
  return {faces[0].rule == FaceRule::halo ? kernel.info.reach_low[axis] : 0,
          faces[1].rule == FaceRule::halo ? kernel.info.reach_high[axis] : 0};
}

Outcome check_fields(const spider_kernel& kernel, const spider_field& in, const spider_field& out) {
  if (in.data == nullptr || out.data == nullptr) {
    return refuse(SPIDER_ERROR_NULL,
                  std::string(in.data == nullptr ? "the input" : "the output") + " has no data");
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
  for (Outcome outcome :
       {check_stride(kernel, in, true, "the input"), check_stride(kernel, out, false, "the output"),
        check_alignment(in, "the input"), check_alignment(out, "the output")}) {
    if (outcome.status != SPIDER_OK) return outcome;
  }
  if (overlap(rows_of(in, halo_width(kernel, axis_y), halo_width(kernel, axis_x)), rows_of(out, {}, {}))) {
    return refuse(SPIDER_ERROR_OVERLAP, "the input, with its halo, and the output share cells");
  }
  return {};
}

}  // namespace spider
