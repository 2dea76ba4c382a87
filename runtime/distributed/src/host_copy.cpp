#include "host_copy.h"

#include <spider/memory.h>

#include <cstring>

namespace spider::distributed {
namespace {

/// Calls copy(bytes of the whole before a row of the part, bytes of the part before it) for each row.
template <class Copy>
void for_each_row(const spider_grid_layout& layout, std::int64_t element_bytes, const Copy& copy) {
  const std::int64_t* const whole = layout.part.whole;
  const std::int64_t* const origin = layout.part.origin;
  std::int64_t at = 0;
  for (std::int64_t z = 0; z < layout.extent[0]; ++z) {
    for (std::int64_t y = 0; y < layout.extent[1]; ++y, at += layout.extent[2] * element_bytes) {
      copy((((origin[0] + z) * whole[1] + origin[1] + y) * whole[2] + origin[2]) * element_bytes, at);
    }
  }
}

/// Calls copy(first cell of a plane of the field, bytes of the part before it, pitches, rows) for each plane.
template <class Copy>
Outcome for_each_plane(const spider_field& field, std::int64_t element_bytes, const Copy& copy) {
  const auto bytes = static_cast<std::uint64_t>(field.extent[2] * element_bytes);
  const auto rows = static_cast<std::uint64_t>(field.extent[1]);
  const std::uint64_t pitch = rows == 1 ? bytes : static_cast<std::uint64_t>(field.stride[1] * element_bytes);
  for (std::int64_t z = 0; z < field.extent[0]; ++z) {
    std::byte* const plane =
        static_cast<std::byte*>(field.data) + (z == 0 ? 0 : z * field.stride[0]) * element_bytes;
    const spider_status status =
        copy(plane, pitch, static_cast<std::uint64_t>(z) * rows * bytes, bytes, rows);
    if (status != SPIDER_OK) return {status, spider_last_error()};
  }
  return {};
}

}  // namespace

std::size_t part_bytes(const spider_grid_layout& layout, std::int64_t element_bytes) {
  return static_cast<std::size_t>(layout.extent[0] * layout.extent[1] * layout.extent[2] * element_bytes);
}

Outcome download_part(const spider_field& field, std::int64_t element_bytes, std::vector<std::byte>& part) {
  return for_each_plane(
      field, element_bytes,
      [&](std::byte* plane, std::uint64_t pitch, std::uint64_t at, std::uint64_t bytes, std::uint64_t rows) {
        return spider_download(part.data() + at, bytes, plane, pitch, bytes, rows);
      });
}

Outcome upload_part(const std::vector<std::byte>& part, std::int64_t element_bytes,
                    const spider_field& field) {
  return for_each_plane(
      field, element_bytes,
      [&](std::byte* plane, std::uint64_t pitch, std::uint64_t at, std::uint64_t bytes, std::uint64_t rows) {
        return spider_upload(plane, pitch, part.data() + at, bytes, bytes, rows);
      });
}

void take_part(const std::byte* whole, const spider_grid_layout& layout, std::int64_t element_bytes,
               std::vector<std::byte>& part) {
  for_each_row(layout, element_bytes, [&](std::int64_t in_whole, std::int64_t in_part) {
    std::memcpy(part.data() + in_part, whole + in_whole,
                static_cast<std::size_t>(layout.extent[2] * element_bytes));
  });
}

void put_part(const std::vector<std::byte>& part, const spider_grid_layout& layout,
              std::int64_t element_bytes, std::byte* whole) {
  for_each_row(layout, element_bytes, [&](std::int64_t in_whole, std::int64_t in_part) {
    std::memcpy(whole + in_whole, part.data() + in_part,
                static_cast<std::size_t>(layout.extent[2] * element_bytes));
  });
}

}  // namespace spider::distributed
