#include <spider/steps/stepped_tile.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spider {
namespace {

constexpr std::int32_t steps = 5;

/// A line with cells beyond both ends, each another number.
std::int64_t cell(std::int32_t i) {
  return 3 * i * i + 7 * i + 1;
}

/// A cell after k steps of weights 1, 2, 1, by the rules at each.
std::int64_t by_rules(const AxisRules& rules, std::int32_t extent, int k, std::int32_t i) {
  if (!holds_index(rules, i, extent)) {
    const MappedIndex from = map_index(rules, i, extent);
    return from.constant ? from.value : by_rules(rules, extent, k, from.index);
  }
  if (k == 0) return cell(i);
  return by_rules(rules, extent, k - 1, i - 1) + 2 * by_rules(rules, extent, k - 1, i) +
         by_rules(rules, extent, k - 1, i + 1);
}

/// All cells after the steps, of a line that is turned round once, and on which constants are set before
/// each.
std::vector<std::int64_t> by_turning(const MirrorAxis<AxisRules>& axis, std::int32_t extent) {
  std::vector<std::int64_t> line;
  for (std::int32_t i = -steps; i < extent + steps; ++i)
    line.push_back(cell(mirror_index(axis.rules, i, extent)));
  for (int k = 0; k < steps; ++k) {
    std::int32_t at = k - steps;
    for (std::int64_t& value : line) {
      if (axis.has_constant_at(at, extent)) value = at < 0 ? axis.value_before() : axis.value_behind();
      ++at;
    }
    std::vector<std::int64_t> next;
    for (std::size_t i = 1; i + 1 < line.size(); ++i) next.push_back(line[i - 1] + 2 * line[i] + line[i + 1]);
    line = next;
  }
  return line;
}

void expect_same(const AxisRules& given, const MirrorAxis<AxisRules>& axis) {
  for (std::int32_t extent = 1; extent <= 7; ++extent) {
    const std::vector<std::int64_t> turned = by_turning(axis, extent);
    for (std::int32_t i = 0; i < extent; ++i) {
      EXPECT_EQ(turned[static_cast<std::size_t>(i)], by_rules(given, extent, steps, i))
          << "faces " << static_cast<int>(given.low) << ", " << static_cast<int>(given.high) << ", cell " << i
          << " of " << extent;
    }
  }
}

TEST(MirrorAxis, TurnedFieldsAreSteppedAsTheRulesSay) {
  constexpr FaceRule rules[] = {FaceRule::halo, FaceRule::nearest, FaceRule::reflect, FaceRule::mirror};
  for (const FaceRule low : rules) {
    for (const FaceRule high : rules) {
      const AxisRules given{low, high, 0, 0};
      const MirrorAxis axis = mirror_axis(given, true);
      EXPECT_EQ(axis.mirrors(), low != FaceRule::halo || high != FaceRule::halo);
      EXPECT_FALSE(axis.is_closed_low() || axis.is_closed_high());
      expect_same(given, axis);
    }
  }
}

TEST(MirrorAxis, AFaceThatTurnsShowsTheConstantBeyondTheOther) {
  constexpr std::uint32_t value = 12345;
  for (const FaceRule rule : {FaceRule::nearest, FaceRule::reflect, FaceRule::mirror}) {
    const AxisRules behind{rule, FaceRule::constant, 0, value};
    const AxisRules before{FaceRule::constant, rule, value, 0};
    EXPECT_TRUE(mirror_axis(behind, true).mirrors_low);
    EXPECT_TRUE(mirror_axis(behind, true).is_closed_high());
    EXPECT_TRUE(mirror_axis(before, true).mirrors_high);
    EXPECT_TRUE(mirror_axis(before, true).is_closed_low());
    expect_same(behind, mirror_axis(behind, true));
    expect_same(before, mirror_axis(before, true));
  }
}

TEST(MirrorAxis, EndsWhereTheFieldIsNotTurned) {
  const AxisRules beside_nearest{FaceRule::reflect, FaceRule::nearest, 0, 0};
  EXPECT_FALSE(mirror_axis(beside_nearest, true, 2).mirrors());
  EXPECT_TRUE(mirror_axis(beside_nearest, true, 2).is_closed_low());
  const AxisRules mirrors{FaceRule::mirror, FaceRule::mirror, 0, 0};
  EXPECT_FALSE(mirror_axis(mirrors, false).mirrors());
  EXPECT_TRUE(mirror_axis(mirrors, false).is_closed_high());
  const AxisRules ring{FaceRule::periodic, FaceRule::periodic, 0, 0};
  EXPECT_FALSE(mirror_axis(ring, true).mirrors());
  EXPECT_FALSE(mirror_axis(ring, true).is_closed_low());
}

}  // namespace
}  // namespace spider
