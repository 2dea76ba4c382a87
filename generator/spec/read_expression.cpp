#include "spec/read_expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "spec/coefficients.h"
#include "spec/expression.h"
#include "spec/names.h"

namespace spidergen::spec {
namespace {

constexpr std::size_t longest_expression = 4000;

struct Comparison {
  std::string_view symbol;
  UpdateOperation operation;
  bool (*holds)(double, double);
};

constexpr Comparison comparisons[] = {
    {"<", UpdateOperation::less, [](double a, double b) { return a < b; }},
    {"<=", UpdateOperation::less_equal, [](double a, double b) { return a <= b; }},
    {">", UpdateOperation::greater, [](double a, double b) { return a > b; }},
    {">=", UpdateOperation::greater_equal, [](double a, double b) { return a >= b; }},
    {"==", UpdateOperation::equal, [](double a, double b) { return a == b; }},
    {"!=", UpdateOperation::not_equal, [](double a, double b) { return a != b; }},
};

/// Cells of a field and their weights.
struct FieldTaps {
  int field = 0;
  std::vector<Tap> taps;  ///< ascending in offset
};

/// The arguments' weights in a sum, a difference or a multiple that has `weight`; empty for others.
std::vector<std::pair<int, double>> pass_weight(const ExpressionNodes& nodes, const UpdateNode& node,
                                                double weight) {
  const std::vector<int>& of = node.arguments;
  switch (node.operation) {
    case UpdateOperation::negate:
      return {{of[0], -weight}};
    case UpdateOperation::add:
      return {{of[0], weight}, {of[1], weight}};
    case UpdateOperation::subtract:
      return {{of[0], weight}, {of[1], -weight}};
    case UpdateOperation::multiply:
      if (nodes.is_number(of[0])) return {{of[1], weight * nodes[of[0]].value}};
      if (nodes.is_number(of[1])) return {{of[0], weight * nodes[of[1]].value}};
      return {};
    case UpdateOperation::divide:
      if (nodes.is_number(of[1])) return {{of[0], weight / nodes[of[1]].value}};
      return {};
    default:
      return {};
  }
}

/// The expression as a weighted sum of cells of one field; nothing where it is not one.
std::optional<FieldTaps> find_taps(const ExpressionNodes& nodes, int root) {
  FieldTaps found{-1, {}};
  std::map<int, double, std::greater<>> open{{root, 1.0}};  // users are visited before their arguments
  while (!open.empty()) {
    const auto [place, weight] = *open.begin();
    open.erase(open.begin());
    const UpdateNode& node = nodes[place];
    if (node.operation == UpdateOperation::cell) {
      if (found.field >= 0 && found.field != node.which) return std::nullopt;
      found.field = node.which;
      if (weight != 0) found.taps.push_back({node.at, weight, {}});
      continue;
    }
    const auto passed = pass_weight(nodes, node, weight);
    if (passed.empty()) return std::nullopt;
    for (const auto& [argument, own] : passed) open[argument] += own;
  }
  std::sort(found.taps.begin(), found.taps.end(), [](const Tap& a, const Tap& b) { return a.at < b.at; });
  return found.taps.empty() ? std::nullopt : std::optional(std::move(found));
}

/// A recursive descent over the tokens. It stops at the first error.
class Parser {
 public:
  Parser(const std::vector<Token>& tokens, const Vocabulary& vocabulary, ExpressionNodes& nodes,
         Calculator& calculator, std::vector<std::string>& used)
      : tokens_(tokens), vocabulary_(vocabulary), nodes_(nodes), calculator_(calculator), used_(used) {}

  std::variant<int, ExpressionError> parse() {
    const std::size_t begin = token().offset;
    const int root = value(read_choice(), begin);
    if (!error_ && token().kind != TokenKind::end) refuse_rest();
    if (error_) return *error_;
    return root;
  }

 private:
  static constexpr int none = ExpressionNodes::none;

  [[nodiscard]] const Token& token() const { return tokens_[next_]; }

  bool take(std::string_view symbol) {
    if (error_ || token().kind != TokenKind::symbol || token().text != symbol) return false;
    ++next_;
    return true;
  }

  int fail(std::size_t offset, std::string text) {
    if (!error_) error_ = ExpressionError{offset, std::move(text)};
    return none;
  }

  /// The node; records the reason where there is none.
  int checked(int node, std::size_t offset) { return node == none ? fail(offset, nodes_.objection()) : node; }

