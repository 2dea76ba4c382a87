#include <fmt/format.h>
#include <algorithm>
#include <vector>

#include "emit/core_text.h"
#include "emit/describe.h"
#include "emit/schemes/schemes.h"

namespace spidergen::emit {

SchemeText text_of(const plan::Cores3d& cores, const Kernel& kernel) {
  render::Bindings bindings;
  bind_core_taps(kernel, bindings);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(cores.blocks_per_multiprocessor);
  const std::vector<plan::TapRow>& tap_rows = kernel.plan.tap_rows;
  const auto [lowest, highest] =
      std::minmax_element(tap_rows.begin(), tap_rows.end(),
                          [](const plan::TapRow& a, const plan::TapRow& b) { return a.dy < b.dy; });
  bindings["reach"] = reach3d_struct(kernel, lowest->dy, highest->dy, kernel.contraction().column_reach);
  bindings["preferred_steps"] = fmt::to_string(cores.preferred_steps);
  bindings["rows_per_thread"] = fmt::to_string(cores.rows_per_thread);
  bindings["warps_across"] = fmt::to_string(cores.warps_across);
  bindings["warps_down"] = fmt::to_string(cores.warps_down);
  bindings["planes_at_once"] = fmt::to_string(cores.planes_at_once);
  bindings["groups_ahead"] = fmt::to_string(cores.groups_ahead);
  bindings["edges_in_memory"] = cores.edges_in_memory ? "true" : "false";
  bindings["left_vectors"] = fmt::to_string(cores.left_vectors);
  bindings["right_vectors"] = fmt::to_string(cores.right_vectors);
  bindings["ring_row_bytes"] = fmt::to_string(cores.row_bytes);
  bindings["ring_lead_bytes"] = fmt::to_string(cores.lead_bytes);
  std::vector<std::string> forms = {"spider::cores3d_form<Stencil>(),"};
  if (cores.kept_groups_ahead > 0)
    forms.insert(forms.begin(), "spider::cores3d_form<spider::KeepingPoints<Stencil>>(),");
  bindings["kept_groups_ahead"] =
      cores.kept_groups_ahead > 0
          ? fmt::format("static constexpr int kept_groups_ahead = {};", cores.kept_groups_ahead)
          : "";
  return {render_part("cores3d.cu.in", bindings), forms};
}

void describe(const plan::Cores3d& cores, const plan::KernelPlan& plan, Lines& lines) {
  add(lines, "Plan      {} a point in the code, walking along planes",
      counted(std::ssize(plan.contraction.taps), "multiply-add"));
  add(lines, "          {} of {} x a thread, {} x {} warps a block, ring of {} planes",
      counted(cores.rows_per_thread, "row"), cores.row_outputs, cores.warps_down, cores.warps_across,
      cores.planes_at_once * (cores.groups_ahead + 1));
  if (cores.kept_groups_ahead > 0) {
    add(lines, "          or, where a block may have {} bytes of shared memory, the update's inputs there",
        cores.kept_shared_bytes);
  }
}

std::string json_of(const plan::Cores3d& cores, const plan::KernelPlan& plan) {
  CoreFigures figures = core_figures(cores);
  figures.outputs = cores.row_outputs;
  figures.warps_per_block = cores.warps_per_block();
  figures.ring = fmt::format(
      "{{\"rows_per_thread\": {}, \"warps_across\": {}, \"warps_down\": {}, \"planes_at_once\": {}, "
      "\"groups_ahead\": {}}}",
      cores.rows_per_thread, cores.warps_across, cores.warps_down, cores.planes_at_once, cores.groups_ahead);
  return cores_json(figures, plan);
}

}  // namespace spidergen::emit
