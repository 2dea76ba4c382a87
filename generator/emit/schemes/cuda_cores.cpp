#include <fmt/format.h>

#include "emit/core_text.h"
#include "emit/schemes/schemes.h"
#include "plan/column_reach.h"
#include "plan/core_ring.h"
#include "plan/core_taps.h"
#include "plan/cores.h"

namespace spidergen::emit {

SchemeText cuda_cores_text(const Kernel& kernel) {
  render::Bindings bindings;
  const auto& [spec, plan, packed] = kernel;
  const plan::CorePlan& cores = plan.cores;
  const plan::CoreAxes axes = plan::core_axes(spec.dimensions);
  const plan::TapRange columns = plan::range_of(cores.taps, &plan::CoreTap::column);
  const plan::TapRange steps = plan::range_of(cores.taps, &plan::CoreTap::step);
  const plan::TapRange rows = plan::range_of(cores.taps, &plan::CoreTap::row);
  const plan::ColumnReach reach = plan::column_reach_of(plan.tap_rows);
  bind_core_taps(kernel, bindings);
  bind_tap_bands(plan, bindings);
  bindings["bands"] = constants_text("spider::TapBand", "band", {bindings["bands"]}, ", ");
  bindings["step_rules"] = axis_rules_text(spec, axes.step);
  bindings["row_rules"] = axis_rules_text(spec, axes.row);
  bindings["step_low"] = fmt::to_string(steps.low);
  bindings["step_high"] = fmt::to_string(steps.high);
  bindings["row_low"] = fmt::to_string(rows.low);
  bindings["row_high"] = fmt::to_string(rows.high);
  bindings["highest_low"] = fmt::to_string(reach.highest_low);
  bindings["lowest_high"] = fmt::to_string(reach.lowest_high);
  bindings["preferred_steps"] = fmt::to_string(cores.preferred_steps);
  bindings["step_axis"] = fmt::to_string(axes.step);
  bindings["row_axis"] = fmt::to_string(axes.row);
  bindings["column_low"] = fmt::to_string(columns.low);
  bindings["column_high"] = fmt::to_string(columns.high);
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
  bindings["warps_per_block"] = fmt::to_string(cores.warps_per_block);
  bindings["column_rules"] = axis_rules_text(kernel.spec, spec::axis_x);
  bindings["dimensions"] = fmt::to_string(kernel.spec.dimensions);
  return {render_part("cuda_cores.cu.in", bindings), {"spider::cuda_cores_form<Stencil>(),"}};
}

}  // namespace spidergen::emit
