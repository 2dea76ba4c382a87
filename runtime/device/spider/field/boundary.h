/// Boundary rules as index maps. Loads use them only where a tile leaves the field.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/values/spans.h>
#include <spider/values/words.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

/// The rules of an axis. The values are a cell's bits, one cell a word, and matter where the rule is
/// `constant`. `periodic` is at both faces or at none.
template <class Word>
struct AxisRulesOf {
  using Value = Word;

  FaceRule low;
  FaceRule high;
  Word low_value;
  Word high_value;
};
using AxisRules = AxisRulesOf<std::uint32_t>;
using WideAxisRules = AxisRulesOf<std::uint64_t>;  ///< for cells of 8 bytes

/// Where a cell outside or inside an axis is read: at index `index`, or not in memory but `value`.
template <class Word>
struct MappedIndexOf {
  std::int32_t index;
  bool constant;
  Word value;
  static constexpr bool negated = false;
};
using MappedIndex = MappedIndexOf<std::uint32_t>;

/// The same with negation, and whether the cell is negated. A separate type: kernels without such a rule are
/// compiled as before.
template <class Word>
struct SignedIndexOf {
  std::int32_t index;
  bool constant;
  Word value;
  bool negated;
};
using SignedIndex = SignedIndexOf<std::uint32_t>;

/// True if a rule negates cells.
SPIDER_DEVICE constexpr bool negates(FaceRule rule) {
  return rule == FaceRule::antisymmetric || rule == FaceRule::antireflect || rule == FaceRule::antimirror;
}
template <class Word>
SPIDER_DEVICE constexpr bool negates(const AxisRulesOf<Word>& rules) {
  return negates(rules.low) || negates(rules.high);
}

/// The bits to flip in a cell, or in each cell of a word (WordOf), to negate it; none otherwise.
template <class Element>
SPIDER_DEVICE constexpr Element sign_of(bool negated) {
  return static_cast<Element>(static_cast<Element>(negated ? 1 : 0) << (8 * sizeof(Element) - 1));
}
template <class Element>
SPIDER_DEVICE constexpr WordOf<Element> sign_word(bool negated) {
  if constexpr (sizeof(Element) > 4) {
    return sign_of<Element>(negated);
  } else {
    return negated ? (sizeof(Element) == 2 ? 0x80008000U : 0x80000000U) : 0;
  }
}

/// Whether a cell is negated, from its places along two axes. A constant of `faster` is not.
template <class Slower, class Faster>
SPIDER_DEVICE constexpr bool negates_cell(const Slower& slower, const Faster& faster) {
  return faster.negated != (slower.negated && !faster.constant);
}

/// True if a rule mirrors indices at its face.
SPIDER_DEVICE constexpr bool is_mirror_rule(FaceRule rule) {
  return rule == FaceRule::reflect || rule == FaceRule::mirror;
}

/// Folds `distance` >= 1 cells outside a face back: the distance inwards from the face's own cell, 0.
SPIDER_DEVICE constexpr std::int32_t mirror_distance(FaceRule rule, std::int32_t distance) {
  return rule == FaceRule::mirror ? distance : distance - 1;
}

/// Maps index `i` of an axis with `extent` interior cells by the rule of the face that it crossed,
/// repeatedly, until it is inside or meets a constant or a halo. A halo index is unchanged. Two folding faces
/// make the axis periodic, so that repetition is a remainder: a fold at the low face takes i to low_fold - i,
/// one at the high face to high_fold - i, both together to i + high_fold - low_fold. Not for rules that
/// negate.
template <class Word>
SPIDER_DEVICE constexpr MappedIndexOf<Word> map_index(const AxisRulesOf<Word>& rules, std::int32_t i,
                                                      std::int32_t extent) {
  if (i >= 0 && i < extent) return {i, false, 0};
  if (rules.low == FaceRule::periodic) {
    const std::int32_t remainder = i % extent;
    return {remainder < 0 ? remainder + extent : remainder, false, 0};
  }
  if (is_mirror_rule(i < 0 ? rules.low : rules.high)) {
    if (extent == 1 && (i < 0 ? rules.low : rules.high) == FaceRule::mirror) return {0, false, 0};
    i = i < 0 ? mirror_distance(rules.low, -i) : extent - 1 - mirror_distance(rules.high, i - (extent - 1));
    if (i >= 0 && i < extent) return {i, false, 0};
    if (is_mirror_rule(rules.low) && is_mirror_rule(rules.high)) {
      const std::int32_t low_fold = rules.low == FaceRule::mirror ? 0 : -1;
      const std::int32_t high_fold = 2 * extent - (rules.high == FaceRule::mirror ? 2 : 1);
      const std::int32_t period = high_fold - low_fold;
      std::int32_t remainder = i % period;
      if (remainder < 0) remainder += period;
      return {remainder < extent ? remainder : high_fold - remainder, false, 0};
    }
  }
  if (i < 0) {
    return {rules.low == FaceRule::nearest ? 0 : i, rules.low == FaceRule::constant, rules.low_value};
  }
  return {rules.high == FaceRule::nearest ? extent - 1 : i, rules.high == FaceRule::constant,
          rules.high_value};
}

