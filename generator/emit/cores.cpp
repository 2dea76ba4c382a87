#include "emit/cores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/column_reach.h"
#include "plan/core_ring.h"
#include "plan/core_taps.h"
#include "plan/cores.h"
#include "plan/machine.h"

namespace spidergen::emit {
namespace {

/// Tap rows of one input row that span the same columns; bit i of `steps` is the lowest step plus i.
struct Hull {
  std::uint32_t steps = 0;
  int low = 0;
  int high = 0;
};

/// The taps of one row, as the template's tables tell them.
struct InputRow {
  int low = INT_MAX;
  int high = INT_MIN;
  int taps = 0;
  std::vector<Hull> hulls;

  [[nodiscard]] std::uint32_t steps() const {
    std::uint32_t all = 0;
    for (const Hull& hull : hulls) all |= hull.steps;
    return all;
  }
};

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

/// The taps are ascending in row, step and column.
std::vector<InputRow> input_rows_of(const std::vector<plan::CoreTap>& taps, int step_low) {
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

void bind_rows(const std::vector<InputRow>& rows, bool in_ring, render::Bindings& bindings) {
  std::vector<std::string> spans;
  std::vector<std::string> hulls;
  std::vector<std::string> steps;
  std::vector<int> first_taps{0};
  std::vector<int> first_hulls{0};
  for (const InputRow& row : rows) {
    spans.push_back(row.taps == 0 ? "{0, -1}" : fmt::format("{{{}, {}}}", row.low, row.high));
    for (const Hull& hull : row.hulls)
      hulls.push_back(fmt::format("{{{:#x}, {}, {}}}", hull.steps, hull.low, hull.high));
    steps.push_back(fmt::format("{:#x}", row.steps()));
    first_taps.push_back(first_taps.back() + row.taps);
    first_hulls.push_back(static_cast<int>(hulls.size()));
  }
  bindings["spans"] = fmt::format("{}", fmt::join(spans, ", "));
  bindings["first_taps"] = fmt::format("{}", fmt::join(first_taps, ", "));
  if (in_ring) return;
  bindings["input_rows"] = fmt::to_string(rows.size());
  bindings["hull_count"] = fmt::to_string(hulls.size());
  bindings["hulls"] = fmt::format("{}", fmt::join(hulls, ", "));
  bindings["first_hulls"] = fmt::format("{}", fmt::join(first_hulls, ", "));
  bindings["row_steps"] = fmt::format("{}", fmt::join(steps, ", "));
}

/// What windows hold: whole vectors, of as many cells as a thread has outputs, though only parts may be
/// loaded. In words and in columns from a thread's first output on.
void bind_windows(const plan::CorePlan& cores, int element_bytes, const plan::TapRange& columns,
                  render::Bindings& bindings) {
  const int word_cells = plan::word_bytes / element_bytes;
  const auto vector_begin = [&](int column) {
    return plan::floor_divide(column, cores.outputs) * cores.outputs;
  };
  const int first = vector_begin(columns.low);
  const int last = vector_begin(cores.outputs - 1 + columns.high);
  bindings["first_word"] = fmt::to_string(first / word_cells);
  bindings["window_words"] = fmt::to_string((last + cores.outputs - first) / word_cells);
  bindings["loaded_low"] = fmt::to_string(cores.unrolled ? first : columns.low);
  bindings["loaded_high"] = fmt::to_string(cores.unrolled ? last : columns.high);
}

/// {lowest, highest} column of each step's taps, which are all in one row.
std::string step_spans_text(const std::vector<plan::CoreTap>& taps, const plan::TapRange& steps) {
  std::vector<std::string> spans;
  std::size_t first = 0;
  for (int step = steps.low; step <= steps.high; ++step) {
    std::size_t end = first;
    while (end < taps.size() && taps[end].step == step) ++end;
    spans.push_back(first == end ? "{0, -1}"
                                 : fmt::format("{{{}, {}}}", taps[first].column, taps[end - 1].column));
    first = end;
  }
  return fmt::format("{}", fmt::join(spans, ", "));
}

/// The taps, and what all kernels say of them.
void bind_taps(const plan::KernelPlan& plan, render::Bindings& bindings) {
  const std::vector<plan::CoreTap>& taps = plan.cores.taps;
  const plan::TapRange steps = plan::range_of(taps, &plan::CoreTap::step);
  const plan::TapRange rows = plan::range_of(taps, &plan::CoreTap::row);
  bindings["tap_count"] = fmt::to_string(taps.size());
  bindings["core_taps"] = taps_text(taps);
  bindings["step_low"] = fmt::to_string(steps.low);
  bindings["step_high"] = fmt::to_string(steps.high);
  bindings["row_low"] = fmt::to_string(rows.low);
  bindings["row_high"] = fmt::to_string(rows.high);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(plan.cores.blocks_per_multiprocessor);
  bindings["preferred_steps"] = fmt::to_string(plan.cores.preferred_steps);
  const plan::ColumnReach reach = plan::column_reach_of(plan.tap_rows);
  bindings["highest_low"] = fmt::to_string(reach.highest_low);
  bindings["lowest_high"] = fmt::to_string(reach.lowest_high);
}

}  // namespace

void bind_core_tiles(const plan::KernelPlan& plan, render::Bindings& bindings) {
  const plan::CorePlan& cores = plan.cores;
  const plan::TapRange steps = plan::range_of(cores.taps, &plan::CoreTap::step);
  bindings["tap_count"] = fmt::to_string(cores.taps.size());
  bindings["core_taps"] = taps_text(cores.taps);
  bindings["step_low"] = fmt::to_string(steps.low);
  bindings["step_high"] = fmt::to_string(steps.high);
  bindings["tile_rows"] = fmt::to_string(cores.tile_rows);
  bindings["left_lanes"] = fmt::to_string(cores.left_lanes);
  bindings["right_lanes"] = fmt::to_string(cores.right_lanes);
  bindings["warps_per_block"] = fmt::to_string(cores.warps_per_block);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(cores.blocks_per_multiprocessor);
  bindings["step_spans"] = step_spans_text(cores.taps, steps);
}

void bind_cores(const spec::StencilSpec& spec, const plan::KernelPlan& plan, render::Bindings& bindings) {
  const plan::CorePlan& cores = plan.cores;
  const plan::CoreAxes axes = plan::core_axes(spec.dimensions);
  bind_taps(plan, bindings);
  bindings["step_axis"] = fmt::to_string(axes.step);
  bindings["row_axis"] = fmt::to_string(axes.row);
  bindings["taps_in_code"] = cores.unrolled ? "true" : "false";
  bindings["outputs"] = fmt::to_string(cores.outputs);
  bindings["unrolled_steps"] = fmt::to_string(cores.unrolled_steps);
  bindings["ring_rows"] = fmt::to_string(cores.row_ring_rows);
  bindings["ring_column"] = fmt::to_string(cores.row_ring_column);
  bindings["ring_vectors"] = fmt::to_string(cores.row_ring_vectors);
  bindings["ring_row_bytes"] = fmt::to_string(plan::row_ring_row_bytes(cores));
  constexpr int lanes = 32;
  const int edge_columns = plan::core_edge_columns(plan.tap_rows, spec::element_bytes(spec.storage));
  bindings["edge_slots"] = fmt::to_string((edge_columns + lanes - 1) / lanes);
  bindings["windows_ahead"] = fmt::to_string(cores.windows_ahead);
  bindings["warps_per_block"] = fmt::to_string(cores.warps_per_block);
  constexpr std::array<std::string_view, 3> tilings{"lines", "strips", "blocks"};
  bindings["tiling"] = tilings[static_cast<std::size_t>(spec.dimensions) - 1];
  // A table needs no rows: one stands for them.
  bind_rows(cores.unrolled ? input_rows_of(cores.taps, plan::range_of(cores.taps, &plan::CoreTap::step).low)
                           : std::vector<InputRow>{{0, 0, 1, {{1, 0, 0}}}},
            false, bindings);
  bind_windows(cores, spec::element_bytes(spec.storage), plan::range_of(cores.taps, &plan::CoreTap::column),
               bindings);
}

void bind_core_ring(const spec::StencilSpec& spec, const plan::KernelPlan& plan, render::Bindings& bindings) {
  const plan::CorePlan& cores = plan.cores;
  const plan::CoreRing& ring = *cores.ring;
  const int element_bytes = spec::element_bytes(spec.storage);
  const plan::SideVectors sides = plan::side_vectors(cores.taps, element_bytes);
  bind_taps(plan, bindings);
  bind_rows(input_rows_of(cores.taps, plan::range_of(cores.taps, &plan::CoreTap::step).low), true, bindings);
  bindings["rows_per_thread"] = fmt::to_string(ring.rows_per_thread);
  bindings["warps_across"] = fmt::to_string(ring.warps_across);
  bindings["warps_down"] = fmt::to_string(ring.warps_down);
  bindings["planes_at_once"] = fmt::to_string(ring.planes_at_once);
  bindings["groups_ahead"] = fmt::to_string(ring.groups_ahead);
  bindings["edges_in_memory"] = ring.edges_in_memory ? "true" : "false";
  bindings["left_vectors"] = fmt::to_string(sides.left);
  bindings["right_vectors"] = fmt::to_string(sides.right);
  bindings["ring_row_bytes"] = fmt::to_string(plan::core_row_bytes(ring, sides, element_bytes));
  bindings["ring_lead_bytes"] = fmt::to_string(plan::core_lead_bytes(sides));
  bindings["column_reach_low"] = fmt::to_string(-plan.reach_low[spec::axis_x]);
  bindings["column_reach_high"] = fmt::to_string(plan.reach_high[spec::axis_x]);
  bindings["edge_columns"] = fmt::to_string(plan::core_edge_columns(plan.tap_rows, element_bytes));
}

}  // namespace spidergen::emit
