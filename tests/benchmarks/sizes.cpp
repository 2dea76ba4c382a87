#include "sizes.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace bench {
namespace {

constexpr std::int64_t largest_extent = std::int64_t{1} << 40;

}  // namespace

Size parse_size(const std::string& text) {
  Size size;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::int64_t extent = 0;
    const auto [stop, error] = std::from_chars(at, end, extent);
    if (error != std::errc{} || extent < 1 || extent > largest_extent) break;
    size.push_back(extent);
    if (stop == end && size.size() <= 3) return size;
    if (stop == end || *stop != 'x') break;
    at = stop + 1;
  }
  throw std::invalid_argument("'" + text + "' is no size: 10240, 10007x9973 or 768x768x768 are");
}

std::optional<Extents> extents_for(const Size& size, int dimensions) {
  const auto axes = static_cast<std::size_t>(dimensions);
  if (size.size() != 1 && size.size() != axes) return std::nullopt;
  Extents extents{1, 1, 1};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    extents[3 - axes + axis] = size.size() == 1 ? size.front() : size[axis];
  }
  return extents;
}

std::string name_of(const Extents& extents, int dimensions) {
  std::string name;
  for (int axis = 3 - dimensions; axis < 3; ++axis) {
    if (!name.empty()) name += 'x';
    name += std::to_string(extents[static_cast<std::size_t>(axis)]);
  }
  return name;
}

std::int64_t point_count(const Extents& extents) {
  return extents[0] * extents[1] * extents[2];
}

}  // namespace bench
