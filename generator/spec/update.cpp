#include "spec/update.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

#include "spec/expression_nodes.h"
#include "spec/read_expression.h"

namespace spidergen::spec {
namespace {

/// Appends a node after its arguments, each once.
int append_once(const ExpressionNodes& nodes, int node, std::map<int, int>& places,
                std::vector<UpdateNode>& result) {
  if (const auto known = places.find(node); known != places.end()) return known->second;
  UpdateNode copy = nodes[node];
  for (int& argument : copy.arguments) argument = append_once(nodes, argument, places, result);
  result.push_back(std::move(copy));
  return places[node] = static_cast<int>(result.size()) - 1;
}

}  // namespace

std::string_view name_of(const UpdateNode& node) {
  // In the order of the enumeration.
  constexpr std::array<std::string_view, 23> names{
      "number", "input",  "sum",    "previous", "field", "cell", "written", "scalar",
      "index",  "extent", "negate", "+",        "-",     "*",    "/",       "^",
      "<",      "<=",     ">",      ">=",       "==",    "!=",   "?"};
  return node.operation == UpdateOperation::call ? node.function
                                                 : names.at(static_cast<std::size_t>(node.operation));
}

bool Update::uses(UpdateOperation operation) const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [operation](const UpdateNode& node) { return node.operation == operation; });
}

bool Update::is_of_sums_alone() const {
  constexpr UpdateOperation of_points[] = {UpdateOperation::input, UpdateOperation::previous,
                                           UpdateOperation::field, UpdateOperation::index};
  return std::none_of(std::begin(of_points), std::end(of_points),
                      [this](UpdateOperation operation) { return uses(operation); });
}

std::variant<Update, ExpressionError> parse_update(std::string_view text, const UpdateNames& names,
                                                   Calculator& calculator, std::vector<std::string>& used) {
  Vocabulary vocabulary;
  vocabulary.leaves = names;
  ExpressionNodes nodes(calculator);
  const auto root = read_expression(text, vocabulary, nodes, calculator, used);
  if (const auto* error = std::get_if<ExpressionError>(&root)) return *error;
  Update update;
  update.text = text;
  std::map<int, int> places;
  append_once(nodes, std::get<int>(root), places, update.nodes);
  return update;
}

}  // namespace spidergen::spec
