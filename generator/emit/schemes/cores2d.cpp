#include <fmt/format.h>

#include "emit/core_text.h"
#include "emit/schemes/schemes.h"

namespace spidergen::emit {

SchemeText cores2d_text(const Kernel& kernel) {
  render::Bindings bindings;
  const plan::CorePlan& cores = kernel.plan.cores;
  bind_core_cells(kernel, bindings);
  bind_core_taps(kernel.plan, bindings);
  bind_tap_bands(kernel.plan, bindings);
  bindings["tile_rows"] = fmt::to_string(cores.tile_rows);
  bindings["left_lanes"] = fmt::to_string(cores.left_lanes);
  bindings["right_lanes"] = fmt::to_string(cores.right_lanes);
  bindings["warps_per_block"] = fmt::to_string(cores.warps_per_block);
  bindings["column_rules"] = axis_rules_text(kernel.spec, spec::axis_x);
  return {render_part("cores2d.cu.in", bindings), {"spider::cores2d_form<Stencil>(),"}};
}

}  // namespace spidergen::emit