/// map_index() for an axis with a face that negates, crossing by crossing. The first ghost cell of an
/// antisymmetric face is 0.
template <class Word>
SPIDER_DEVICE constexpr SignedIndexOf<Word> map_signed_index(const AxisRulesOf<Word>& rules, std::int32_t i,
                                                             std::int32_t extent) {
  bool negated = false;
  while (i < 0 || i >= extent) {
    const bool low = i < 0;
    const FaceRule rule = low ? rules.low : rules.high;
    const std::int32_t distance = low ? -i : i - (extent - 1);
    if (rule == FaceRule::constant) return {i, true, low ? rules.low_value : rules.high_value, negated};
    if (rule == FaceRule::halo) return {i, false, 0, negated};
    if (rule == FaceRule::antisymmetric && distance == 1) return {i, true, 0, false};
    negated = negated != negates(rule);
    const bool is_mirror = rule == FaceRule::mirror || rule == FaceRule::antimirror;
    if (rule == FaceRule::nearest || (is_mirror && extent == 1))
      return {low ? 0 : extent - 1, false, 0, negated};
    std::int32_t inwards = distance - 1;
    if (is_mirror) inwards = distance;
    if (rule == FaceRule::antisymmetric) inwards = distance - 2;
    i = low ? inwards : extent - 1 - inwards;
  }
  return {i, false, 0, negated};
}

/// The same if 32 bits may not count the cells.
template <class Word>
struct MappedFarIndexOf {
  std::int64_t index;
  bool constant;
  Word value;
  static constexpr bool negated = false;
};
using MappedFarIndex = MappedFarIndexOf<std::uint32_t>;
template <class Word>
struct SignedFarIndexOf {
  std::int64_t index;
  bool constant;
  Word value;
  bool negated;
};
using SignedFarIndex = SignedFarIndexOf<std::uint32_t>;

/// Maps index `i` of an axis of any extent, at most 2^20 cells outside a face. A long axis is mapped as if a
/// middle part were missing: rules depend only on the distance from a face, and indices after that part are
/// shifted. The rest is longer than any way back from a face.
template <class Word>
SPIDER_DEVICE constexpr MappedFarIndexOf<Word> map_far_index(const AxisRulesOf<Word>& rules, std::int64_t i,
                                                             std::int64_t extent) {
  constexpr std::int64_t longest = 1 << 21;
  if (i >= 0 && i < extent) return {i, false, 0};
  const std::int64_t missing = extent > longest ? extent - longest : 0;
  const bool behind = i >= extent;
  const MappedIndexOf<Word> mapped = map_index(rules, static_cast<std::int32_t>(behind ? i - missing : i),
                                               static_cast<std::int32_t>(extent - missing));
  const bool crosses = rules.low == FaceRule::periodic;
  return {mapped.index + (behind != crosses ? missing : 0), mapped.constant, mapped.value};
}

template <class Word>
SPIDER_DEVICE constexpr SignedFarIndexOf<Word> map_signed_far_index(const AxisRulesOf<Word>& rules,
                                                                    std::int64_t i, std::int64_t extent) {
  constexpr std::int64_t longest = 1 << 21;
  if (i >= 0 && i < extent) return {i, false, 0, false};
  const std::int64_t missing = extent > longest ? extent - longest : 0;
  const bool behind = i >= extent;
  const SignedIndexOf<Word> mapped =
      map_signed_index(rules, static_cast<std::int32_t>(behind ? i - missing : i),
                       static_cast<std::int32_t>(extent - missing));
  return {mapped.index + (behind ? missing : 0), mapped.constant, mapped.value, mapped.negated};
}

/// The result of the rules of an axis, known at compile time, for an index.
template <auto rules>
using IndexBy = std::conditional_t<negates(rules()), SignedIndexOf<typename decltype(rules())::Value>,
                                   MappedIndexOf<typename decltype(rules())::Value>>;

template <auto rules>
SPIDER_DEVICE constexpr IndexBy<rules> map_by(std::int32_t i, std::int32_t extent) {
  constexpr auto own = rules();
  if constexpr (negates(own)) {
    return map_signed_index(own, i, extent);
  } else {
    return map_index(own, i, extent);
  }
}
template <auto rules>
SPIDER_DEVICE constexpr auto map_far_by(std::int64_t i, std::int64_t extent) {
  constexpr auto own = rules();
  if constexpr (negates(own)) {
    return map_signed_far_index(own, i, extent);
  } else {
    return map_far_index(own, i, extent);
  }
}

/// The points of a sweep: rows and columns from the first to before the end.
struct Region {
  std::int32_t row_begin, row_end, column_begin, column_end;
};

SPIDER_DEVICE constexpr Span columns_of(const Region& region) {
  return {region.column_begin, region.column_end};
}

SPIDER_DEVICE constexpr bool has_row(const Region& region, std::int32_t y) {
  return y >= region.row_begin && y < region.row_end;
}

SPIDER_DEVICE constexpr bool has_point(const Region& region, std::int32_t y, std::int32_t x) {
  return has_row(region, y) && x >= region.column_begin && x < region.column_end;
}

/// Tap rows dy_low .. dy_high that all span dx = low .. high.
struct TapBand {
  std::int32_t dy_low, dy_high, low, high;
};

/// True if any tap of the band reaches row y from a point of the region.
SPIDER_DEVICE constexpr bool reaches_row(const TapBand& band, std::int32_t y, const Region& from) {
  return y - band.dy_high < from.row_end && y - band.dy_low >= from.row_begin;
}

/// True if any tap of the band reaches cell (y, x) from a point of the region.
SPIDER_DEVICE constexpr bool reaches(const TapBand& band, std::int32_t y, std::int32_t x,
                                     const Region& from) {
  return reaches_row(band, y, from) && x >= from.column_begin + band.low && x - band.high < from.column_end;
}

/// What a walk or a block must take care of.
enum class Path {
  interior,   ///< nothing in y and x: all inputs in the box and aligned, all outputs stored and aligned
  boundary,   ///< rows, and a few vectors of each, cross the edges of the field or of the box
  unaligned,  ///< rows that are not aligned, or too far apart: inputs are read in words or one by one
};

}  // namespace device_4
}  // namespace spider