  void refuse_rest() {
    const Token& rest = token();
    if (rest.is(')')) {
      fail(rest.offset, "')' closes nothing; remove it or add '(' before");
    } else if (rest.is(']')) {
      fail(rest.offset, "']' closes nothing; remove it or add '[' before");
    } else if (rest.is('[')) {
      fail(rest.offset, "offsets in [ ] follow the name of a field or of a value of 'let'");
    } else if (rest.is(',')) {
      fail(rest.offset, "a comma stands between a function's arguments only; decimals take a point");
    } else if (rest.is(':')) {
      fail(rest.offset, "':' belongs to a '?' before it: condition ? value : other");
    } else if (find_comparison() != nullptr) {
      fail(rest.offset, "comparisons are not chained; nest choices instead: a < b ? (b < c ? x : y) : y");
    } else {
      fail(rest.offset,
           fmt::format("an operator is missing before '{}'; a product is written with '*'", rest.text));
    }
  }

  [[nodiscard]] const Comparison* find_comparison() const {
    if (token().kind != TokenKind::symbol) return nullptr;
    const auto* found = std::find_if(std::begin(comparisons), std::end(comparisons),
                                     [&](const Comparison& one) { return one.symbol == token().text; });
    return found == std::end(comparisons) ? nullptr : found;
  }

  /// The same node, which must be a number and not a condition.
  int value(int node, std::size_t offset) {
    if (node == none || !is_comparison(nodes_[node].operation)) return node;
    return fail(offset, "a comparison stands before '?' only: condition ? value : other");
  }

  int read_choice() {
    const std::size_t begin = token().offset;
    const int condition = read_comparison();
    if (condition == none || token().kind != TokenKind::symbol || token().text != "?") return condition;
    if (!is_comparison(nodes_[condition].operation))
      return fail(begin, "before '?' stands a comparison, such as 'u < 0'");
    ++next_;
    const std::size_t begin_of_first = token().offset;
    const int first = value(read_choice(), begin_of_first);
    if (error_) return none;
    if (!take(":")) return fail(token().offset, "':' is missing after '?': condition ? value : other");
    const std::size_t begin_of_second = token().offset;
    const int second = value(read_choice(), begin_of_second);
    if (error_) return none;
    if (const auto decided = decided_.find(condition); decided != decided_.end())
      return decided->second ? first : second;
    if (first == second) return first;
    return checked(nodes_.add({UpdateOperation::choose, 0, 0, {}, {condition, first, second}}), begin);
  }

  int read_comparison() {
    const std::size_t begin = token().offset;
    const int left = read_sum();
    const Comparison* const comparison = error_ ? nullptr : find_comparison();
    if (comparison == nullptr) return left;
    if (value(left, begin) == none) return none;
    ++next_;
    const std::size_t begin_of_right = token().offset;
    const int right = value(read_sum(), begin_of_right);
    if (error_) return none;
    const int node = checked(nodes_.add({comparison->operation, 0, 0, {}, {left, right}}), begin);
    if (!error_ && is_number(left) && is_number(right))
      decided_[node] = comparison->holds(nodes_[left].value, nodes_[right].value);
    return node;
  }

  int read_sum() {
    const std::size_t begin = token().offset;
    int left = read_product();
    while (!error_ && token().is_sign()) {
      if (value(left, begin) == none) return none;
      const Token& sign = tokens_[next_++];
      const std::size_t begin_of_right = token().offset;
      const int right = value(read_product(), begin_of_right);
      if (error_) return none;
      left = combine(sign.is('+') ? UpdateOperation::add : UpdateOperation::subtract, {left, right},
                     sign.offset);
    }
    return left;
  }

  int read_product() {
    const std::size_t begin = token().offset;
    int left = read_signed();
    while (!error_ && (token().is('*') || token().is('/'))) {
      if (value(left, begin) == none) return none;
      const Token& sign = tokens_[next_++];
      const std::size_t begin_of_right = token().offset;
      const int right = value(read_signed(), begin_of_right);
      if (error_) return none;
      if (sign.is('*')) {
        left = combine(UpdateOperation::multiply, {left, right}, sign.offset);
      } else if (is_number(right) && nodes_[right].value == 0) {
        return fail(begin_of_right, "division by zero");
      } else {
        left = combine(UpdateOperation::divide, {left, right}, sign.offset);
      }
    }
    return left;
  }

