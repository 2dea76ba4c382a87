#include <fmt/format.h>

#include "emit/schemes/schemes.h"
#include "plan/lines.h"

namespace spidergen::emit {

SchemeText stream1d_text(const Kernel& kernel) {
  render::Bindings bindings;
  const plan::Pass& pass = kernel.pass();
  bind_storage(kernel, bindings);
  bind_operands(kernel, bindings);
  bind_row_products(kernel, bindings);
  const plan::LineStreaming& lines = pass.lines;
  bindings["tiles"] = fmt::to_string(lines.tiles_per_warp);
  bindings["warps_per_block"] = fmt::to_string(lines.warps_per_block);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(lines.blocks_per_multiprocessor);
  bindings["lowest_tap"] = fmt::to_string(pass.column_reach.highest_low);
  bindings["highest_tap"] = fmt::to_string(pass.column_reach.lowest_high);
  bind_shifts(pass, bindings);
  bindings["first_column"] = fmt::to_string(pass.shifts.front() + pass.mapping.window_low);
  bindings["always_gathers"] = lines.always_gathers ? "true" : "false";
  bindings["window_vectors"] = fmt::to_string(plan::line_window_vectors(pass));
  bindings["column_rules"] = axis_rules_text(kernel.spec, spec::axis_x);
  bindings["dimensions"] = fmt::to_string(kernel.spec.dimensions);
  return {render_part("stream1d.cu.in", bindings), {"spider::stream1d_form<Stencil>(),"}};
}

}  // namespace spidergen::emit
