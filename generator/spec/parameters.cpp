#include "spec/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <variant>

#include "spec/names.h"

namespace spidergen::spec {
namespace {

/// An override has no place in the file: line 0.
void report_override(const ParameterOverride& given, const std::string& file, const std::string& text,
                     Context& context) {
  context.diagnostics.error({file, 0, 0}, "-D {}: {}", shown(given.name + "=" + given.expression), text);
}

bool check_name(const Entry& entry, Context& context) {
  if (!is_identifier(entry.key)) {
    context.diagnostics.error(entry.where,
                              "{} cannot name a parameter; use a letter or underscore, then "
                              "letters, digits and underscores",
                              shown(entry.key));
    return false;
  }
  if (entry.key.size() > longest_name) {
    context.diagnostics.error(entry.where, "a parameter's name of {} characters is too long; use at most {}",
                              entry.key.size(), longest_name);
    return false;
  }
  if (is_built_in(entry.key)) {
    context.diagnostics.error(entry.where, "'{}' is built into expressions; give the parameter another name",
                              entry.key);
    return false;
  }
  return true;
}

std::optional<double> evaluate_override(const ParameterOverride& given, const std::string& file,
                                        Context& context) {
  Evaluation evaluation = context.calculator.evaluate(given.expression);
  if (const double* value = std::get_if<double>(&evaluation)) return *value;
  const std::string& text = std::get<ExpressionError>(evaluation).text;
  if (!text.empty()) report_override(given, file, text, context);
  return std::nullopt;
}

const ParameterOverride* find_override(const std::vector<ParameterOverride>& overrides,
                                       const std::string& name) {
  const auto found = std::find_if(overrides.begin(), overrides.end(),
                                  [&name](const ParameterOverride& given) { return given.name == name; });
  return found == overrides.end() ? nullptr : &*found;
}

std::optional<Parameter> read_parameter(const Entry& entry, const ParameterOverride* given,
                                        const std::string& file, Context& context) {
  const std::string what = fmt::format("parameter '{}'", entry.key);
  if (!given) {
    const std::optional<double> value = read_number(entry.value, what, context);
    if (!value) return std::nullopt;
    return Parameter{entry.key, entry.value.text, *value, false};
  }
  const bool is_text = expect(entry.value, NodeKind::scalar, what + " is a number or an expression", context);
  const std::optional<double> value = evaluate_override(*given, file, context);
  if (!is_text || !value) return std::nullopt;
  return Parameter{entry.key, given->expression, *value, true};
}

void check_overrides(const std::vector<ParameterOverride>& overrides, const std::vector<std::string>& names,
                     const std::string& file, Context& context) {
  for (const ParameterOverride& given : overrides) {
    if (context.diagnostics.full()) return;
    if (find_override(overrides, given.name) != &given) {
      report_override(given, file, fmt::format("{} is overridden twice; keep one", shown(given.name)),
                      context);
    } else if (std::find(names.begin(), names.end(), given.name) == names.end()) {
      const std::string known = names.empty() ? "it has none" : "it has " + list_names(names);
      report_override(given, file,
                      fmt::format("the spec has no parameter {}{}; {}", shown(given.name),
                                  did_you_mean(given.name, names), known),
                      context);
    }
  }
}

}  // namespace

std::vector<Parameter> read_parameters(const Node* node, const std::vector<ParameterOverride>& overrides,
                                       const std::string& file, Context& context) {
  std::vector<Parameter> parameters;
  std::vector<std::string> names;
  if (node &&
      expect(*node, NodeKind::mapping, "'parameters' is a mapping of names to expressions", context)) {
    for (const Entry& entry : node->entries) {
      names.push_back(entry.key);
      context.calculator.announce(entry.key);
    }
    for (const Entry& entry : node->entries) {
      if (!check_name(entry, context)) continue;
      if (auto parameter = read_parameter(entry, find_override(overrides, entry.key), file, context)) {
        context.calculator.define(parameter->name, parameter->value);
        parameters.push_back(std::move(*parameter));
      } else {
        context.calculator.define_broken(entry.key);
      }
    }
  }
  check_overrides(overrides, names, file, context);
  return parameters;
}

}  // namespace spidergen::spec