  int read_signed() {
    if (!token().is_sign()) return read_power();
    const Token& sign = tokens_[next_++];
    if (token().is_sign())
      return fail(token().offset, fmt::format("a number or name is missing before '{}'", token().text));
    const std::size_t begin = token().offset;
    const int operand = value(read_power(), begin);
    if (error_ || sign.is('+')) return operand;
    return combine(UpdateOperation::negate, {operand}, sign.offset);
  }

  int read_power() {
    const std::size_t begin = token().offset;
    const int base = read_operand();
    if (error_ || !token().is('^')) return base;
    if (value(base, begin) == none) return none;
    const std::size_t place = tokens_[next_++].offset;
    const std::size_t begin_of_exponent = token().offset;
    const int exponent = value(read_signed(), begin_of_exponent);
    if (error_) return none;
    return combine(UpdateOperation::power, {base, exponent}, place);
  }

  int read_operand() {
    if (error_) return none;
    const Token& first = token();
    if (first.kind == TokenKind::number) {
      ++next_;
      return checked(nodes_.number(first.value), first.offset);
    }
    if (first.kind == TokenKind::name) return read_name();
    if (take("(")) {
      const int inner = read_choice();
      if (error_) return none;
      if (!take(")")) return fail_at_close();
      return inner;
    }
    if (first.kind == TokenKind::end)
      return fail(first.offset, "the expression ends where a number or name should follow");
    return fail(first.offset, fmt::format("a number or name is missing before '{}'", first.text));
  }

  int fail_at_close() {
    if (token().kind == TokenKind::end)
      return fail(token().offset, "')' is missing; inside [ ] and { } quote what holds a comma");
    refuse_rest();
    return none;
  }

  int read_name() {
    const Token& name = tokens_[next_++];
    if (is_function(name.text)) return read_call(name);
    if (token().is('(')) return read_application(name);
    if (token().is('[')) return read_neighbour(name);
    if (const auto found = vocabulary_.leaves.find(name.text); found != vocabulary_.leaves.end()) {
      used_.emplace_back(name.text);
      return read_leaf(name, found->second, {});
    }
    if (const auto found = vocabulary_.values.find(name.text); found != vocabulary_.values.end()) {
      used_.emplace_back(name.text);
      return found->second == none ? fail(name.offset, {}) : found->second;
    }
    if (vocabulary_.operators.contains(name.text))
      return fail(name.offset, fmt::format("'{0}' is an operator; write {0}(...)", name.text));
    const Evaluation parameter = calculator_.evaluate(name.text);
    if (const double* known = std::get_if<double>(&parameter))
      return checked(nodes_.number(*known), name.offset);
    if (std::get<ExpressionError>(parameter).text.empty()) return fail(name.offset, {});
    return refuse_name(name);
  }

  int refuse_name(const Token& name) {
    std::vector<std::string> known;
    std::vector<std::string> sums;
    for (const auto& [text, leaf] : vocabulary_.leaves) {
      known.push_back(text);
      if (leaf.operation == UpdateOperation::sum) sums.push_back(text);
    }
    if (name.text == only_sum && !sums.empty()) {
      return fail(name.offset,
                  fmt::format("'sum' is the stencil of a spec that names no sums; this one has {}",
                              list_names(sums)));
    }
    for (const auto& [text, node] : vocabulary_.values) known.push_back(text);
    known.insert(known.end(), calculator_.names().begin(), calculator_.names().end());
    return fail(name.offset, fmt::format("unknown name {}{}; known here: {}", shown(name.text),
                                         did_you_mean(name.text, known), list_names(known)));
  }

  int read_leaf(const Token& name, const UpdateNode& leaf, const Offset& at) {
    if (leaf.operation != UpdateOperation::cell) return checked(nodes_.add(leaf), name.offset);
    const auto& axes = vocabulary_.field_axes[static_cast<std::size_t>(leaf.which)];
    return checked(nodes_.cell(leaf.which, axes, at), name.offset);
  }

  /// `dxp(...)`, or `new(u)`.
  int read_application(const Token& name) {
    const auto found = vocabulary_.operators.find(name.text);
    if (found == vocabulary_.operators.end()) {
      if (vocabulary_.dimensions > 0 && name.text == "new") return read_written(name);
      if (vocabulary_.dimensions > 0 && name.text == "adjoint") return read_adjoint(name);
      return refuse_function(name);
    }
    used_.emplace_back(name.text);
    ++next_;
    const std::size_t begin = token().offset;
    const int argument = value(read_choice(), begin);
    if (error_) return none;
    if (token().is(','))
      return fail(token().offset, fmt::format("operator '{}' takes one expression", name.text));
    if (!take(")")) return fail_at_close();
    if (found->second.empty()) return fail(name.offset, {});
    return checked(nodes_.apply(found->second, argument), name.offset);
  }

