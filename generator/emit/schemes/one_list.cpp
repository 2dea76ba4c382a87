#include <fmt/format.h>

#include <string>
#include <vector>

#include "emit/core_text.h"
#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"

namespace spidergen::emit {

SchemeText text_of(const plan::OneList& scheme, const Kernel& kernel) {
  constexpr std::size_t weights_per_line = 8;
  const spec::StencilSpec& spec = kernel.spec;
  const std::vector<plan::CoreTap>& taps = kernel.contraction().taps;
  std::string weights;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const std::string_view before = i == 0 ? "" : i % weights_per_line == 0 ? ",\n" : ", ";
    weights += fmt::format("{}{}", before, number_literal(spec.storage, taps[i].weight));
  }
  render::Bindings bindings;
  const auto set = [&](const std::string& name, int value) { bindings[name] = fmt::to_string(value); };
  bindings["cells"] = cells_struct(spec.storage);
  bindings["out_cells"] =
      spec.output ? fmt::format("using OutCells = spider::{};", cells_struct(*spec.output)) : "";
  bindings["number"] = spec.storage == spec::Storage::f64 ? "double" : "float";
  bindings["weights"] = weights;
  bindings["rules_type"] = wide_name(spec.storage, "AxisRules");
  bindings["rules"] = axis_rules_text(spec, scheme.axis);
  set("dimensions", spec.dimensions);
  set("axis", scheme.axis);
  set("low", scheme.low);
  set("count", static_cast<int>(taps.size()));
  set("outputs", scheme.outputs);
  set("lines", scheme.lines);
  set("warps_per_block", scheme.warps_per_block);
  set("blocks_per_multiprocessor", scheme.blocks_per_multiprocessor);
  return {render_part("one_list.cu.in", bindings), {"spider::one_list_form<Stencil>(),"}};
}

void describe(const plan::OneList& scheme, const plan::KernelPlan& plan, Lines& lines) {
  add(lines, "Plan      {} a point along {}, by a table but at the ends",
      counted(std::ssize(plan.contraction.taps), "multiply-add"),
      spec::axis_letters[static_cast<std::size_t>(scheme.axis)]);
  add(lines, "          {} of a thread along {} in {}, {} warps a block", counted(scheme.outputs, "output"),
      spec::axis_letters[static_cast<std::size_t>(scheme.axis)], counted(scheme.lines, "line"),
      scheme.warps_per_block);
}

std::string json_of(const plan::OneList& scheme, const plan::KernelPlan& plan) {
  CoreFigures figures = core_figures(scheme);
  figures.outputs = scheme.outputs_of_thread();
  figures.warps_per_block = scheme.warps_per_block;
  return cores_json(figures, plan);
}

}  // namespace spidergen::emit
