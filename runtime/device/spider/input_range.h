/// The magnitudes of f32 inputs that are multiplied as f16 terms with one scale (generator/README.md,
/// "Products of a warpgroup").
#pragma once

#include <spider/instructions.h>

#include <cstdint>

namespace spider {
inline namespace device_3 {

/// Bits of finite magnitudes other than zero: the largest, 0 where there are none, and the smallest less 1.
struct MagnitudeRange {
  std::uint32_t largest = 0;
  std::uint32_t below_smallest = ~0U;
};

constexpr std::uint32_t magnitude_bits = 0x7fffffffU;
constexpr std::uint32_t infinite_bits = 0x7f800000U;

/// Which inputs take part, by the bits of their magnitudes, and the power of two that they are multiplied
/// with: it brings those of the biased exponent `exponent` into [2^14, 2^15).
struct InputScale {
  // From `least` on scale and unit are normal numbers; `span` below the exponent all digits of an input are
  // still in its two terms.
  static constexpr std::uint32_t least = 28;
  static constexpr std::uint32_t most = 254;
  static constexpr std::uint32_t span = 26;

  std::uint32_t exponent = least;
  std::uint32_t floor = 0;
  std::uint32_t ceiling = magnitude_bits + 1;

  SPIDER_DEVICE float scale() const { return device::float_of((127 + 14 + 127 - exponent) << 23); }
  /// What 1 stands for in products, beside the weights' unit.
  SPIDER_DEVICE float unit() const { return device::float_of((exponent - 14) << 23); }
  /// Bits from which on a magnitude has all digits in its terms.
  SPIDER_DEVICE std::uint32_t smallest_whole() const {
    return exponent > least ? (exponent - span) << 23 : 0;
  }
  /// Do inputs of this range fit?
  SPIDER_DEVICE bool takes(const MagnitudeRange& range) const {
    return range.largest >> 23 <= exponent &&
           range.below_smallest + (range.below_smallest != ~0U ? 1 : 0) >= smallest_whole();
  }
  SPIDER_DEVICE bool takes_all() const { return floor == 0 && ceiling > magnitude_bits; }
  SPIDER_DEVICE bool takes(std::uint32_t magnitude) const {
    return magnitude >= floor && magnitude < ceiling;
  }
};

/// A scale for inputs of this range, with room for larger ones where that costs none of them a digit.
SPIDER_DEVICE InputScale scale_with_room(const MagnitudeRange& range) {
  constexpr std::uint32_t room = 3;
  const std::uint32_t exponent = range.largest >> 23;
  InputScale scale;
  scale.exponent = exponent + room > InputScale::most
                       ? InputScale::most
                       : (exponent + room < InputScale::least ? InputScale::least : exponent + room);
  if (!scale.takes(range)) scale.exponent = exponent < InputScale::least ? InputScale::least : exponent;
  return scale;
}

/// The scale that takes the largest of them and as many others as keep all their digits.
SPIDER_DEVICE InputScale scale_of_largest(const MagnitudeRange& range, std::uint32_t ceiling) {
  InputScale scale;
  const std::uint32_t exponent = range.largest >> 23;
  scale.exponent = exponent < InputScale::least ? InputScale::least : exponent;
  scale.floor = scale.smallest_whole();
  scale.ceiling = ceiling;
  return scale;
}

/// Extends the range by an input, where that is finite and below `ceiling`.
SPIDER_DEVICE void extend(MagnitudeRange& range, std::uint32_t input, std::uint32_t ceiling) {
  const std::uint32_t magnitude = input & magnitude_bits;
  const std::uint32_t counted = magnitude < ceiling && magnitude < infinite_bits ? magnitude : 0;
  range.largest = counted > range.largest ? counted : range.largest;
  range.below_smallest = counted - 1 < range.below_smallest ? counted - 1 : range.below_smallest;
}

/// That of all lanes of the warp.
SPIDER_DEVICE MagnitudeRange range_of_warp(const MagnitudeRange& range) {
  return {device::largest_in_warp(range.largest), device::smallest_in_warp(range.below_smallest)};
}

}  // namespace device_3
}  // namespace spider
