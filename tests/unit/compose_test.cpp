#include "plan/compose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "diag/diagnostic.h"
#include "emit/emit.h"
#include "pack/pack.h"
#include "pack/prove.h"
#include "plan/make_plan.h"
#include "plan/rim_tiles.h"

namespace spidergen::plan {
namespace {

/// All neighbours of a point and itself, with weights that sum to 1 and are even along all axes, or uneven.
spec::StencilSpec box_of_steps(int dimensions, int steps, bool even = true,
                               spec::BoundaryRule rule = spec::BoundaryRule::halo) {
  spec::StencilSpec stencil;
  stencil.name = "box";
  stencil.dimensions = dimensions;
  stencil.storage = spec::Storage::f16;
  stencil.steps = steps;
  double sum = 0;
  for (int i = 0; i < (dimensions == 1 ? 3 : dimensions == 2 ? 9 : 27); ++i) {
    const spec::Offset at{dimensions < 3 ? 0 : i / 9 - 1, dimensions < 2 ? 0 : i / 3 % 3 - 1, i % 3 - 1};
    const int distance = std::abs(at[0]) + std::abs(at[1]) + std::abs(at[2]);
    stencil.taps.push_back({at, 1.0 / (1 + distance * distance) + (even ? 0 : 0.3 * std::sin(7 * i)), {}});
    sum += stencil.taps.back().weight;
  }
  for (spec::Tap& tap : stencil.taps) tap.weight /= sum;
  for (int axis = 3 - dimensions; axis <= spec::axis_x; ++axis)
    stencil.boundary[axis].low.rule = stencil.boundary[axis].high.rule = rule;
  return stencil;
}

KernelPlan plan_of(const spec::StencilSpec& stencil) {
  const PlanResult result = make_plan(stencil);
  EXPECT_FALSE(result.diagnostics.has_errors());
  return result.plan;
}

std::string source_of(const spec::StencilSpec& stencil) {
  const KernelPlan plan = plan_of(stencil);
  return emit::emit(stencil, plan, pack::pack(plan), "test").front().text;
}

using Volume = std::vector<Matrix>;

std::array<int, 3> extents_of(const Volume& field) {
  return {static_cast<int>(field.size()), field.front().rows, field.front().columns};
}

/// A cell of a field between constant faces; where some meet, that of x counts, then that of y.
double cell_between(const spec::StencilSpec& spec, const Volume& field, const spec::Offset& at) {
  const std::array<int, 3> extent = extents_of(field);
  for (const int axis : {spec::axis_x, spec::axis_y, spec::axis_z}) {
    if (at[axis] < 0) return spec.boundary[axis].low.value;
    if (at[axis] >= extent[axis]) return spec.boundary[axis].high.value;
  }
  return field[at[0]].at(at[1], at[2]);
}

/// The same of a field that is continued about 0.
double cell_continued(const Volume& field, spec::Offset at) {
  const std::array<int, 3> extent = extents_of(field);
  for (const int axis : {spec::axis_z, spec::axis_y, spec::axis_x}) {
    int& i = at[axis];
    if (i == -1 || i == extent[axis]) return 0;
    if (i >= 0 && i < extent[axis]) continue;
    i = i < 0 ? -2 - i : 2 * extent[axis] - i;
    return -cell_continued(field, at);
  }
  return field[at[0]].at(at[1], at[2]);
}

template <class Visit>
void for_each_cell(const std::array<int, 3>& low, const std::array<int, 3>& end, const Visit& visit) {
  for (int z = low[0]; z < end[0]; ++z) {
    for (int y = low[1]; y < end[1]; ++y) {
      for (int x = low[2]; x < end[2]; ++x) visit(spec::Offset{z, y, x});
    }
  }
}

/// That `steps` steps of a box between constants are its composed weights on the field continued about 0, and
/// what is added, in a field of these extents.
void expect_added(const spec::StencilSpec& stencil, int steps, const std::array<int, 3>& extent) {
  const Operator op = operator_of(stencil, steps);
  const BoundaryContribution added = added_by_constants(stencil, op);
  Volume field(extent[0], Matrix(extent[1], extent[2]));
  for_each_cell({}, extent, [&](const spec::Offset& at) {
    field[at[0]].at(at[1], at[2]) = std::sin(7 * (at[2] + extent[2] * (at[1] + extent[1] * at[0])));
  });
  const auto sum_of = [](const spec::Offset& a, const spec::Offset& b) {
    return spec::Offset{a[0] + b[0], a[1] + b[1], a[2] + b[2]};
  };
  Volume stepped = field;
  for (int step = 0; step < steps; ++step) {
    Volume next(extent[0], Matrix(extent[1], extent[2]));
    for_each_cell({}, extent, [&](const spec::Offset& at) {
      for (const spec::Tap& tap : stencil.taps)
        next[at[0]].at(at[1], at[2]) += tap.weight * cell_between(stencil, stepped, sum_of(at, tap.at));
    });
    stepped = next;
  }
  const Volume composed = compose_taps(op);
  const std::array<int, 3> low = op.reach_low;
  const std::array<int, 3> kept = extents_of(added.planes);
  for_each_cell({}, extent, [&](const spec::Offset& at) {
    spec::Offset place{};
    for (int axis = 0; axis < 3; ++axis) {
      const int near_low = added.near[axis][0];
      place[axis] = at[axis] < near_low ? at[axis] : std::max(near_low, at[axis] - extent[axis] + kept[axis]);
    }
    double result = added.planes[place[0]].at(place[1], place[2]);
    for_each_cell({}, extents_of(composed), [&](const spec::Offset& i) {
      result += composed[i[0]].at(i[1], i[2]) *
                cell_continued(field, {at[0] + i[0] - low[0], at[1] + i[1] - low[1], at[2] + i[2] - low[2]});
    });
    EXPECT_NEAR(result, stepped[at[0]].at(at[1], at[2]), 1e-12) << at[0] << " " << at[1] << " " << at[2];
  });
}

TEST(Compose, ConstantsAddWhatStepsBesideThemMakeOfZeros) {
  constexpr int steps = 4;
  for (const int dimensions : {2, 3}) {
    spec::StencilSpec stencil = box_of_steps(dimensions, steps, true, spec::BoundaryRule::constant);
    stencil.taps[4].weight += 0.07;  // they need not sum to 1
    if (dimensions == 3) stencil.taps[4].weight = stencil.taps[22].weight;
    stencil.boundary[spec::axis_z].low.value = -1;
    stencil.boundary[spec::axis_z].high.value = 0.25;
    stencil.boundary[spec::axis_y].low.value = 0.5;
    stencil.boundary[spec::axis_y].high.value = -2;
    stencil.boundary[spec::axis_x].low.value = 3;
    const std::array<int, 2> all{steps, steps};
    const BoundaryContribution added = added_by_constants(stencil, operator_of(stencil, steps));
    ASSERT_EQ(added.near, (std::array{dimensions == 3 ? all : std::array{0, 0}, all, all}));
    constexpr int least = 2 * steps;
    expect_added(stencil, steps, {dimensions == 3 ? least : 1, least, least});
    expect_added(stencil, steps, {dimensions == 3 ? least + 1 : 1, least + 2, least + 5});
    // As far as these taps reach it is 0, which others are not uniform along.
    stencil.boundary[spec::axis_y].low = {spec::BoundaryRule::antisymmetric, 0, {}};
    expect_added(stencil, steps, {dimensions == 3 ? least : 1, least, least});
    for (spec::AxisBoundary& faces : stencil.boundary) faces.low.value = faces.high.value = 0;
    EXPECT_FALSE(added_by_constants(stencil, operator_of(stencil, steps)).exist());
  }
}

TEST(Compose, TapsAreThoseOfStepsOneAfterTheOther) {
  spec::StencilSpec star;
  for (int axis = 0; axis < 3; ++axis) {
    for (const int sign : {-1, 1}) {
      spec::Offset at{};
      at[axis] = sign;
      star.taps.push_back({at, 0.1, {}});
    }
  }
  star.taps.push_back({{}, 0.4, {}});
  const std::vector<Matrix> twice = compose_taps(operator_of(star, 2));
  ASSERT_EQ(twice.size(), 5U);
  EXPECT_NEAR(twice[2].at(2, 2), 0.4 * 0.4 + 6 * 0.01, 1e-15);
  EXPECT_NEAR(twice[1].at(2, 2), 2 * 0.4 * 0.1, 1e-16);
  EXPECT_NEAR(twice[1].at(1, 2), 2 * 0.01, 1e-16);
  EXPECT_NEAR(twice[0].at(2, 2), 0.01, 1e-16);
  EXPECT_EQ(twice[0].at(1, 2), 0);
}

TEST(Compose, StepsAreTakenAsOneWhereThatIsFaster) {
  for (const auto& [dimensions, steps] : {std::pair(1, 32), {2, 5}, {3, 2}}) {
    const KernelPlan plan = plan_of(box_of_steps(dimensions, steps, dimensions != 2));
    ASSERT_TRUE(plan.composition) << dimensions;
    EXPECT_EQ(plan.engine, Engine::sparse);
    EXPECT_EQ(plan.op.steps, steps);
    EXPECT_EQ(plan.op.reach_high[spec::axis_x], steps);
    EXPECT_EQ(plan.weights.taps.size(), std::pow(3, dimensions));  // of one step
    EXPECT_LT(plan.microseconds / steps, plan.single_step_us);
  }
  spec::StencilSpec single_precision = box_of_steps(3, 2);
  single_precision.storage = spec::Storage::f32;
  EXPECT_FALSE(plan_of(single_precision).composition);
  EXPECT_FALSE(plan_of(box_of_steps(2, 24, false)).composition);  // of 49 x 49 weights
}

TEST(Compose, AutomaticStepsTakeTheNumberThatIsFastest) {
  spec::StencilSpec box = box_of_steps(3, 1);
  box.steps.reset();
  EXPECT_EQ(plan_of(box).op.steps, 2);
  spec::StencilSpec line = box_of_steps(1, 1);
  line.steps.reset();
  EXPECT_EQ(plan_of(line).op.steps, 64);
}

TEST(Compose, FacesThatActAtEveryStepAreStepped) {
  for (const spec::BoundaryRule rule :
       {spec::BoundaryRule::nearest, spec::BoundaryRule::reflect, spec::BoundaryRule::mirror,
        spec::BoundaryRule::constant, spec::BoundaryRule::periodic}) {
    EXPECT_TRUE(plan_of(box_of_steps(3, 2, true, rule)).composition);
    const bool commutes = rule == spec::BoundaryRule::periodic;
    EXPECT_EQ(plan_of(box_of_steps(3, 2, false, rule)).composition.has_value(), commutes);
  }
  const std::string nearest = source_of(box_of_steps(3, 2, true, spec::BoundaryRule::nearest));
  EXPECT_NE(nearest.find("row_rules() { return {spider::FaceRule::reflect"), std::string::npos);
  EXPECT_NE(nearest.find("row_rules() { return {spider::FaceRule::nearest"), std::string::npos);
}

TEST(Compose, ConstantsAddIn3dToWhatStepsMakeBesideZeros) {
  spec::StencilSpec box = box_of_steps(3, 2);
  box.boundary[spec::axis_z].low = {spec::BoundaryRule::constant, 2, {}};
  box.boundary[spec::axis_x].high = {spec::BoundaryRule::constant, -1, {}};
  const KernelPlan plan = plan_of(box);
  ASSERT_TRUE(plan.composition);
  const ComposedSteps& composition = *plan.composition;
  EXPECT_EQ(composition.added.near, (std::array<std::array<int, 2>, 3>{{{2, 0}, {0, 0}, {0, 2}}}));
  EXPECT_EQ(composition.fewest, 4);
  ASSERT_TRUE(std::holds_alternative<Stepping3d>(composition.single_scheme));
  EXPECT_EQ(std::get<Stepping3d>(composition.single_scheme).steps, 2);
  EXPECT_GT(plan.error_bound.neighbourhood, plan_of(box_of_steps(3, 2)).error_bound.neighbourhood);
  const std::string text = source_of(box);
  EXPECT_NE(text.find("spider::of_large_fields(spider::composed_form(spider::stream3d_form<"
                      "WithBoundaryContribution>(), 2), 4),\n"
                      "    spider::stepping3d_form<single_step::Stencil>(),\n"
                      "    spider::stepping3d_form<single_step::SingleStep>(),"),
            std::string::npos);
  EXPECT_NE(text.find("plane_rules() { return {spider::FaceRule::antisymmetric"), std::string::npos);
  EXPECT_NE(text.find("static constexpr int low_planes = 2, high_planes = 0;"), std::string::npos);
  // Zeros add nothing.
  box.boundary[spec::axis_z].low.value = 0;
  box.boundary[spec::axis_x].high.value = 0;
  EXPECT_FALSE(plan_of(box).composition->added.exist());
}

TEST(Compose, ConstantsAddIn1dToWhatStepsMakeBesideZeros) {
  spec::StencilSpec line = box_of_steps(1, 8);
  line.boundary[spec::axis_x] = {{spec::BoundaryRule::constant, 2, {}}, {spec::BoundaryRule::mirror, 0, {}}};
  const std::string text = source_of(line);
  EXPECT_NE(text.find("spider::of_large_fields(spider::composed_form(spider::stream1d_form<"
                      "WithBoundaryContribution>(), 8), 16),\n"
                      "    spider::stepping1d_form<single_step::Stencil>(),\n"
                      "    spider::stepping1d_form<single_step::SingleStep>(),"),
            std::string::npos);
  EXPECT_NE(text.find("column_rules() { return {spider::FaceRule::antisymmetric, spider::FaceRule::mirror"),
            std::string::npos);
}

TEST(Compose, AMirrorBesideAnotherRuleComposesInLargeFields) {
  spec::StencilSpec line = box_of_steps(1, 8);
  line.boundary[spec::axis_x].low.rule = spec::BoundaryRule::mirror;
  const KernelPlan plan = plan_of(line);
  ASSERT_TRUE(plan.composition);
  EXPECT_FALSE(plan.composition->added.exist());
  EXPECT_EQ(plan.composition->fewest, 16);
  line.boundary[spec::axis_x].high.rule = spec::BoundaryRule::mirror;
  EXPECT_EQ(plan_of(line).composition->fewest, 0);
}

TEST(Compose, LeavesRimsAtFacesThatDoNotCommute) {
  using Rule = spec::BoundaryRule;
  spec::StencilSpec box = box_of_steps(2, 5, false);
  const KernelPlan inner = plan_of(box);
  EXPECT_FALSE(inner.composition->rim_steps);
  box.boundary[spec::axis_y].low.rule = Rule::nearest;
  box.boundary[spec::axis_x].high.rule = Rule::mirror;
  const KernelPlan plan = plan_of(box);
  ASSERT_TRUE(plan.composition);
  const ComposedSteps& composition = *plan.composition;
  EXPECT_EQ(composition.rims, (Rims{{{5, 0}, {0, 5}}}));
  EXPECT_EQ(composition.least, (std::array{10, 10}));
  EXPECT_EQ(composition.rim_steps->steps, 5);
  EXPECT_GT(composition.rims_us, 0);
  EXPECT_DOUBLE_EQ(plan.microseconds, inner.microseconds + composition.rims_us);
  EXPECT_GE(plan.error_bound.neighbourhood, inner.error_bound.neighbourhood);
  const std::string text = source_of(box);
  EXPECT_NE(text.find("spider::with_rims(spider::composed_form("), std::string::npos);
  EXPECT_NE(text.find(", {5, 0, 0, 5}, {10, 10}),"), std::string::npos);
  EXPECT_NE(text.find("spider::rims2d_form<rims::Stencil>(),"), std::string::npos);
  EXPECT_NE(text.find("#include <spider/kernels/rims2d.h>"), std::string::npos);
  // What is turned round with another sign finds no table.
  box.boundary[spec::axis_y].low.rule = Rule::antisymmetric;
  EXPECT_TRUE(make_plan(box).diagnostics.has_errors());
}

TEST(Compose, RimsHaveRoomForWhatAllStepsReach) {
  for (const int steps : {1, 7, 16, 32, 60}) {
    const std::optional<RimTiles> tiles = plan_rim_tiles(box_of_steps(2, steps, false), steps);
    ASSERT_TRUE(tiles) << steps;
    EXPECT_GE(tiles->cells, (2 * steps + 3) * (2 * steps + 6));
    EXPECT_LE(tiles->blocks_per_multiprocessor * (tiles->shared_bytes + 1024), 228 * 1024);
    EXPECT_EQ(tiles->cells % 4, 0);
  }
  EXPECT_FALSE(plan_rim_tiles(box_of_steps(2, 120, false), 120));
}

TEST(Compose, WhatComesFromBeyondIsWhatWalksTakeThere) {
  using Rule = spec::BoundaryRule;
  spec::StencilSpec line = box_of_steps(2, 3, false);
  line.taps = {{{0, 0, -1}, 0.5, {}}, {{0, 0, 0}, -0.25, {}}, {{0, 0, 2}, 0.25, {}}};
  const auto taken = [&](int axis, int reach) {
    return truncation_beyond(line, operator_of(line, 3), axis, reach);
  };
  EXPECT_EQ(taken(spec::axis_y, 0), 0);
  EXPECT_EQ(taken(spec::axis_x, 6), 0);
  // By taps +2: all three; the first two, or the last with one of these; or two of them with -1 before the
  // last.
  EXPECT_DOUBLE_EQ(taken(spec::axis_x, 5), 0.015625);
  EXPECT_DOUBLE_EQ(taken(spec::axis_x, 3), 0.0625 + 2 * 0.015625);
  EXPECT_DOUBLE_EQ(taken(spec::axis_x, 2), 0.09375 + 2 * 0.03125);
  // From the first cell -1 leads to +1 where the face turns round; of walks that meet there before they leave
  // some are negative.
  line.boundary[spec::axis_x].low.rule = Rule::mirror;
  EXPECT_DOUBLE_EQ(taken(spec::axis_x, 2), 0.125 + 0.0625 + 2 * 0.03125);
  // Weights that grow make more of it in later steps.
  line.boundary[spec::axis_x].low.rule = Rule::halo;
  for (spec::Tap& tap : line.taps) tap.weight *= 2;
  EXPECT_DOUBLE_EQ(taken(spec::axis_x, 5), 0.125);
  EXPECT_DOUBLE_EQ(taken(spec::axis_x, 3), 0.25 * 2 + 2 * 0.125);
}

TEST(Compose, WhatComesFromBeyondMayBeMoreBesideAFaceOfTheOtherAxis) {
  spec::StencilSpec corner = box_of_steps(2, 2, false);
  corner.taps = {{{0, -2, -1}, -0.5, {}}, {{0, -2, 0}, 0.5, {}}, {{0, 0, 0}, 0.5, {}}, {{0, 0, 1}, 0.5, {}}};
  const auto taken = [&](double enough) {
    return truncation_beyond(corner, operator_of(corner, 2), spec::axis_y, 1, enough);
  };
  // Of the first step 1, which the second one may double; of the second the middle one of three cells
  // cancels.
  EXPECT_DOUBLE_EQ(taken(10), 2 * 1 + 0.25 + 0.25);
  // A last cell that shows itself beyond the face is all of what the second step leaves from.
  corner.boundary[spec::axis_x].high.rule = spec::BoundaryRule::nearest;
  EXPECT_DOUBLE_EQ(taken(10), 2 * 1 + 0.5 + 0.5);
  EXPECT_GT(taken(1), 1);
}

TEST(Compose, WeightsKeepTheirSumAndLieWithinTheTolerance) {
  for (const auto& [dimensions, steps] : {std::pair(1, 2), {1, 32}, {2, 3}, {2, 5}, {3, 2}}) {
    spec::StencilSpec stencil = box_of_steps(dimensions, steps, dimensions != 2);
    for (const double tolerance : {1.0, 1e-4, 1e-6}) {
      stencil.tolerance = tolerance;
      const KernelPlan plan = plan_of(stencil);
      if (!plan.composition) continue;  // with more terms steps in registers are faster
      const ComposedSums sums = compare_composed(plan.op, plan.composition->weights);
      EXPECT_NEAR(sums.packed_sum, 1, 0x1p-24);
      EXPECT_LE(sums.deviation, tolerance);
      EXPECT_EQ(sums.deviation, plan.composition->deviation);
      EXPECT_NO_THROW(pack::prove(stencil, plan, pack::pack(plan)));
    }
  }
  spec::StencilSpec precise = box_of_steps(1, 32);
  precise.tolerance = 1e-5;
  EXPECT_EQ(plan_of(precise).composition->weights.terms, 2);
  precise.tolerance = 0;
  EXPECT_FALSE(plan_of(precise).composition);
}

TEST(Compose, WeightsThatLeaveF32AreStepped) {
  spec::StencilSpec stencil = box_of_steps(1, 16);
  stencil.storage = spec::Storage::bf16;
  stencil.taps = {{{}, 1e4, {}}};  // 1e64 of all steps
  EXPECT_NO_THROW(source_of(stencil));
}

TEST(Compose, ProofFindsOtherWeights) {
  const spec::StencilSpec stencil = box_of_steps(3, 2);
  const KernelPlan plan = plan_of(stencil);
  const pack::PackedKernel packed = pack::pack(plan);
  pack::prove(stencil, plan, packed);
  KernelPlan farther = plan;
  farther.composition->deviation /= 2;
  EXPECT_THROW(pack::prove(stencil, farther, packed), diag::InternalError);
  KernelPlan scaled = plan;
  scaled.composition->weights.factor *= 1.001;
  EXPECT_THROW(pack::prove(stencil, scaled, packed), diag::InternalError);
  KernelPlan shifted = plan;
  shifted.composition->weights.taps.front().at[spec::axis_z] -= 1;
  EXPECT_THROW(pack::prove(stencil, shifted, packed), diag::InternalError);
  pack::PackedKernel broken = packed;
  broken.operands.front().values.front().front() ^= 1;
  EXPECT_THROW(pack::prove(stencil, plan, broken), diag::InternalError);
  spec::StencilSpec other = stencil;
  other.taps.front().weight *= 1.01;
  EXPECT_THROW(pack::prove(other, plan, packed), diag::InternalError);
}

TEST(Compose, FilesHaveFormsOfAllStepsAndOfOne) {
  const std::string text = source_of(box_of_steps(2, 5, false));
  EXPECT_NE(text.find("// All 5 steps as one.\n"), std::string::npos);
  EXPECT_NE(text.find("spider::composed_form(spider::block2d_form<Stencil"), std::string::npos);
  EXPECT_NE(text.find("spider::cores2d_form<single_step::Stencil>(),"), std::string::npos);
  EXPECT_NE(text.find("#include <spider/kernels/cores2d.h>"), std::string::npos);
}

}  // namespace
}  // namespace spidergen::plan
