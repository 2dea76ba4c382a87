#include "emit/system_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "emit/describe_system.h"
#include "emit/expression_text.h"
#include "emit/kernel_text.h"
#include "emit/storage_text.h"
#include "plan/weights.h"

namespace spidergen::emit {
namespace {

using spec::UpdateNode;
using spec::UpdateOperation;

std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

std::string fields_text(const spec::SystemSpec& spec) {
  std::vector<std::string> fields;
  for (const spec::SystemField& field : spec.fields) {
    const auto face = [&](const spec::Face& f) {
      return fmt::format("{{spider::FaceRule::{}, {:a}}}", spec::rule_name(f.rule),
                         static_cast<double>(plan::stored_value(field.storage, f.value)));
    };
    std::vector<std::string> axes;
    for (const spec::AxisBoundary& axis : field.boundary)
      axes.push_back(fmt::format("{{{}, {}}}", face(axis.low), face(axis.high)));
    fields.push_back(fmt::format("{{{}, {{{}}},  // {}\n {{{}}}}},", storage_code(field.storage),
                                 fmt::join(field.axes, ", "), field.name, fmt::join(axes, ",\n  ")));
  }
  return fmt::format("{}", fmt::join(fields, "\n"));
}

/// "vx[0, -1]", or the name alone at the point.
std::string cell_name(const spec::SystemSpec& spec, const UpdateNode& node) {
  const std::string& name = spec.fields[static_cast<std::size_t>(node.which)].name;
  if (node.at == spec::Offset{}) return name;
  return fmt::format("{}[{}]", name,
                     fmt::join(std::prev(node.at.end(), spec.dimensions), node.at.end(), ", "));
}

/// The namespace of the update that computes a sweep.
std::string update_name(int sweep) {
  return fmt::format("update{}", sweep);
}

class SweepText {
 public:
  SweepText(const spec::SystemSpec& spec, const plan::SystemPlan& plan, int number)
      : spec_(spec), plan_(plan), sweep_(plan.sweeps[static_cast<std::size_t>(number)]), number_(number) {
    for (const plan::ReadRow& row : sweep_.rows) {
      const int place = static_cast<int>(rows_.size());
      rows_[{row.field, row.dz, row.dy}] = place;
    }
  }

  [[nodiscard]] std::string text() const {
    render::Bindings bindings;
    bindings["what"] = describe_sweep(spec_, sweep_) + ".";
    bindings["struct"] = fmt::format("Sweep{}", number_);
    bindings["columns"] = fmt::to_string(sweep_.columns);
    bindings["row_count"] = fmt::to_string(sweep_.rows.size());
    bindings["rows"] = sweep_.rows.empty() ? "{}" : rows_text();
    std::vector<std::string> written;
    for (const plan::SystemResult& result : sweep_.results)
      written.push_back(fmt::format("{{{}, {}}}", result.field, result.into_other));
    bindings["written"] = fmt::format("{}", fmt::join(written, ", "));
    if (sweep_.update) {
      bindings["kernel"] = update_name(number_);
      return render_part("updated_sweep.cu.in", bindings);
    }
    bindings["number"] = number_type(numbers());
    bindings["dimensions"] = fmt::to_string(spec_.dimensions);
    bindings["lines"] = fmt::to_string(sweep_.lines);
    bindings["blocks_per_multiprocessor"] = fmt::to_string(sweep_.blocks_per_multiprocessor);
    bind_bounded(bindings);
    bindings["written_count"] = fmt::to_string(sweep_.results.size());
    bindings["reduced_count"] = fmt::to_string(sweep_.reductions.size());
    bindings["reduced"] = reduced_text();
    bindings["row_room"] = sweep_.rows.empty() ? "1" : "row_count";
    bindings["statements"] = statements_text();
    return render_part("system_sweep.cu.in", bindings);
  }

