#include "plan/common_factor.h"

#include <gtest/gtest.h>
#include <algorithm>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "plan/error_bound.h"
#include "plan/half.h"
#include "plan/make_plan.h"
#include "plan/weights.h"
#include "random_stencil.h"

namespace spidergen::plan {
namespace {

constexpr int f16_digits = 11;
constexpr int bf16_digits = 8;

using Groups = std::vector<std::vector<double>>;

bool has_digits(double value, int digits) {
  int exponent = 0;
  const double integer = std::ldexp(std::frexp(value, &exponent), digits);
  return integer == std::nearbyint(integer);
}

TEST(CommonFactor, IsFoundWhateverIntegersAndUnitAre) {
  std::mt19937 random(20250117);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 2000; ++i) {
    const int digits = i % 2 == 0 ? f16_digits : bf16_digits;
    const double unit = std::uniform_real_distribution<double>(1, 2)(random);
    Groups groups(static_cast<std::size_t>(between(1, 4)));
    for (std::vector<double>& group : groups) {
      for (int count = between(1, 9); count > 0; --count) {
        const int integer = between(1, (1 << digits) - 1);
        group.push_back((between(0, 1) == 0 ? 1 : -1) * std::ldexp(unit * integer, between(-30, 30)));
      }
    }
    const auto factor = find_common_factor(groups, digits);
    ASSERT_TRUE(factor) << i;
    EXPECT_GE(factor->divisor, 1);
    EXPECT_LT(factor->divisor, 2);
    EXPECT_EQ(factor->multiplier, static_cast<double>(static_cast<float>(factor->divisor)));
    for (const std::vector<double>& group : groups) {
      for (const double weight : group) {
        const double share = snap_to_digits(weight / factor->divisor, digits);
        EXPECT_TRUE(has_digits(share, digits)) << i;
        EXPECT_NEAR(share * factor->divisor / weight, 1, weight_tolerance) << i;
      }
    }
  }
}

TEST(CommonFactor, IsNotFoundWhereWeightsHaveNoneOrNeedNone) {
  EXPECT_FALSE(find_common_factor({{std::sqrt(2.0), std::sqrt(3.0), std::sqrt(5.0)}}, f16_digits));
  EXPECT_FALSE(find_common_factor({{1.0, 2049.0}}, f16_digits)) << "two numbers need twelve digits";
  EXPECT_TRUE(find_common_factor({{0.3, 0.3 * 2047}}, f16_digits));
  EXPECT_FALSE(find_common_factor({{0.25, 0.5}}, f16_digits)) << "powers of two are exact without";
  EXPECT_FALSE(find_common_factor({{1.0, 1.0 + 0x1p-20}}, f16_digits)) << "not within the tolerance";
}

TEST(CommonFactor, SuitsMostGroups) {
  const double third = 1.0 / 3;
  const auto factor = find_common_factor(
      {{std::sqrt(2.0), 0.1}, {third, 5 * third}, {7 * third}, {std::sqrt(3.0), third}}, f16_digits);
  ASSERT_TRUE(factor);
  EXPECT_TRUE(has_digits(snap_to_digits(7 * third / factor->divisor, f16_digits), f16_digits));
  EXPECT_TRUE(has_digits(snap_to_digits(5 * third / factor->divisor, f16_digits), f16_digits));
}

TEST(CommonFactor, IsTheMultipleThatF32HoldsBest) {
  // 0.1 in f32 is off by 2^-26 of itself; one of its odd fractions by much less.
  const auto factor = find_common_factor({{0.1, 0.6}}, f16_digits);
  ASSERT_TRUE(factor);
  EXPECT_LT(std::fabs(factor->multiplier / factor->divisor - 1), 0x1p-30);
}

spec::StencilSpec row_of(const std::vector<double>& weights, spec::Storage storage = spec::Storage::f16) {
  spec::StencilSpec stencil;
  stencil.name = "row";
  stencil.storage = storage;
  int dx = -static_cast<int>(weights.size()) / 2;
  for (const double weight : weights) stencil.taps.push_back({{0, 0, dx++}, weight, {}});
  return stencil;
}

/// The second derivative of 8th order along y and x: with nothing but the centre of more than 11 digits.
spec::StencilSpec laplacian(spec::Storage storage) {
  spec::StencilSpec stencil;
  stencil.name = "laplacian";
  stencil.storage = storage;
  const std::vector<double> weights{8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560};
  for (int dy = -4; dy <= 4; ++dy) {
    for (int dx = -4; dx <= 4; ++dx) {
      if (dy != 0 && dx != 0) continue;
      const int distance = std::abs(dy + dx);
      stencil.taps.push_back({{0, dy, dx}, distance == 0 ? -205.0 / 36 : weights[distance - 1], {}});
    }
  }
  return stencil;
}

double sum_of_shares(const RoundedWeights& weights) {
  double sum = 0;
  for (const RoundedTap& tap : weights.taps) sum += weights.total(tap.terms);
  return sum;
}

TEST(CommonFactor, MakesWeightsOfTimeStepsOneTerm) {
  for (const spec::Storage storage : {spec::Storage::f16, spec::Storage::bf16, spec::Storage::f32}) {
    const RoundedWeights weights = round_weights(row_of({0.1, 0.1, 0.6, 0.1, 0.1}, storage)).weights;
    EXPECT_EQ(weights.terms, 1);
    EXPECT_TRUE(weights.exact);
    EXPECT_NE(weights.factor, 1);
    EXPECT_NEAR(weights.packed_sum, 1, 0x1p-29);
    for (const RoundedTap& tap : weights.taps)
      EXPECT_EQ(tap.packed, tap.identity + weights.factor * std::ldexp(tap.terms.front(), -weights.exponent));
  }
}

TEST(CommonFactor, ScalesTinyWeightsBackByANormalNumber) {
  for (const double scale : {1e-36, 1e-38, 1e-39, 1e-44}) {
    const std::vector<double> values{0.1 * scale, 0.1 * scale, 0.6 * scale, 0.1 * scale, 0.1 * scale};
    const RoundedWeights weights = round_weights(row_of(values, spec::Storage::bf16)).weights;
    const double result_scale = std::ldexp(weights.factor, -weights.sum_exponent);
    EXPECT_GE(result_scale, 0x1p-126) << scale;
    for (const RoundedTap& tap : weights.taps) EXPECT_NEAR(tap.packed / tap.weight, 1, 0x1p-8) << scale;
  }
}

TEST(CommonFactor, KeepsASumOfZeroExactly) {
  for (const spec::Storage storage : {spec::Storage::f16, spec::Storage::bf16, spec::Storage::f32}) {
    const RoundedWeights weights = round_weights(laplacian(storage)).weights;
    EXPECT_NE(weights.factor, 1);
    EXPECT_EQ(sum_of_shares(weights), 0);
  }
}

TEST(CommonFactor, LeavesRemaindersToTheRowsThatNeedThem) {
  // A product along y and three along x; the centre alone has a second term, which takes another along y.
  const KernelPlan plan = make_plan(laplacian(spec::Storage::f16), {Engine::sparse}).plan;
  EXPECT_EQ(plan.weights.terms, 2);
  EXPECT_EQ(plan.contraction.chained_products(), 5);
}

TEST(CommonFactor, IsNotTakenWhereItSavesNoProduct) {
  // Any row of one tap has a factor, but here each is paired with another.
  spec::StencilSpec star = laplacian(spec::Storage::f16);
  double power = 0;
  for (spec::Tap& tap : star.taps) tap.weight = std::exp(power += 0.01);
  EXPECT_NE(round_weights(star).weights.factor, 1);
  const KernelPlan plan = make_plan(star, {Engine::sparse}).plan;
  EXPECT_EQ(plan.weights.factor, 1);
  EXPECT_EQ(plan.contraction.products.size(), 10U);
}

TEST(CommonFactor, LeavesExactWeightsAlone) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    const RoundedWeights weights = round_weights(testing::random_stencil(seed, 7, 31, true)).weights;
    EXPECT_EQ(weights.factor, 1) << "seed " << seed;
    EXPECT_EQ(weights.exponent, 0) << "seed " << seed;
  }
}

