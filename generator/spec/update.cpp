#include "spec/update.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "spec/expression.h"
#include "spec/names.h"

namespace spidergen::spec {
namespace {

constexpr std::size_t longest_update = 4000;

struct Comparison {
  std::string_view symbol;
  UpdateOperation operation;
};

constexpr auto comparisons = std::to_array<Comparison>({
    {"<", UpdateOperation::less},
    {"<=", UpdateOperation::less_equal},
    {">", UpdateOperation::greater},
    {">=", UpdateOperation::greater_equal},
    {"==", UpdateOperation::equal},
    {"!=", UpdateOperation::not_equal},
});

bool compare(UpdateOperation operation, double a, double b) {
  switch (operation) {
    case UpdateOperation::less:
      return a < b;
    case UpdateOperation::less_equal:
      return a <= b;
    case UpdateOperation::greater:
      return a > b;
    case UpdateOperation::greater_equal:
      return a >= b;
    case UpdateOperation::equal:
      return a == b;
    default:
      return a != b;
  }
}

/// `(2)+(3)` and the like, for the calculator: what expressions of constants mean is defined there.
std::string operation_text(const UpdateNode& node, const std::vector<double>& values) {
  switch (node.operation) {
    case UpdateOperation::negate:
      return fmt::format("-({})", values[0]);
    case UpdateOperation::add:
      return fmt::format("({})+({})", values[0], values[1]);
    case UpdateOperation::subtract:
      return fmt::format("({})-({})", values[0], values[1]);
    case UpdateOperation::multiply:
      return fmt::format("({})*({})", values[0], values[1]);
    case UpdateOperation::divide:
      return fmt::format("({})/({})", values[0], values[1]);
    case UpdateOperation::power:
      return fmt::format("({})^({})", values[0], values[1]);
    default:
      return fmt::format("{}({})", node.function, fmt::join(values, ","));
  }
}

/// A recursive descent over the tokens. The first error is kept, and ends the reading.
class Parser {
 public:
  Parser(const std::vector<Token>& tokens, const UpdateNames& names, Calculator& calculator,
         std::vector<std::string>& used)
      : tokens_(tokens), names_(names), calculator_(calculator), used_(used) {}

  std::variant<Update, ExpressionError> parse() {
    const std::size_t begin = token().offset;
    const int root = value(read_choice(), begin);
    if (!error_ && token().kind != TokenKind::end) refuse_rest();
    if (error_) return *error_;
    Update update;
    keep(root, update);
    return update;
  }

 private:
  static constexpr int none = -1;

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

  void refuse_rest() {
    const Token& rest = token();
    if (rest.is(')')) {
      fail(rest.offset, "')' closes nothing; remove it or add '(' before");
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
    const auto* found = std::find_if(comparisons.begin(), comparisons.end(),
                                     [&](const Comparison& one) { return one.symbol == token().text; });
    return found == comparisons.end() ? nullptr : found;
  }

  /// The same node, where it is a number and no condition.
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
    return first == second ? first : add({UpdateOperation::choose, 0, 0, {}, {condition, first, second}});
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
    const int node = add({comparison->operation, 0, 0, {}, {left, right}});
    if (is_number(left) && is_number(right))
      decided_[node] = compare(comparison->operation, nodes_[left].value, nodes_[right].value);
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
      return number(first.value);
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
    if (token().kind == TokenKind::end) return fail(token().offset, "')' is missing");
    refuse_rest();
    return none;
  }

  int read_name() {
    const Token& name = tokens_[next_++];
    if (is_function(name.text)) return read_call(name);
    if (token().is('(')) {
      return fail(name.offset,
                  fmt::format("'{}' is not a function{}; functions are {}", name.text,
                              did_you_mean(name.text, function_names()), list_names(function_names())));
    }
    if (const auto found = names_.find(name.text); found != names_.end()) {
      used_.emplace_back(name.text);
      return add(found->second);
    }
    const Evaluation parameter = calculator_.evaluate(name.text);
    if (const double* known = std::get_if<double>(&parameter)) return number(*known);
    if (std::get<ExpressionError>(parameter).text.empty()) return fail(name.offset, {});
    std::vector<std::string> known;
    std::vector<std::string> sums;
    for (const auto& [text, leaf] : names_) {
      known.push_back(text);
      if (leaf.operation == UpdateOperation::sum) sums.push_back(text);
    }
    if (name.text == only_sum && !sums.empty()) {
      return fail(name.offset,
                  fmt::format("'sum' is the stencil of a spec that names no sums; this one has {}",
                              list_names(sums)));
    }
    known.insert(known.end(), calculator_.names().begin(), calculator_.names().end());
    return fail(name.offset, fmt::format("unknown name {}{}; known here: {}", shown(name.text),
                                         did_you_mean(name.text, known), list_names(known)));
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

  [[nodiscard]] bool is_number(int node) const { return nodes_[node].operation == UpdateOperation::number; }

  int number(double constant) { return add({UpdateOperation::number, constant, 0, {}, {}}); }

  /// The node, which may be there already.
  int add(UpdateNode node) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i] == node && std::signbit(nodes_[i].value) == std::signbit(node.value))
        return static_cast<int>(i);
    }
    nodes_.push_back(std::move(node));
    return static_cast<int>(nodes_.size()) - 1;
  }

  /// An operation of numbers; of constants its result.
  int combine(UpdateOperation operation, std::vector<int> arguments, std::size_t offset,
              std::string_view function = {}) {
    UpdateNode node{operation, 0, 0, std::string(function), std::move(arguments)};
    if (!std::all_of(node.arguments.begin(), node.arguments.end(), [&](int i) { return is_number(i); }))
      return add(std::move(node));
    std::vector<double> values;
    for (const int argument : node.arguments) values.push_back(nodes_[argument].value);
    const Evaluation folded = calculator_.evaluate(operation_text(node, values));
    if (const double* result = std::get_if<double>(&folded)) return number(*result);
    return fail(offset, std::get<ExpressionError>(folded).text);
  }

  /// Puts a node into the update, behind those that it needs, each once.
  int keep(int node, Update& update) {
    if (const auto known = kept_.find(node); known != kept_.end()) return known->second;
    UpdateNode kept = nodes_[node];
    for (int& argument : kept.arguments) argument = keep(argument, update);
    update.nodes.push_back(std::move(kept));
    return kept_[node] = static_cast<int>(update.nodes.size()) - 1;
  }

  const std::vector<Token>& tokens_;
  const UpdateNames& names_;
  Calculator& calculator_;
  std::vector<std::string>& used_;
  std::size_t next_ = 0;
  std::vector<UpdateNode> nodes_;
  std::map<int, bool> decided_;  ///< comparisons of constants
  std::map<int, int> kept_;
  std::optional<ExpressionError> error_;
};

}  // namespace

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
  if (text.find_first_not_of(' ') == std::string_view::npos)
    return ExpressionError{0, "an empty text is no expression; write 'sum', or leave 'update' out"};
  if (text.size() > longest_update) {
    return ExpressionError{
        0, fmt::format("the expression has {} characters; at most {} are read", text.size(), longest_update)};
  }
  auto tokens = read_tokens(text, Grammar::with_conditions);
  if (auto* error = std::get_if<ExpressionError>(&tokens)) return std::move(*error);
  auto parsed = Parser(std::get<std::vector<Token>>(tokens), names, calculator, used).parse();
  if (auto* update = std::get_if<Update>(&parsed)) update->text = text;
  return parsed;
}

}  // namespace spidergen::spec
