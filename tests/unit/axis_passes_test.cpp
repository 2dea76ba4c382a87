#include "plan/axis_passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "plan/make_plan.h"

namespace spidergen::plan {
namespace {

using List = std::vector<double>;

/// The product of lists along z, y and x, whose middles are at the point.
spec::StencilSpec product(const List& z, const List& y, const List& x, spec::Storage storage) {
  spec::StencilSpec spec;
  spec.name = "product";
  spec.dimensions = 3;
  spec.storage = storage;
  const auto at = [](const List& list, std::size_t i) {
    return static_cast<int>(i) - static_cast<int>(list.size() / 2);
  };
  for (std::size_t i = 0; i < z.size(); ++i) {
    for (std::size_t j = 0; j < y.size(); ++j) {
      for (std::size_t k = 0; k < x.size(); ++k)
        spec.taps.push_back({{at(z, i), at(y, j), at(x, k)}, z[i] * y[j] * x[k], {}});
    }
  }
  return spec;
}

spec::StencilSpec large_box(spec::Storage storage = spec::Storage::f32) {
  const List ones(13, 1.0);
  return product(ones, ones, ones, storage);
}

void set_rule(spec::StencilSpec& spec, int axis, spec::BoundaryRule rule, double value = 0) {
  spec.boundary[static_cast<std::size_t>(axis)] = {{rule, value, {}}, {rule, value, {}}};
}

TEST(AxisPasses, FindsTheListsOfAProductExactly) {
  const auto lists = axis_lists(product({1, 2, 1}, {0.5, 4, 0.25}, {1, -3, 5, 3, 1}, spec::Storage::f32));
  ASSERT_TRUE(lists);
  ASSERT_EQ(lists->size(), 3U);
  EXPECT_EQ((*lists)[0].axis, spec::axis_x);
  EXPECT_EQ((*lists)[0].low, -2);
  EXPECT_EQ((*lists)[0].weights, List({8, -24, 40, 24, 8}));
  EXPECT_EQ((*lists)[1].weights, List({0.125, 1, 0.0625}));
  EXPECT_EQ((*lists)[2].weights, List({0.5, 1, 0.5}));
}

TEST(AxisPasses, LeavesOutAxesAlongWhichNothingReaches) {
  const auto lists = axis_lists(product({1, 2, 1}, {1, 3, 1}, {4}, spec::Storage::f64));
  ASSERT_TRUE(lists);
  ASSERT_EQ(lists->size(), 2U);
  EXPECT_EQ((*lists)[0].axis, spec::axis_y);
  EXPECT_EQ((*lists)[0].weights, List({8, 24, 8}));
  EXPECT_EQ((*lists)[1].weights, List({0.5, 1, 0.5}));
}

TEST(AxisPasses, NeedsEveryProduct) {
  spec::StencilSpec spec = large_box();
  spec.taps.pop_back();
  EXPECT_FALSE(axis_lists(spec));
  spec = large_box();
  spec.taps.front().weight = 1.0000001;
  EXPECT_FALSE(axis_lists(spec));
  EXPECT_TRUE(make_plan(spec).plan.passes.empty());
}

TEST(AxisPasses, AreTakenWhereTheyTakeLessThanHalfAsLong) {
  for (const spec::Storage storage : {spec::Storage::f32, spec::Storage::f64}) {
    const KernelPlan plan = make_plan(large_box(storage)).plan;
    ASSERT_EQ(plan.passes.size(), 3U);
    EXPECT_EQ(plan.candidates.front().scheme, passes_name);
    EXPECT_LT(2 * plan.microseconds, plan.candidates.at(1).microseconds);
    EXPECT_EQ(plan.weights.taps.size(), 13U * 13 * 13);
    EXPECT_TRUE(plan.weights.exact);
  }
  EXPECT_TRUE(make_plan(product({1, 2, 1}, {1, 2, 1}, {1, 2, 1}, spec::Storage::f32)).plan.passes.empty());
  EXPECT_TRUE(make_plan(large_box(spec::Storage::f16)).plan.passes.empty());
}

TEST(AxisPasses, HaveTheRoundingsOfAllPassesInTheirBound) {
  const KernelPlan plan = make_plan(large_box()).plan;
  const double roundings = 3 * (13 + 1) * 0x1p-24;
  EXPECT_GE(plan.error_bound.sum, roundings);
  EXPECT_LE(plan.error_bound.sum, 1.05 * roundings);
}

TEST(AxisPasses, PassConstantsOn) {
  spec::StencilSpec spec = large_box();
  for (const int axis : {0, 1, 2}) set_rule(spec, axis, spec::BoundaryRule::constant, 2);
  const KernelPlan plan = make_plan(spec).plan;
  ASSERT_EQ(plan.passes.size(), 3U);
  EXPECT_EQ(plan.passes[0].spec.boundary[2].low.value, 2);
  EXPECT_EQ(plan.passes[1].spec.boundary[1].low.value, 2 * 13);
  EXPECT_EQ(plan.passes[2].spec.boundary[0].high.value, 2 * 13 * 13);
}

TEST(AxisPasses, NeedFacesWhoseOrderDoesNotCount) {
  spec::StencilSpec spec = large_box();
  set_rule(spec, spec::axis_y, spec::BoundaryRule::constant, 2);
  EXPECT_EQ(pass_specs(spec).size(), 3U);
  set_rule(spec, spec::axis_x, spec::BoundaryRule::constant, 3);
  EXPECT_TRUE(pass_specs(spec).empty()) << "two constants";
  set_rule(spec, spec::axis_x, spec::BoundaryRule::antisymmetric);
  EXPECT_TRUE(pass_specs(spec).empty()) << "a constant and negatives";
  set_rule(spec, spec::axis_y, spec::BoundaryRule::constant, 0);
  EXPECT_EQ(pass_specs(spec).size(), 3U);
}

TEST(AxisPasses, AreNotForUpdatesOrStepsOrSeveralSums) {
  spec::StencilSpec spec = large_box();
  spec.steps = 2;
  EXPECT_TRUE(pass_specs(spec).empty());
  spec = large_box();
  spec.update = spec::Update{};
  EXPECT_TRUE(pass_specs(spec).empty());
  spec = large_box();
  spec.sums.resize(2);
  EXPECT_TRUE(pass_specs(spec).empty());
}

}  // namespace
}  // namespace spidergen::plan
