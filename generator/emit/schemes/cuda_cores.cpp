#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "emit/core_text.h"
#include "emit/schemes/schemes.h"
#include "plan/core_ring.h"
#include "plan/core_taps.h"
#include "plan/cores.h"
#include "plan/machine.h"

namespace spidergen::emit {
namespace {

/// Tap rows of each input row, by the columns that they span.
void bind_hulls(const std::vector<InputRow>& rows, render::Bindings& bindings) {
  std::vector<std::string> hulls;
  std::vector<std::string> steps;
  std::vector<int> first_hulls{0};
  for (const InputRow& row : rows) {
    for (const Hull& hull : row.hulls)
      hulls.push_back(fmt::format("{{{:#x}, {}, {}}}", hull.steps, hull.low, hull.high));
    steps.push_back(fmt::format("{:#x}", row.steps()));
    first_hulls.push_back(static_cast<int>(hulls.size()));
  }
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

}  // namespace

void bind_cuda_cores(const Kernel& kernel, render::Bindings& bindings) {
  const auto& [spec, plan, packed] = kernel;
  const plan::CorePlan& cores = plan.cores;
  const plan::CoreAxes axes = plan::core_axes(spec.dimensions);
  bind_core_cells(kernel, bindings);
  bind_core_rows(kernel, bindings);
  bind_core_taps(plan, bindings);
  bind_core_walk(plan, bindings);
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
  const std::vector<InputRow> rows =
      cores.unrolled ? input_rows_of(cores.taps) : std::vector<InputRow>{{0, 0, 1, {{1, 0, 0}}}};
  bind_core_spans(rows, bindings);
  bind_hulls(rows, bindings);
  bind_windows(cores, spec::element_bytes(spec.storage), plan::range_of(cores.taps, &plan::CoreTap::column),
               bindings);
}

}  // namespace spidergen::emit
