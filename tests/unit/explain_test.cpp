/// What --explain says where the usual is not there; tests/house/check_explain.py checks its figures, and
/// generator/README.md shows its text.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emit/explain.h"
#include "emit/figures.h"
#include "pack/pack.h"
#include "plan/error_bound.h"
#include "plan/make_plan.h"
#include "spec/stencil_spec.h"

namespace {

using spidergen::plan::KernelPlan;
using spidergen::spec::StencilSpec;
using Names = std::vector<std::string>;

/// 2D, with weights of 1 at these dx of one row.
StencilSpec row_of(const std::vector<int>& places) {
  StencilSpec spec;
  spec.name = "row";
  spec.source_name = "row.yaml";
  for (const int dx : places) spec.taps.push_back({{0, 0, dx}, 1.0, {}});
  return spec;
}

/// An explicit step of the heat equation in 1D.
StencilSpec heat_of(double alpha) {
  StencilSpec spec = row_of({-1, 0, 1});
  for (spidergen::spec::Tap& tap : spec.taps) tap.weight = tap.at[2] == 0 ? 1 - 2 * alpha : alpha;
  spec.where.storage = {"heat.yaml", 3, 10};
  return spec;
}

/// 2D, with weights of 1 at all points of so many columns and rows around the centre, both odd.
StencilSpec box_of(int columns, int rows) {
  StencilSpec spec;
  spec.name = "box";
  spec.source_name = "box.yaml";
  for (int dy = -rows / 2; dy <= rows / 2; ++dy) {
    for (int dx = -columns / 2; dx <= columns / 2; ++dx) spec.taps.push_back({{0, dy, dx}, 1.0, {}});
  }
  return spec;
}

KernelPlan plan_of(const StencilSpec& spec,
                   spidergen::plan::Engine engine = spidergen::plan::Engine::sparse) {
  return spidergen::plan::make_plan(spec, {engine}).plan;
}

std::string text_of(const StencilSpec& spec, const Names& architectures) {
  return spidergen::emit::explain_text(spec, plan_of(spec), architectures);
}

std::string json_of(const StencilSpec& spec, const Names& architectures) {
  const KernelPlan plan = plan_of(spec);
  return spidergen::emit::explain_json(spec, plan, spidergen::pack::pack(plan), architectures);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST(Explain, SaysWhereNoRatesAreKnown) {
  const StencilSpec spec = row_of({-1, 0, 1});
  EXPECT_TRUE(has(text_of(spec, {"sm_87"}), "    sm_87    no rates are known\n"));
  EXPECT_TRUE(has(json_of(spec, {"sm_87"}), R"({"architecture": "sm_87", "rates": null})"));
}

TEST(Explain, TellsMeasuredRatesFromPredictedOnes) {
  const std::string text = text_of(row_of({-1, 0, 1}), {"sm_90", "sm_100"});
  EXPECT_TRUE(has(text, "memory  measured\n")) << text;
  EXPECT_TRUE(has(text, "memory  predicted\n")) << text;
}

TEST(Explain, LeavesOutWhatTheCostModelDoesNotCover) {
  EXPECT_FALSE(has(text_of(row_of({0}), {"sm_90"}), "SPIDER"));  // reaches no neighbour
  EXPECT_TRUE(has(json_of(row_of({0}), {"sm_90"}), R"("cost_model": null)"));
  // TCStencil ends at radius 7; a radius of 8 takes tiles of 24 points.
  const std::string text = text_of(row_of({-8, 8}), {"sm_90"});
  EXPECT_TRUE(has(text, "box of radius 8, tiles of 24 x 24 points")) << text;
  EXPECT_TRUE(has(text, "    TCStencil              -         -           -\n")) << text;
}

// One window of 16 taps at 16 outputs fills every slot that 2:4 keeps; three taps fill 3 of 16.
TEST(Explain, TellsTheCommonFactorOfWeights) {
  StencilSpec spec = row_of({-1, 0, 1});
  for (auto& tap : spec.taps) tap.weight = 0.3;
  std::string text = text_of(spec, {"sm_90"});
  EXPECT_TRUE(has(text, "one f16 term each, exact up to the factor 1.")) << text;
  EXPECT_TRUE(has(json_of(spec, {"sm_90"}), R"("factor": 1.)"));
  EXPECT_FALSE(has(json_of(spec, {"sm_90"}), R"("factor": 1,)"));
  // A row that needs two terms beside one that does not.
  spec.taps.push_back({{0, 1, 0}, 0.3 * 4099, {}});
  text = text_of(spec, {"sm_90"});
  EXPECT_TRUE(has(text, "two f16 terms of 1 tap, of the others one that is exact, up to the factor "))
      << text;
  for (auto& tap : spec.taps) tap.weight = 0.25;
  EXPECT_TRUE(has(text_of(spec, {"sm_90"}), "one f16 term each, exact\n"));
  EXPECT_TRUE(has(json_of(spec, {"sm_90"}), R"("factor": 1,)"));
}

TEST(Explain, WarnsWhereRoundingLosesTimeSteps) {
  const auto warning_of = [](const StencilSpec& spec, int steps) {
    spidergen::diag::Diagnostics diagnostics;
    spidergen::plan::warn_of_lost_steps(spec, steps, diagnostics);
    return diagnostics.items.empty() ? "" : to_string(diagnostics.items.front());
  };
  const char* words = "a cell as it is where its neighbours differ";
  const StencilSpec slow = heat_of(0x1p-8);  // changes of 2^-12 of a value by differences of 2^-5
  EXPECT_EQ(spidergen::plan::lost_difference(slow, 1), 0x1p-5);
  EXPECT_EQ(warning_of(slow, 1).find("heat.yaml:3:10: warning: 'storage: f16' loses small changes"), 0U);
  EXPECT_TRUE(has(warning_of(slow, 1), "less than 0.031 of its value; 'storage: f32' keeps them"));
  EXPECT_TRUE(has(text_of(slow, {"sm_90"}), words));
  EXPECT_TRUE(has(json_of(slow, {"sm_90"}), "\"lost_difference\": 0.03125,"));
  EXPECT_EQ(warning_of(slow, 4), "");  // values between the steps of a sweep are f32

  const StencilSpec fast = heat_of(0.125);
  EXPECT_EQ(warning_of(fast, 1), "");
  EXPECT_FALSE(has(text_of(fast, {"sm_90"}), words));
  EXPECT_TRUE(has(json_of(fast, {"sm_90"}), "\"lost_difference\": 0.0009765625,"));

  StencilSpec other = heat_of(0x1p-5);
  other.storage = spidergen::spec::Storage::bf16;
  EXPECT_TRUE(has(warning_of(other, 1), "'storage: bf16' loses small changes"));
  other.storage = spidergen::spec::Storage::f32;
  EXPECT_FALSE(spidergen::plan::lost_difference(other, 1));
  EXPECT_TRUE(has(json_of(row_of({-1, 0, 1}), {"sm_90"}), "\"lost_difference\": null,"));  // no step of time
}

TEST(Explain, ListsTheSchemesFastestFirstAndWhyOthersCannotHoldIt) {
  StencilSpec spec = row_of({-1, 0, 1});
  std::string text = text_of(spec, {"sm_90"});
  EXPECT_TRUE(has(text, "\n\n    stream1d    sparse      102.3  pair swap, L = 16: 1 product\n")) << text;
  EXPECT_TRUE(has(text, "    cores2d     cuda      (107.5)  3 multiply-adds a point\n")) << text;
  EXPECT_TRUE(has(text, "    star2d      sparse          -  for 9 taps along y or more, here 1\n")) << text;
  spec.taps.push_back({{0, 40, 0}, 1.0, {}});
  const KernelPlan plan = plan_of(spec, spidergen::plan::Engine::cuda);
  text = spidergen::emit::explain_text(spec, plan, {"sm_90"});
  EXPECT_TRUE(has(text,
                  "\n                sparse          -  this tap is 40 points away along y; kernels reach at "
                  "most 31 there\n"))
      << text;
  const std::string json = spidergen::emit::explain_json(spec, plan, {}, {"sm_90"});
  EXPECT_TRUE(has(
      json,
      R"({"scheme": "", "engine": "sparse", "mapping": "", "products": 0, "us": null, "measured": false, "objection": "this tap is 40)"))
      << json;
}

TEST(Explain, CountsTheSlotsThatHoldAWeight) {
  const std::vector<int> full{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_TRUE(
      has(text_of(row_of(full), {"sm_90"}), "256 of the 256 slots that 2:4 keeps hold a weight, 100 %"));
  EXPECT_TRUE(has(text_of(row_of({-1, 0, 1}), {"sm_90"}), "48 of the 256 slots"));
}

TEST(Explain, TellsEveryWindowWithItsColumns) {
  const StencilSpec spec = row_of({-20, -1, 1});
  const KernelPlan plan = plan_of(spec);
  int low = 0;
  int high = 0;
  for (const auto& product : plan.contraction.products) {
    const auto columns = spidergen::emit::columns_of(plan.contraction, product);
    low = std::min(low, columns.low);
    high = std::max(high, columns.high);
  }
  EXPECT_EQ(low, -20);
  EXPECT_EQ(high, 1);
}

TEST(Explain, SaysWhyRowsAreNotPaired) {
  const Names none;
  const std::string choice = "pairs of rows, L = 8, would take ";
  const std::string small = text_of(box_of(3, 3), none);
  EXPECT_TRUE(has(small, choice + "2: not chosen, since windows have tiles in registers\n")) << small;
  const std::string tall = text_of(box_of(3, 19), none);  // streamed, as windows and as pairs
  EXPECT_TRUE(has(tall, choice + "10: not chosen, since they find no room in tiles\n")) << tall;
  const std::string line = text_of(row_of({-1, 0, 1}), none);
  EXPECT_FALSE(has(line, "since")) << line;
  EXPECT_TRUE(has(text_of(box_of(5, 5), none), "windows of one row, L = 16, would take 5\n"));
  EXPECT_TRUE(has(text_of(box_of(7, 7), none), "windows of one row, L = 16, would take 7\n"));
}
