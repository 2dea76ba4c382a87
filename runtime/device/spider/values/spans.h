/// Spans of an axis, and the whole vectors of memory in them.
#pragma once

#include <spider/machine/instructions.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// Indices begin .. end - 1 of an axis.
struct Span {
  std::int32_t begin, end;

  SPIDER_DEVICE bool holds(std::int32_t i) const { return i >= begin && i < end; }
  SPIDER_DEVICE bool holds(const Span& other) const { return other.begin >= begin && other.end <= end; }
};

SPIDER_DEVICE constexpr std::int32_t clamp(std::int32_t value, std::int32_t low, std::int32_t high) {
  return value < low ? low : (value > high ? high : value);
}

/// The vectors of `elements` columns that lie in a span of columns, at `low` or above, and below `high`.
template <int elements>
SPIDER_DEVICE Span vectors_within(const Span& columns, std::int32_t low, std::int32_t high) {
  const std::int32_t begin = clamp((columns.begin + elements - 1) / elements, low, high);
  return {begin, clamp(columns.end / elements, begin, high)};
}

/// Columns outside whole vectors: `count` of them; the first `low` are consecutive from `begin` on, and the
/// others follow `gap` columns later.
struct CellColumns {
  int begin, low, gap, count;

  SPIDER_DEVICE int column(int i) const { return begin + i + (i < low ? 0 : gap); }
};

/// The `reached` columns of a window of `columns` that are not in `whole`.
SPIDER_DEVICE CellColumns columns_beside(const Span& whole, const Span& reached, int columns) {
  const int begin = clamp(reached.begin, 0, columns);
  const int end = clamp(reached.end, begin, columns);
  const int low_end = clamp(whole.begin, begin, end);
  const int gap = clamp(whole.end, low_end, end) - low_end;
  return {begin, low_end - begin, gap, end - begin - gap};
}

/// Vectors of 16 bytes, of `elements` cells each, of a row before the first one that begins a line of 128
/// bytes of memory; column 0 begins a line. `first_column` is the row's first, a multiple of `elements`.
template <int elements>
SPIDER_DEVICE constexpr int vectors_before_line(int first_column) {
  constexpr int line_elements = 8 * elements;
  return (line_elements - first_column % line_elements) % line_elements / elements;
}

/// The byte of a line of shared memory where such a row must begin for lines of memory to be lines there:
/// copies whose two ends differ in their place within 32 bytes request every vector from L2 separately.
template <int elements>
SPIDER_DEVICE constexpr int line_offset(int first_column) {
  constexpr int line_vectors = 8;
  constexpr int vector_bytes = 16;
  return (line_vectors - vectors_before_line<elements>(first_column)) % line_vectors * vector_bytes;
}

}  // namespace device_4
}  // namespace spider
