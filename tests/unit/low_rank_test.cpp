#include "plan/low_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "diag/diagnostic.h"
#include "pack/pack.h"
#include "pack/prove.h"
#include "plan/list_pairs.h"
#include "plan/make_plan.h"
#include "plan/singular_values.h"

namespace spidergen::plan {
namespace {

/// Five points, or with corners nine, of a field with these faces.
spec::StencilSpec diffusion(int steps, spec::BoundaryRule rule = spec::BoundaryRule::halo) {
  spec::StencilSpec stencil;
  stencil.storage = spec::Storage::f16;
  stencil.steps = steps;
  for (const auto& [dy, dx] : {std::pair(-1, 0), {0, -1}, {0, 0}, {0, 1}, {1, 0}})
    stencil.taps.push_back({{0, dy, dx}, dy == 0 && dx == 0 ? 0.6 : 0.1, {}});
  for (const int axis : {spec::axis_y, spec::axis_x})
    stencil.boundary[axis].low.rule = stencil.boundary[axis].high.rule = rule;
  return stencil;
}

spec::StencilSpec separable(const std::vector<double>& list) {
  spec::StencilSpec stencil;
  stencil.storage = spec::Storage::f16;
  const auto radius = static_cast<int>(list.size() / 2);
  for (int dy = -radius; dy <= radius; ++dy) {
    for (int dx = -radius; dx <= radius; ++dx)
      stencil.taps.push_back({{0, dy, dx}, list[dy + radius] * list[dx + radius], {}});
  }
  return stencil;
}

std::vector<double> gaussian(int radius) {
  std::vector<double> list;
  for (int i = -radius; i <= radius; ++i) list.push_back(std::exp(-9.0 * i * i / (2.0 * radius * radius)));
  const double sum = std::accumulate(list.begin(), list.end(), 0.0);
  for (double& value : list) value /= sum;
  return list;
}

/// Of one step with a tolerance, which lets sums be rounded between passes.
KernelPlan plan_of(spec::StencilSpec stencil) {
  if (stencil.steps == 1 && !stencil.tolerance) stencil.tolerance = 1e-6;
  return make_plan(stencil).plan;
}

bool passes_twice(const spec::StencilSpec& stencil) {
  return std::holds_alternative<Lowrank2d>(plan_of(stencil).scheme);
}

TEST(LowRank, SingularValuesAreTheMatrixAgain) {
  Matrix matrix(5, 7);
  for (std::size_t i = 0; i < matrix.values.size(); ++i)
    matrix.values[i] = std::sin(static_cast<double>(3 * i + 1));
  const SingularValues values = singular_values(matrix);
  ASSERT_EQ(values.value.size(), 7U);
  Matrix again(5, 7);
  for (std::size_t i = 0; i < values.value.size(); ++i) {
    if (i > 0) {
      EXPECT_LE(values.value[i], values.value[i - 1]);
    }
    for (int row = 0; row < 5; ++row) {
      for (int column = 0; column < 7; ++column)
        again.at(row, column) += values.value[i] * values.left[i][row] * values.right[i][column];
    }
  }
  for (std::size_t i = 0; i < matrix.values.size(); ++i)
    EXPECT_NEAR(again.values[i], matrix.values[i], 1e-13);
}

TEST(LowRank, TakesAsManyPairsAsTheToleranceAsksFor) {
  const LowRank few = plan_of(diffusion(32)).contraction.low_rank.front();
  EXPECT_EQ(few.pairs.size(), 2U);
  EXPECT_NEAR(few.truncation, 8.9e-5, 1e-6);  // as NumPy's decomposition has it
  spec::StencilSpec loose = diffusion(32);
  loose.tolerance = 0.01;
  EXPECT_EQ(plan_of(loose).contraction.low_rank.front().pairs.size(), 1U);
  loose.tolerance = 1;  // which no pair at all would meet
  EXPECT_EQ(plan_of(loose).contraction.low_rank.front().pairs.size(), 1U);
  spec::StencilSpec tight = diffusion(32);
  tight.tolerance = 1e-4;
  const LowRank precise = plan_of(tight).contraction.low_rank.front();
  EXPECT_EQ(precise.pairs.size(), 2U);
  EXPECT_EQ(precise.terms, 2);  // f16 numbers alone would be farther off
  EXPECT_LE(precise.deviation, 1e-4);
  tight.steps = 16;
  EXPECT_EQ(plan_of(tight).contraction.low_rank.front().pairs.size(), 3U);
  tight.tolerance = 0;
  EXPECT_FALSE(passes_twice(tight));
}

TEST(LowRank, CutsWhatTheToleranceLeaves) {
  // 32 steps of variance 0.2 each along an axis: all but 1e-4 lies within 16 of the 32 points on each side.
  const KernelPlan plan = plan_of(diffusion(32, spec::BoundaryRule::reflect));
  const LowRank& lists = plan.contraction.low_rank.front();
  EXPECT_EQ(std::pair(lists.y_low, lists.y_high()), std::pair(-16, 16));
  EXPECT_EQ(std::pair(lists.x_low, lists.x_high()), std::pair(-16, 16));
  EXPECT_LE(lists.truncation, 0x1p-13);
  EXPECT_EQ(plan.contraction.chained_products(), 12);
  // Callers keep what steps reach, and a tolerance of nothing but rounding cuts nothing.
  EXPECT_EQ(plan.tap_rows.size(), 65U);
  spec::StencilSpec exact = separable({0.25, 0.5, 0.25});
  exact.steps = 32;
  exact.tolerance = 1e-6;
  EXPECT_EQ(plan_of(exact).contraction.low_rank.front().x_high(), 24);
  exact.tolerance = 1e-12;
  EXPECT_FALSE(passes_twice(exact));
}

TEST(LowRank, KeepsTheSumOfTheWeights) {
  for (const int steps : {2, 7, 16, 24, 32, 48}) {
    const KernelPlan plan = plan_of(diffusion(steps));
    if (!std::holds_alternative<Lowrank2d>(plan.scheme)) continue;
    const LowRank& lists = plan.contraction.low_rank.front();
    const Matrix packed = expand(lists);
    EXPECT_NEAR(std::accumulate(packed.values.begin(), packed.values.end(), 0.0), 1, 0x1p-24) << steps;
    // Constant cells pass between the lists as they are: f16 rounds what is within 2^-12 of a number to it.
    const std::vector<double>& x = lists.pairs.front().x.front();
    EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0), 1, 0x1p-12) << steps;
    EXPECT_LE(lists.deviation, lists.truncation + 0x1p-11) << steps;
  }
}

