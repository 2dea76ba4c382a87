/// Spans of an axis, and what of them is whole vectors of memory.
#pragma once

#include <spider/instructions.h>

#include <cstdint>

namespace spider {
inline namespace device_1 {

/// Indices begin .. end - 1 of an axis.
struct Span {
  std::int32_t begin, end;

  SPIDER_DEVICE bool holds(std::int32_t i) const { return i >= begin && i < end; }
  SPIDER_DEVICE bool holds(const Span& other) const { return other.begin >= begin && other.end <= end; }
};

SPIDER_DEVICE constexpr std::int32_t clamp(std::int32_t value, std::int32_t low, std::int32_t high) {
  return value < low ? low : (value > high ? high : value);
}

/// The vectors of `elements` columns that lie in a span of columns, no lower than `low` and below `high`.
template <int elements>
SPIDER_DEVICE Span vectors_within(const Span& columns, std::int32_t low, std::int32_t high) {
  const std::int32_t begin = clamp((columns.begin + elements - 1) / elements, low, high);
  return {begin, clamp(columns.end / elements, begin, high)};
}

/// Columns beside those that come as whole vectors: `count`, of which the first `low` follow each other from
/// `begin` on, and the others from `gap` columns behind these.
struct CellColumns {
  int begin, low, gap, count;

  SPIDER_DEVICE int column(int i) const { return begin + i + (i < low ? 0 : gap); }
};

/// Those of `reached` columns of a window of `columns` that are not in `whole`.
SPIDER_DEVICE CellColumns columns_beside(const Span& whole, const Span& reached, int columns) {
  const int begin = clamp(reached.begin, 0, columns);
  const int end = clamp(reached.end, begin, columns);
  const int low_end = clamp(whole.begin, begin, end);
  const int gap = clamp(whole.end, low_end, end) - low_end;
  return {begin, low_end - begin, gap, end - begin - gap};
}

}  // namespace device_1
}  // namespace spider
