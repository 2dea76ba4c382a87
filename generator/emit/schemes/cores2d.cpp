#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string>
#include <vector>

#include "emit/core_text.h"
#include "emit/schemes/schemes.h"
#include "plan/core_taps.h"

namespace spidergen::emit {
namespace {

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

}  // namespace

void bind_cores2d(const Kernel& kernel, render::Bindings& bindings) {
  const plan::CorePlan& cores = kernel.plan.cores;
  bind_core_cells(kernel, bindings);
  bind_core_taps(kernel.plan, bindings);
  bind_tap_bands(kernel.plan, bindings);
  bindings["tile_rows"] = fmt::to_string(cores.tile_rows);
  bindings["left_lanes"] = fmt::to_string(cores.left_lanes);
  bindings["right_lanes"] = fmt::to_string(cores.right_lanes);
  bindings["warps_per_block"] = fmt::to_string(cores.warps_per_block);
  bindings["step_spans"] = step_spans_text(cores.taps, plan::range_of(cores.taps, &plan::CoreTap::step));
}

}  // namespace spidergen::emit
