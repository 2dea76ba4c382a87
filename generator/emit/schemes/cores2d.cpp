#include <fmt/format.h>

#include "emit/core_text.h"
#include "emit/schemes/schemes.h"

namespace spidergen::emit {

void bind_cores2d(const Kernel& kernel, render::Bindings& bindings) {
  const plan::CorePlan& cores = kernel.plan.cores;
  bind_core_cells(kernel, bindings);
  bind_core_taps(kernel.plan, bindings);
  bind_tap_bands(kernel.plan, bindings);
  bindings["tile_rows"] = fmt::to_string(cores.tile_rows);
  bindings["left_lanes"] = fmt::to_string(cores.left_lanes);
  bindings["right_lanes"] = fmt::to_string(cores.right_lanes);
  bindings["warps_per_block"] = fmt::to_string(cores.warps_per_block);
}

}  // namespace spidergen::emit