 private:
  [[nodiscard]] spec::Storage numbers() const {
    return plan_.in_doubles ? spec::Storage::f64 : spec::Storage::f32;
  }

  void bind_bounded(render::Bindings& bindings) const {
    spec::Offset low{};
    spec::Offset high{};
    spec::Offset folded{};
    for (const UpdateNode& node : sweep_.nodes) {
      for (std::size_t axis = 0; axis < low.size(); ++axis) {
        if (node.operation == UpdateOperation::bounded) {
          low[axis] = std::max(low[axis], -node.at[axis]);
          high[axis] = std::max(high[axis], node.at[axis]);
        } else if (node.operation == UpdateOperation::folded) {
          folded[axis] = std::max(folded[axis], node.at[axis]);
        }
      }
    }
    bindings["folded"] = "";
    if (folded != spec::Offset{}) {
      bindings["folded"] = fmt::format(
          "// How far ghost cells that are folded back lie beyond faces.\n"
          "static constexpr int folded_reach[3] = {{{}}};",
          fmt::join(folded, ", "));
    }
    // The first cell within a face may be the image of the farthest ghost cell, mirrored.
    for (std::size_t axis = 0; axis < low.size(); ++axis) {
      const int near = folded[axis] == 0 ? 0 : folded[axis] + 1;
      low[axis] = std::max(low[axis], near);
      high[axis] = std::max(high[axis], near);
    }
    bindings["bounded_low"] = fmt::format("{}", fmt::join(low, ", "));
    bindings["bounded_high"] = fmt::format("{}", fmt::join(high, ", "));
  }

  [[nodiscard]] std::string rows_text() const {
    std::vector<std::string> lines;
    for (const plan::ReadRow& row : sweep_.rows) {
      lines.push_back(fmt::format("{{{}, {}, {}, {}, {}}},  // {}", row.field, row.dz, row.dy, row.low,
                                  row.high, spec_.fields[static_cast<std::size_t>(row.field)].name));
    }
    return fmt::format("{}", fmt::join(lines, "\n"));
  }

  /// Nothing where the sweep has no reductions.
  [[nodiscard]] std::string reduced_text() const {
    if (sweep_.reductions.empty()) return {};
    std::vector<std::string> reduced;
    for (const plan::SystemReduction& one : sweep_.reductions) {
      const spec::Reduction& reduction = spec_.reductions[static_cast<std::size_t>(one.which)];
      reduced.push_back(fmt::format("    {{{}, spider::ReductionKind::{}}},  // {}", one.which,
                                    spec::reduction_kind_name(reduction.kind), reduction.name));
    }
    return fmt::format("static constexpr spider::ReducedNumber reduced[reduced_count] = {{\n{}\n}};",
                       fmt::join(reduced, "\n"));
  }

  [[nodiscard]] LeafText leaf(const UpdateNode& node) const {
    const auto which = static_cast<std::size_t>(node.which);
    switch (node.operation) {
      case UpdateOperation::cell:
        return {fmt::format("template read<{}, {}>()",
                            rows_.at({node.which, node.at[spec::axis_z], node.at[spec::axis_y]}),
                            node.at[spec::axis_x]),
                cell_name(spec_, node)};
      case UpdateOperation::scalar:
        return {fmt::format("scalar({})", which), spec_.scalars[which]};
      case UpdateOperation::index:
        return {fmt::format("index({})", which), fmt::format("i{}", spec::axis_letters[which])};
      default:
        return {fmt::format("extent({})", which), fmt::format("n{}", spec::axis_letters[which])};
    }
  }

