#include <fmt/format.h>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"

namespace spidergen::emit {

SchemeText text_of(const plan::Stream2d& stream, const Kernel& kernel) {
  const plan::Contraction& contraction = kernel.contraction();
  const bool gapless = static_cast<int>(kernel.plan.tap_rows.size()) == contraction.rows_spanned();
  render::Bindings bindings = {
      {"operands", operands_struct(kernel)},
      {"reach", reach2d_struct(kernel, contraction.row_low, contraction.row_high, contraction.column_reach)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"gapless", fmt::to_string(gapless)},
      {"tiles", fmt::to_string(stream.tiles_per_warp)},
      {"warps_per_block", fmt::to_string(stream.warps_per_block)},
      {"blocks_per_multiprocessor", fmt::to_string(stream.blocks_per_multiprocessor)},
      {"preferred_rows", fmt::to_string(stream.preferred_rows)},
      {"first_column", fmt::to_string(contraction.first_column())},
      {"ring_rows", fmt::to_string(stream.ring_rows)},
      {"ring_vectors", fmt::to_string(stream.ring_vectors)},
      {"ring_row_bytes", fmt::to_string(stream.ring_row_bytes)},
      {"rows_kept", fmt::to_string(stream.rows_kept)},
      {"batch_rows", fmt::to_string(stream.batch_rows)},
      {"staged_vectors", fmt::to_string(stream.staged_vectors)},
      {"operands_in_registers", fmt::to_string(stream.operands_in_registers)},
      {"rows_in_flight", fmt::to_string(contraction.rows_in_flight())},
      {"pair_distance", fmt::to_string(contraction.sources.back().distance().y)},
      {"adds_input", fmt::to_string(kernel.plan.weights.adds_identity)},
      {"rotates_by_unrolling", fmt::to_string(stream.rotate_by_unrolling)},
      {"product_unit", product_unit_text(kernel.plan.weights)},
      {"shift_count", fmt::to_string(contraction.shifts.size())},
      {"shift_groups", shift_groups_function(contraction)},
      {"product_count", fmt::to_string(contraction.products.size())},
  };
  bind_row_products(kernel, bindings);
  return {render_part("stream2d.cu.in", bindings), {"spider::stream2d_form<Stencil>(),"}};
}

void describe(const plan::Stream2d& stream, const plan::KernelPlan& plan, Lines& lines) {
  describe_mappings(plan, "not chosen, since they find no room in tiles", lines);
  describe_diagonals(plan.contraction, lines);
  add(lines, "          {} in flight, {} of 128 x a warp, {} warps a block, ring of {} rows, operands in {}",
      counted(plan.contraction.rows_in_flight(), "row"), counted(stream.tiles_per_warp, "tile"),
      stream.warps_per_block, stream.ring_rows, stream.operands_in_registers ? "registers" : "shared memory");
}

std::string json_of(const plan::Stream2d& stream, const plan::KernelPlan& plan) {
  return fmt::format(
      R"({{"rows_in_flight": {}, "tiles_per_warp": {}, "warps_per_block": {}, "ring_rows": {}, )"
      R"("preferred_rows": {}, "operands_in_registers": {}, "estimated_registers": {}, "shared_bytes": {}}})",
      plan.contraction.rows_in_flight(), stream.tiles_per_warp, stream.warps_per_block, stream.ring_rows,
      stream.preferred_rows, stream.operands_in_registers, stream.estimated_registers, stream.shared_bytes);
}

}  // namespace spidergen::emit
