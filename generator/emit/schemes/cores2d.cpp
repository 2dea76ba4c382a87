#include <fmt/format.h>

#include "emit/core_text.h"
#include "emit/schemes/schemes.h"
#include "plan/column_reach.h"
#include "plan/core_taps.h"

namespace spidergen::emit {

SchemeText cores2d_text(const Kernel& kernel) {
  render::Bindings bindings;
  const plan::CorePlan& cores = kernel.plan.cores;
  const plan::TapRange rows = plan::range_of(cores.taps, &plan::CoreTap::step);
  bind_core_taps(kernel, bindings);
  bindings["reach"] =
      reach2d_struct(kernel, rows.low, rows.high, plan::column_reach_of(kernel.plan.tap_rows));
  bindings["tile_rows"] = fmt::to_string(cores.tile_rows);
  bindings["left_lanes"] = fmt::to_string(cores.left_lanes);
  bindings["right_lanes"] = fmt::to_string(cores.right_lanes);
  bindings["warps_per_block"] = fmt::to_string(cores.warps_per_block);
  return {render_part("cores2d.cu.in", bindings), {"spider::cores2d_form<Stencil>(),"}};
}

}  // namespace spidergen::emit
