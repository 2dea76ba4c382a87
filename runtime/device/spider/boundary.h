/// Boundary rules as index maps. Templates fetch through them where a strip leaves the field, and only there.
#pragma once

#include <spider/instructions.h>
#include <spider/kernel.h>

#include <cstdint>

namespace spider {

/// The rules of an axis; the values are f16 bits and count where the rule is `constant`.
struct AxisRules {
  FaceRule low;
  FaceRule high;
  std::uint16_t low_value;
  std::uint16_t high_value;
};

/// Where a cell beyond or inside an axis is taken from: from index `index`, or from no memory but `value`.
struct MappedIndex {
  std::int32_t index;
  bool constant;
  std::uint16_t value;
};

/// Maps index `i` of an axis with `extent` interior cells. A halo index stays as it is.
SPIDER_DEVICE constexpr MappedIndex map_index(const AxisRules& rules, std::int32_t i, std::int32_t extent) {
  if (i < 0) {
    return {rules.low == FaceRule::nearest ? 0 : i, rules.low == FaceRule::constant, rules.low_value};
  }
  if (i >= extent) {
    return {rules.high == FaceRule::nearest ? extent - 1 : i, rules.high == FaceRule::constant,
            rules.high_value};
  }
  return {i, false, 0};
}

/// Tap rows dy_low .. dy_high that all span dx = low .. high.
struct TapBand {
  std::int32_t dy_low, dy_high, low, high;
};

/// Does any tap of the band reach row y from a row of the field?
SPIDER_DEVICE constexpr bool reaches_row(const TapBand& band, std::int32_t y, std::int32_t rows) {
  return y - band.dy_high < rows && y - band.dy_low >= 0;
}

/// Does any tap of the band reach cell (y, x) from a point of the field?
SPIDER_DEVICE constexpr bool reaches(const TapBand& band, std::int32_t y, std::int32_t x, std::int32_t rows,
                                     std::int32_t columns) {
  return reaches_row(band, y, rows) && x >= band.low && x - band.high < columns;
}

}  // namespace spider
