#include "spec/expression_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <variant>

#include "spec/coefficients.h"
#include "spec/finite_differences.h"
#include "spec/system_spec.h"

namespace spidergen::spec {
namespace {

// Counts all nodes, also operands of operators that no expression needs any longer.
constexpr std::size_t most_nodes = 5 * static_cast<std::size_t>(most_system_nodes);
constexpr std::size_t most_work = 1'000'000;  // nodes made, found or shifted: it bounds time and memory

/// `(2)+(3)` and the like, for the calculator, which defines the arithmetic of constants.
std::string operation_text(const UpdateNode& node, const std::vector<double>& values) {
  if (node.operation == UpdateOperation::negate) return fmt::format("-({})", values[0]);
  if (node.operation == UpdateOperation::call)
    return fmt::format("{}({})", node.function, fmt::join(values, ","));
  return fmt::format("({}){}({})", values[0], name_of(node), values[1]);
}

bool is_whole(double value) {
  return std::trunc(value) == value;
}

}  // namespace

std::size_t ExpressionNodes::Hash::operator()(const UpdateNode& node) const {
  std::size_t hash = std::hash<double>()(node.value);
  const auto mix = [&hash](std::size_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15U + (hash >> 29U);
  };
  mix(static_cast<std::size_t>(node.operation));
  mix(static_cast<std::size_t>(node.which));
  mix(std::hash<std::string>()(node.function));
  for (const int argument : node.arguments) mix(static_cast<std::size_t>(argument));
  for (const int offset : node.at) mix(static_cast<std::size_t>(offset));
  return hash;
}

bool ExpressionNodes::Same::operator()(const UpdateNode& a, const UpdateNode& b) const {
  return a == b && std::signbit(a.value) == std::signbit(b.value);
}

int ExpressionNodes::object(std::string text) {
  objection_ = std::move(text);
  return none;
}

bool ExpressionNodes::has_room() {
  full_ = full_ || nodes_.size() >= most_nodes || ++work_ > most_work;
  if (full_) {
    objection_ = fmt::format(
        "the expressions have grown to more than {} operations, for operators become "
        "sums of cells; apply them less deeply, or let a stage of its own write a part",
        most_system_nodes);
  }
  return !full_;
}

int ExpressionNodes::add(UpdateNode node) {
  if (!has_room()) return none;
  const auto [found, is_new] = known_.try_emplace(std::move(node), static_cast<int>(nodes_.size()));
  if (!is_new) return found->second;
  const UpdateNode& added = found->first;
  bool varies = added.operation == UpdateOperation::cell || added.operation == UpdateOperation::written ||
                added.operation == UpdateOperation::index;
  bool folds = added.operation == UpdateOperation::inside || added.operation == UpdateOperation::folded;
  for (const int argument : added.arguments) {
    varies = varies || varies_[static_cast<std::size_t>(argument)];
    folds = folds || folds_[static_cast<std::size_t>(argument)];
  }
  varies_.push_back(varies);
  folds_.push_back(folds);
  nodes_.push_back(added);
  return found->second;
}

int ExpressionNodes::number(double constant) {
  return add({UpdateOperation::number, constant, 0, {}, {}});
}

int ExpressionNodes::combine(UpdateOperation operation, std::vector<int> arguments,
                             std::string_view function) {
  UpdateNode node{operation, 0, 0, std::string(function), std::move(arguments)};
  if (!std::all_of(node.arguments.begin(), node.arguments.end(), [&](int i) { return is_number(i); }))
    return add(std::move(node));
  std::vector<double> values;
  for (const int argument : node.arguments) values.push_back((*this)[argument].value);
  const Evaluation folded = calculator_.evaluate(operation_text(node, values));
  if (const double* result = std::get_if<double>(&folded)) return number(*result);
  return object(std::get<ExpressionError>(folded).text);
}

int ExpressionNodes::cell(int field, const std::array<bool, 3>& axes, const Offset& at) {
  const auto place = static_cast<std::size_t>(field);
  if (field_axes_.size() <= place) field_axes_.resize(place + 1);
  field_axes_[place] = axes;
  UpdateNode node{UpdateOperation::cell, 0, field, {}, {}, at};
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (!axes[axis]) node.at[axis] = 0;
    if (std::abs(node.at[axis]) <= farthest_offset) continue;
    return object(fmt::format("the expression reaches {} cells along {}; it may reach {}",
                              std::abs(node.at[axis]), axis_letters[axis], farthest_offset));
  }
  return add(std::move(node));
}

/// A shifted index is an index plus one number: successive shifts add up.
int ExpressionNodes::shift_index(const UpdateNode& node, double by) {
  const auto offset_of = [this](const UpdateNode& sum) {
    return sum.operation == UpdateOperation::add && is_number(sum.arguments[1])
               ? std::optional((*this)[sum.arguments[1]].value)
               : std::nullopt;
  };
  const double before = offset_of(node).value_or(0);
  const int index = before == 0 ? known_.at(node) : node.arguments[0];
  const double offset = before + by;
  if (offset == 0) return index;
  const int number_of = number(offset);
  return number_of == none ? none : add({UpdateOperation::add, 0, 0, {}, {index, number_of}});
}

