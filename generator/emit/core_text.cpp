#include "emit/core_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string>

#include "emit/storage_text.h"

namespace spidergen::emit {
namespace {

/// A line per row and step, folded after four taps.
std::string taps_text(const std::vector<plan::CoreTap>& taps, spec::Storage storage) {
  constexpr int taps_per_line = 4;
  std::string text;
  int on_line = 0;
  const plan::CoreTap* previous = nullptr;
  for (const plan::CoreTap& tap : taps) {
    const bool same = previous != nullptr && previous->row == tap.row && previous->step == tap.step;
    const bool fold = !same || on_line == taps_per_line;
    if (previous != nullptr) text += fold ? "\n" : " ";
    on_line = fold ? 1 : on_line + 1;
    text += fmt::format("{{{}, {}, {}, {}}},", tap.step, tap.row, tap.column,
                        number_literal(storage, tap.weight));
    previous = &tap;
  }
  return text;
}

/// With several sums: the sum of each tap.
std::string tap_sums_text(const std::vector<plan::CoreTap>& taps, std::size_t sums) {
  if (sums == 1) return "";
  std::vector<int> places;
  for (const plan::CoreTap& tap : taps) places.push_back(tap.sum);
  return fmt::format(
      "static constexpr int sum_count = {};\nstatic constexpr int tap_sums[tap_count] = {{{}}};  // of each "
      "tap",
      sums, fmt::join(places, ", "));
}

}  // namespace

void bind_core_taps(const Kernel& kernel, render::Bindings& bindings) {
  const std::vector<plan::CoreTap>& taps = kernel.contraction().taps;
  bindings["cells"] = cells_struct(kernel.spec.storage);
  bindings["tap_count"] = fmt::to_string(taps.size());
  bindings["tap_type"] = wide_name(kernel.spec.storage, "CoreTap");
  bindings["core_taps"] = taps_text(taps, kernel.spec.storage);
  bindings["tap_sums"] = tap_sums_text(taps, kernel.spec.sums.size());
}

std::string cores_json(const CoreFigures& figures, const plan::KernelPlan& plan) {
  return fmt::format(
      "{{\"multiply_adds\": {}, \"taps_in_code\": {}, \"objection\": \"{}\", \"outputs\": {}, "
      "\"windows_ahead\": 0, \"tile_rows\": {}, \"ring_rows\": {}, \"unrolled_steps\": {}, "
      "\"warps_per_block\": {}, "
      "\"blocks_per_multiprocessor\": {}, \"preferred_steps\": {}, \"estimated_registers\": {}, "
      "\"cells_loaded\": {}, \"ring\": {}}}",
      plan.contraction.taps.size(), figures.in_code.empty(), figures.in_code, figures.outputs,
      figures.tile_rows, figures.ring_rows, figures.unrolled_steps, figures.warps_per_block,
      figures.blocks_per_multiprocessor, figures.preferred_steps, figures.estimated_registers,
      figures.cells_loaded, figures.ring);
}

}  // namespace spidergen::emit
