#include "emit/schemes/stepping_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>

#include "emit/describe.h"
#include "emit/kernel_text.h"
#include "emit/storage_text.h"

namespace spidergen::emit {

std::string zero_rules_text(spec::StencilSpec spec, int axis) {
  for (spec::Face* face : {&spec.boundary[axis].low, &spec.boundary[axis].high}) {
    if (face->rule != spec::BoundaryRule::antisymmetric) continue;
    face->rule = spec::BoundaryRule::constant;
    face->value = 0;
  }
  return stepped_rules_text(spec, axis);
}

std::string stepped_rules_text(const spec::StencilSpec& spec, int axis) {
  if (spec.storage == spec::Storage::f64) return axis_rules_text(spec, axis);
  spec::StencilSpec in_f32 = spec;
  for (spec::Face* face : {&in_f32.boundary[axis].low, &in_f32.boundary[axis].high})
    face->value = plan::stored_value(spec.storage, face->value);
  in_f32.storage = spec::Storage::f32;
  return axis_rules_text(in_f32, axis);
}

void bind_stepped_types(spec::Storage storage, render::Bindings& bindings) {
  bindings["cells"] = cells_struct(storage);
  bindings["number"] = number_type(storage);
  bindings["rules"] = wide_name(storage, "AxisRules");
}

std::string stepped_number_text(spec::Storage storage, double number) {
  if (storage == spec::Storage::f64) return fmt::format("{:a}", number);
  return fmt::format("{:a}F", static_cast<float>(number));
}

std::string weight_row_text(spec::Storage storage, const double* weights, int count) {
  std::vector<std::string> row;
  row.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    row.push_back(weights[i] == 0 ? "0" : stepped_number_text(storage, weights[i]));
  return fmt::format("{}", fmt::join(row, ", "));
}

std::string sum_count_text(const spec::StencilSpec& spec) {
  if (spec.sums.size() == 1) return "";
  return fmt::format("static constexpr int sum_count = {};", spec.sums.size());
}

void bind_sums(const spec::StencilSpec& spec, int entries, render::Bindings& bindings) {
  const bool several = spec.sums.size() > 1;
  bindings["of_sum"] = several ? "int sum, " : "";
  bindings["sum_extent"] = several ? fmt::format("[{}]", entries) : "";
  bindings["by_sum"] = several ? "[sum]" : "";
}

void describe_step_time(const plan::KernelPlan& plan, std::vector<std::string>& lines) {
  constexpr std::string_view fields[] = {"10240^2 points", "10240 x 10240 points", "768^3 points"};
  const double us = plan.microseconds / plan.op.steps;
  add(lines, "          about {:.{}f} us a step over {} on an H200; a single sweep {:.0f} us", us,
      us < 10 ? 2 : 0, fields[plan.dimensions - 1], plan.single_step_us);
  if (us > plan.single_step_us)
    lines.emplace_back("          so single sweeps are faster: write 'steps: auto', or remove it");
}

void describe_steps(const plan::KernelPlan& plan, std::vector<std::string>& lines) {
  add(lines, "Steps     {} a sweep, stepped in registers: nothing is truncated, whatever the tolerance",
      plan.op.steps);
  describe_step_time(plan, lines);
}

}  // namespace spidergen::emit
