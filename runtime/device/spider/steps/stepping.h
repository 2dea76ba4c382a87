/// Common parts of kernels that take many time steps in a sweep: where an axis ends. Outside `halo` and
/// `periodic` faces the field continues, and cells there are stepped like others. Outside the others it ends,
/// and at every step the rule gives the value that taps find there.
#pragma once

#include <spider/field/boundary.h>
#include <spider/machine/instructions.h>
#include <spider/sums/update.h>
#include <spider/values/cells.h>
#include <spider/values/spans.h>
#include <spider/values/words.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

/// The numbers between steps in shared memory, and the constants of faces: cells of f32, or of f64 for fields
/// of f64.
template <class Cells>
using NumberCells = std::conditional_t<std::is_same_v<typename Cells::Number, double>, F64Cells, F32Cells>;

/// A lane's number, from lane `source` % 32.
template <class Numbers>
SPIDER_DEVICE typename Numbers::Number take_number(typename Numbers::Number value, int source) {
  return Numbers::number(device::shuffle(device::bits_of(value), source), 0);
}

/// The weight of an offset in one of a stencil's sums: Stencil::weight(offset), of several sums
/// Stencil::weight(sum, offset).
template <class Stencil, class... Offsets>
SPIDER_DEVICE typename Stencil::Cells::Number weight_of([[maybe_unused]] int sum, Offsets... offset) {
  if constexpr (SumsOf<Stencil>::count == 1) {
    return Stencil::weight(offset...);
  } else {
    return Stencil::weight(sum, offset...);
  }
}

/// A number in shared memory.
template <class Numbers>
SPIDER_DEVICE typename Numbers::Number load_number(device::Shared from) {
  if constexpr (Numbers::element_bytes == 8) {
    return Numbers::number(word_of<typename Numbers::Word>(device::load_shared_pair(from), 0), 0);
  } else {
    return Numbers::number(device::load_shared_word(from), 0);
  }
}

SPIDER_DEVICE constexpr bool is_open(FaceRule rule) {
  return rule == FaceRule::halo || rule == FaceRule::periodic;
}

/// True if the field has cells at index i, its own or stepped ones outside a face.
template <class Word, class Index, class Extent>
SPIDER_DEVICE constexpr bool holds_index(const AxisRulesOf<Word>& rules, Index i, Extent extent) {
  return (i >= 0 || is_open(rules.low)) && (i < extent || is_open(rules.high));
}

/// Where a tap to index i finds its value.
template <class Word>
SPIDER_DEVICE constexpr MappedIndexOf<Word> find_index(const AxisRulesOf<Word>& rules, std::int32_t i,
                                                       std::int32_t extent) {
  if (holds_index(rules, i, extent)) return {i, false, 0};
  return map_index(rules, i, extent);
}

/// The same if 32 bits may not count the cells.
template <class Word>
SPIDER_DEVICE constexpr MappedFarIndexOf<Word> find_far_index(const AxisRulesOf<Word>& rules, std::int64_t i,
                                                              std::int64_t extent) {
  if (holds_index(rules, i, extent)) return {i, false, 0};
  return map_far_index(rules, i, extent);
}

/// The index inside the field of one outside a periodic face; other indices are unchanged.
template <class Word>
SPIDER_DEVICE constexpr std::int64_t wrap_index(const AxisRulesOf<Word>& rules, std::int64_t i,
                                                std::int64_t extent) {
  if (rules.low != FaceRule::periodic || (i >= 0 && i < extent)) return i;
  const std::int64_t remainder = i % extent;
  return remainder < 0 ? remainder + extent : remainder;
}

/// First index to before the end, for an axis of any extent.
struct FarSpan {
  std::int64_t begin, end;

  SPIDER_DEVICE bool holds(std::int64_t i) const { return i >= begin && i < end; }
};

/// True if a face mirrors an axis of this extent, rather than repeating its only cell.
SPIDER_DEVICE constexpr bool mirrors_extent(FaceRule rule, std::int64_t extent) {
  return is_mirror_rule(rule) && (rule != FaceRule::mirror || extent > 1);
}

/// The cells of an axis read for `box` by steps that reach `low` <= 0 and `high` >= 0 in all. A folding face
/// mirrors the cells outside it, which may be farther from the box than a one-sided reach.
template <class Word>
SPIDER_DEVICE constexpr FarSpan find_readable(const AxisRulesOf<Word>& rules, const FarSpan& box,
                                              std::int64_t low, std::int64_t high, std::int64_t extent) {
  FarSpan span{box.begin + low, box.end + high};
  const std::int64_t begin = span.begin;
  if (mirrors_extent(rules.high, extent) && span.end > extent) {
    const std::int64_t folded = 2 * extent - span.end - (rules.high == FaceRule::mirror ? 1 : 0);
    if (folded < span.begin) span.begin = folded;
  }
  if (mirrors_extent(rules.low, extent) && begin < 0) {
    const std::int64_t folded = (rules.low == FaceRule::mirror ? 1 : 0) - begin;
    if (folded > span.end) span.end = folded;
  }
  return span;
}