/// The rims of a plan of two passes, which must have a way of stepping them where there are any.
Rims rims_of_plan(const spec::StencilSpec& stencil) {
  const KernelPlan plan = plan_of(stencil);
  const auto* scheme = std::get_if<Lowrank2d>(&plan.scheme);
  if (scheme == nullptr) return {{{-1, -1}, {-1, -1}}};
  EXPECT_EQ(scheme->rim_steps.has_value(), scheme->least != (std::array<int, 2>{}));
  if (scheme->rim_steps) {
    EXPECT_EQ(scheme->rim_steps->steps, plan.op.steps);
  }
  return scheme->rims;
}

TEST(LowRank, LeavesRimsAtFacesThatDoNotCommute) {
  using Rule = spec::BoundaryRule;
  constexpr Rims none{};
  for (const Rule rule : {Rule::halo, Rule::periodic, Rule::reflect, Rule::mirror, Rule::nearest})
    EXPECT_EQ(rims_of_plan(diffusion(16, rule)), none) << spec::rule_name(rule);
  // Constants beside even weights of reach 1 compose, whatever they are and weights sum to.
  spec::StencilSpec bounded = diffusion(16, Rule::constant);
  EXPECT_EQ(rims_of_plan(bounded), none);
  bounded.boundary[spec::axis_x].high.value = 2;
  EXPECT_EQ(rims_of_plan(bounded), none);
  bounded.taps[2].weight = 0.59;
  EXPECT_EQ(rims_of_plan(bounded), none);
  bounded.taps[1].weight = 0.12;  // not even along x
  EXPECT_EQ(rims_of_plan(bounded), (Rims{{{0, 0}, {8, 8}}}));
  // Of one cell `mirror` takes that cell, whatever lies beyond the other face: such fields are stepped.
  spec::StencilSpec open = diffusion(16, Rule::mirror);
  open.boundary[spec::axis_x].high.rule = Rule::halo;
  EXPECT_EQ(rims_of_plan(open), none);
  EXPECT_EQ(std::get<Lowrank2d>(plan_of(open).scheme).least, (std::array<int, 2>{0, 2}));
  spec::StencilSpec drifting = diffusion(16, Rule::reflect);
  drifting.taps[1].weight = 0.12;  // not even along x
  EXPECT_EQ(rims_of_plan(drifting), (Rims{{{0, 0}, {8, 8}}}));
  // No tap leads beyond the high face.
  drifting.taps.erase(drifting.taps.begin() + 3);
  EXPECT_EQ(rims_of_plan(drifting), (Rims{{{0, 0}, {16, 0}}}));
  drifting.boundary[spec::axis_x].low.rule = drifting.boundary[spec::axis_x].high.rule = Rule::periodic;
  EXPECT_EQ(rims_of_plan(drifting), none);
}

