#include <fmt/format.h>

#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "plan/streaming.h"

namespace spidergen::emit {

SchemeText stream2d_text(const Kernel& kernel) {
  const plan::Pass& pass = kernel.pass();
  const plan::Streaming& streaming = pass.streaming;
  const bool gapless = static_cast<int>(kernel.plan.tap_rows.size()) == pass.rows_spanned();
  render::Bindings bindings = {
      {"operands", operands_struct(kernel)},
      {"reach", reach2d_struct(kernel, pass.row_low, pass.row_high, pass.column_reach)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"gapless", fmt::to_string(gapless)},
      {"tiles", fmt::to_string(streaming.tiles_per_warp)},
      {"warps_per_block", fmt::to_string(streaming.warps_per_block)},
      {"blocks_per_multiprocessor", fmt::to_string(streaming.blocks_per_multiprocessor)},
      {"preferred_rows", fmt::to_string(streaming.preferred_rows)},
      {"first_column", fmt::to_string(pass.first_column())},
      {"ring_rows", fmt::to_string(streaming.ring_rows)},
      {"ring_vectors", fmt::to_string(plan::ring_row_vectors(pass))},
      {"ring_row_bytes", fmt::to_string(plan::ring_row_bytes(pass))},
      {"rows_kept", fmt::to_string(pass.rows_kept)},
      {"batch_rows", fmt::to_string(plan::batch_rows(pass))},
      {"staged_vectors", fmt::to_string(plan::staged_vectors(pass))},
      {"swap", std::string(plan::swap_name(kernel.plan.variant.swap))},
      {"whole_operands", fmt::to_string(pass.whole_operands)},
      {"operands_in_registers", fmt::to_string(streaming.operands_in_registers)},
      {"rows_in_flight", fmt::to_string(pass.rows_in_flight())},
      {"pair_distance", fmt::to_string(pass.sources.back().distance().y)},
      {"rotates_by_unrolling", fmt::to_string(streaming.rotate_by_unrolling)},
      {"product_unit", product_unit_text(kernel.plan.weights)},
      {"shift_count", fmt::to_string(pass.shifts.size())},
      {"shift_groups", shift_groups_function(pass)},
      {"product_count", fmt::to_string(pass.products.size())},
  };
  bind_row_products(kernel, bindings);
  return {render_part("stream2d.cu.in", bindings), {"spider::stream2d_form<Stencil>(),"}};
}

}  // namespace spidergen::emit