/// The rules of an axis for time steps. Symmetric weights preserve mirror symmetry about a face, so ghost
/// cells can be stepped like interior ones, from mirrored input. If weights reach one cell, `nearest` is
/// `reflect`.
template <class Rules>
struct MirrorAxis {
  Rules rules;
  bool mirrors_low, mirrors_high;  ///< at every step ghost cells there are the field's, mirrored

  SPIDER_DEVICE constexpr bool mirrors() const { return mirrors_low || mirrors_high; }
  SPIDER_DEVICE constexpr bool is_closed_low() const { return !mirrors_low && !is_open(rules.low); }
  SPIDER_DEVICE constexpr bool is_closed_high() const { return !mirrors_high && !is_open(rules.high); }

  // A mirrored face also mirrors the constant of the opposite face, after the cells of the field.

  /// Begin and end of the field's cells and their mirror images: cells outside may be constants.
  SPIDER_DEVICE constexpr std::int32_t begin(std::int32_t extent) const {
    return mirrors_low ? (rules.low == FaceRule::mirror && extent > 1 ? 1 : 0) - mirrored_cells(extent) : 0;
  }
  SPIDER_DEVICE constexpr std::int32_t end(std::int32_t extent) const {
    return mirrors_high
               ? extent + mirrored_cells(extent) - (rules.high == FaceRule::mirror && extent > 1 ? 1 : 0)
               : extent;
  }
  /// Capped at 4096, farther than any sweep reaches, to fit 32 bits.
  SPIDER_DEVICE static constexpr std::int32_t mirrored_cells(std::int32_t extent) {
    constexpr std::int32_t far = 4096;
    return extent < far ? extent : far;
  }
  SPIDER_DEVICE constexpr bool has_constant_before() const {
    return (mirrors_low ? rules.high : rules.low) == FaceRule::constant;
  }
  SPIDER_DEVICE constexpr bool has_constant_behind() const {
    return (mirrors_high ? rules.low : rules.high) == FaceRule::constant;
  }
  SPIDER_DEVICE constexpr bool has_constant_at(std::int32_t i, std::int32_t extent) const {
    return (has_constant_before() && i < begin(extent)) || (has_constant_behind() && i >= end(extent));
  }
  /// Those constants.
  SPIDER_DEVICE constexpr auto value_before() const {
    return mirrors_low ? rules.high_value : rules.low_value;
  }
  SPIDER_DEVICE constexpr auto value_behind() const {
    return mirrors_high ? rules.low_value : rules.high_value;
  }
};

/// True if ghost cells of such a face may be stepped like interior ones, if weights are symmetric.
SPIDER_DEVICE constexpr bool can_mirror(FaceRule rule, int reach) {
  return is_open(rule) || is_mirror_rule(rule) || (rule == FaceRule::nearest && reach <= 1);
}

/// An axis with the requested faces mirrored, those of mirroring rules or `nearest`.
template <class Rules>
SPIDER_DEVICE constexpr MirrorAxis<Rules> signed_mirror_axis(Rules rules, bool low, bool high) {
  if (low && rules.low == FaceRule::nearest) rules.low = FaceRule::reflect;
  if (high && rules.high == FaceRule::nearest) rules.high = FaceRule::reflect;
  return {rules, low && is_mirror_rule(rules.low), high && is_mirror_rule(rules.high)};
}

/// Mirrors every face that can be mirrored, if the opposite one is mirrored, open or constant.
template <class Rules>
SPIDER_DEVICE constexpr MirrorAxis<Rules> mirror_axis(Rules rules, bool is_even, int reach = 1) {
  const bool low = is_even && can_mirror(rules.low, reach);
  const bool high = is_even && can_mirror(rules.high, reach);
  return signed_mirror_axis(rules, low && (high || rules.high == FaceRule::constant),
                            high && (low || rules.low == FaceRule::constant));
}

/// The index of the field's or halo's cell at index i of a mirrored axis; for a constant, an index outside
/// the axis.
template <class Rules>
SPIDER_DEVICE constexpr std::int32_t mirror_index(Rules rules, std::int32_t i, std::int32_t extent) {
  // With one cell `mirror` is `reflect`.
  if (extent == 1 && rules.low == FaceRule::mirror) rules.low = FaceRule::reflect;
  if (extent == 1 && rules.high == FaceRule::mirror) rules.high = FaceRule::reflect;
  return map_index(rules, i, extent).index;
}

}  // namespace device_4
}  // namespace spider
