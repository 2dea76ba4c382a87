#include <fmt/format.h>

#include "emit/core_text.h"
#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"

namespace spidergen::emit {

SchemeText text_of(const plan::CudaCores& cores, const Kernel& kernel) {
  render::Bindings bindings;
  const auto& [spec, plan, packed] = kernel;
  const plan::CoreAxes axes = plan::core_axes(spec.dimensions);
  const plan::TapRange columns = plan::range_of(kernel.contraction().taps, &plan::CoreTap::column);
  const plan::TapRange steps = plan::range_of(kernel.contraction().taps, &plan::CoreTap::step);
  const plan::TapRange rows = plan::range_of(kernel.contraction().taps, &plan::CoreTap::row);
  const plan::ColumnReach reach = kernel.contraction().column_reach;
  bind_core_taps(kernel, bindings);
  bindings["out_cells"] =
      spec.output ? fmt::format("using OutCells = spider::{};", cells_struct(*spec.output)) : "";
  bindings["blocks_per_multiprocessor"] = fmt::to_string(cores.blocks_per_multiprocessor);
  bind_tap_bands(plan, bindings);
  bindings["bands"] = constants_text("spider::TapBand", "band", {bindings["bands"]}, ", ");
  bindings["rules"] = wide_name(spec.storage, "AxisRules");
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
  bindings["ring_rows"] = fmt::to_string(cores.ring_rows);
  bindings["ring_column"] = fmt::to_string(cores.ring_column);
  bindings["ring_vectors"] = fmt::to_string(cores.ring_vectors);
  bindings["ring_row_bytes"] = fmt::to_string(cores.ring_row_bytes);
  constexpr int lanes = 32;
  const int edge_columns = plan::columns_across_edges(plan.contraction.column_reach,
                                                      plan::vector_bytes / spec::element_bytes(spec.storage));
  bindings["edge_slots"] = fmt::to_string((edge_columns + lanes - 1) / lanes);
  bindings["warps_per_block"] = fmt::to_string(cores.warps_per_block);
  bindings["column_rules"] = axis_rules_text(kernel.spec, spec::axis_x);
  bindings["dimensions"] = fmt::to_string(kernel.spec.dimensions);
  return {render_part("cuda_cores.cu.in", bindings), {"spider::cuda_cores_form<Stencil>(),"}};
}

void describe(const plan::CudaCores& cores, const plan::KernelPlan& plan, Lines& lines) {
  if (!cores.unrolled) {
    add(lines, "Plan      {} by a table, since in the code they would be {}",
        counted(std::ssize(plan.contraction.taps), "tap"), cores.in_code);
  } else {
    add(lines, "Plan      {} a point in the code{}",
        counted(std::ssize(plan.contraction.taps), "multiply-add"),
        plan.dimensions == 2 ? ", walking down rows" : "");
  }
  const std::string ring =
      cores.ring_rows > 0 ? fmt::format("ring of {}, ", counted(cores.ring_rows, "input row")) : "";
  add(lines, "          {} of a thread along x, {}{} warps a block", counted(cores.outputs, "output"), ring,
      cores.warps_per_block);
}

std::string json_of(const plan::CudaCores& cores, const plan::KernelPlan& plan) {
  CoreFigures figures = core_figures(cores);
  figures.in_code = cores.in_code;
  figures.outputs = cores.outputs;
  figures.ring_rows = cores.ring_rows;
  figures.unrolled_steps = cores.unrolled_steps;
  figures.warps_per_block = cores.warps_per_block;
  return cores_json(figures, plan);
}

}  // namespace spidergen::emit
