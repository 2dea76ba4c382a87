#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "emit/schemes/schemes.h"
#include "plan/lines.h"

namespace spidergen::emit {

void bind_stream1d(const Kernel& kernel, render::Bindings& bindings) {
  const plan::Pass& pass = kernel.pass();
  bind_storage(kernel, bindings);
  bind_operands(kernel, bindings);
  std::vector<std::string> products;
  for (const plan::Product& product : pass.products) {
    const pack::PackedOperand& operand = kernel.packed_pass().operands[product.operand];
    products.push_back(fmt::format("{{{}, {}, {}, {}}},", product.source, product.operand, operand.metadata,
                                   operand.selector));
  }
  bindings["products"] = fmt::format("{}", fmt::join(products, "\n"));
  const plan::LineStreaming& lines = pass.lines;
  bindings["tiles"] = fmt::to_string(lines.tiles_per_warp);
  bindings["warps_per_block"] = fmt::to_string(lines.warps_per_block);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(lines.blocks_per_multiprocessor);
  bindings["lowest_tap"] = fmt::to_string(pass.column_reach.highest_low);
  bindings["highest_tap"] = fmt::to_string(pass.column_reach.lowest_high);
  bind_shifts(pass, bindings);
  bindings["first_column"] = fmt::to_string(pass.shifts.front() + pass.mapping.window_low);
  bindings["always_gathers"] = lines.always_gathers ? "true" : "false";
  bindings["window_vectors"] = fmt::to_string(plan::line_window_vectors(pass));
}

}  // namespace spidergen::emit
