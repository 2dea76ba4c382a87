#include "plan/axis_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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
    ASSERT_EQ(plan.passes.size(), 2U);
    EXPECT_EQ(axis_names(plan.passes[0]), "yx");
    EXPECT_EQ(axis_names(plan.passes[1]), "z");
    EXPECT_EQ(plan.candidates.front().scheme, passes_name);
    EXPECT_LT(2 * plan.microseconds, plan.candidates.at(1).microseconds);
    EXPECT_EQ(plan.weights.taps.size(), 13U * 13 * 13);
    EXPECT_TRUE(plan.weights.exact);
  }
  EXPECT_TRUE(make_plan(product({1, 2, 1}, {1, 2, 1}, {1, 2, 1}, spec::Storage::f32)).plan.passes.empty());
}

TEST(AxisPasses, OfAllStoragesHoldTheirSumsBetween) {
  for (const spec::Storage storage : {spec::Storage::f16, spec::Storage::bf16, spec::Storage::u8}) {
    const KernelPlan plan = make_plan(large_box(storage), {Engine::cuda}).plan;
    ASSERT_EQ(plan.passes.size(), 3U);
    EXPECT_EQ(plan.passes[0].spec.storage, storage);
    EXPECT_EQ(plan.passes[0].spec.output, spec::Storage::f32);
    EXPECT_EQ(plan.passes[1].spec.storage, spec::Storage::f32);
    EXPECT_FALSE(plan.passes[1].spec.output);
    EXPECT_EQ(plan.passes[2].spec.output, storage);
    EXPECT_LT(plan.error_bound.sum, 3e-6) << "nothing is rounded to few digits between passes";
  }
  spec::StencilSpec spec = large_box(spec::Storage::f64);
  spec.output = spec::Storage::f16;
  const KernelPlan plan = make_plan(spec).plan;
  ASSERT_EQ(plan.passes.size(), 3U);
  EXPECT_FALSE(plan.passes[0].spec.output);
  EXPECT_EQ(plan.passes[2].spec.output, spec::Storage::f16);
}

TEST(AxisPasses, OfSixteenBitsAreBandsOnTensorCores) {
  List wide;
  for (int i = 0; i < 61; ++i) wide.push_back(1 + 0.01 * i);
  for (const spec::Storage storage : {spec::Storage::f16, spec::Storage::bf16}) {
    const spec::StencilSpec spec = product({1}, wide, wide, storage);
    const KernelPlan plan = make_plan(spec).plan;
    ASSERT_EQ(plan.passes.size(), 2U);
    EXPECT_EQ(plan.engine, Engine::dense);
    const int chunks = 5;
    const bool f16 = storage == spec::Storage::f16;
    for (const PassPlan& pass : plan.passes) {
      ASSERT_EQ(scheme_name(pass.plan.scheme), BandedList::name);
      const bool is_first = &pass == &plan.passes.front();
      EXPECT_EQ(pass.plan.contraction.inputs.count, is_first ? 1 : 2);
      EXPECT_EQ(pass.plan.contraction.chained_products(), chunks * ((f16 ? 2 : 3) + (is_first ? 0
                                                                                     : f16    ? 1
                                                                                              : 2)));
    }
    EXPECT_FALSE(plan.weights.exact);
    EXPECT_LT(plan.error_bound.sum, f16 ? 1e-4 : 2e-4) << "nothing is rounded to 16 bits between passes";
    const KernelPlan on_cores = make_plan(spec, {Engine::cuda}).plan;
    EXPECT_EQ(on_cores.engine, Engine::cuda);
    for (const PassPlan& pass : on_cores.passes) EXPECT_NE(scheme_name(pass.plan.scheme), BandedList::name);
  }
}

TEST(AxisPasses, OfWordsAreBandsOfAllTheirDigitsWhereListsAreLong) {
  List wide;
  for (int i = 0; i < 201; ++i) wide.push_back(1 + 0.01 * i);
  const KernelPlan plan = make_plan(product({1}, wide, wide, spec::Storage::f32)).plan;
  ASSERT_EQ(plan.passes.size(), 2U);
  const int chunks = 14;
  for (const PassPlan& pass : plan.passes) {
    ASSERT_EQ(scheme_name(pass.plan.scheme), BandedList::name);
    EXPECT_EQ(pass.plan.contraction.inputs.count, 3);
    EXPECT_EQ(pass.plan.contraction.chained_products(), chunks * (3 + 2 + 1));
  }
  const double roundings = 2 * (201 + 1) * 0x1p-24;
  EXPECT_LT(plan.error_bound.sum, roundings) << "that of lists on CUDA cores";
}

spec::StencilSpec lists_of(int reach) {
  const List ones(static_cast<std::size_t>(2 * reach + 1), 1);
  spec::StencilSpec spec = product({1}, {1}, {1}, spec::Storage::f32);
  spec.taps.clear();
  for (const int axis : {spec::axis_z, spec::axis_y, spec::axis_x}) {
    spec.lists.insert(spec.lists.begin(), {axis, -reach, ones});
    for (int i = -reach; i <= reach; ++i) {
      spec::Tap tap{{}, 1, {}};
      tap.at[static_cast<std::size_t>(axis)] = i;
      if (i != 0 || axis == spec::axis_x) spec.taps.push_back(tap);
    }
  }
  std::sort(spec.taps.begin(), spec.taps.end(),
            [](const spec::Tap& a, const spec::Tap& b) { return a.at < b.at; });
  return spec;
}

TEST(AxisPasses, OfListsAreTheOnlyPlan) {
  const spec::StencilSpec spec = lists_of(100);
  EXPECT_EQ(spec::count_taps(spec), 201LL * 201 * 201);
  EXPECT_EQ(spec::count_tap_rows(spec), 201LL * 201);
  const PlanResult planned = make_plan(spec);
  ASSERT_FALSE(planned.diagnostics.has_errors());
  ASSERT_EQ(planned.plan.passes.size(), 3U);
  for (const PassPlan& pass : planned.plan.passes) EXPECT_EQ(scheme_name(pass.plan.scheme), BandedList::name);
  EXPECT_EQ(planned.plan.weights.sum, 201.0 * 201 * 201);
  EXPECT_TRUE(planned.plan.weights.exact);
  EXPECT_EQ(planned.plan.op.reach_low, (std::array<int, 3>{100, 100, 100}));
}

TEST(AxisPasses, OfListsThatHaveNoneAreRefused) {
  spec::StencilSpec spec = lists_of(30);
  EXPECT_TRUE(make_plan(spec, {Engine::sparse}).diagnostics.has_errors());
  EXPECT_FALSE(make_plan(spec, {Engine::cuda}).diagnostics.has_errors());
  set_rule(spec, spec::axis_x, spec::BoundaryRule::constant, 3);
  set_rule(spec, spec::axis_y, spec::BoundaryRule::constant, 2);
  EXPECT_TRUE(make_plan(spec).diagnostics.has_errors());
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
  ASSERT_EQ(plan.passes.size(), 2U);
  EXPECT_EQ(plan.passes[0].spec.boundary[2].low.value, 2);
  EXPECT_EQ(plan.passes[0].spec.boundary[1].low.value, 2);
  const auto row_axis =
      static_cast<std::size_t>(plan.passes[1].spec.dimensions == 2 ? spec::axis_y : spec::axis_z);
  EXPECT_EQ(plan.passes[1].spec.boundary[row_axis].high.value, 2 * 13 * 13);
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
