#include <fmt/format.h>

#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "plan/streaming.h"

namespace spidergen::emit {

SchemeText tile2d_text(const Kernel& kernel) {
  const plan::Pass& pass = kernel.pass();
  std::vector<std::string> forms;
  for (const plan::TileForm& form : pass.streaming.tile_forms) {
    forms.push_back(fmt::format("spider::tile2d_form<Stencil, spider::Tile2dForm<{}, {}, {}, {}, {}>>({}),",
                                form.rows, form.across, form.down, form.blocks_per_multiprocessor,
                                form.any_rows, form.least_blocks));
  }
  const render::Bindings bindings = {
      {"operands", operands_struct(kernel)},
      {"reach", reach2d_struct(kernel, pass.row_low, pass.row_high, pass.column_reach)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"swaps_pairs", kernel.plan.variant.swap == plan::Swap::pair ? "true" : "false"},
      {"first_column", fmt::to_string(pass.first_column())},
      {"window_vectors", fmt::to_string(plan::ring_row_vectors(pass))},
      {"shift_count", fmt::to_string(pass.shifts.size())},
      {"shift_groups", shift_groups_function(pass)},
      {"product_count", fmt::to_string(pass.products.size())},
      {"products", row_products_function(kernel)},
  };
  return {render_part("tile2d.cu.in", bindings), forms};
}

}  // namespace spidergen::emit
