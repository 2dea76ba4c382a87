#include <spider/field/boundary.h>
#include <spider/steps/stepping.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>

namespace spider {
namespace {

constexpr std::array<FaceRule, 9> all_rules = {
    FaceRule::halo,   FaceRule::constant,      FaceRule::nearest,     FaceRule::periodic,  FaceRule::reflect,
    FaceRule::mirror, FaceRule::antisymmetric, FaceRule::antireflect, FaceRule::antimirror};

/// One crossing of a face; nothing where the walk ends: at a constant or in a halo.
std::optional<std::int32_t> cross(FaceRule rule, bool low, std::int32_t i, std::int32_t extent) {
  switch (rule) {
    case FaceRule::nearest:
      return low ? 0 : extent - 1;
    case FaceRule::periodic:
      return low ? i + extent : i - extent;
    case FaceRule::reflect:
    case FaceRule::antireflect:
      return low ? -1 - i : 2 * extent - 1 - i;
    case FaceRule::mirror:
    case FaceRule::antimirror:
      if (extent == 1) return 0;
      return low ? -i : 2 * extent - 2 - i;
    case FaceRule::antisymmetric:
      if (i == -1 || i == extent) return std::nullopt;
      return low ? -2 - i : 2 * extent - i;
    default:
      return std::nullopt;
  }
}

/// The definition: by the rule of the face that was crossed, again and again.
SignedIndex map_by_steps(const AxisRules& rules, std::int32_t i, std::int32_t extent) {
  bool negated = false;
  while (i < 0 || i >= extent) {
    const FaceRule rule = i < 0 ? rules.low : rules.high;
    const auto next = cross(rule, i < 0, i, extent);
    if (!next && rule == FaceRule::antisymmetric) return {i, true, 0, false};
    if (!next) return {i, rule == FaceRule::constant, i < 0 ? rules.low_value : rules.high_value, negated};
    negated ^=
        rule == FaceRule::antisymmetric || rule == FaceRule::antireflect || rule == FaceRule::antimirror;
    i = *next;
  }
  return {i, false, 0, negated};
}

/// By the function that is for the rules.
SignedIndex map_any_index(const AxisRules& rules, std::int32_t i, std::int32_t extent) {
  if (negates(rules)) return map_signed_index(rules, i, extent);
  const MappedIndex mapped = map_index(rules, i, extent);
  return {mapped.index, mapped.constant, mapped.value, false};
}
SignedFarIndex map_any_far_index(const AxisRules& rules, std::int64_t i, std::int64_t extent) {
  if (negates(rules)) return map_signed_far_index(rules, i, extent);
  const MappedFarIndex mapped = map_far_index(rules, i, extent);
  return {mapped.index, mapped.constant, mapped.value, false};
}

TEST(Boundary, MapIsTheRepeatedCrossingOfFaces) {
  for (const FaceRule low : all_rules) {
    for (const FaceRule high : all_rules) {
      if ((low == FaceRule::periodic) != (high == FaceRule::periodic)) continue;
      const AxisRules rules{low, high, 3, 5};
      for (std::int32_t extent = 1; extent <= 12; ++extent) {
        for (std::int32_t i = -140; i < extent + 140; ++i) {
          const SignedIndex expected = map_by_steps(rules, i, extent);
          const SignedIndex mapped = map_any_index(rules, i, extent);
          ASSERT_EQ(mapped.constant, expected.constant)
              << static_cast<int>(low) << static_cast<int>(high) << " at " << i << " of " << extent;
          ASSERT_EQ(mapped.negated, expected.negated)
              << static_cast<int>(low) << static_cast<int>(high) << " at " << i << " of " << extent;
          if (expected.constant) {
            ASSERT_EQ(mapped.value, expected.value);
          } else {
            ASSERT_EQ(mapped.index, expected.index)
                << static_cast<int>(low) << static_cast<int>(high) << " at " << i << " of " << extent;
          }
        }
      }
    }
  }
}

TEST(Boundary, LargestExtentsDoNotOverflow) {
  constexpr std::int32_t extent = INT32_MAX - 65536;
  for (const FaceRule rule : {FaceRule::reflect, FaceRule::mirror, FaceRule::periodic, FaceRule::nearest,
                              FaceRule::antisymmetric, FaceRule::antireflect, FaceRule::antimirror}) {
    const AxisRules rules{rule, rule, 0, 0};
    for (const std::int32_t i : {-127, -2, extent + 1, extent + 126}) {
      const std::int32_t index = map_any_index(rules, i, extent).index;
      EXPECT_TRUE(index >= 0 && index < extent) << i;
      EXPECT_TRUE(index < 128 || index >= extent - 128) << i;
    }
  }
}

TEST(Boundary, FarIndicesAreMappedAsNearOnes) {
  constexpr std::int32_t reach = 1 << 20;
  for (const FaceRule low : all_rules) {
    for (const FaceRule high : all_rules) {
      if ((low == FaceRule::periodic) != (high == FaceRule::periodic)) continue;
      const AxisRules rules{low, high, 3, 5};
      for (const std::int32_t extent : {1, 5, (1 << 21) - 1, 1 << 21, (1 << 21) + 1, 5'000'011}) {
        for (const std::int32_t i : {-reach, -77777, -2, -1, 0, extent - 1, extent, extent + 1,
                                     extent + 77777, extent - 1 + reach}) {
          const SignedIndex expected = map_any_index(rules, i, extent);
          const SignedFarIndex mapped = map_any_far_index(rules, i, extent);
          ASSERT_EQ(mapped.constant, expected.constant) << i << " of " << extent;
          ASSERT_EQ(mapped.value, expected.value) << i << " of " << extent;
          ASSERT_EQ(mapped.negated, expected.negated) << i << " of " << extent;
          ASSERT_EQ(mapped.index, expected.index) << i << " of " << extent;
        }
      }
      constexpr std::int64_t huge = std::int64_t{1} << 40;
      constexpr std::int64_t moved = huge - 5'000'011;
      for (const std::int32_t beyond : {1, 2, 77777, reach}) {
        const SignedIndex expected = map_any_index(rules, 5'000'010 + beyond, 5'000'011);
        const SignedFarIndex mapped = map_any_far_index(rules, huge - 1 + beyond, huge);
        ASSERT_EQ(mapped.constant, expected.constant) << beyond;
        ASSERT_EQ(mapped.index, expected.index + (low == FaceRule::periodic ? 0 : moved)) << beyond;
      }
    }
  }
}

TEST(Boundary, TapBandsReachFromTheRegion) {
  constexpr Region region{10, 12, 20, 25};
  constexpr TapBand band{-2, -1, -3, 4};
  EXPECT_TRUE(reaches(band, 8, 17, region));
  EXPECT_FALSE(reaches(band, 7, 17, region));
  EXPECT_FALSE(reaches(band, 8, 16, region));
  EXPECT_TRUE(reaches(band, 10, 28, region));
  EXPECT_FALSE(reaches(band, 10, 29, region));
  EXPECT_FALSE(reaches(band, 11, 20, region));
  EXPECT_TRUE(has_point(region, 11, 24));
  EXPECT_FALSE(has_point(region, 11, 25));
}

TEST(Steps, AFoldAtAFaceIsReadAsFarAsTapsReachBeyondIt) {
  const AxisRules mirrored{FaceRule::mirror, FaceRule::mirror, 0, 0};
  const FarSpan low = find_readable(mirrored, {0, 1}, -15, 0, 23);  // taps that reach to one side only
  EXPECT_TRUE(low.holds(15));
  EXPECT_FALSE(low.holds(16));
  const FarSpan high = find_readable(mirrored, {22, 23}, 0, 15, 23);
  EXPECT_TRUE(high.holds(7));
  EXPECT_FALSE(high.holds(6));
  const FarSpan kept =
      find_readable(AxisRules{FaceRule::nearest, FaceRule::constant, 0, 0}, {0, 1}, -15, 2, 23);
  EXPECT_EQ(kept.end, 3);
}

TEST(Boundary, ConstantsOfDoublesKeepAllTheirBits) {
  constexpr std::uint64_t tenth = 0x3FB999999999999A;
  constexpr WideAxisRules rules{FaceRule::constant, FaceRule::antisymmetric, tenth, 0};
  EXPECT_EQ(map_signed_index(rules, -1, 4).value, tenth);
  EXPECT_TRUE(map_signed_index(rules, -1, 4).constant);
  EXPECT_TRUE(map_signed_index(rules, 5, 4).negated);
  EXPECT_EQ(sign_word<std::uint64_t>(true), std::uint64_t{1} << 63);
  EXPECT_EQ(sign_of<std::uint64_t>(false), 0U);
}

}  // namespace
}  // namespace spider
