#include "spec/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "spec/functions.h"
#include "spec/names.h"

namespace spidergen::spec {
namespace {

struct UnaryFunction {
  const char* name;
  double (*compute)(double);
};

// Our own functions, so that results depend neither on muParser's version and options nor on the machine's
// mathematical library. Calls into the library are exact or, for roots, rounded to nearest by IEEE 754.
constexpr auto unary_functions = std::to_array<UnaryFunction>({
    {"abs", [](double v) { return std::fabs(v); }},
    {"sqrt", [](double v) { return std::sqrt(v); }},
    {"floor", [](double v) { return std::floor(v); }},
    {"ceil", [](double v) { return std::ceil(v); }},
    {"round", [](double v) { return std::round(v); }},
    {"cbrt", rounded::cbrt},
    {"exp", rounded::exp},
    {"log", rounded::log},
    {"log2", rounded::log2},
    {"log10", rounded::log10},
    {"sin", rounded::sin},
    {"cos", rounded::cos},
    {"tan", rounded::tan},
    {"asin", rounded::asin},
    {"acos", rounded::acos},
    {"atan", rounded::atan},
    {"sinh", rounded::sinh},
    {"cosh", rounded::cosh},
    {"tanh", rounded::tanh},
    {"erf", rounded::erf},
});

struct BinaryOperator {
  const char* name;
  double (*compute)(double, double);
  mu::EOprtPrecedence precedence;
  mu::EOprtAssociativity associativity;
};

// muParser replaces its operators only as a whole; its own `^` calls the mathematical library.
constexpr auto binary_operators = std::to_array<BinaryOperator>({
    {"+", [](double a, double b) { return a + b; }, mu::prADD_SUB, mu::oaLEFT},
    {"-", [](double a, double b) { return a - b; }, mu::prADD_SUB, mu::oaLEFT},
    {"*", [](double a, double b) { return a * b; }, mu::prMUL_DIV, mu::oaLEFT},
    {"/", [](double a, double b) { return a / b; }, mu::prMUL_DIV, mu::oaLEFT},
    {"^", rounded::pow, mu::prPOW, mu::oaRIGHT},
});

constexpr const char* constant_name = "pi";
constexpr double constant_value = 3.14159265358979323846;
constexpr std::size_t longest_expression = 1000;

double smallest_of(const double* values, int count) {
  return *std::min_element(values, values + count);
}
double largest_of(const double* values, int count) {
  return *std::max_element(values, values + count);
}

/// muParser's hook for numbers. muParser's own reader uses streams; this one also checked the token.
int read_number_for_parser(const char* text, int* position, double* value) {
  const std::size_t length = number_length(text);
  if (length == 0) return 0;
  std::from_chars(text, text + length, *value);
  *position += static_cast<int>(length);
  return 1;
}

/// Spellings of infinity and "not a number", YAML's `.inf` and `.nan` among them.
bool is_not_finite_word(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of("+-."), text.size());
  std::string word(text.substr(begin));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return word == "inf" || word == "infinity" || word == "nan";
}

/// Errors of the last computation, from the processor's flags: they also catch 1/(1/0), whose result is
/// finite.
std::string arithmetic_objection(double result) {
  if (std::fetestexcept(FE_INVALID) != 0 || std::isnan(result)) {
    return "the result is not a number; keep divisions, powers and functions within their domains";
  }
  if (std::fetestexcept(FE_DIVBYZERO) != 0)
    return "division by zero or log of zero; every value must be finite";
  if (std::fetestexcept(FE_OVERFLOW) != 0 || std::isinf(result)) {
    return "the value grows beyond what a double holds; every value must be finite";
  }
  return {};
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\n";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

Evaluation compute(mu::Parser& parser, std::string_view expression) {
  try {
    parser.SetExpr(std::string(expression));
    std::feclearexcept(FE_ALL_EXCEPT);
    const double result = parser.Eval();
    std::string objection = arithmetic_objection(result);
    if (!objection.empty()) return ExpressionError{0, std::move(objection)};
    return result;
  } catch (const mu::ParserError& error) {
    // muParser can only find a wrong number of arguments; all other errors were reported before.
    const std::string& token = error.GetToken();
    const std::size_t position = std::min(expression.find(token), expression.size());
    return ExpressionError{position,
                           fmt::format("'{}' has the wrong number of arguments; 'min' and 'max' take one or "
                                       "more, the other functions one",
                                       token)};
  }
}

}  // namespace

Calculator::Calculator() {
  parser_.EnableOptimizer(false);  // compute the operations as written
  parser_.ClearFun();
  parser_.ClearConst();
  parser_.ClearPostfixOprt();
  parser_.AddValIdent(read_number_for_parser);
  parser_.EnableBuiltInOprt(false);
  for (const BinaryOperator& one : binary_operators)
    parser_.DefineOprt(one.name, one.compute, one.precedence, one.associativity, false);
  for (const UnaryFunction& function : unary_functions)
    parser_.DefineFun(function.name, function.compute, false);
  parser_.DefineFun("min", smallest_of, false);
  parser_.DefineFun("max", largest_of, false);
  define(constant_name, constant_value);
}

void Calculator::define(const std::string& name, double value) {
  parser_.DefineConst(name, value);
  names_.push_back(name);
  defined_.insert(name);
}

Evaluation Calculator::evaluate(std::string_view expression, const LocalNames& local) {
  const std::string_view text = trim(expression);
  const std::size_t shift = text.empty() ? 0 : static_cast<std::size_t>(text.data() - expression.data());
  const auto shifted = [shift](ExpressionError error) {
    error.offset += shift;
    return error;
  };
  if (text.empty()) return ExpressionError{0, "an empty text is no expression; write a number such as 0.25"};
  if (text.size() > longest_expression) {
    return ExpressionError{
        shift, fmt::format("the expression has {} characters; split it over parameters of at most {}",
                           text.size(), longest_expression)};
  }
  if (is_not_finite_word(text))
    return ExpressionError{shift, fmt::format("{} is not a finite number", shown(text))};

  auto result = read_tokens(text);
  if (auto* error = std::get_if<ExpressionError>(&result)) return shifted(std::move(*error));
  const std::vector<Token>& tokens = std::get<std::vector<Token>>(result);
  if (auto error = check_grammar(tokens)) return shifted(std::move(*error));
  for (const Token& token : tokens) {
    if (auto error = check_name(token, local)) return shifted(std::move(*error));
  }
  if (tokens.front().kind == TokenKind::number && tokens.size() == 2) return tokens.front().value;
  // The parser does not forget local names; check_name() rejects them in later expressions.
  for (const auto& [name, value] : local) parser_.DefineConst(name, value);
  Evaluation evaluation = compute(parser_, text);
  if (auto* error = std::get_if<ExpressionError>(&evaluation)) return shifted(std::move(*error));
  return evaluation;
}

std::optional<ExpressionError> Calculator::check_name(const Token& name, const LocalNames& local) const {
  const std::string text(name.text);
  if (name.kind != TokenKind::name || is_function(text)) return std::nullopt;
  const auto is_it = [&text](const auto& one) { return one.first == text; };
  if (std::any_of(local.begin(), local.end(), is_it)) return std::nullopt;
  if (broken_.contains(text)) return ExpressionError{name.offset, {}};
  if (defined_.contains(text)) return std::nullopt;
  if (announced_.contains(text)) {
    return ExpressionError{
        name.offset, fmt::format("'{}' has no value yet; a parameter may use only those above it", text)};
  }
  std::vector<std::string> known = names_;
  for (const auto& [local_name, value] : local) known.push_back(local_name);
  return ExpressionError{name.offset, fmt::format("unknown name {}{}; known here: {}", shown(text),
                                                  did_you_mean(text, known), list_names(known))};
}

bool is_built_in(std::string_view name) {
  return name == constant_name || is_function(name);
}

}  // namespace spidergen::spec
