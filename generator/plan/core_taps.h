#pragma once

#include <algorithm>
#include <vector>

#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// From the lowest to the highest offset of some taps along an axis, both counted.
struct TapRange {
  int low = 0;
  int high = 0;
  [[nodiscard]] int count() const { return high - low + 1; }
};

/// That of the taps, of which there is at least one, along `axis`: a member of CoreTap.
[[nodiscard]] inline TapRange range_of(const std::vector<CoreTap>& taps, int CoreTap::*axis) {
  const auto [low, high] = std::minmax_element(
      taps.begin(), taps.end(), [&](const CoreTap& a, const CoreTap& b) { return a.*axis < b.*axis; });
  return {(*low).*axis, (*high).*axis};
}

/// a / b rounded down, for b > 0: columns before the first are counted below zero.
[[nodiscard]] constexpr int floor_divide(int a, int b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

}  // namespace spidergen::plan