int ExpressionNodes::shift_one(int node, const Offset& by, const Moved& moved) {
  UpdateNode shifted = (*this)[node];
  if (shifted.operation == UpdateOperation::written)
    return object("'new' is the value at the point after the sweep; operators and offsets take those before");
  if (shifted.operation == UpdateOperation::cell) {
    for (std::size_t axis = 0; axis < by.size(); ++axis) shifted.at[axis] += by[axis];
    return cell(shifted.which, field_axes_[static_cast<std::size_t>(shifted.which)], shifted.at);
  }
  const auto distance = [&by](const UpdateNode& index) { return by[static_cast<std::size_t>(index.which)]; };
  if (shifted.operation == UpdateOperation::index) return shift_index(shifted, distance(shifted));
  if (shifted.operation == UpdateOperation::add && is_number(shifted.arguments[1])) {
    const UpdateNode& first = (*this)[shifted.arguments[0]];
    if (first.operation == UpdateOperation::index && is_whole((*this)[shifted.arguments[1]].value))
      return shift_index(shifted, distance(first));
  }
  for (int& argument : shifted.arguments) argument = moved.at(argument);
  if (shifted.operation == UpdateOperation::bounded) {
    for (std::size_t axis = 0; axis < by.size(); ++axis) shifted.at[axis] += by[axis];
    if (shifted.at == Offset{}) return shifted.arguments.front();
  }
  return add(std::move(shifted));
}

int ExpressionNodes::object_to_transpose() {
  return object(
      "'adjoint' is a value at the point; operators, offsets and another 'adjoint' take none of it: let a "
      "stage of its own write it");
}

int ExpressionNodes::shift(int node, const Offset& by) {
  if (!has_room()) return none;
  if (folds_[static_cast<std::size_t>(node)]) return object_to_transpose();
  if (by == Offset{}) return node;
  Moved& moved = moved_[by];
  std::vector<int> open{node};  // no recursion: a sum of many taps is as deep
  while (!open.empty()) {
    const int next = open.back();
    if (moved.contains(next)) {
      open.pop_back();
      continue;
    }
    if (!varies_[static_cast<std::size_t>(next)]) {
      moved[next] = next;
      continue;
    }
    const std::size_t before = open.size();
    for (const int argument : (*this)[next].arguments) {
      if (!moved.contains(argument)) open.push_back(argument);
    }
    if (open.size() > before) continue;
    const int shifted = shift_one(next, by, moved);
    if (shifted == none) return none;
    moved[next] = shifted;
  }
  return moved.at(node);
}

int ExpressionNodes::add_term(int sum, double weight, int value) {
  const bool is_plain = std::fabs(weight) == 1 && !is_number(value);
  int term = value;
  if (!is_plain) {
    const int factor = number(weight);
    term = factor == none ? none : combine(UpdateOperation::multiply, {factor, value});
  } else if (weight < 0 && sum == none) {
    term = combine(UpdateOperation::negate, {value});
  }
  if (term == none || sum == none) return term;
  return combine(is_plain && weight < 0 ? UpdateOperation::subtract : UpdateOperation::add, {sum, term});
}

int ExpressionNodes::apply(const std::vector<Tap>& taps, int node) {
  struct Term {
    int value;
    double weight;
    std::optional<Rational> exact = {};  ///< where several taps have the value
  };
  std::vector<Term> terms;
  std::unordered_map<int, std::size_t> places;
  for (const Tap& tap : taps) {
    const int value = shift(node, tap.at);
    if (value == none) return none;
    const auto [place, is_new] = places.try_emplace(value, terms.size());
    if (is_new) {
      terms.push_back({value, tap.weight});
    } else {
      Term& term = terms[place->second];
      // Exact: the derivative of a constant must be 0.
      term.exact = term.exact.value_or(Rational(term.weight)) + Rational(tap.weight);
    }
  }
  int sum = none;
  for (const Term& term : terms) {
    const double weight = term.exact ? static_cast<double>(*term.exact) : term.weight;
    if (weight == 0) continue;
    sum = add_term(sum, weight, term.value);
    if (sum == none) return none;
  }
  return sum == none ? number(0) : sum;
}

int ExpressionNodes::transpose(int field, const std::vector<Tap>& taps, int node) {
  Offset reach{};
  int sum = none;
  for (const Tap& tap : taps) {
    Offset back{};
    for (std::size_t axis = 0; axis < back.size(); ++axis) {
      back[axis] = -tap.at[axis];
      reach[axis] = std::max(reach[axis], std::abs(tap.at[axis]));
    }
    const int value = shift(node, back);
    const int term = value == none ? none : add({UpdateOperation::inside, 0, 0, {}, {value}, back});
    sum = term == none ? none : add_term(sum, tap.weight, term);
    if (sum == none) return none;
  }
  if (reach == Offset{}) return add_term(none, taps.front().weight, node);  // no ghost cell lies inside
  return add({UpdateOperation::folded, 0, field, {}, {sum}, reach});
}

std::vector<bool> ExpressionNodes::needed_by(const std::vector<int>& roots) const {
  std::vector<bool> needed(nodes_.size());
  for (const int root : roots) needed[static_cast<std::size_t>(root)] = true;
  for (std::size_t node = nodes_.size(); node-- > 0;) {
    if (!needed[node]) continue;
    for (const int argument : nodes_[node].arguments) needed[static_cast<std::size_t>(argument)] = true;
  }
  return needed;
}

std::vector<UpdateNode> ExpressionNodes::extract(std::vector<int>& roots) const {
  const std::vector<bool> needed = needed_by(roots);
  std::vector<int> places(nodes_.size(), none);
  std::vector<UpdateNode> extracted;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!needed[i]) continue;
    places[i] = static_cast<int>(extracted.size());
    extracted.push_back(nodes_[i]);
    for (int& argument : extracted.back().arguments) argument = places[static_cast<std::size_t>(argument)];
  }
  for (int& root : roots) root = places[static_cast<std::size_t>(root)];
  return extracted;
}

}  // namespace spidergen::spec
