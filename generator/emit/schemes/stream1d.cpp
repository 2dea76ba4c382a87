#include <fmt/format.h>

#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "plan/lines.h"

namespace spidergen::emit {

SchemeText stream1d_text(const Kernel& kernel) {
  const plan::Pass& pass = kernel.pass();
  const plan::LineStreaming& lines = pass.lines;
  const render::Bindings bindings = {
      {"operands", operands_struct(kernel)},
      {"lowest_tap", fmt::to_string(pass.column_reach.highest_low)},
      {"highest_tap", fmt::to_string(pass.column_reach.lowest_high)},
      {"column_rules", axis_rules_text(kernel.spec, spec::axis_x)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"dimensions", fmt::to_string(kernel.spec.dimensions)},
      {"tiles", fmt::to_string(lines.tiles_per_warp)},
      {"warps_per_block", fmt::to_string(lines.warps_per_block)},
      {"blocks_per_multiprocessor", fmt::to_string(lines.blocks_per_multiprocessor)},
      {"first_column", fmt::to_string(pass.shifts.front() + pass.mapping.window_low)},
      {"window_vectors", fmt::to_string(plan::line_window_vectors(pass))},
      {"always_gathers", fmt::to_string(lines.always_gathers)},
      {"shift_count", fmt::to_string(pass.shifts.size())},
      {"shift_groups", shift_groups_function(pass)},
      {"product_count", fmt::to_string(pass.products.size())},
      {"products", row_products_function(kernel)},
  };
  return {render_part("stream1d.cu.in", bindings), {"spider::stream1d_form<Stencil>(),"}};
}

}  // namespace spidergen::emit
