#include "emit/describe_system.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "emit/describe.h"
#include "emit/storage_text.h"
#include "plan/machine.h"

namespace spidergen::emit {
namespace {

using spec::UpdateOperation;

std::string faces_text(const spec::SystemSpec& spec, const spec::SystemField& field) {
  std::vector<std::string> axes;
  for (std::size_t axis = 3 - static_cast<std::size_t>(spec.dimensions); axis < 3; ++axis) {
    if (!field.axes[axis]) continue;
    axes.push_back(axis_faces_text(static_cast<int>(axis), field.boundary[axis], field.storage));
  }
  return fmt::format("{}", fmt::join(axes, "; "));
}

std::string_view use_text(int use) {
  if ((use & plan::field_written) == 0) return (use & plan::field_read) == 0 ? "not used" : "read";
  if ((use & plan::field_two_buffers) == 0) return "written in place";
  return (use & plan::field_result_in_output) != 0 ? "two buffers" : "two buffers, result in the first";
}

std::string axes_of(const spec::SystemSpec& spec, const spec::SystemField& field) {
  std::string axes;
  for (std::size_t axis = 3 - static_cast<std::size_t>(spec.dimensions); axis < 3; ++axis) {
    if (field.axes[axis]) axes += spec::axis_letters[axis];
  }
  return static_cast<int>(axes.size()) == spec.dimensions ? "" : fmt::format(" along {} alone", axes);
}

std::string reach_text(const spec::SystemSpec& spec, const plan::SystemSweep& sweep) {
  std::array<std::pair<int, int>, 3> reach{};
  const auto widen = [](std::pair<int, int>& axis, int low, int high) {
    axis = {std::min(axis.first, low), std::max(axis.second, high)};
  };
  for (const plan::ReadRow& row : sweep.rows) {
    widen(reach[0], row.dz, row.dz);
    widen(reach[1], row.dy, row.dy);
    widen(reach[2], row.low, row.high);
  }
  std::vector<std::string> axes;
  for (std::size_t axis = 3 - static_cast<std::size_t>(spec.dimensions); axis < 3; ++axis)
    axes.push_back(fmt::format("{} {}..{}", spec::axis_letters[axis], reach[axis].first, reach[axis].second));
  return fmt::format("{}", fmt::join(axes, ", "));
}

/// Arithmetic operations, including those of weights.
std::ptrdiff_t count_operations(const plan::SystemSweep& sweep) {
  return std::count_if(sweep.nodes.begin(), sweep.nodes.end(), [](const spec::UpdateNode& node) {
    return node.operation >= UpdateOperation::negate && node.operation <= UpdateOperation::call;
  });
}

/// What each lane has, or the scheme of the update.
std::string computed_by(const plan::SystemSweep& sweep) {
  if (sweep.update)
    return fmt::format("an update of {} by {}", counted(std::ssize(sweep.update->spec.sums), "sum"),
                       plan::scheme_name(sweep.update->plan.scheme));
  if (sweep.lines == 1) return counted(sweep.columns, "point") + " a lane";
  return fmt::format("{} x {} points a lane", sweep.lines, sweep.columns);
}

int sum_of_bytes(const plan::SystemPlan& plan) {
  int bytes = 0;
  for (const plan::SystemSweep& sweep : plan.sweeps) bytes += sweep.bytes_per_point;
  return bytes;
}

}  // namespace

std::string system_summary(const spec::SystemSpec& spec) {
  if (!spec.description.empty()) return spec.description;
  return fmt::format("{}D system of {} and {}", spec.dimensions, counted(std::ssize(spec.fields), "field"),
                     counted(std::ssize(spec.stages), "stage"));
}

std::string describe_sweep(const spec::SystemSpec& spec, const plan::SystemSweep& sweep) {
  std::vector<std::string_view> names;
  for (const plan::SystemResult& result : sweep.results)
    names.push_back(spec.fields[static_cast<std::size_t>(result.field)].name);
  const std::string stages = sweep.stages == 1 ? fmt::format("Stage {}", sweep.first_stage + 1)
                                               : fmt::format("Stages {} to {}, fused", sweep.first_stage + 1,
                                                             sweep.first_stage + sweep.stages);
  return fmt::format("{}: {}", stages, fmt::join(names, ", "));
}

std::vector<std::string> describe_fields(const spec::SystemSpec& spec, const plan::SystemPlan& plan) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < spec.fields.size(); ++i) {
    const spec::SystemField& field = spec.fields[i];
    add(lines, "{} {}{}, {}; {}", field.name, storage_name(field.storage), axes_of(spec, field),
        use_text(plan.uses[i]), faces_text(spec, field));
  }
  return lines;
}

