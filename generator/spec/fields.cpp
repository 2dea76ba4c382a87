#include "spec/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <variant>

#include "spec/names.h"

namespace spidergen::spec {

bool expect(const Node& node, NodeKind kind, std::string_view what, Context& context) {
  if (node.kind == kind) return true;
  if (node.kind != NodeKind::refused) {
    context.diagnostics.error(node.where, "{}, not {}", what, describe(node));
  }
  return false;
}

bool check_keys(const Node& mapping, const std::vector<std::string>& known, std::string_view owner,
                Context& context) {
  bool all_known = true;
  for (const Entry& entry : mapping.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    context.diagnostics.error(entry.where, "unknown key {} in {}{}; known keys are {}", shown(entry.key),
                              owner, did_you_mean(entry.key, known), list_names(known));
    all_known = false;
  }
  return all_known;
}

std::optional<double> read_number(const Node& node, std::string_view what, Context& context,
                                  const LocalNames& local) {
  if (context.diagnostics.full()) return std::nullopt;  // further errors would not be reported
  if (!expect(node, NodeKind::scalar, fmt::format("{} is a number or an expression", what), context)) {
    return std::nullopt;
  }
  Evaluation evaluation = context.calculator.evaluate(node.text, local);
  if (const double* value = std::get_if<double>(&evaluation)) return *value;
  const auto& error = std::get<ExpressionError>(evaluation);
  if (!error.text.empty()) {
    context.diagnostics.error(place_in_text(node, error.offset), "{}: {}", what, error.text);
  }
  return std::nullopt;
}

std::optional<int> read_whole(const Node& node, std::string_view what, int least, int most,
                              Context& context) {
  const std::optional<double> value = read_number(node, what, context);
  if (!value) return std::nullopt;
  if (std::trunc(*value) == *value && *value >= least && *value <= most) return static_cast<int>(*value);
  context.diagnostics.error(node.where, "{} is a whole number from {} to {}, not {}", what, least, most,
                            describe(node));
  return std::nullopt;
}

std::optional<std::vector<double>> read_numbers(const Node& list, std::string_view what, Context& context) {
  std::vector<double> values;
  for (const Node& item : list.items) {
    if (const std::optional<double> value = read_number(item, what, context)) values.push_back(*value);
  }
  if (values.size() != list.items.size()) return std::nullopt;
  return values;
}

std::optional<std::array<double, 3>> read_per_axis(const Node& node, std::string_view what, int dimensions,
                                                   const std::array<bool, 3>& needed, double absent,
                                                   Context& context) {
  std::array<double, 3> values{absent, absent, absent};
  if (node.kind != NodeKind::mapping) {
    const std::optional<double> value = read_number(node, what, context);
    if (!value) return std::nullopt;
    for (int axis = first_axis(dimensions); axis <= axis_x; ++axis)
      values[static_cast<std::size_t>(axis)] = *value;
    return values;
  }
  const std::vector<std::string> axes = axis_names(dimensions);
  bool good = check_keys(node, axes, what, context);
  for (int axis = first_axis(dimensions); axis <= axis_x; ++axis) {
    const Entry* entry = find_entry(node, axis_name(axis));
    if (!entry && needed[static_cast<std::size_t>(axis)]) {
      context.diagnostics.error(node.where, "{} does not name axis '{}'; write {}: NUMBER there", what,
                                axis_name(axis), axis_name(axis));
      good = false;
    }
    if (!entry) continue;
    const std::optional<double> value = read_number(entry->value, what, context);
    good = good && value;
    values[static_cast<std::size_t>(axis)] = value.value_or(absent);
  }
  if (!good) return std::nullopt;
  return values;
}

const Node& per_axis_node(const Node& node, int axis) {
  const Entry* entry = find_entry(node, axis_name(axis));
  return entry ? entry->value : node;
}

void check_expressions(const Node& node, std::string_view what, Context& context) {
  if (node.kind == NodeKind::scalar) (void)read_number(node, what, context);
  for (const Node& item : node.items) check_expressions(item, what, context);
  for (const Entry& entry : node.entries) check_expressions(entry.value, what, context);
}

void report_choice(const Node& node, std::string_view what, const std::vector<std::string>& choices,
                   Context& context) {
  if (node.kind == NodeKind::refused) return;
  const std::string nearest =
      node.kind == NodeKind::scalar ? did_you_mean(node.text, choices) : std::string();
  context.diagnostics.error(node.where, "{} is one of {}, not {}{}", what, list_names(choices, "or"),
                            describe(node), nearest);
}

std::string axis_name(int axis) {
  return std::string(1, "zyx"[axis]);
}

std::vector<std::string> axis_names(int dimensions) {
  std::vector<std::string> names;
  for (int axis = first_axis(dimensions); axis <= axis_x; ++axis) names.push_back(axis_name(axis));
  return names;
}

double largest_value(Storage storage) {
  // In the order of the enumeration.
  constexpr std::array largest{65504.0, 0x1.FFFFFEp127, 0x1.FEp127, std::numeric_limits<double>::max(),
                               255.0,   65535.0,        32767.0};
  return largest[static_cast<std::size_t>(storage)];
}

double least_value(Storage storage) {
  if (storage == Storage::u8 || storage == Storage::u16) return 0;
  return storage == Storage::i16 ? -32768 : -largest_value(storage);
}

const Choices<Storage>& storages() {
  static const auto choices = choices_of<Storage>(storage_names);
  return choices;
}

const Choices<Storage>& float_storages() {
  static const Choices<Storage> choices(storages().begin(), storages().begin() + 4);
  return choices;
}

}  // namespace spidergen::spec
