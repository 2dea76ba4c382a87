#include <fmt/format.h>

#include <string>
#include <vector>

#include "emit/schemes/schemes.h"
#include "plan/streaming.h"

namespace spidergen::emit {

void bind_tile2d(const Kernel& kernel, render::Bindings& bindings) {
  const plan::Pass& pass = kernel.pass();
  bind_common2d(kernel, bindings);
  bind_operands(kernel, bindings);
  bind_row_products(kernel, bindings);
  bindings["swaps_pairs"] = kernel.plan.variant.swap == plan::Swap::pair ? "true" : "false";
  std::vector<std::string> forms;
  for (const plan::TileForm& form : pass.streaming.tile_forms) {
    forms.push_back(fmt::format("form_for<TileForm<{}, {}, {}, {}, {}>>({}),", form.rows, form.across,
                                form.down, form.blocks_per_multiprocessor, form.any_rows, form.least_blocks));
  }
  bindings["low_tile_rows"] = fmt::to_string(plan::TileForm::low_rows);
  bind_forms(forms, bindings);
  bind_window(pass, plan::ring_row_vectors(pass), bindings);
}

}  // namespace spidergen::emit
