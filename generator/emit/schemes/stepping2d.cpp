#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/schemes/stepping_text.h"
#include "emit/storage_text.h"

namespace spidergen::emit {
namespace {

using Scheme = plan::Stepping2d;

/// For each sum a row of the table for each dy, with all dx.
std::string weights_text(const Scheme& scheme, const spec::StencilSpec& spec,
                         double Scheme::Weight::*member) {
  return table_of_sums(spec, "\n", [&](int sum) {
    std::vector<std::string> rows;
    for (int dy = -scheme.radius_y; dy <= scheme.radius_y; ++dy) {
      std::vector<std::string> row(2 * static_cast<std::size_t>(scheme.radius_x) + 1, "0");
      for (const Scheme::Weight& weight : scheme.weights) {
        if (weight.dy == dy && weight.sum == sum)
          row[static_cast<std::size_t>(weight.dx + scheme.radius_x)] =
              stepped_number_text(spec.storage, weight.*member);
      }
      rows.push_back(fmt::format("{{{}}},", fmt::join(row, ", ")));
    }
    return fmt::format("{}", fmt::join(rows, "\n"));
  });
}

int single_columns(const Scheme& scheme, spec::Storage storage) {
  const int vector_elements = plan::vector_bytes / spec::element_bytes(storage);
  return plan::round_up(std::max(8, scheme.radius_x + 1), vector_elements);
}

}  // namespace

std::string stepping_struct(const plan::Stepping2d& scheme, const Kernel& kernel) {
  const spec::StencilSpec& spec = kernel.spec;
  render::Bindings bindings;
  const auto set = [&](const std::string& name, const auto& value) {
    bindings[name] = fmt::to_string(value);
  };
  set("time_steps", scheme.time_steps());
  bind_stepped_types(spec.storage, bindings);
  set("columns", scheme.columns);
  set("steps", scheme.steps);
  set("last_steps", scheme.last_steps);
  set("warps", scheme.warps);
  set("blocks_per_multiprocessor", scheme.blocks_per_multiprocessor);
  set("batch", scheme.batch);
  set("ahead", scheme.ahead);
  set("unrolled", scheme.unrolled);
  const plan::TapRange rows = plan::range_of(kernel.plan.contraction.taps, &plan::CoreTap::step);
  const plan::TapRange columns = plan::range_of(kernel.plan.contraction.taps, &plan::CoreTap::column);
  set("row_low", std::min(0, rows.low));
  set("row_high", std::max(0, rows.high));
  set("column_low", std::min(0, columns.low));
  set("column_high", std::max(0, columns.high));
  set("radius_y", scheme.radius_y);
  set("radius_x", scheme.radius_x);
  set("row_weights", 2 * scheme.radius_x + 1);
  bindings["form"] = form_name(scheme.form);
  bindings["unit"] = fmt::format("{:a}", scheme.unit);
  bindings["back"] = stepped_number_text(spec.storage, scheme.back);
  bindings["last"] = stepped_number_text(spec.storage, scheme.last);
  bindings["sum_count"] = sum_count_text(spec);
  bind_sums(spec, 2 * scheme.radius_y + 1, bindings);
  bindings["weights"] = weights_text(scheme, spec, &Scheme::Weight::scaled);
  bindings["row_rules"] = stepped_rules_text(spec, spec::axis_y);
  bindings["column_rules"] = stepped_rules_text(spec, spec::axis_x);
  return render_part("stepping2d.cu.in", bindings);
}

SchemeText text_of(const plan::Stepping2d& scheme, const Kernel& kernel) {
  constexpr int most_unrolled_taps = 50;
  const spec::Storage storage = kernel.spec.storage;
  const bool in_window = scheme.form == Scheme::Form::window;
  render::Bindings bindings = {
      {"number", number_type(storage)},
      {"single_weights", weights_text(scheme, kernel.spec, &Scheme::Weight::single)},
      {"single_columns", fmt::to_string(single_columns(scheme, storage))},
      {"single_unrolled", fmt::to_string(scheme.weights.size() <= most_unrolled_taps)},
      {"row_weights", fmt::to_string(2 * scheme.radius_x + 1)},
      {"radius_y", fmt::to_string(scheme.radius_y)},
      {"radius_x", fmt::to_string(scheme.radius_x)},
      {"single_form", in_window ? "window" : "taps"},
  };
  bind_sums(kernel.spec, 2 * scheme.radius_y + 1, bindings);
  return {stepping_struct(scheme, kernel) + "\n\n" + render_part("single_step.cu.in", bindings),
          {"spider::stepping2d_form<Stencil>(),", "spider::stepping2d_form<SingleStep>(),"}};
}

void describe(const plan::Stepping2d& scheme, const plan::KernelPlan& plan, Lines& lines) {
  constexpr int lanes = 32;
  const int width = lanes * scheme.columns;
  const int lost = scheme.time_steps() * scheme.radius_x;
  describe_steps(plan, lines);
  add(lines, "Plan      {} a point and step ({}), {} of {} steps chained in time",
      counted(scheme.operations, "operation"), form_name(scheme.form), counted(scheme.warps, "warp"),
      scheme.steps);
  if (scheme.last_steps != scheme.steps)
    add(lines, "          of the last warp {}", counted(scheme.last_steps, "step"));
  add(lines,
      "          strips of {} columns, {} a lane, {} of them stored away from faces; {} rows a barrier{}",
      width, scheme.columns, width - 2 * lost, scheme.batch, scheme.unrolled ? ", unrolled" : "");
}

std::string json_of(const plan::Stepping2d& scheme, const plan::KernelPlan& plan) {
  return fmt::format(
      "{{\"multiply_adds\": {}, \"operations\": {}, \"form\": \"{}\", \"steps_per_warp\": {}, "
      "\"last_steps\": "
      "{}, \"warps_per_block\": {}, \"columns_per_lane\": {}, \"batch_rows\": {}, \"unrolled\": {}, "
      "\"blocks_per_multiprocessor\": {}, \"estimated_registers\": {}, \"us_per_step\": {:.2f}, "
      "\"single_step_us\": {:.1f}, \"ring\": null}}",
      plan.contraction.taps.size(), scheme.operations, form_name(scheme.form), scheme.steps,
      scheme.last_steps, scheme.warps, scheme.columns, scheme.batch, scheme.unrolled,
      scheme.blocks_per_multiprocessor, scheme.estimated_registers, plan.microseconds / scheme.time_steps(),
      plan.single_step_us);
}

}  // namespace spidergen::emit