  [[nodiscard]] std::string statements_text() const {
    Expressions expressions{sweep_.nodes, {}, numbers(), false, true};
    for (const plan::SystemResult& result : sweep_.results) expressions.roots.push_back(result.node);
    for (const plan::SystemReduction& one : sweep_.reductions) expressions.roots.push_back(one.node);
    ExpressionText text =
        write_expressions(expressions, [this](const UpdateNode& node) { return leaf(node); });
    if (!reads_point()) text.statements.insert(text.statements.begin(), "static_cast<void>(p);");
    for (std::size_t i = 0; i < sweep_.results.size(); ++i) {
      text.statements.push_back(
          fmt::format("results[{}] = {};  // {}", i, text.values[i],
                      spec_.fields[static_cast<std::size_t>(sweep_.results[i].field)].name));
    }
    for (std::size_t i = 0; i < sweep_.reductions.size(); ++i) {
      const std::size_t place = sweep_.results.size() + i;
      text.statements.push_back(
          fmt::format("results[{}] = {};  // {}", place, text.values[place],
                      spec_.reductions[static_cast<std::size_t>(sweep_.reductions[i].which)].name));
    }
    return fmt::format("{}", fmt::join(text.statements, "\n"));
  }

  [[nodiscard]] bool reads_point() const {
    constexpr std::array of_points{UpdateOperation::cell, UpdateOperation::scalar, UpdateOperation::index,
                                   UpdateOperation::extent, UpdateOperation::folded};
    return std::any_of(sweep_.nodes.begin(), sweep_.nodes.end(), [&](const UpdateNode& node) {
      return std::find(of_points.begin(), of_points.end(), node.operation) != of_points.end();
    });
  }

