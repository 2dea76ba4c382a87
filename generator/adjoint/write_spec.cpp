#include "adjoint/write_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>

#include "adjoint/write_expressions.h"
#include "spec/fields.h"

namespace spidergen::adjoint {
namespace {

std::string comment(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("# {}\n", line);
  return text;
}

std::string face_text(const spec::Face& face) {
  if (face.rule == spec::BoundaryRule::constant) return fmt::format("{{constant: {}}}", face.value);
  return std::string(spec::rule_name(face.rule));
}

/// The faces along axes with cells, in the words of a spec.
std::string boundary_text(const std::array<spec::AxisBoundary, 3>& boundary,
                          const std::array<bool, 3>& axes) {
  std::vector<std::string> own;
  std::set<std::string> rules;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (!axes[axis]) continue;
    const std::string low = face_text(boundary[axis].low);
    const std::string high = face_text(boundary[axis].high);
    rules.insert({low, high});
    own.push_back(fmt::format("{}: {}", spec::axis_letters[axis],
                              low == high ? low : fmt::format("{{low: {}, high: {}}}", low, high)));
  }
  return rules.size() == 1 ? *rules.begin() : fmt::format("{{{}}}", fmt::join(own, ", "));
}

std::string taps_text(const std::vector<spec::Tap>& taps, int dimensions, std::string_view indentation) {
  std::string text;
  for (const spec::Tap& tap : taps) {
    text += fmt::format("{}- {{at: [{}], weight: {}}}\n", indentation,
                        fmt::join(std::prev(tap.at.end(), dimensions), tap.at.end(), ", "), tap.weight);
  }
  return text;
}

/// `fields`, and the most frequent boundary as the document's `boundary`.
std::string fields_text(const AdjointSystem& system) {
  const std::size_t first = 3 - static_cast<std::size_t>(system.dimensions);
  std::map<std::string, int> counts;
  std::vector<std::string> rules;
  for (const spec::SystemField& field : system.fields) {
    rules.push_back(boundary_text(field.boundary, field.axes));
    if (std::all_of(field.axes.begin() + static_cast<std::ptrdiff_t>(first), field.axes.end(),
                    [](bool has) { return has; }))
      ++counts[rules.back()];
  }
  std::string common = "halo";
  for (const auto& [rule, count] : counts) {
    if (count > counts[common]) common = rule;
  }
  std::string text = "fields:\n";
  for (std::size_t i = 0; i < system.fields.size(); ++i) {
    const spec::SystemField& field = system.fields[i];
    std::vector<std::string> keys;
    std::vector<std::string_view> axes;
    for (std::size_t axis = first; axis < 3; ++axis) {
      if (field.axes[axis]) axes.push_back(spec::axis_letters[axis]);
    }
    const bool has_all = axes.size() == 3 - first;
    if (!has_all) keys.push_back(fmt::format("axes: [{}]", fmt::join(axes, ", ")));
    if (field.storage != system.storage)
      keys.push_back(fmt::format("storage: {}", spec::storage_name(field.storage)));
    if (rules[i] != common || !has_all) keys.push_back(fmt::format("boundary: {}", rules[i]));
    text += fmt::format("  {}: {{{}}}\n", field.name, fmt::join(keys, ", "));
  }
  return text + fmt::format("boundary: {}\n", common);
}

std::string quoted(const std::string& expression) {
  const bool is_plain =
      expression.find(": ") == std::string::npos && !expression.empty() &&
      std::string_view("-?:[]{}!&*|>'\"%@`#,").find(expression.front()) == std::string::npos;
  return is_plain ? expression : fmt::format("\"{}\"", expression);
}

std::string stage_text(const StageText& stage, const std::string& note) {
  std::string text = fmt::format("  # {}\n", note);
  std::string_view lead = "  - ";
  if (!stage.values.empty()) {
    text += "  - let:\n";
    for (const auto& [name, value] : stage.values) text += fmt::format("      {}: {}\n", name, quoted(value));
    lead = "    ";
  }
  for (const auto& [field, value] : stage.assignments) {
    text += fmt::format("{}{}: {}\n", lead, field, quoted(value));
    lead = "    ";
  }
  return text;
}

}  // namespace

std::string write_system(const AdjointSystem& system, const std::vector<std::string>& heading) {
  ExpressionWriter writer(system);
  std::string stages;
  for (const AdjointStage& stage : system.stages) stages += stage_text(writer.write(stage), stage.comment);
  std::string text = comment(heading) + comment(system.notes);
  text += fmt::format("stencil: {}\ndescription: {}\ndimensions: {}\nstorage: {}\n", system.name,
                      system.description, system.dimensions, spec::storage_name(system.storage));
  if (!system.scalars.empty()) text += fmt::format("scalars: [{}]\n", fmt::join(system.scalars, ", "));
  text += fields_text(system);
  if (!writer.operators().empty()) text += "operators:\n";
  for (const auto& [name, taps] : writer.operators()) {
    text += fmt::format("  {}:\n    shape: taps\n    coefficients:\n{}", name,
                        taps_text(taps, system.dimensions, "      "));
  }
  return text + "stages:\n" + stages;
}

std::string write_stencil(const spec::StencilSpec& spec, const std::string& name,
                          const std::string& description, const std::vector<std::string>& heading) {
  std::string text = comment(heading);
  text += fmt::format("stencil: {}\ndescription: {}\ndimensions: {}\nstorage: {}\n", name, description,
                      spec.dimensions, spec::storage_name(spec.storage));
  if (spec.accumulate == spec::Accumulate::f16) text += "accumulate: f16\n";
  if (spec.weights != spec::WeightMode::automatic)
    text += fmt::format("weights: {}\n", spec::weight_mode_name(spec.weights));
  if (spec.accuracy != spec::Accuracy::full)
    text += fmt::format("accuracy: {}\n", spec::accuracy_name(spec.accuracy));
  text += "shape: taps\ncoefficients:\n" + taps_text(spec.taps, spec.dimensions, "  ");
  std::array<bool, 3> axes{};
  for (int axis = 3 - spec.dimensions; axis < 3; ++axis) axes[static_cast<std::size_t>(axis)] = true;
  text += fmt::format("boundary: {}\n", boundary_text(spec.boundary, axes));
  if (!spec.steps) text += "steps: auto\n";
  if (spec.steps.value_or(1) != 1) text += fmt::format("steps: {}\n", *spec.steps);
  if (spec.tolerance) text += fmt::format("tolerance: {}\n", *spec.tolerance);
  return text;
}

}  // namespace spidergen::adjoint