std::vector<std::string> report_system(const spec::SystemSpec& spec, const plan::SystemPlan& plan) {
  std::vector<std::string> lines;
  add(lines, "System    {}D, {}, {} in {}, computed in {}", spec.dimensions,
      counted(std::ssize(spec.fields), "field"), counted(std::ssize(spec.stages), "stage"),
      counted(std::ssize(plan.sweeps), "sweep"), plan.in_doubles ? "f64" : "f32");
  describe_parameters(spec.parameters, lines);
  std::string_view title = "Fields   ";
  for (const std::string& line : describe_fields(spec, plan)) {
    add(lines, "{} {}", title, line);
    title = "         ";
  }
  if (!spec.scalars.empty()) add(lines, "Scalars   {}", fmt::join(spec.scalars, ", "));
  for (std::size_t i = 0; i < plan.sweeps.size(); ++i) {
    const plan::SystemSweep& sweep = plan.sweeps[i];
    add(lines, "Sweep {}   {}", i + 1, describe_sweep(spec, sweep));
    add(lines, "          {}, reach {}; {} and {} bytes a point; {}", counted(std::ssize(sweep.rows), "row"),
        reach_text(spec, sweep), counted(count_operations(sweep), "operation"), sweep.bytes_per_point,
        computed_by(sweep));
    for (const plan::SystemReduction& one : sweep.reductions) {
      const spec::Reduction& reduction = spec.reductions[static_cast<std::size_t>(one.which)];
      add(lines, "          {}: {} of {} at all points", reduction.name,
          spec::reduction_kind_name(reduction.kind), reduction.text);
    }
  }
  if (plan.sweeps.size() < spec.stages.size()) {
    add(lines, "Fused     {} bytes a point in the place of {}, a sweep a stage", sum_of_bytes(plan),
        plan.bytes_apart);
  }
  return lines;
}

std::string explain_system_text(const spec::SystemSpec& spec, const plan::SystemPlan& plan,
                                const std::vector<std::string>& architectures) {
  std::string text = fmt::format("{}: {}\n\n", spec.name, system_summary(spec));
  for (const std::string& line : report_system(spec, plan)) text += fmt::format("  {}\n", line);
  for (const std::string& architecture : architectures) {
    const plan::DeviceRates* rates = plan::find_device_rates(architecture);
    if (rates == nullptr) continue;
    for (std::size_t i = 0; i < plan.sweeps.size(); ++i) {
      const double bytes = plan.sweeps[i].bytes_per_point;
      text += fmt::format("  Floor     sweep {}: {:.3g} G points a second on {}, {}, at the rate of a copy\n",
                          i + 1, rates->copy_bytes_per_second / bytes * 1e-9, architecture, rates->device);
    }
  }
  return text;
}

std::string explain_system_json(const spec::SystemSpec& spec, const plan::SystemPlan& plan) {
  std::vector<std::string> fields;
  for (std::size_t i = 0; i < spec.fields.size(); ++i) {
    const spec::SystemField& field = spec.fields[i];
    std::vector<std::string> axes;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (field.axes[axis]) axes.push_back(fmt::format("\"{}\"", spec::axis_letters[axis]));
    }
    fields.push_back(fmt::format(
        R"(    {{"name": "{}", "storage": "{}", "axes": [{}], "written": {}, "two_buffers": {}}})",
        field.name, storage_name(field.storage), fmt::join(axes, ", "),
        (plan.uses[i] & plan::field_written) != 0, (plan.uses[i] & plan::field_two_buffers) != 0));
  }
  std::vector<std::string> sweeps;
  for (const plan::SystemSweep& sweep : plan.sweeps) {
    std::vector<std::string> rows;
    for (const plan::ReadRow& row : sweep.rows)
      rows.push_back(fmt::format("[{}, {}, {}, {}, {}]", row.field, row.dz, row.dy, row.low, row.high));
    sweeps.push_back(fmt::format(
        R"(    {{"first_stage": {}, "stages": {}, "bytes": {}, "operations": {}, "columns": {}, "lines": {}, "update": {}, "rows": [{}]}})",
        sweep.first_stage, sweep.stages, sweep.bytes_per_point, count_operations(sweep), sweep.columns,
        sweep.lines,
        sweep.update ? fmt::format("\"{}\"", plan::scheme_name(sweep.update->plan.scheme)) : "null",
        fmt::join(rows, ", ")));
  }
  std::vector<std::string> scalars;
  for (const std::string& scalar : spec.scalars) scalars.push_back('"' + scalar + '"');
  std::vector<std::string> reductions;
  for (const spec::Reduction& one : spec.reductions) {
    reductions.push_back(
        fmt::format(R"({{"name": "{}", "kind": "{}"}})", one.name, spec::reduction_kind_name(one.kind)));
  }
  return fmt::format(
      "{{\n  \"stencil\": \"{}\",\n  \"system\": true,\n  \"dimensions\": {},\n  \"storage\": \"{}\",\n"
      "  \"fields\": [\n{}\n  ],\n  \"scalars\": [{}],\n  \"reductions\": [{}],\n  \"sweeps\": [\n{}\n  ],\n "
      " \"bytes_apart\": "
      "{}\n}}\n",
      spec.name, spec.dimensions, storage_name(spec.storage), fmt::join(fields, ",\n"),
      fmt::join(scalars, ", "), fmt::join(reductions, ", "), fmt::join(sweeps, ",\n"), plan.bytes_apart);
}

}  // namespace spidergen::emit
