#include "emit/core_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "emit/storage_text.h"
#include "plan/column_reach.h"
#include "plan/core_taps.h"
#include "plan/cores.h"

namespace spidergen::emit {
namespace {

/// A number as an f32 literal that reads back as itself.
std::string literal(float value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "F";
}

/// A line per row and step, folded after four taps.
std::string taps_text(const std::vector<plan::CoreTap>& taps) {
  constexpr int taps_per_line = 4;
  std::string text;
  int on_line = 0;
  const plan::CoreTap* previous = nullptr;
  for (const plan::CoreTap& tap : taps) {
    const bool same = previous != nullptr && previous->row == tap.row && previous->step == tap.step;
    const bool fold = !same || on_line == taps_per_line;
    if (previous != nullptr) text += fold ? "\n" : " ";
    on_line = fold ? 1 : on_line + 1;
    text += fmt::format("{{{}, {}, {}, {}}},", tap.step, tap.row, tap.column, literal(tap.weight));
    previous = &tap;
  }
  return text;
}

}  // namespace

void bind_core_cells(const Kernel& kernel, render::Bindings& bindings) {
  const spec::StencilSpec& spec = kernel.spec;
  bindings["step_rules"] = axis_rules_text(spec, plan::core_axes(spec.dimensions).step);
  bindings["cells"] = cells_struct(spec.storage);
}

void bind_core_rows(const Kernel& kernel, render::Bindings& bindings) {
  bindings["row_rules"] = axis_rules_text(kernel.spec, plan::core_axes(kernel.spec.dimensions).row);
}

void bind_core_taps(const plan::KernelPlan& plan, render::Bindings& bindings) {
  const std::vector<plan::CoreTap>& taps = plan.cores.taps;
  const plan::TapRange steps = plan::range_of(taps, &plan::CoreTap::step);
  bindings["tap_count"] = fmt::to_string(taps.size());
  bindings["core_taps"] = taps_text(taps);
  bindings["step_low"] = fmt::to_string(steps.low);
  bindings["step_high"] = fmt::to_string(steps.high);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(plan.cores.blocks_per_multiprocessor);
}

void bind_core_walk(const plan::KernelPlan& plan, render::Bindings& bindings) {
  const plan::TapRange rows = plan::range_of(plan.cores.taps, &plan::CoreTap::row);
  bindings["row_low"] = fmt::to_string(rows.low);
  bindings["row_high"] = fmt::to_string(rows.high);
  bindings["preferred_steps"] = fmt::to_string(plan.cores.preferred_steps);
  const plan::ColumnReach reach = plan::column_reach_of(plan.tap_rows);
  bindings["highest_low"] = fmt::to_string(reach.highest_low);
  bindings["lowest_high"] = fmt::to_string(reach.lowest_high);
}

}  // namespace spidergen::emit