TEST(LowRank, RimsEndWhereHardlyAnythingComesFromFartherAway) {
  spec::StencilSpec drifting = diffusion(16, spec::BoundaryRule::reflect);
  drifting.taps[1].weight = 0.12;  // not even along x
  const KernelPlan plan = plan_of(drifting);
  const auto& scheme = std::get<Lowrank2d>(plan.scheme);
  const LowRank& lists = plan.contraction.low_rank.front();
  ASSERT_TRUE(scheme.rim_steps);
  const int rim = scheme.rims[1][0];
  EXPECT_EQ(scheme.rims, (Rims{{{0, 0}, {8, 8}}}));
  EXPECT_GE(rim, std::max(-lists.x_low, lists.x_high()));
  EXPECT_EQ(scheme.least[1], 3 * rim);
  EXPECT_GT(scheme.rim_steps->left_out, 0);
  EXPECT_LE(scheme.rim_steps->left_out, 0x1p-14 * lists.magnitude);
  EXPECT_GE(plan.error_bound.neighbourhood, scheme.rim_steps->left_out);
  // A tolerance that rounding fills leaves nothing out.
  drifting.tolerance = lists.deviation;
  const KernelPlan tight = plan_of(drifting);
  const auto& whole = std::get<Lowrank2d>(tight.scheme);
  EXPECT_EQ(whole.rim_steps->left_out, 0);
  EXPECT_EQ(whole.rims, (Rims{{{0, 0}, {16, 16}}}));
}

TEST(LowRank, FewerWarpsWhereSeveralPairsWouldSpill) {
  const auto pairs_and_warps = [](const spec::StencilSpec& stencil) {
    const KernelPlan plan = plan_of(stencil);
    const auto& scheme = std::get<Lowrank2d>(plan.scheme);
    return std::pair(plan.contraction.low_rank.front().pairs.size(),
                     scheme.warps_per_block * scheme.blocks_per_multiprocessor);
  };
  spec::StencilSpec binomial = separable({0.25, 0.5, 0.25});
  binomial.steps = 32;
  EXPECT_EQ(pairs_and_warps(binomial), std::pair(std::size_t{1}, 12));
  spec::StencilSpec star = diffusion(16);
  star.taps = {{{0, 0, 0}, 0.5, {}}};
  for (const auto& [distance, weight] : {std::pair(1, 2.0 / 15), {2, -1.0 / 120}}) {
    for (const int offset : {-distance, distance}) {
      star.taps.push_back({{0, offset, 0}, weight, {}});
      star.taps.push_back({{0, 0, offset}, weight, {}});
    }
  }
  EXPECT_EQ(pairs_and_warps(star), std::pair(std::size_t{3}, 8));
}

