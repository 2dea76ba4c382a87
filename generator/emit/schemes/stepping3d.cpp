#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/schemes/stepping_text.h"
#include "emit/storage_text.h"
#include "plan/stepping.h"

namespace spidergen::emit {
namespace {

using Scheme = plan::Stepping3d;

/// Rows of the table of weights of a sum, one for each dz and dy.
int weight_rows(const Scheme& scheme) {
  return (2 * scheme.radius[spec::axis_z] + 1) * (2 * scheme.radius[spec::axis_y] + 1);
}

/// The rows, each with all dx.
std::string weights_text(const Scheme& scheme, const spec::StencilSpec& spec) {
  const int count = 2 * scheme.radius[spec::axis_x] + 1;
  return table_of_sums(spec, "\n", [&](int sum) {
    std::string text;
    for (int i = 0; i < weight_rows(scheme); ++i) {
      if (i > 0) text += "\n";
      const std::ptrdiff_t first = (std::ptrdiff_t{sum} * weight_rows(scheme) + i) * count;
      text += fmt::format("{{{}}},", weight_row_text(spec.storage, scheme.weights.data() + first, count));
    }
    return text;
  });
}

}  // namespace

SchemeText text_of(const plan::Stepping3d& scheme, const Kernel& kernel) {
  const spec::StencilSpec& spec = kernel.spec;
  const std::vector<plan::CoreTap>& taps = kernel.plan.contraction.taps;
  const plan::TapRange planes = plan::range_of(taps, &plan::CoreTap::step);
  const plan::TapRange rows = plan::range_of(taps, &plan::CoreTap::row);
  const plan::TapRange columns = plan::range_of(taps, &plan::CoreTap::column);
  const auto& [rz, ry, rx] = scheme.radius;
  render::Bindings bindings;
  const auto set = [&](const std::string& name, const auto& value) {
    bindings[name] = fmt::to_string(value);
  };
  set("time_steps", scheme.steps);
  bind_stepped_types(spec.storage, bindings);
  set("rows", scheme.rows);
  set("warps_down", scheme.warps_down);
  set("blocks_per_multiprocessor", scheme.blocks_per_multiprocessor);
  set("ahead", scheme.ahead);
  set("plane_low", std::min(0, planes.low));
  set("plane_high", std::max(0, planes.high));
  set("row_low", std::min(0, rows.low));
  set("row_high", std::max(0, rows.high));
  set("column_low", std::min(0, columns.low));
  set("column_high", std::max(0, columns.high));
  set("is_even", plan::preserves_symmetry(spec));
  set("has_diagonal_taps", std::any_of(taps.begin(), taps.end(), [](const plan::CoreTap& tap) {
        return tap.row != 0 && tap.column != 0;
      }));
  bindings["form"] = form_name(scheme.form);
  bindings["last"] = stepped_number_text(spec.storage, scheme.last);
  bindings["sum_count"] = sum_count_text(spec);
  bind_sums(spec, weight_rows(scheme), bindings);
  bindings["weights"] = weights_text(scheme, spec);
  set("radius_z", rz);
  set("radius_y", ry);
  set("radius_x", rx);
  set("weight_rows", 2 * ry + 1);
  set("row_weights", 2 * rx + 1);
  bindings["plane_rules"] = zero_rules_text(spec, spec::axis_z);
  bindings["row_rules"] = zero_rules_text(spec, spec::axis_y);
  bindings["column_rules"] = zero_rules_text(spec, spec::axis_x);
  set("single_rows", scheme.single.rows);
  set("single_warps", Scheme::single_warps);
  set("single_blocks", scheme.single.blocks_per_multiprocessor);
  return {render_part("stepping3d.cu.in", bindings),
          {"spider::stepping3d_form<Stencil>(),", "spider::stepping3d_form<SingleStep>(),"}};
}

void describe(const plan::Stepping3d& scheme, const plan::KernelPlan& plan, Lines& lines) {
  constexpr int width = 32 * Scheme::columns;
  describe_steps(plan, lines);
  add(lines, "Plan      {} a point and step ({}), {} of {} a lane for each step",
      counted(scheme.operations, "operation"), form_name(scheme.form), counted(scheme.warps_down, "warp"),
      counted(scheme.rows, "row"));
  add(lines, "          tiles of {} x {} points, {} x {} of them stored, walking along z", scheme.height(),
      width, scheme.height() - 2 * scheme.steps * scheme.radius[1], scheme.valid_columns());
}

std::string json_of(const plan::Stepping3d& scheme, const plan::KernelPlan& plan) {
  return fmt::format(
      "{{\"multiply_adds\": {}, \"operations\": {}, \"form\": \"{}\", \"warps_per_block\": {}, "
      "\"warps_down\": {}, \"rows_per_lane\": {}, \"columns_per_lane\": {}, \"planes_ahead\": {}, "
      "\"blocks_per_multiprocessor\": {}, \"estimated_registers\": {}, \"us_per_step\": {:.2f}, "
      "\"single_step_us\": {:.1f}, \"ring\": null}}",
      plan.contraction.taps.size(), scheme.operations, form_name(scheme.form), scheme.warps(),
      scheme.warps_down, scheme.rows, Scheme::columns, scheme.ahead, scheme.blocks_per_multiprocessor,
      scheme.estimated_registers, plan.microseconds / scheme.steps, plan.single_step_us);
}

}  // namespace spidergen::emit