TEST(CommonFactor, IsNotTakenWhereTheSpecSaysHowManyTerms) {
  spec::StencilSpec stencil = row_of({0.2, 0.2, 0.2});
  for (const spec::WeightMode mode : {spec::WeightMode::f16, spec::WeightMode::f16x2}) {
    stencil.weights = mode;
    const RoundedWeights weights = round_weights(stencil).weights;
    EXPECT_EQ(weights.factor, 1);
    EXPECT_EQ(weights.terms, mode == spec::WeightMode::f16 ? 1 : 2);
  }
}

TEST(CommonFactor, SuitsAllWeightsOrNoneAtALowerAccuracy) {
  for (const spec::Accuracy accuracy : {spec::Accuracy::tf32, spec::Accuracy::f16}) {
    spec::StencilSpec stencil = row_of({0.1, 0.1, 0.6, 0.1, 0.1}, spec::Storage::f32);
    stencil.accuracy = accuracy;
    const RoundedWeights weights = round_weights(stencil).weights;
    EXPECT_TRUE(weights.exact);
    EXPECT_LE(weights.largest_error, 0.6 * 0x1p-24);
    stencil.taps.push_back({{0, 1, 0}, std::sqrt(2.0), {}});
    EXPECT_EQ(round_weights(stencil).weights.factor, 1);
    EXPECT_EQ(round_weights(stencil).weights.terms, 1);
  }
}

