#include <fmt/format.h>

#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "plan/streaming.h"

namespace spidergen::emit {

SchemeText block2d_text(const Kernel& kernel) {
  const plan::Pass& pass = kernel.pass();
  std::vector<std::string> forms;
  for (const plan::TileForm& form : pass.streaming.tile_forms) {
    const int tile_warps = form.in_registers ? 1 : form.across;
    forms.push_back(fmt::format(
        "spider::block2d_form<Stencil, spider::Block2dForm<{}, {}, {}, {}, {}, spider::Inputs::{}, {}>>({}),",
        form.rows, tile_warps, form.across / tile_warps, form.down, form.blocks_per_multiprocessor,
        form.in_registers ? "registers" : "shared", form.any_rows, form.least_blocks));
  }
  const bool pairs_rows = pass.mapping.pairs_rows();
  const render::Bindings bindings = {
      {"operands", operands_struct(kernel)},
      {"reach", reach2d_struct(kernel, pass.row_low, pass.row_high, pass.column_reach)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"pairs_rows", pairs_rows ? "true" : "false"},
      {"rows_in_flight", fmt::to_string(pass.rows_in_flight())},
      {"stage_bytes", fmt::to_string(plan::warp_stage_bytes(pass))},
      {"first_column", fmt::to_string(pass.first_column())},
      {"window_vectors", fmt::to_string(plan::window_vectors(pass, 1))},
      {"shift_count", fmt::to_string(pass.shifts.size())},
      {"pair_distance", fmt::to_string(pairs_rows ? 0 : pass.sources.back().distance().y)},
      {"product_count", fmt::to_string(pass.products.size())},
      {"shift_groups", shift_groups_function(pass)},
      {"products", row_products_function(kernel)},
  };
  return {render_part("block2d.cu.in", bindings), forms};
}

}  // namespace spidergen::emit