TEST(LowRank, ComposesBesideConstantsInFieldsThatAreLargeEnough) {
  spec::StencilSpec stencil = diffusion(16, spec::BoundaryRule::constant);
  const KernelPlan beside_zero = plan_of(stencil);
  EXPECT_FALSE(std::get<Lowrank2d>(beside_zero.scheme).added.exist());
  EXPECT_FALSE(std::get<Lowrank2d>(beside_zero.scheme).rim_steps);
  stencil.boundary[spec::axis_x].low.value = -3;
  stencil.boundary[spec::axis_y].high.value = 2;
  const KernelPlan plan = plan_of(stencil);
  const auto& scheme = std::get<Lowrank2d>(plan.scheme);
  EXPECT_TRUE(scheme.added.exist());
  EXPECT_EQ(scheme.least, (std::array<int, 2>{32, 32}));
  EXPECT_EQ(scheme.rims_us, 0);
  EXPECT_EQ(plan.microseconds, beside_zero.microseconds);
  // Fields may have any number of rows where no constant makes them differ.
  stencil.boundary[spec::axis_y] = {{spec::BoundaryRule::nearest, 0, {}}, {spec::BoundaryRule::halo, 0, {}}};
  EXPECT_EQ(std::get<Lowrank2d>(plan_of(stencil).scheme).least, (std::array<int, 2>{0, 32}));
}

TEST(LowRank, BoundsAndEstimatesCountRims) {
  spec::StencilSpec stencil = diffusion(16);
  stencil.taps[1].weight = 0.12;  // not even along x
  const KernelPlan inner = plan_of(stencil);
  stencil.boundary[spec::axis_x].high.rule = spec::BoundaryRule::nearest;
  const KernelPlan rimmed = plan_of(stencil);
  const double rims_us = std::get<Lowrank2d>(rimmed.scheme).rims_us;
  EXPECT_GT(rims_us, 0);
  EXPECT_DOUBLE_EQ(rimmed.microseconds, inner.microseconds + rims_us);
  // A step at a face has 29 roundings of f32.
  EXPECT_GE(rimmed.error_bound.neighbourhood, 16 * 29 * 0x1p-24);
  EXPECT_GE(rimmed.error_bound.neighbourhood, inner.error_bound.neighbourhood);
  EXPECT_GE(rimmed.error_bound.absolute, inner.error_bound.absolute);
}

TEST(LowRank, TakesSeparableStencilsOfOneStep) {
  const KernelPlan plan = plan_of(separable(gaussian(9)));
  ASSERT_TRUE(std::holds_alternative<Lowrank2d>(plan.scheme));
  EXPECT_EQ(plan.contraction.low_rank.front().pairs.size(), 1U);
  double largest = 0;
  for (const RoundedTap& tap : plan.weights.taps) largest = std::max(largest, tap.weight);
  EXPECT_LE(plan.weights.largest_error, 0x1p-20 * largest);
  // A corner more, and the taps are no product.
  spec::StencilSpec other = separable(gaussian(9));
  other.taps.front().weight *= 1.5;
  EXPECT_NE(plan_of(other).contraction.low_rank.front().pairs.size(), 1U);
}

/// The same Gaussian, of whose sum and of u an update makes the product.
spec::StencilSpec updated_gaussian(int radius) {
  spec::StencilSpec stencil = separable(gaussian(radius));
  stencil.update.emplace();
  stencil.update->nodes = {{spec::UpdateOperation::input, 0, 0, {}, {}},
                           {spec::UpdateOperation::sum, 0, 0, {}, {}},
                           {spec::UpdateOperation::multiply, 0, 0, {}, {0, 1}}};
  return stencil;
}

TEST(LowRank, UpdatesTakeTheSumOfTwoPasses) {
  const KernelPlan plain = plan_of(separable(gaussian(9)));
  const KernelPlan updated = plan_of(updated_gaussian(9));
  ASSERT_TRUE(std::holds_alternative<Lowrank2d>(updated.scheme));
  // What passes between the lists is rounded all the same, the sum is not.
  EXPECT_EQ(updated.error_bound.neighbourhood, plain.error_bound.neighbourhood);
  EXPECT_LT(updated.error_bound.result, 0x1p-23);
  EXPECT_GT(plain.error_bound.result, 0x1p-11);
  EXPECT_LT(updated.error_bound.absolute, plain.error_bound.absolute);
  EXPECT_GT(updated.microseconds, plain.microseconds);
}

