#include "plan/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "plan/streaming.h"
#include "plan/weights.h"
#include "plan/windows.h"

namespace spidergen::plan {
namespace {

void check_reach(const spec::StencilSpec& spec, int axis, int limit, diag::Diagnostics& diagnostics) {
  const auto beyond = [&](const spec::Tap& tap) { return std::abs(tap.at[axis]) > limit; };
  const auto first = std::find_if(spec.taps.begin(), spec.taps.end(), beyond);
  if (first == spec.taps.end()) return;
  const auto others = std::count_if(spec.taps.begin(), spec.taps.end(), beyond) - 1;
  const std::string more = others == 0   ? ""
                           : others == 1 ? " (as is 1 other)"
                                         : fmt::format(" (as are {} others)", others);
  diagnostics.error(first->where,
                    fmt::format("this tap is {} points away along {}{}; kernels reach at most {} there",
                                std::abs(first->at[axis]), spec::axis_letters[axis], more, limit));
}

std::vector<TapRow> tap_rows_of(const spec::StencilSpec& spec) {
  std::vector<TapRow> rows;
  for (const spec::Tap& tap : spec.taps) {
    const auto [dz, dy, dx] = tap.at;
    if (rows.empty() || rows.back().dz != dz || rows.back().dy != dy) rows.push_back({dz, dy, dx, dx});
    rows.back().high = dx;
  }
  return rows;
}

void set_reach(const spec::StencilSpec& spec, KernelPlan& plan) {
  for (const spec::Tap& tap : spec.taps) {
    for (int axis = 0; axis < 3; ++axis) {
      plan.reach_low[axis] = std::max(plan.reach_low[axis], -tap.at[axis]);
      plan.reach_high[axis] = std::max(plan.reach_high[axis], tap.at[axis]);
    }
  }
}

Matrix window_matrix(const Window& window, int term, const TileMapping& mapping) {
  std::vector<double> weights(mapping.window_width, 0.0);
  for (const RoundedTap& tap : window.taps) {
    weights[tap.at[spec::axis_x] - window.shift - mapping.window_low] = tap.terms[term];
  }
  return kernel_matrix(mapping, weights);
}

/// The index of the operand with this matrix; a new one if there is none yet.
int find_or_add_operand(Operand operand, std::vector<Operand>& operands) {
  const auto same = std::find_if(operands.begin(), operands.end(),
                                 [&](const Operand& other) { return other.matrix == operand.matrix; });
  if (same != operands.end()) return static_cast<int>(same - operands.begin());
  operands.push_back(std::move(operand));
  return static_cast<int>(operands.size()) - 1;
}

bool all_zero(const Matrix& matrix) {
  return std::all_of(matrix.values.begin(), matrix.values.end(), [](double value) { return value == 0; });
}

ColumnReach column_reach_of(const std::vector<TapRow>& rows) {
  ColumnReach reach{rows.front().low, rows.front().high, 0, 0};
  for (const TapRow& row : rows) {
    reach.highest_low = std::max(reach.highest_low, row.low);
    reach.lowest_high = std::min(reach.lowest_high, row.high);
    reach.low = std::min(reach.low, row.low);
    reach.high = std::max(reach.high, row.high);
  }
  return reach;
}

Pass make_pass(const RoundedWeights& weights, const std::vector<TapRow>& tap_rows) {
  Pass pass;
  pass.column_reach = column_reach_of(tap_rows);
  pass.mapping = pair_swap_mapping();
  const std::vector<Window> windows = cut_windows(weights.taps, pass.mapping);
  pass.row_low = windows.front().dy;
  pass.row_high = windows.back().dy;
  for (const Window& window : windows) pass.shifts.push_back(window.shift);
  std::sort(pass.shifts.begin(), pass.shifts.end());
  pass.shifts.erase(std::unique(pass.shifts.begin(), pass.shifts.end()), pass.shifts.end());

  for (const Window& window : windows) {
    const auto shift = std::find(pass.shifts.begin(), pass.shifts.end(), window.shift) - pass.shifts.begin();
    for (int term = 0; term < weights.terms; ++term) {
      Matrix matrix = window_matrix(window, term, pass.mapping);
      if (all_zero(matrix)) continue;  // a remainder that is nowhere needed
      const int operand =
          find_or_add_operand({window.dy, window.shift, term, std::move(matrix)}, pass.operands);
      pass.products.push_back({window.dy - pass.row_low, static_cast<int>(shift), operand, term});
    }
  }
  // The row that completes first is stored first, while the others' products keep the tensor cores busy.
  std::stable_sort(pass.products.begin(), pass.products.end(),
                   [](const Product& a, const Product& b) { return a.row > b.row; });
  pass.streaming = choose_streaming(pass);
  return pass;
}

/// Reports a stencil that no kernel can hold.
void check_size(const spec::StencilSpec& spec, diag::Diagnostics& diagnostics) {
  const RoundedWeights weights = round_weights(spec).weights;
  const std::string objection = objection_to_size(make_pass(weights, tap_rows_of(spec)));
  if (objection.empty()) return;
  diagnostics.error(spec.where.coefficients,
                    "the stencil is too large for one sweep: " + objection +
                        (weights.terms > 1 ? "; 'weights: f16' would halve the products" : ""));
}

}  // namespace

diag::Diagnostics check_supported(const spec::StencilSpec& spec) {
  diag::Diagnostics diagnostics;
  if (spec.dimensions != 2) {
    diagnostics.error(
        spec.where.dimensions,
        fmt::format("{}D stencils are not generated yet; only 'dimensions: 2' is", spec.dimensions));
  }
  if (spec.storage != spec::Storage::f16) {
    diagnostics.error(spec.where.storage, "only 'storage: f16' is generated yet");
  }
  if (spec.accumulate != spec::Accumulate::f32) {
    diagnostics.error(spec.where.accumulate,
                      "only 'accumulate: f32' is generated; f16 sums lose accuracy and are no faster");
  }
  if (spec.dimensions == 2 && spec.storage == spec::Storage::f16 && !spec.taps.empty()) {
    check_reach(spec, spec::axis_y, largest_row_reach, diagnostics);
    check_reach(spec, spec::axis_x, largest_column_reach, diagnostics);
    diagnostics.append(round_weights(spec).diagnostics);
    if (!diagnostics.has_errors()) check_size(spec, diagnostics);
  }
  return diagnostics;
}

KernelPlan make_plan(const spec::StencilSpec& spec) {
  KernelPlan plan;
  plan.dimensions = spec.dimensions;
  plan.weights = round_weights(spec).weights;
  plan.tap_rows = tap_rows_of(spec);
  set_reach(spec, plan);
  plan.passes.push_back(make_pass(plan.weights, plan.tap_rows));
  return plan;
}

}  // namespace spidergen::plan