TEST(CommonFactor, BringsSubnormalAndDistantWeightsIntoRange) {
  const RoundedWeights tiny = round_weights(row_of({1e-7, 3e-7, -7e-7})).weights;
  EXPECT_EQ(tiny.terms, 1);
  EXPECT_TRUE(tiny.exact);
  EXPECT_LE(tiny.largest_error, 7e-7 * 0x1p-24);
  // 2^26 apart: neither as they are nor from 1 on, but with the largest at the end of f16.
  const RoundedWeights distant = round_weights(row_of({0.3, std::ldexp(0.9, -26)})).weights;
  EXPECT_EQ(distant.terms, 1);
  EXPECT_TRUE(distant.exact);
  // 2^45 apart f16 does not hold both.
  EXPECT_FALSE(round_weights(row_of({0.3, std::ldexp(0.9, -45)})).weights.exact);
}

TEST(CommonFactor, KeepsSumsOfLargeBf16FieldsFinite) {
  // The shares are no larger than the weights, so that sums overflow no sooner.
  const RoundedWeights weights = round_weights(row_of({0.1, 1.1, 0.7}, spec::Storage::bf16)).weights;
  EXPECT_EQ(weights.terms, 1);
  EXPECT_EQ(weights.exponent, 0);
  for (const RoundedTap& tap : weights.taps) EXPECT_LE(tap.terms.front(), tap.weight);
}

TEST(CommonFactor, DoesNotChangeASumOfOneInF32) {
  // 2047 has no multiple as short, so that there is one factor, which f32 may hold well or not.
  int taken = 0;
  constexpr int cases = 100;
  for (int i = 0; i < cases; ++i) {
    std::vector<double> weights{2047, 1021, 509, 251, 127, 61, 31, 17, 3.0 + 2 * i};
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight /= sum;
    const RoundedWeights rounded = round_weights(row_of(weights, spec::Storage::f32)).weights;
    ASSERT_FALSE(rounded.adds_identity);
    if (rounded.factor != 1) ++taken;
    EXPECT_EQ(rounded.terms, rounded.factor == 1 ? 2 : 1) << i;
    EXPECT_NEAR(rounded.packed_sum, rounded.sum, 0x1p-27) << i;
  }
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, cases) << "none is left to two terms";
}

TEST(CommonFactor, CountsAsOneMoreRoundingOf16BitResults) {
  const auto bound_of = [](const std::vector<double>& weights, spec::Storage storage) {
    return make_plan(row_of(weights, storage), {Engine::sparse}).plan.error_bound;
  };
  EXPECT_EQ(bound_of({0.25, 0.5}, spec::Storage::f16).result, 0x1p-11);
  EXPECT_EQ(bound_of({0.1, 0.2}, spec::Storage::f16).result, 0x1p-11 + 1.01 * 0x1p-24);
  EXPECT_EQ(bound_of({0.1, 0.2}, spec::Storage::bf16).result, 0x1p-8 + 1.01 * 0x1p-24);
}

}  // namespace
}  // namespace spidergen::plan
