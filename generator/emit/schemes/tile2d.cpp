#include <fmt/format.h>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "emit/tile_text.h"

namespace spidergen::emit {

SchemeText text_of(const plan::Tile2d& tiles, const Kernel& kernel) {
  const plan::Contraction& contraction = kernel.contraction();
  std::vector<std::string> forms;
  for (const plan::TileForm& form : tiles.forms) {
    forms.push_back(fmt::format("spider::tile2d_form<Stencil, spider::Tile2dForm<{}, {}, {}, {}, {}>>({}),",
                                form.rows, form.across, form.down, form.blocks_per_multiprocessor,
                                form.allows_unaligned, form.min_blocks_per_sm));
  }
  const render::Bindings bindings = {
      {"operands", operands_struct(kernel)},
      {"reach", reach2d_struct(kernel, contraction.row_low, contraction.row_high, contraction.column_reach)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"first_column", fmt::to_string(contraction.first_column())},
      {"window_vectors", fmt::to_string(tiles.window_vectors)},
      {"shift_count", fmt::to_string(contraction.shifts.size())},
      {"shift_groups", shift_groups_function(contraction)},
      {"product_count", fmt::to_string(contraction.products.size())},
      {"products", row_products_function(kernel)},
  };
  return {render_part("tile2d.cu.in", bindings), forms};
}

void describe(const plan::Tile2d& tiles, const plan::KernelPlan& plan, Lines& lines) {
  describe_mappings(plan, "not chosen, since windows have tiles in registers", lines);
  describe_forms(tiles.forms, lines);
}

std::string json_of(const plan::Tile2d& tiles, const plan::KernelPlan& /*plan*/) {
  return forms_json(tiles.forms, tiles.estimated_registers, tiles.shared_bytes);
}

}  // namespace spidergen::emit
