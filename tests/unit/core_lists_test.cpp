#include "plan/core_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "diag/diagnostic.h"
#include "pack/pack.h"
#include "pack/prove.h"
#include "plan/make_plan.h"

namespace spidergen::plan {
namespace {

using Values = std::vector<double>;

/// The sum of products of a list along y and one along x, of odd lengths; zeros are no taps.
spec::StencilSpec products(const std::vector<std::pair<Values, Values>>& pairs,
                           spec::Storage storage = spec::Storage::f32) {
  spec::StencilSpec stencil;
  stencil.storage = storage;
  const auto& [first_y, first_x] = pairs.front();
  const auto y_radius = static_cast<int>(first_y.size() / 2);
  const auto x_radius = static_cast<int>(first_x.size() / 2);
  for (int dy = -y_radius; dy <= y_radius; ++dy) {
    for (int dx = -x_radius; dx <= x_radius; ++dx) {
      double weight = 0;
      for (const auto& [y, x] : pairs) weight += y[dy + y_radius] * x[dx + x_radius];
      if (weight != 0) stencil.taps.push_back({{0, dy, dx}, weight, {}});
    }
  }
  return stencil;
}

Values gaussian(int radius, double sigma) {
  Values list;
  for (int i = -radius; i <= radius; ++i) list.push_back(std::exp(-i * i / (2 * sigma * sigma)));
  const double sum = std::accumulate(list.begin(), list.end(), 0.0);
  for (double& value : list) value /= sum;
  return list;
}

KernelPlan plan_of(const spec::StencilSpec& stencil) {
  return make_plan(stencil).plan;
}

bool passes_twice(const KernelPlan& plan) {
  return std::holds_alternative<Passes2d>(plan.scheme);
}

/// What the candidates say of two passes.
std::string objection_of(const KernelPlan& plan) {
  for (const Candidate& candidate : plan.candidates) {
    if (candidate.scheme == Passes2d::name) return candidate.objection;
  }
  return "not asked";
}

TEST(CoreLists, WeightsThatTheirProductsLoseAreNone) {
  for (const spec::Storage storage : {spec::Storage::f32, spec::Storage::f64}) {
    spec::StencilSpec stencil = products({{gaussian(10, 1.5), gaussian(10, 1.5)}}, storage);
    stencil.taps.front().weight = storage == spec::Storage::f64 ? 1.2e-15 : 3e-8;  // far below the sum of all
    const KernelPlan plan = plan_of(stencil);
    EXPECT_FALSE(passes_twice(plan));
    EXPECT_EQ(objection_of(plan),
              "the weights are no products of a list along y and one along x: some differ from these");
  }
}

TEST(CoreLists, WideGaussianTakesTwoPasses) {
  for (const spec::Storage storage : {spec::Storage::f32, spec::Storage::f64}) {
    const spec::StencilSpec stencil = products({{gaussian(16, 4), gaussian(16, 4)}}, storage);
    const KernelPlan plan = plan_of(stencil);
    ASSERT_TRUE(passes_twice(plan));
    EXPECT_EQ(plan.engine, Engine::cuda);
    EXPECT_EQ(plan.contraction.taps.size(), 66U);
    EXPECT_EQ(plan.contraction.low_rank.front().pairs.size(), 1U);
    EXPECT_NO_THROW(pack::prove(stencil, plan, pack::pack(plan)));
  }
}

// 33 + 33 roundings, and one that products of doubles take, relative to sum |w x|.
TEST(CoreLists, BoundIsOfEachMultiplyAddOnAResultsWay) {
  const KernelPlan plan = plan_of(products({{gaussian(16, 4), gaussian(16, 4)}}));
  EXPECT_NEAR(plan.error_bound.sum, 67 * 0x1p-24, 0.02 * 67 * 0x1p-24);
  EXPECT_EQ(plan.error_bound.neighbourhood, 0);
}

TEST(CoreLists, WeightsStayNearTheSpecsAndSumToThem) {
  const spec::StencilSpec stencil = products({{gaussian(9, 2.3), gaussian(7, 1.7)}});
  const KernelPlan plan = plan_of(stencil);
  ASSERT_TRUE(passes_twice(plan));
  for (const RoundedTap& tap : plan.weights.taps)
    EXPECT_LE(std::fabs(tap.packed - tap.weight), 1.001 * 0x1p-22 * std::fabs(tap.weight));
  EXPECT_NEAR(plan.weights.packed_sum, plan.weights.sum, 0x1p-28);
}

TEST(CoreLists, ExactWeightsStayExact) {
  const Values y{1, 8, 28, 56, 70, 56, 28, 8, 1};
  Values x{3, -5, 7, 11, 13, 11, 7, -5, 3};
  for (double& value : x) value /= 1024;
  for (const spec::Storage storage : {spec::Storage::f32, spec::Storage::f64}) {
    const KernelPlan plan = plan_of(products({{y, x}}, storage));
    ASSERT_TRUE(passes_twice(plan));
    EXPECT_TRUE(plan.weights.exact);
    EXPECT_EQ(plan.contraction.low_rank.front().deviation, 0);
  }
}

TEST(CoreLists, SeveralSumsOfAnUpdateReachAsFarAsOne) {
  spec::StencilSpec stencil = products({{gaussian(15, 5), gaussian(15, 5)}});
  stencil.sums.resize(2);
  for (spec::Tap tap : products({{gaussian(7, 2), gaussian(7, 2)}}).taps) {
    tap.sum = 1;
    stencil.taps.push_back(tap);
  }
  std::stable_sort(stencil.taps.begin(), stencil.taps.end(),
                   [](const spec::Tap& a, const spec::Tap& b) { return a.at < b.at; });
  stencil.update.emplace();
  stencil.update->nodes = {{spec::UpdateOperation::sum, 0, 0, {}, {}},
                           {spec::UpdateOperation::sum, 0, 1, {}, {}},
                           {spec::UpdateOperation::multiply, 0, 0, {}, {0, 1}}};
  const KernelPlan plan = plan_of(stencil);
  ASSERT_TRUE(passes_twice(plan));
  EXPECT_EQ(plan.contraction.taps.size(), 2U * 31 + 2U * 15);
  ASSERT_EQ(plan.contraction.low_rank.size(), 2U);
  const LowRank& narrow = plan.contraction.low_rank.back();
  EXPECT_EQ(narrow.y_low, -15);
  EXPECT_EQ(narrow.pairs.front().y.front()[7], 0);
  EXPECT_NE(narrow.pairs.front().y.front()[8], 0);
  EXPECT_NO_THROW(pack::prove(stencil, plan, pack::pack(plan)));
  spec::StencilSpec other = stencil;
  for (spec::Tap& tap : other.taps) tap.weight *= tap.sum == 1 ? 2 : 1;
  EXPECT_THROW(pack::prove(other, plan, pack::pack(plan)), diag::InternalError);
}

TEST(CoreLists, DifferenceOfGaussiansTakesTwoPairs) {
  const Values narrow = gaussian(8, 1.5);
  const Values wide = gaussian(8, 2.5);
  Values minus = wide;
  for (double& value : minus) value = -value;
  const spec::StencilSpec stencil = products({{narrow, narrow}, {minus, wide}});
  const KernelPlan plan = plan_of(stencil);
  ASSERT_TRUE(passes_twice(plan));
  EXPECT_EQ(plan.contraction.low_rank.front().pairs.size(), 2U);
  EXPECT_GT(plan.error_bound.neighbourhood, 0);
  EXPECT_NO_THROW(pack::prove(stencil, plan, pack::pack(plan)));
}

TEST(CoreLists, ZerosOfAListAreNoMultiplyAdds) {
  const spec::StencilSpec stencil =
      products({{{1, 4, 6, 4, 1, 2, 3, 5, 2}, {-1, -2, -3, -5, 0, 5, 3, 2, 1}}});
  const KernelPlan plan = plan_of(stencil);
  ASSERT_TRUE(passes_twice(plan));
  EXPECT_EQ(plan.contraction.taps.size(), 17U);
  EXPECT_NO_THROW(pack::prove(stencil, plan, pack::pack(plan)));
}

TEST(CoreLists, OthersAreToldWhyNot) {
  spec::StencilSpec random = products({{Values(9, 1.0), Values(9, 1.0)}});
  for (std::size_t i = 0; i < random.taps.size(); ++i)
    random.taps[i].weight = std::sin(static_cast<double>(7 * i * i + 1));
  EXPECT_NE(objection_of(plan_of(random)).find("no sum of 4 products"), std::string::npos);
  spec::StencilSpec star;
  star.storage = spec::Storage::f32;
  for (int i = -4; i <= 4; ++i) {
    star.taps.push_back({{0, i, 0}, 0.125, {}});
    if (i != 0) star.taps.push_back({{0, 0, i}, 0.25, {}});
  }
  EXPECT_EQ(objection_of(plan_of(star)), "the taps are no product of a list along y and one along x");
  EXPECT_EQ(objection_of(plan_of(products({{gaussian(65, 16), gaussian(3, 1)}}))),
            "two passes reach at most 64 points, not 65");
  EXPECT_EQ(objection_of(plan_of(products({{gaussian(60, 15), gaussian(60, 15)}}))),
            "sums and inputs of two passes find no room in registers");
  spec::StencilSpec steps = products({{gaussian(3, 1), gaussian(3, 1)}});
  steps.steps = 2;
  EXPECT_EQ(objection_of(plan_of(steps)), "not asked");
  EXPECT_EQ(objection_of(plan_of(products({{gaussian(7, 2), gaussian(7, 2)}}, spec::Storage::f16))),
            "not asked");
}

TEST(CoreLists, SmallStencilsStayInTiles) {
  EXPECT_FALSE(passes_twice(plan_of(products({{gaussian(1, 1), gaussian(1, 1)}}))));
  EXPECT_FALSE(passes_twice(plan_of(products({{gaussian(2, 1), gaussian(2, 1)}}))));
}

TEST(CoreLists, FarReachesHaveHalfAsManyColumnsALane) {
  const KernelPlan near = plan_of(products({{gaussian(20, 5), gaussian(20, 5)}}));
  const KernelPlan far = plan_of(products({{gaussian(24, 6), gaussian(24, 6)}}));
  ASSERT_TRUE(passes_twice(near) && passes_twice(far));
  EXPECT_EQ(std::get<Passes2d>(near.scheme).outputs, 4);
  EXPECT_EQ(std::get<Passes2d>(far.scheme).outputs, 2);
}

TEST(CoreLists, ProofFindsAChangedWeight) {
  const spec::StencilSpec stencil = products({{gaussian(16, 4), gaussian(16, 4)}});
  const KernelPlan plan = plan_of(stencil);
  for (const bool along_y : {false, true}) {
    KernelPlan changed = plan;
    ListPair& pair = changed.contraction.low_rank.front().pairs.front();
    double& value = along_y ? pair.y.front()[5] : pair.x.front()[5];
    value = static_cast<double>(std::nextafter(static_cast<float>(value), 1.0F));
    EXPECT_THROW(pack::prove(stencil, changed, pack::pack(changed)), diag::InternalError);
    value += 0x1p-50;
    EXPECT_THROW(pack::prove(stencil, changed, pack::pack(changed)), diag::InternalError);
  }
}

}  // namespace
}  // namespace spidergen::plan
