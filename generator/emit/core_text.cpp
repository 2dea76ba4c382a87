#include "emit/core_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "emit/storage_text.h"
#include "plan/column_reach.h"
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

void add_to_hulls(int step, int low, int high, std::vector<Hull>& hulls) {
  const auto same = std::find_if(hulls.begin(), hulls.end(),
                                 [&](const Hull& hull) { return hull.low == low && hull.high == high; });
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(step);
  if (same != hulls.end()) {
    same->steps |= bit;
  } else {
    hulls.push_back({bit, low, high});
  }
}

}  // namespace

std::vector<InputRow> input_rows_of(const std::vector<plan::CoreTap>& taps) {
  const int step_low = plan::range_of(taps, &plan::CoreTap::step).low;
  std::vector<InputRow> rows(static_cast<std::size_t>(taps.back().row - taps.front().row) + 1);
  for (std::size_t first = 0; first < taps.size();) {
    const plan::CoreTap& tap = taps[first];
    std::size_t end = first;
    while (end < taps.size() && taps[end].row == tap.row && taps[end].step == tap.step) ++end;
    InputRow& row = rows[static_cast<std::size_t>(tap.row - taps.front().row)];
    row.low = std::min(row.low, tap.column);
    row.high = std::max(row.high, taps[end - 1].column);
    row.taps += static_cast<int>(end - first);
    add_to_hulls(tap.step - step_low, tap.column, taps[end - 1].column, row.hulls);
    first = end;
  }
  return rows;
}

void bind_core_cells(const Kernel& kernel, render::Bindings& bindings) {
  const spec::StencilSpec& spec = kernel.spec;
  bindings["step_rules"] = axis_rules_text(spec, plan::core_axes(spec.dimensions).step);
  bindings["cells"] = cells_struct(spec.storage);
  bindings["storage_code"] = storage_code(spec.storage);
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

void bind_core_spans(const std::vector<InputRow>& rows, render::Bindings& bindings) {
  std::vector<std::string> spans;
  std::vector<int> first_taps{0};
  for (const InputRow& row : rows) {
    spans.push_back(row.taps == 0 ? "{0, -1}" : fmt::format("{{{}, {}}}", row.low, row.high));
    first_taps.push_back(first_taps.back() + row.taps);
  }
  bindings["spans"] = fmt::format("{}", fmt::join(spans, ", "));
  bindings["first_taps"] = fmt::format("{}", fmt::join(first_taps, ", "));
}

}  // namespace spidergen::emit
