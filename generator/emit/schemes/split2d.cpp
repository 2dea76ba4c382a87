#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "plan/warpgroups.h"

namespace spidergen::emit {
namespace {

/// The operands of each tap row, from the lowest: {operand, metadata, selector} each, as many for every row.
std::string row_operands_text(const plan::Pass& pass, const pack::PackedPass& packed) {
  std::vector<std::string> lines;
  for (int row = 0; row < pass.rows_spanned(); ++row) {
    std::vector<std::string> uses(plan::weight_terms(pass), "{-1, 0, 0}");
    for (const plan::Product& product : pass.products) {
      if (product.row != row || product.input_term != 0) continue;
      const pack::PackedOperand& operand = packed.operands[product.operand];
      uses[product.term] = fmt::format("{{{}, {}, {}}}", product.operand, operand.metadata, operand.selector);
    }
    lines.push_back(fmt::format("{{{}}},", fmt::join(uses, ", ")));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// Does one word of metadata a lane serve all operands?
bool metadata_is_one(const pack::PackedPass& packed) {
  const auto has_first_selector = [](const pack::PackedOperand& operand) { return operand.selector == 0; };
  return packed.metadata.size() == 1 &&
         std::all_of(packed.operands.begin(), packed.operands.end(), has_first_selector);
}

}  // namespace

SchemeText split2d_text(const Kernel& kernel) {
  const plan::Pass& pass = kernel.pass();
  const pack::PackedPass& packed = kernel.packed_pass();
  // Metadata of many kinds takes the registers of remainders, and more.
  const bool is_one = metadata_is_one(packed);
  const int registers = is_one ? pass.streaming.estimated_registers : plan::most_warpgroup_registers;
  const render::Bindings bindings = {
      {"operands", operands_struct(kernel)},
      {"reach", reach2d_struct(kernel, pass.row_low, pass.row_high, pass.column_reach)},
      {"row_operands", row_operands_text(pass, packed)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"first_column", fmt::to_string(pass.first_column())},
      {"terms", fmt::to_string(plan::weight_terms(pass))},
      {"chained_rows", fmt::to_string(plan::warpgroup_chained_rows)},
      {"held_remainders", fmt::to_string(is_one ? plan::warpgroup_held_remainders(pass) : 0)},
      {"product_registers", fmt::to_string(registers)},
      {"teams", fmt::to_string(plan::warpgroup_teams)},
      {"metadata_is_one", fmt::to_string(is_one)},
      {"product_unit", product_unit_text(kernel.plan.weights)},
  };
  return {render_part("split2d.cu.in", bindings), {"spider::split2d_form<Stencil>(),"}};
}

}  // namespace spidergen::emit
