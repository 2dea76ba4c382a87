#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>
#include <vector>

#include "emit/core_text.h"
#include "emit/describe.h"
#include "emit/schemes/schemes.h"

namespace spidergen::emit {
namespace {

std::string shared_rows_text(const std::vector<plan::SharedRow>& rows) {
  if (rows.empty()) return "";
  std::vector<std::string> texts;
  for (const plan::SharedRow& row : rows)
    texts.push_back(fmt::format("{{{}, {}, {}}}", row.sum, row.step, row.weight));
  return fmt::format(
      "static constexpr spider::SharedRow shared_rows[] = {{{}}};  // {{sum, dy, times its first tap row}}",
      fmt::join(texts, ", "));
}

}  // namespace

SchemeText text_of(const plan::Cores2d& cores, const Kernel& kernel) {
  render::Bindings bindings;
  const plan::TapRange rows = plan::range_of(kernel.contraction().taps, &plan::CoreTap::step);
  bind_core_taps(kernel, bindings);
  bindings["shared_rows"] = shared_rows_text(cores.shared_rows);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(cores.blocks_per_multiprocessor);
  bindings["reach"] = reach2d_struct(kernel, rows.low, rows.high, kernel.contraction().column_reach);
  bindings["tile_rows"] = fmt::to_string(cores.tile_rows);
  bindings["left_lanes"] = fmt::to_string(cores.left_lanes);
  bindings["right_lanes"] = fmt::to_string(cores.right_lanes);
  bindings["warps_per_block"] = fmt::to_string(cores.warps_per_block);
  return {render_part("cores2d.cu.in", bindings), {"spider::cores2d_form<Stencil>(),"}};
}

void describe(const plan::Cores2d& cores, const plan::KernelPlan& plan, Lines& lines) {
  const int lanes_with_outputs = 32 - (cores.left_lanes + cores.right_lanes);
  add(lines, "Plan      {} a point in the code, tiles of {} x {} a warp",
      counted(std::ssize(plan.contraction.taps), "multiply-add"), cores.tile_rows,
      lanes_with_outputs * cores.outputs);
  add(lines, "          {} input rows requested at once, {} of a lane along x, {} a block",
      cores.tile_input_rows, counted(cores.outputs, "output"), counted(cores.warps_per_block, "warp"));
  std::set<int> sharing;
  for (const plan::SharedRow& row : cores.shared_rows) sharing.insert(row.sum);
  if (!sharing.empty()) {
    add(lines, "          tap rows of {} are multiples of one, which is added up once",
        counted(std::ssize(sharing), "sum"));
  }
}

std::string json_of(const plan::Cores2d& cores, const plan::KernelPlan& plan) {
  CoreFigures figures = core_figures(cores);
  figures.outputs = cores.outputs;
  figures.tile_rows = cores.tile_rows;
  figures.warps_per_block = cores.warps_per_block;
  return cores_json(figures, plan);
}

}  // namespace spidergen::emit
