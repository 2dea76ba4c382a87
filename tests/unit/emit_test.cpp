/// What generated files say of a plan.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <string>

#include "emit/emit.h"
#include "pack/pack.h"
#include "plan/make_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {
namespace {

/// 3D, with different weights in rows `low` to `high` of three columns and one plane.
spec::StencilSpec volume_of_rows(int low, int high) {
  spec::StencilSpec spec;
  spec.name = "rows";
  spec.source_name = "rows.yaml";
  spec.dimensions = 3;
  double weight = 0;
  for (int dy = low; dy <= high; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) spec.taps.push_back({{0, dy, dx}, weight += 1.0 / 64, {}});
  }
  return spec;
}

// Of the last pair taps may reach the first row alone: kernels read the second, too.
TEST(Emit, Volumes3dHaveTheRowsOfTheirPairs) {
  int checked = 0;
  for (int high = -1; high <= 3; ++high) {
    const spec::StencilSpec spec = volume_of_rows(-2, high);
    const plan::KernelPlan plan = plan::make_plan(spec, {plan::Engine::sparse}).plan;
    if (!plan.contraction.mapping.pairs_rows()) continue;
    const int rows_of_pairs = (high + 2 + 1) / 2 * 2;
    std::string text;
    for (const EmittedFile& file : emit(spec, plan, pack::pack(plan), "test")) text += file.text;
    const std::string rows = fmt::format("row_low = -2, row_high = {};", rows_of_pairs - 2);
    EXPECT_NE(text.find(rows), std::string::npos) << "rows -2 to " << high;
    ++checked;
  }
  EXPECT_GT(checked, 2);
}

}  // namespace
}  // namespace spidergen::emit