TEST(LowRank, RingsKeepTheInputsOfUpdates) {
  const auto groups = [](const spec::StencilSpec& stencil) {
    return std::get<Lowrank2d>(plan_of(stencil).scheme).ring_groups;
  };
  const int none = groups(separable(gaussian(9)));
  // Of 16 outputs the first lies r rows behind the first of r + 16 + r inputs, in groups of 16.
  EXPECT_EQ(groups(updated_gaussian(8)), none + 1);
  EXPECT_EQ(groups(updated_gaussian(9)), none + 2);
  EXPECT_EQ(groups(updated_gaussian(16)), none + 1);
  spec::StencilSpec of_sums_alone = updated_gaussian(9);
  of_sums_alone.update->nodes.front().operation = spec::UpdateOperation::sum;
  EXPECT_EQ(groups(of_sums_alone), none);
}

/// Why two passes do not take it.
std::string objection_to(const spec::StencilSpec& stencil) {
  for (const Candidate& candidate : plan_of(stencil).candidates) {
    if (candidate.scheme == Lowrank2d::name) return candidate.objection;
  }
  return "two passes are no candidate";
}

TEST(LowRank, RoundsSumsOfOneStepOnlyWhereTheSpecLetsIt) {
  const spec::StencilSpec stencil = separable(gaussian(8));
  const KernelPlan exact = make_plan(stencil).plan;
  EXPECT_FALSE(std::holds_alternative<Lowrank2d>(exact.scheme));
  EXPECT_EQ(exact.error_bound.neighbourhood, 0);
  EXPECT_LT(exact.error_bound.sum, 1e-3);
  EXPECT_TRUE(passes_twice(stencil));
  EXPECT_TRUE(std::holds_alternative<Lowrank2d>(make_plan(stencil, {Engine::dense}).plan.scheme));
}

TEST(LowRank, RefusesStepsOfUpdates) {
  spec::StencilSpec stencil = updated_gaussian(2);
  EXPECT_EQ(objection_to(stencil), "");
  stencil.steps = 2;
  EXPECT_EQ(objection_to(stencil), "steps of an update are not composed");
}

/// Gaussians of these radii, of whose first sum and u an update makes the product.
spec::StencilSpec several_gaussians(const std::vector<int>& radii) {
  spec::StencilSpec stencil = updated_gaussian(radii.front());
  stencil.taps.clear();
  stencil.sums.resize(radii.size());
  for (std::size_t sum = 0; sum < radii.size(); ++sum) {
    for (spec::Tap tap : separable(gaussian(radii[sum])).taps) {
      tap.sum = static_cast<int>(sum);
      stencil.taps.push_back(tap);
    }
  }
  std::stable_sort(stencil.taps.begin(), stencil.taps.end(),
                   [](const spec::Tap& a, const spec::Tap& b) { return a.at < b.at; });
  return stencil;
}

TEST(LowRank, ListsOfSeveralSumsReachAsFarAsThese) {
  const spec::StencilSpec stencil = several_gaussians({15, 7});
  const KernelPlan plan = plan_of(stencil);
  ASSERT_TRUE(std::holds_alternative<Lowrank2d>(plan.scheme));
  const std::vector<LowRank>& low_rank = plan.contraction.low_rank;
  ASSERT_EQ(low_rank.size(), 2U);
  // The narrow one begins eight rows behind the other, in the middle of a group, and takes no chunk more.
  EXPECT_EQ(low_rank[1].first_row, 8);
  EXPECT_EQ(low_rank[1].chunks, plan_of(updated_gaussian(7)).contraction.low_rank.front().chunks);
  EXPECT_EQ(low_rank[1].row_chunks, 2);
  const PassReach reach = reach_of_passes(low_rank);
  EXPECT_EQ(reach.row_chunks, 3);
  EXPECT_EQ(groups_in_flight(low_rank[0], reach), 3);
  EXPECT_EQ(groups_in_flight(low_rank[1], reach), 2);
  EXPECT_EQ(plan.contraction.chained_products(), (3 + 3 + 2 + 2) * 2);
  EXPECT_EQ(plan.contraction.longest_chain(), (3 + 3) * 2);
  // Of the sum whose lists are longer.
  const ErrorBound of_wide = plan_of(updated_gaussian(15)).error_bound;
  EXPECT_GE(plan.error_bound.neighbourhood, of_wide.neighbourhood);
  EXPECT_LT(plan.error_bound.neighbourhood, of_wide.neighbourhood * 1.01);
}

