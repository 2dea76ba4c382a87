#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"

namespace spidergen::emit {

SchemeText text_of(const plan::BandedList& scheme, const Kernel& kernel) {
  const spec::StencilSpec& spec = kernel.spec;
  const plan::Contraction& contraction = kernel.contraction();
  const bool f16 = kernel.plan.weights.type == plan::OperandType::f16;
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < contraction.operands.size(); ++i) {
    const plan::Operand& operand = contraction.operands[i];
    operands.push_back(operand_text(kernel.packed.operands[i],
                                    fmt::format("inputs from {} on, term {}", operand.shift, operand.term)));
  }
  render::Bindings bindings;
  const auto set = [&](const std::string& name, int value) { bindings[name] = fmt::to_string(value); };
  const auto set_scale = [&](const std::string& name, double value) {
    bindings[name] = fmt::format("{:a}F", value);
  };
  bindings["operands"] = fmt::format("{}", fmt::join(operands, "\n"));
  bindings["cells"] = cells_struct(spec.storage);
  bindings["out_cells"] =
      spec.output ? fmt::format("using OutCells = spider::{};", cells_struct(*spec.output)) : "";
  bindings["format"] = f16 ? "F16Format" : "Bf16Format";
  bindings["rules_type"] = wide_name(spec.storage, "AxisRules");
  bindings["rules"] = axis_rules_text(spec, scheme.axis);
  set("dimensions", spec.dimensions);
  set("axis", scheme.axis);
  set("low", scheme.low);
  set("first_tap", scheme.first_tap);
  set("last_tap", scheme.last_tap);
  set("chunks", scheme.chunks);
  set("input_terms", contraction.inputs.count);
  set("weight_terms", scheme.weight_terms);
  set("leading_products", scheme.leading_products);
  set("remainder_weight", scheme.remainder_weight);
  set("remainder_products", scheme.remainder_products);
  set("line_warps", scheme.line_warps);
  set("walk", scheme.walk);
  set("blocks_per_multiprocessor", scheme.blocks_per_multiprocessor);
  set_scale("input_scale", scheme.input_scale);
  set_scale("remainder_scale", scheme.remainder_scale);
  set_scale("result_scale", scheme.result_scale);
  return {render_part("banded_list.cu.in", bindings), {"spider::banded_list_form<Stencil>(),"}};
}

void describe(const plan::BandedList& scheme, const plan::KernelPlan& plan, Lines& lines) {
  add(lines, "Plan      a band along {}: {} mma.sync.m16n8k16 per 128 outputs",
      spec::axis_letters[static_cast<std::size_t>(scheme.axis)], plan.contraction.chained_products());
}

std::string json_of(const plan::BandedList& scheme, const plan::KernelPlan& plan) {
  return fmt::format(
      "{{\"axis\": \"{}\", \"taps\": [{}, {}], \"chunks\": {}, \"products_of_chunk\": {}, "
      "\"line_warps\": {}, \"walk\": {}, "
      "\"blocks_per_multiprocessor\": {}, \"shared_bytes\": {}}}",
      spec::axis_letters[static_cast<std::size_t>(scheme.axis)], scheme.first_tap, scheme.last_tap,
      scheme.chunks, scheme.products_of_chunk(plan.contraction.inputs.count), scheme.line_warps, scheme.walk,
      scheme.blocks_per_multiprocessor, scheme.shared_bytes);
}

}  // namespace spidergen::emit
