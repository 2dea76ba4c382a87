#include <fmt/format.h>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"

namespace spidergen::emit {

SchemeText text_of(const plan::Stream1d& stream, const Kernel& kernel) {
  const plan::Contraction& contraction = kernel.contraction();
  const render::Bindings bindings = {
      {"operands", operands_struct(kernel)},
      {"lowest_tap", fmt::to_string(contraction.column_reach.highest_low)},
      {"highest_tap", fmt::to_string(contraction.column_reach.lowest_high)},
      {"column_rules", axis_rules_text(kernel.spec, spec::axis_x)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"dimensions", fmt::to_string(kernel.spec.dimensions)},
      {"tiles", fmt::to_string(stream.tiles_per_warp)},
      {"warps_per_block", fmt::to_string(stream.warps_per_block)},
      {"blocks_per_multiprocessor", fmt::to_string(stream.blocks_per_multiprocessor)},
      {"first_column", fmt::to_string(contraction.shifts.front() + contraction.mapping.window_low)},
      {"window_vectors", fmt::to_string(stream.window_vectors)},
      {"always_gathers", fmt::to_string(stream.always_gathers)},
      {"shift_count", fmt::to_string(contraction.shifts.size())},
      {"shift_groups", shift_groups_function(contraction)},
      {"product_count", fmt::to_string(contraction.products.size())},
      {"products", row_products_function(kernel)},
  };
  return {render_part("stream1d.cu.in", bindings), {"spider::stream1d_form<Stencil>(),"}};
}

void describe(const plan::Stream1d& stream, const plan::KernelPlan& /*plan*/, Lines& lines) {
  add(lines, "          {} of 128 x a warp, {} warps a block, a row by itself",
      counted(stream.tiles_per_warp, "tile"), stream.warps_per_block);
}

std::string json_of(const plan::Stream1d& stream, const plan::KernelPlan& /*plan*/) {
  return fmt::format(
      R"({{"tiles_per_warp": {}, "warps_per_block": {}, "estimated_registers": {}, "shared_bytes": {}}})",
      stream.tiles_per_warp, stream.warps_per_block, stream.estimated_registers, stream.shared_bytes);
}

}  // namespace spidergen::emit