TEST(LowRank, SeveralSumsBeginWhereTheirOwnOffsetsAllow) {
  const KernelPlan plan = plan_of(several_gaussians({12, 6, 3}));
  ASSERT_TRUE(std::holds_alternative<Lowrank2d>(plan.scheme));
  const std::vector<LowRank>& low_rank = plan.contraction.low_rank;
  // Six and nine rows behind the first: nothing, and half a group.
  EXPECT_EQ(low_rank[1].y_low, -12);
  EXPECT_EQ(low_rank[2].y_low, -4);
  EXPECT_EQ(low_rank[2].first_row, 8);
  EXPECT_EQ(low_rank[2].pairs.front().y.front().front(), 0);
}

TEST(LowRank, LeavesSumsThatRegistersDoNotHold) {
  spec::StencilSpec wide = several_gaussians({30, 30, 30});
  wide.tolerance = 1e-5;
  EXPECT_EQ(objection_to(wide), "two passes of so many lists find no room in registers and shared memory");
  // Taps reach no farther in any row than those of one sum do.
  spec::StencilSpec cross = several_gaussians({6, 6});
  std::erase_if(cross.taps, [](const spec::Tap& tap) {
    return std::abs(tap.at[tap.sum == 0 ? spec::axis_y : spec::axis_x]) > 2;
  });
  EXPECT_EQ(objection_to(cross), "the taps are no product of a list along y and one along x");
}

TEST(LowRank, ProofKnowsWhoseListsAreWhose) {
  const spec::StencilSpec stencil = several_gaussians({9, 9});
  const KernelPlan plan = plan_of(stencil);
  const pack::PackedKernel packed = pack::pack(plan);
  EXPECT_NO_THROW(pack::prove(stencil, plan, packed));
  spec::StencilSpec other = stencil;
  for (spec::Tap& tap : other.taps) tap.weight *= tap.sum == 1 ? 2 : 1;
  EXPECT_THROW(pack::prove(other, plan, packed), diag::InternalError);
}

TEST(LowRank, AutoTriesEveryReachThatFillsProducts) {
  // Eight offsets more on each side are a chunk more: 56 steps are tried between 48 and 64.
  spec::StencilSpec stencil = diffusion(1);
  for (spec::Tap& tap : stencil.taps) tap.weight = tap.weight > 0.5 ? 0.8 : 0.05;
  stencil.steps.reset();
  stencil.tolerance = 2e-4;
  const KernelPlan plan = plan_of(stencil);
  EXPECT_TRUE(std::holds_alternative<Lowrank2d>(plan.scheme));
  EXPECT_EQ(plan.op.steps, 56);
}

TEST(LowRank, RefusesWhatNoPlanMeets) {
  spec::StencilSpec stencil = diffusion(16, spec::BoundaryRule::constant);
  stencil.tolerance = 0;
  const diag::Diagnostics told = make_plan(stencil, {Engine::dense}).diagnostics;
  ASSERT_TRUE(told.has_errors());
  EXPECT_NE(told.items.front().text.find("no sum of 4 products"), std::string::npos);
}

TEST(LowRank, ProofSeesAnotherDigit) {
  const spec::StencilSpec stencil = diffusion(16);
  const KernelPlan plan = plan_of(stencil);
  ASSERT_TRUE(std::holds_alternative<Lowrank2d>(plan.scheme));
  const pack::PackedKernel packed = pack::pack(plan);
  EXPECT_NO_THROW(pack::prove(stencil, plan, packed));
  pack::PackedKernel broken = packed;
  broken.operands.front().values[5][0] ^= 1U;
  EXPECT_THROW(pack::prove(stencil, plan, broken), diag::InternalError);
  KernelPlan closer = plan;
  closer.contraction.low_rank.front().deviation /= 2;
  EXPECT_THROW(pack::prove(stencil, closer, packed), diag::InternalError);
  KernelPlan scaled = plan;
  scaled.contraction.low_rank.front().scale *= 1 + 0x1p-20;
  EXPECT_THROW(pack::prove(stencil, scaled, packed), diag::InternalError);
}

}  // namespace
}  // namespace spidergen::plan
