#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diag/diagnostic.h"
#include "spec/expression.h"
#include "spec/stencil_spec.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

/// State that the readers of a spec's parts share. A reader returns nothing where it has reported an error.
struct Context {
  Calculator& calculator;
  diag::Diagnostics& diagnostics;
};

/// Whether `node` has this kind; if not, reports "`what` ..., not ...", where `what` describes a valid value.
[[nodiscard]] bool expect(const Node& node, NodeKind kind, std::string_view what, Context& context);

/// Reports every key of `mapping` that is not in `known`; `owner` names the mapping in messages. True if all
/// are known.
bool check_keys(const Node& mapping, const std::vector<std::string>& known, std::string_view owner,
                Context& context);

/// The value of a number or expression. `what` names it in messages; `local` lists names that it may use in
/// addition to those of the calculator.
[[nodiscard]] std::optional<double> read_number(const Node& node, std::string_view what, Context& context,
                                                const LocalNames& local = {});

/// The value of a number or expression that must be a whole number within [least, most].
[[nodiscard]] std::optional<int> read_whole(const Node& node, std::string_view what, int least, int most,
                                            Context& context);

/// The numbers of a list. Reads all of them; nothing if any is in error.
[[nodiscard]] std::optional<std::vector<double>> read_numbers(const Node& list, std::string_view what,
                                                              Context& context);

/// One number for all axes, or a mapping that names each `needed` axis; `absent` for the other axes.
[[nodiscard]] std::optional<std::array<double, 3>> read_per_axis(const Node& node, std::string_view what,
                                                                 int dimensions,
                                                                 const std::array<bool, 3>& needed,
                                                                 double absent, Context& context);

/// Where read_per_axis() found the value of an axis.
[[nodiscard]] const Node& per_axis_node(const Node& node, int axis);

/// Evaluates every scalar below `node`, to report bad expressions where the structure cannot be judged.
void check_expressions(const Node& node, std::string_view what, Context& context);

/// Reports a value that is not one of `choices`.
void report_choice(const Node& node, std::string_view what, const std::vector<std::string>& choices,
                   Context& context);

template <typename Value>
using Choices = std::vector<std::pair<std::string, Value>>;

/// All values of an enumeration by their names, which are in its order.
template <typename Value, std::size_t count>
[[nodiscard]] Choices<Value> choices_of(const std::array<std::string_view, count>& names) {
  Choices<Value> choices;
  for (std::size_t i = 0; i < count; ++i) choices.emplace_back(names[i], static_cast<Value>(i));
  return choices;
}

/// The value of a choice.
template <typename Value>
[[nodiscard]] std::optional<Value> read_choice(const Node& node, std::string_view what,
                                               const Choices<Value>& choices, Context& context) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (node.kind == NodeKind::scalar && node.text == name) return value;
    names.push_back(name);
  }
  report_choice(node, what, names, context);
  return std::nullopt;
}

/// The axes of a stencil by name, slowest first: "y", "x" in two dimensions.
[[nodiscard]] std::vector<std::string> axis_names(int dimensions);

/// The name of an axis.
[[nodiscard]] std::string axis_name(int axis);

/// The slowest axis of a stencil: axis_y in two dimensions.
[[nodiscard]] inline int first_axis(int dimensions) {
  return 3 - dimensions;
}

/// The names of storage types.
[[nodiscard]] const Choices<Storage>& storages();
/// The floating-point types, which updates and systems of equations require.
[[nodiscard]] const Choices<Storage>& float_storages();

}  // namespace spidergen::spec
