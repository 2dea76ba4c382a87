#include <fmt/format.h>

#include "emit/schemes/schemes.h"
#include "plan/streaming.h"

namespace spidergen::emit {

SchemeText stream2d_text(const Kernel& kernel) {
  render::Bindings bindings;
  const plan::Pass& pass = kernel.pass();
  bind_common2d(kernel, bindings);
  bind_operands(kernel, bindings);
  bind_row_products(kernel, bindings);
  const bool gapless = static_cast<int>(kernel.plan.tap_rows.size()) == pass.rows_spanned();
  bindings["gapless"] = gapless ? "true" : "false";
  bindings["swap"] = plan::swap_name(kernel.plan.variant.swap);
  bindings["rows_kept"] = fmt::to_string(pass.rows_kept);
  bindings["product_unit"] = product_unit_text(kernel.plan.weights);
  const plan::Streaming& streaming = pass.streaming;
  bind_shifts(pass, bindings);
  bindings["rows_in_flight"] = fmt::to_string(pass.rows_in_flight());
  bindings["pair_distance"] = fmt::to_string(pass.sources.back().distance().y);
  bindings["tiles"] = fmt::to_string(streaming.tiles_per_warp);
  bindings["warps_per_block"] = fmt::to_string(streaming.warps_per_block);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(streaming.blocks_per_multiprocessor);
  bindings["preferred_rows"] = fmt::to_string(streaming.preferred_rows);
  bindings["ring_rows"] = fmt::to_string(streaming.ring_rows);
  bindings["ring_vectors"] = fmt::to_string(plan::ring_row_vectors(pass));
  bindings["ring_row_bytes"] = fmt::to_string(plan::ring_row_bytes(pass));
  bindings["batch_rows"] = fmt::to_string(plan::batch_rows(pass));
  bindings["staged_vectors"] = fmt::to_string(plan::staged_vectors(pass));
  bind_column_reach(pass.column_reach, bindings);
  bindings["first_column"] = fmt::to_string(pass.first_column());
  bindings["whole_operands"] = pass.whole_operands ? "true" : "false";
  bindings["operands_in_registers"] = streaming.operands_in_registers ? "true" : "false";
  bindings["unrolled_rows"] = streaming.rotate_by_unrolling ? "true" : "false";
  bindings["column_rules"] = axis_rules_text(kernel.spec, spec::axis_x);
  return {render_part("stream2d.cu.in", bindings), {"spider::stream2d_form<Stencil>(),"}};
}

}  // namespace spidergen::emit