  const spec::SystemSpec& spec_;
  const plan::SystemPlan& plan_;
  const plan::SystemSweep& sweep_;
  int number_;
  std::map<std::array<int, 3>, int> rows_;  ///< by field, dz, dy
};

/// A sweep's kernel of an update, and how the runtime gives it the system's fields.
std::string update_text(const plan::SweepUpdate& update, int number, const std::string& version,
                        std::set<std::string>& schemes) {
  const std::string name = update_name(number);
  std::string text = inner_kernel(
      {fmt::format("Sweep {} as an update", number + 1), name, update.spec, update.plan}, version, schemes);
  const std::string fields = fmt::format("{}", fmt::join(update.fields, ", "));
  if (!fields.empty()) text += fmt::format("\nconstexpr std::int32_t fields_of_{}[] = {{{}}};", name, fields);
  return text + fmt::format("\nconstexpr spider::SweepUpdate by_{0} = {{&{0}::kernel, {1}, {2}, {3}}};", name,
                            update.input, update.previous.value_or(-1),
                            fields.empty() ? "nullptr" : "fields_of_" + name);
}

std::string tables_text(const spec::SystemSpec& spec, const plan::SystemPlan& plan) {
  std::vector<std::string> names;
  std::vector<std::string> storages;
  std::vector<int> axes;
  for (const spec::SystemField& field : spec.fields) {
    names.push_back(quoted(field.name));
    storages.push_back(storage_code(field.storage));
    axes.push_back((field.axes[0] ? 1 : 0) + (field.axes[1] ? 2 : 0) + (field.axes[2] ? 4 : 0));
  }
  std::string text = fmt::format(
      "constexpr const char* field_names[] = {{{}}};\nconstexpr std::int32_t field_storages[] = {{{}}};\n"
      "constexpr std::int32_t field_uses[] = {{{}}};\nconstexpr std::int32_t field_axes[] = {{{}}};\n",
      fmt::join(names, ", "), fmt::join(storages, ", "), fmt::join(plan.uses, ", "), fmt::join(axes, ", "));
  if (!spec.scalars.empty()) {
    std::vector<std::string> scalars;
    for (const std::string& scalar : spec.scalars) scalars.push_back(quoted(scalar));
    text += fmt::format("constexpr const char* scalar_names[] = {{{}}};\n", fmt::join(scalars, ", "));
  }
  if (!spec.reductions.empty()) {
    std::vector<std::string> reductions;
    for (const spec::Reduction& reduction : spec.reductions) reductions.push_back(quoted(reduction.name));
    text += fmt::format("constexpr const char* reduction_names[] = {{{}}};\n", fmt::join(reductions, ", "));
  }
  return text;
}

EmittedFile system_source(const spec::SystemSpec& spec, const plan::SystemPlan& plan,
                          const std::string& version, render::Bindings bindings) {
  std::set<std::string> schemes;
  int minimum = oldest_arch;
  std::vector<std::string> sweeps;
  std::vector<std::string> facts;
  std::vector<std::string> forms;
  for (std::size_t i = 0; i < plan.sweeps.size(); ++i) {
    sweeps.push_back(SweepText(spec, plan, static_cast<int>(i)).text());
    const std::optional<plan::SweepUpdate>& update = plan.sweeps[i].update;
    if (update) {
      sweeps.push_back(update_text(*update, static_cast<int>(i), version, schemes));
      minimum = std::max(minimum, minimum_arch(update->plan.engine));
    }
    facts.push_back(fmt::format("spider::system_sweep<Sweep{}>({}{}),", i, plan.sweeps[i].stages,
                                update ? fmt::format(", &by_update{}", i) : ""));
    forms.push_back(update ? fmt::format("update{}::kernel.forms[0],", i)
                           : fmt::format("spider::system_form<Sweep{}>(),", i));
  }
  bindings["hash"] = spec.source_hash;
  bindings["report"] = comment_text(report_system(spec, plan));
  bindings["device_abi"] = fmt::to_string(device_abi);
  bindings["fields"] = fields_text(spec);
  bindings["sweeps"] = fmt::format("{}", fmt::join(sweeps, "\n\n"));
  bindings["sweep_facts"] = fmt::format("{}", fmt::join(facts, "\n"));
  bindings["forms"] = fmt::format("{}", fmt::join(forms, "\n"));
  bindings["tables"] = tables_text(spec, plan);
  bindings["dimensions"] = fmt::to_string(spec.dimensions);
  bindings["storage_code"] = storage_code(spec.storage);
  bindings["minimum_arch"] = fmt::to_string(minimum);
  bindings["scheme_headers"] = scheme_includes({schemes.begin(), schemes.end()});
  bindings["host_headers"] = schemes.empty() ? "" : "#include <spider/host_form.h>";
  bindings["field_count"] = fmt::to_string(spec.fields.size());
  bindings["scalar_names"] = spec.scalars.empty() ? "nullptr" : "scalar_names";
  bindings["scalar_count"] = fmt::to_string(spec.scalars.size());
  bindings["reductions"] =
      spec.reductions.empty() ? "" : fmt::format(", reduction_names, {}", spec.reductions.size());
  return {spec.name + ".cu", render_part("system.cu.in", bindings) + "\n"};
}

/// What a caller must know, for the header.
std::string contract_text(const spec::SystemSpec& spec, const plan::SystemPlan& plan) {
  std::string contract = "/* The kernel for spider_run and spider_run_steps, whose sweeps have these fields:";
  for (const std::string& line : describe_fields(spec, plan)) contract += "\n * " + line;
  if (!spec.scalars.empty()) contract += fmt::format("\n * Scalars: {}", fmt::join(spec.scalars, ", "));
  if (!spec.reductions.empty()) {
    std::vector<std::string> reductions;
    for (const spec::Reduction& one : spec.reductions)
      reductions.push_back(
          fmt::format("{}, {} of {}", one.name, spec::reduction_kind_name(one.kind), one.text));
    contract += fmt::format("\n * Reductions: {}", fmt::join(reductions, "; "));
  }
  return contract + " */";
}

}  // namespace

std::vector<EmittedFile> emit_system(const spec::SystemSpec& spec, const plan::SystemPlan& plan,
                                     const std::string& version) {
  const render::Bindings origin = provenance(spec, system_summary(spec), version);
  return {system_source(spec, plan, version, origin),
          {spec.name + ".h", header_text(spec.name, contract_text(spec, plan), origin)}};
}

}  // namespace spidergen::emit
