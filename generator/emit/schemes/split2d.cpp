#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"

namespace spidergen::emit {
namespace {

/// The operands of each tap row, from the lowest: {operand, metadata, selector} each, as many for every row.
std::string row_operands_text(const plan::Contraction& contraction, const pack::PackedKernel& packed) {
  std::vector<std::string> lines;
  for (int row = 0; row < contraction.rows_spanned(); ++row) {
    std::vector<std::string> uses(contraction.weight_terms(), "{-1, 0, 0}");
    for (const plan::Product& product : contraction.products) {
      if (product.row != row || product.input_term != 0) continue;
      const pack::PackedOperand& operand = packed.operands[product.operand];
      uses[product.term] = fmt::format("{{{}, {}, {}}}", product.operand, operand.metadata, operand.selector);
    }
    lines.push_back(fmt::format("{{{}}},", fmt::join(uses, ", ")));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// Does one word of metadata a lane serve all operands?
bool metadata_is_one(const pack::PackedKernel& packed) {
  const auto has_first_selector = [](const pack::PackedOperand& operand) { return operand.selector == 0; };
  return packed.metadata.size() == 1 &&
         std::all_of(packed.operands.begin(), packed.operands.end(), has_first_selector);
}

}  // namespace

SchemeText text_of(const plan::Split2d& split, const Kernel& kernel) {
  const plan::Contraction& contraction = kernel.contraction();
  const pack::PackedKernel& packed = kernel.packed;
  // Metadata of many kinds takes the registers of remainders, and more.
  const bool is_one = metadata_is_one(packed);
  const int registers = is_one ? split.estimated_registers : split.most_registers;
  const render::Bindings bindings = {
      {"operands", operands_struct(kernel)},
      {"reach", reach2d_struct(kernel, contraction.row_low, contraction.row_high, contraction.column_reach)},
      {"row_operands", row_operands_text(contraction, packed)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"first_column", fmt::to_string(contraction.first_column())},
      {"terms", fmt::to_string(contraction.weight_terms())},
      {"chained_rows", fmt::to_string(split.chained_rows)},
      {"held_remainders", fmt::to_string(is_one ? split.held_remainders : 0)},
      {"product_registers", fmt::to_string(registers)},
      {"teams", fmt::to_string(split.teams)},
      {"metadata_is_one", fmt::to_string(is_one)},
      {"product_unit", product_unit_text(kernel.plan.weights)},
  };
  return {render_part("split2d.cu.in", bindings), {"spider::split2d_form<Stencil>(),"}};
}

void describe(const plan::Split2d& /*split*/, const plan::KernelPlan& /*plan*/, Lines& lines) {
  lines.emplace_back(
      "          wgmma.mma_async.sp.m64n64k32: four rows of 1024 a block and step, for sm_90a alone");
}

std::string json_of(const plan::Split2d& split, const plan::KernelPlan& /*plan*/) {
  return fmt::format(
      R"({{"warpgroups": true, "warps_per_block": {}, "estimated_registers": {}, "shared_bytes": {}}})",
      split.warps_per_block, split.estimated_registers, split.shared_bytes);
}

}  // namespace spidergen::emit
