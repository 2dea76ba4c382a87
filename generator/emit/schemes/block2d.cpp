#include <fmt/format.h>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "emit/tile_text.h"

namespace spidergen::emit {

SchemeText text_of(const plan::Block2d& tiles, const Kernel& kernel) {
  const plan::Contraction& contraction = kernel.contraction();
  std::vector<std::string> forms;
  for (const plan::TileForm& form : tiles.forms) {
    const int tile_warps = form.in_registers ? 1 : form.across;
    forms.push_back(fmt::format(
        "spider::block2d_form<Stencil, spider::Block2dForm<{}, {}, {}, {}, {}, spider::Inputs::{}, {}>>({}),",
        form.rows, tile_warps, form.across / tile_warps, form.down, form.blocks_per_multiprocessor,
        form.in_registers ? "registers" : "shared", form.allows_unaligned, form.min_blocks_per_sm));
  }
  const bool pairs_rows = contraction.mapping.pairs_rows();
  const render::Bindings bindings = {
      {"operands", operands_struct(kernel)},
      {"reach", reach2d_struct(kernel, contraction.row_low, contraction.row_high, contraction.column_reach)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"pairs_rows", pairs_rows ? "true" : "false"},
      {"rows_in_flight", fmt::to_string(contraction.rows_in_flight())},
      {"stage_bytes", fmt::to_string(tiles.stage_bytes)},
      {"first_column", fmt::to_string(contraction.first_column())},
      {"window_vectors", fmt::to_string(tiles.window_vectors)},
      {"shift_count", fmt::to_string(contraction.shifts.size())},
      {"pair_distance", fmt::to_string(pairs_rows ? 0 : contraction.sources.back().distance().y)},
      {"product_count", fmt::to_string(contraction.products.size())},
      {"shift_groups", shift_groups_function(contraction)},
      {"products", row_products_function(kernel)},
  };
  return {render_part("block2d.cu.in", bindings), forms};
}

void describe(const plan::Block2d& tiles, const plan::KernelPlan& plan, Lines& lines) {
  describe_mappings(plan,
                    tiles.forms.front().in_registers ? "not chosen, since windows have tiles in registers"
                                                     : "not chosen, since they find no room in tiles",
                    lines);
  describe_diagonals(plan.contraction, lines);
  describe_forms(tiles.forms, lines);
}

std::string json_of(const plan::Block2d& tiles, const plan::KernelPlan& /*plan*/) {
  return forms_json(tiles.forms, tiles.estimated_registers, tiles.shared_bytes);
}

}  // namespace spidergen::emit
