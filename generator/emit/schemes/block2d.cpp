#include <fmt/format.h>

#include <string>
#include <vector>

#include "emit/schemes/schemes.h"
#include "plan/streaming.h"

namespace spidergen::emit {

void bind_block2d(const Kernel& kernel, render::Bindings& bindings) {
  const plan::Pass& pass = kernel.pass();
  bind_common2d(kernel, bindings);
  bind_operands(kernel, bindings);
  bind_row_products(kernel, bindings);
  const plan::Streaming& streaming = pass.streaming;
  std::vector<std::string> forms;
  for (const plan::TileForm& form : streaming.tile_forms) {
    const int tile_warps = form.in_registers ? 1 : form.across;
    forms.push_back(fmt::format("form_for<TileForm<{}, {}, {}, {}, {}, Inputs::{}, {}>>({}),", form.rows,
                                tile_warps, form.across / tile_warps, form.down,
                                form.blocks_per_multiprocessor, form.in_registers ? "registers" : "shared",
                                form.any_rows, form.least_blocks));
  }
  bindings["rows_in_flight"] = fmt::to_string(pass.rows_in_flight());
  const bool pairs_rows = pass.mapping.pairs_rows();
  bindings["pairs_rows"] = pairs_rows ? "true" : "false";
  bindings["pair_distance"] = fmt::to_string(pairs_rows ? 0 : pass.sources.back().distance().y);
  bindings["stage_bytes"] = fmt::to_string(plan::warp_stage_bytes(pass));
  bind_forms(forms, bindings);
  bind_window(pass, plan::window_vectors(pass, 1), bindings);
}

}  // namespace spidergen::emit
