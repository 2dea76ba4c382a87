#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/schemes/stepping_text.h"
#include "emit/storage_text.h"

namespace spidergen::emit {

SchemeText text_of(const plan::Stepping1d& scheme, const Kernel& kernel) {
  constexpr int least_columns = 8;
  const spec::StencilSpec& spec = kernel.spec;
  const int vector_elements = plan::vector_bytes / spec::element_bytes(spec.storage);
  const plan::TapRange columns = plan::range_of(kernel.plan.contraction.taps, &plan::CoreTap::column);
  render::Bindings bindings;
  const auto set = [&](const std::string& name, const auto& value) {
    bindings[name] = fmt::to_string(value);
  };
  set("time_steps", scheme.steps);
  bind_stepped_types(spec.storage, bindings);
  set("columns", scheme.columns);
  set("warps", scheme.warps);
  set("column_low", std::min(0, columns.low));
  set("column_high", std::max(0, columns.high));
  set("radius_x", scheme.radius_x);
  bindings["last"] = stepped_number_text(spec.storage, scheme.last);
  const int row = 2 * scheme.radius_x + 1;
  bindings["sum_count"] = sum_count_text(spec);
  bind_sums(spec, row, bindings);
  bindings["weights"] = table_of_sums(spec, " ", [&](int sum) {
    return weight_row_text(spec.storage, scheme.weights.data() + static_cast<std::ptrdiff_t>(sum) * row, row);
  });
  bindings["column_rules"] = stepped_rules_text(spec, spec::axis_x);
  set("single_columns", plan::round_up(std::max(least_columns, scheme.radius_x), vector_elements));
  return {render_part("stepping1d.cu.in", bindings),
          {"spider::stepping1d_form<Stencil>(),", "spider::stepping1d_form<SingleStep>(),"}};
}

void describe(const plan::Stepping1d& scheme, const plan::KernelPlan& plan, Lines& lines) {
  constexpr int lanes = 32;
  const int width = lanes * scheme.columns;
  describe_steps(plan, lines);
  add(lines, "Plan      {} a point and step, a strip of {} columns a warp, {} a lane, {} of them stored",
      counted(std::ssize(plan.contraction.taps), "operation"), width, scheme.columns,
      width - 2 * scheme.steps * scheme.radius_x);
}

std::string json_of(const plan::Stepping1d& scheme, const plan::KernelPlan& plan) {
  return fmt::format(
      "{{\"multiply_adds\": {}, \"operations\": {}, \"warps_per_block\": {}, \"columns_per_lane\": {}, "
      "\"blocks_per_multiprocessor\": 1, \"estimated_registers\": {}, \"us_per_step\": {:.2f}, "
      "\"single_step_us\": {:.1f}, \"ring\": null}}",
      plan.contraction.taps.size(), plan.contraction.taps.size(), scheme.warps, scheme.columns,
      scheme.estimated_registers, plan.microseconds / scheme.steps, plan.single_step_us);
}

}  // namespace spidergen::emit
