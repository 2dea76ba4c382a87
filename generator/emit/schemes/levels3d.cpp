#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/schemes/stepping_text.h"
#include "emit/storage_text.h"

namespace spidergen::emit {
namespace {

using Scheme = plan::Levels3d;

std::string weights_text(const Scheme::Weights& weights) {
  const auto number = [](float weight) { return fmt::format("{:a}F", weight); };
  return fmt::format(
      "static constexpr float center = {}, z_low = {}, z_high = {};\n"
      "static constexpr float y_low = {}, y_high = {}, x_low = {}, x_high = {};",
      number(weights.center), number(weights.low[spec::axis_z]), number(weights.high[spec::axis_z]),
      number(weights.low[spec::axis_y]), number(weights.high[spec::axis_y]),
      number(weights.low[spec::axis_x]), number(weights.high[spec::axis_x]));
}

}  // namespace

SchemeText text_of(const plan::Levels3d& scheme, const Kernel& kernel) {
  const spec::StencilSpec& spec = kernel.spec;
  const std::vector<plan::CoreTap>& taps = kernel.plan.contraction.taps;
  render::Bindings bindings;
  const auto set = [&](const std::string& name, const auto& value) {
    bindings[name] = fmt::to_string(value);
  };
  const auto set_range = [&](const std::string& name, const plan::TapRange& range) {
    set(name + "_low", std::min(0, range.low));
    set(name + "_high", std::max(0, range.high));
  };
  set("time_steps", scheme.steps);
  bindings["cells"] = cells_struct(spec.storage);
  set("rows", scheme.rows);
  set("warps_down", Scheme::warps);
  set("ahead", scheme.ahead);
  set_range("plane", plan::range_of(taps, &plan::CoreTap::step));
  set_range("row", plan::range_of(taps, &plan::CoreTap::row));
  set_range("column", plan::range_of(taps, &plan::CoreTap::column));
  bindings["form"] = form_name(scheme.form);
  bindings["unit"] = fmt::format("{:a}", scheme.unit);
  bindings["last"] = fmt::format("{:a}F", scheme.last);
  bindings["back"] = fmt::format("{:a}F", scheme.back);
  bindings["constant_lanes"] = scheme.ghost_center ? "true" : "false";
  bindings["ghost_center"] = fmt::format("{:a}F", scheme.ghost_center.value_or(0));
  bindings["scaled_weights"] = weights_text(scheme.scaled);
  bindings["single_weights"] = weights_text(scheme.single);
  bindings["plane_rules"] = zero_rules_text(spec, spec::axis_z);
  bindings["row_rules"] = zero_rules_text(spec, spec::axis_y);
  bindings["column_rules"] = zero_rules_text(spec, spec::axis_x);
  set("single_rows", Scheme::single_rows);
  return {render_part("levels3d.cu.in", bindings),
          {"spider::levels3d_form<Stencil>(),", "spider::levels3d_form<SingleStep>(),"}};
}

void describe(const plan::Levels3d& scheme, const plan::KernelPlan& plan, Lines& lines) {
  constexpr int width = 32 * Scheme::columns;
  describe_steps(plan, lines);
  add(lines, "Plan      {} a point and step ({}), all steps of {} of {} a lane in a warp",
      counted(scheme.operations, "operation"), form_name(scheme.form), counted(scheme.rows, "row"),
      counted(Scheme::columns, "column"));
  add(lines, "          tiles of {} x {} points, {} x {} of them stored, walking along z", scheme.height(),
      width, scheme.valid_rows(), scheme.valid_columns());
}

std::string json_of(const plan::Levels3d& scheme, const plan::KernelPlan& plan) {
  return fmt::format(
      "{{\"multiply_adds\": {}, \"operations\": {}, \"form\": \"{}\", \"warps_per_block\": {}, "
      "\"rows_per_lane\": {}, \"columns_per_lane\": {}, \"planes_ahead\": {}, "
      "\"us_per_step\": {:.2f}, \"single_step_us\": {:.1f}, \"ring\": null}}",
      plan.contraction.taps.size(), scheme.operations, form_name(scheme.form), Scheme::warps, scheme.rows,
      Scheme::columns, scheme.ahead, plan.microseconds / scheme.steps, plan.single_step_us);
}

}  // namespace spidergen::emit