  int refuse_function(const Token& name) {
    if (vocabulary_.dimensions == 0) {
      return fail(name.offset,
                  fmt::format("'{}' is not a function{}; functions are {}", name.text,
                              did_you_mean(name.text, function_names()), list_names(function_names())));
    }
    const auto leaf = vocabulary_.leaves.find(name.text);
    if (leaf != vocabulary_.leaves.end() && leaf->second.operation == UpdateOperation::cell) {
      constexpr std::array<std::string_view, 3> neighbours = {"[1]", "[0, 1]", "[0, 0, 1]"};
      return fail(name.offset,
                  fmt::format("'{}' is a field, not an operator; a neighbour of it is written {}{}",
                              name.text, name.text, neighbours.at(std::size_t(vocabulary_.dimensions - 1))));
    }
    std::vector<std::string> known;
    for (const auto& [text, taps] : vocabulary_.operators) known.push_back(text);
    const std::string operators =
        known.empty() ? "the system has no 'operators'" : "operators are " + list_names(known);
    known.insert(known.end(), function_names().begin(), function_names().end());
    return fail(name.offset,
                fmt::format("'{}' is neither an operator nor a function{}; {}, functions are {}", name.text,
                            did_you_mean(name.text, known), operators, list_names(function_names())));
  }

  int read_written(const Token& name) {
    if (vocabulary_.assigned.empty()) {
      return fail(name.offset,
                  "'new' is a field after the sweep, for 'reduce' only; a stage reads the values "
                  "that the stages before it wrote");
    }
    ++next_;
    const Token& field = token();
    const auto found = vocabulary_.leaves.find(field.text);
    const bool is_field =
        found != vocabulary_.leaves.end() && found->second.operation == UpdateOperation::cell;
    if (field.kind != TokenKind::name || !is_field)
      return fail(field.offset, "'new' takes the name of a field, such as new(u)");
    ++next_;
    if (!take(")"))
      return fail(token().offset, "'new' takes the name of a field alone, at the point: new(u)");
    used_.emplace_back(field.text);
    if (!vocabulary_.assigned[static_cast<std::size_t>(found->second.which)])
      return fail(field.offset, fmt::format("no stage assigns '{0}'; write {0}", field.text));
    return checked(nodes_.add({UpdateOperation::written, 0, found->second.which, {}, {}}), name.offset);
  }

  /// `adjoint(dxp(u), e)`: the transpose of reading cells of a field, applied to an expression.
  int read_adjoint(const Token& name) {
    ++next_;
    const std::size_t begin = token().offset;
    const int read = value(read_choice(), begin);
    if (error_) return none;
    if (!take(",")) {
      return fail(token().offset,
                  "'adjoint' takes two expressions: what is read of a field, and what goes back to it, such "
                  "as adjoint(dxp(u), v)");
    }
    const std::size_t begin_of_value = token().offset;
    const int values = value(read_choice(), begin_of_value);
    if (error_) return none;
    if (token().is(','))
      return fail(token().offset, "'adjoint' takes two expressions, such as adjoint(dxp(u), v)");
    if (!take(")")) return fail_at_close();
    const std::optional<FieldTaps> taps = find_taps(nodes_, read);
    if (!taps) {
      return fail(begin,
                  "the first argument of 'adjoint' is a sum of cells of one field, with weights of numbers "
                  "and parameters, such as dxp(u) or 2*u - u[0, 1] in two dimensions");
    }
    return checked(nodes_.transpose(taps->field, taps->taps, values), name.offset);
  }

  /// `u[0, 1]`: a field, or a `let` value, at an offset.
  int read_neighbour(const Token& name) {
    const auto leaf = vocabulary_.leaves.find(name.text);
    const bool is_field = leaf != vocabulary_.leaves.end() && leaf->second.operation == UpdateOperation::cell;
    const auto value = vocabulary_.values.find(name.text);
    if (!is_field && value == vocabulary_.values.end()) {
      const bool is_known =
          leaf != vocabulary_.leaves.end() || calculator_.is_parameter(std::string(name.text));
      if (!is_known) return refuse_name(name);
      return fail(
          token().offset,
          fmt::format("'{}' has no neighbours; offsets in [ ] follow the name of a field or of a value "
                      "of 'let'",
                      name.text));
    }
    used_.emplace_back(name.text);
    const std::optional<Offset> at = read_offsets(name);
    if (!at) return none;
    if (is_field) return read_leaf(name, leaf->second, *at);
    return value->second == none ? fail(name.offset, {})
                                 : checked(nodes_.shift(value->second, *at), name.offset);
  }

  std::optional<Offset> read_offsets(const Token& name) {
    const std::size_t begin = tokens_[next_++].offset;  // '['
    std::vector<int> offsets;
    do {
      const std::size_t place = token().offset;
      const int node = value(read_choice(), place);
      if (error_) return std::nullopt;
      const double offset = nodes_[node].value;
      if (!is_number(node) || std::trunc(offset) != offset || std::fabs(offset) > farthest_offset) {
        fail(place,
             fmt::format("an offset is a whole number from -{0} to {0}, or an expression of parameters",
                         farthest_offset));
        return std::nullopt;
      }
      offsets.push_back(static_cast<int>(offset));
    } while (take(","));
    if (!take("]")) {
      fail(token().offset, "']' is missing after the offsets");
      return std::nullopt;
    }
    const auto dimensions = static_cast<std::size_t>(vocabulary_.dimensions);
    if (offsets.size() != dimensions) {
      constexpr std::array<std::string_view, 3> forms{"dx", "dy, dx", "dz, dy, dx"};
      fail(begin, fmt::format("{} in [ ]; a stencil of {} takes {}[{}]", counted(offsets.size(), "offset"),
                              counted(dimensions, "dimension"), name.text, forms[dimensions - 1]));
      return std::nullopt;
    }
    Offset at{};
    std::copy(offsets.begin(), offsets.end(), at.end() - vocabulary_.dimensions);
    return at;
  }

  int read_call(const Token& name) {
    if (!take("(")) return fail(name.offset, fmt::format("'{0}' is a function; write {0}(...)", name.text));
    std::vector<int> arguments;
    do {
      const std::size_t begin = token().offset;
      arguments.push_back(value(read_choice(), begin));
      if (error_) return none;
    } while (take(","));
    if (!take(")")) return fail_at_close();
    const bool takes_more = name.text == "min" || name.text == "max";
    if (arguments.size() > 1 && !takes_more) {
      return fail(name.offset,
                  fmt::format("'{}' has the wrong number of arguments; 'min' and 'max' take one or more, "
                              "the other functions one",
                              name.text));
    }
    if (!takes_more) return combine(UpdateOperation::call, {arguments[0]}, name.offset, name.text);
    int result = arguments[0];
    for (std::size_t i = 1; i < arguments.size() && !error_; ++i)
      result = combine(UpdateOperation::call, {result, arguments[i]}, name.offset, name.text);
    return result;
  }

  [[nodiscard]] bool is_number(int node) const { return nodes_.is_number(node); }

  /// An operation on numbers; constants are folded.
  int combine(UpdateOperation operation, std::vector<int> arguments, std::size_t offset,
              std::string_view function = {}) {
    return checked(nodes_.combine(operation, std::move(arguments), function), offset);
  }

  const std::vector<Token>& tokens_;
  const Vocabulary& vocabulary_;
  ExpressionNodes& nodes_;
  Calculator& calculator_;
  std::vector<std::string>& used_;
  std::size_t next_ = 0;
  std::map<int, bool> decided_;  ///< comparisons of constants
  std::optional<ExpressionError> error_;
};

}  // namespace

std::variant<int, ExpressionError> read_expression(std::string_view text, const Vocabulary& vocabulary,
                                                   ExpressionNodes& nodes, Calculator& calculator,
                                                   std::vector<std::string>& used) {
  const bool of_system = vocabulary.dimensions > 0;
  if (text.find_first_not_of(' ') == std::string_view::npos) {
    return ExpressionError{0, of_system
                                  ? "an empty text is no expression; write what becomes of the field"
                                  : "an empty text is no expression; write 'sum', or leave 'update' out"};
  }
  if (text.size() > longest_expression) {
    return ExpressionError{0, fmt::format("the expression has {} characters; at most {} are read",
                                          text.size(), longest_expression)};
  }
  auto tokens = read_tokens(text, of_system ? Grammar::with_neighbours : Grammar::with_conditions);
  if (auto* error = std::get_if<ExpressionError>(&tokens)) return std::move(*error);
  return Parser(std::get<std::vector<Token>>(tokens), vocabulary, nodes, calculator, used).parse();
}

}  // namespace spidergen::spec
