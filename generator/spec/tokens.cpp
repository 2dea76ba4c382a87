#include "spec/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "spec/names.h"

namespace spidergen::spec {
namespace {

using TokenResult = std::variant<Token, ExpressionError>;
using Objection = std::optional<ExpressionError>;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_character(char c) {
  return is_identifier(std::string_view(&c, 1)) || is_digit(c);
}
bool is_one_of(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}

/// The number at `offset`. Its value does not depend on the locale.
TokenResult read_number(std::string_view expression, std::size_t offset) {
  const std::string_view text = expression.substr(offset, number_length(expression.substr(offset)));
  const std::size_t end = offset + text.size();
  if (text.size() > 1 && text[0] == '0' && is_digit(text[1])) {
    return ExpressionError{offset,
                           fmt::format("'{}' has a leading zero; write decimal numbers without it", text)};
  }
  if (text == "0" && end < expression.size() && is_one_of(expression[end], "xXoObB")) {
    return ExpressionError{offset, "hexadecimal, octal and binary numbers are not read; write it in decimal"};
  }
  Token token{TokenKind::number, offset, text, 0};
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), token.value);
  if (status == std::errc::result_out_of_range) {
    return ExpressionError{offset,
                           fmt::format("'{}' is beyond what a double holds; use 1e-300 to 1e300", text)};
  }
  if (status != std::errc() || rest != text.data() + text.size()) {
    return ExpressionError{offset, fmt::format("'{}' is not a number; write it like 0.25 or 1e-3", text)};
  }
  return token;
}

Token read_name(std::string_view expression, std::size_t offset) {
  std::size_t end = offset;
  while (end < expression.size() && is_name_character(expression[end])) ++end;
  return {TokenKind::name, offset, expression.substr(offset, end - offset), 0};
}

/// A comparison, `?` or `:` at `offset`.
TokenResult read_condition(std::string_view expression, std::size_t offset) {
  const char first = expression[offset];
  const bool has_equals = offset + 1 < expression.size() && expression[offset + 1] == '=';
  if (is_one_of(first, "=!") && !has_equals) {
    return ExpressionError{offset, fmt::format("'{}' has no place in an expression; comparisons are < <= > "
                                               ">= == and !=",
                                               first)};
  }
  const std::size_t length = has_equals && !is_one_of(first, "?:") ? 2 : 1;
  return Token{TokenKind::symbol, offset, expression.substr(offset, length), 0};
}

TokenResult read_token(std::string_view expression, std::size_t offset, Grammar grammar) {
  while (offset < expression.size() && expression[offset] == ' ') ++offset;
  if (offset == expression.size()) return Token{TokenKind::end, offset, {}, 0};
  const char first = expression[offset];
  if (is_digit(first) || first == '.') return read_number(expression, offset);
  if (is_name_character(first)) return read_name(expression, offset);
  if (is_one_of(first, "+-*/^(),")) return Token{TokenKind::symbol, offset, expression.substr(offset, 1), 0};
  if (grammar != Grammar::numbers && is_one_of(first, "<>=!?:")) return read_condition(expression, offset);
  if (grammar == Grammar::with_neighbours && is_one_of(first, "[]"))
    return Token{TokenKind::symbol, offset, expression.substr(offset, 1), 0};
  const bool printable = first > ' ' && first <= '~';
  return ExpressionError{offset,
                         fmt::format("{} has no place in an expression; use numbers, names and + - * / ^ ( )",
                                     printable ? fmt::format("'{}'", first) : "this character")};
}

class GrammarCheck {
 public:
  /// The error of `token`, which `next` follows.
  Objection take(const Token& token, const Token& next) {
    return expect_operand_ ? take_operand(token, next) : take_operator(token);
  }

 private:
  Objection take_operand(const Token& token, const Token& next) {
    if (token.is_sign() && !signed_) {
      signed_ = true;
      return std::nullopt;
    }
    if (token.is('(')) {
      open_.push_back(std::exchange(called_, false));
      signed_ = false;
      return std::nullopt;
    }
    if (token.kind == TokenKind::end) {
      return ExpressionError{token.offset, "the expression ends where a number or name should follow"};
    }
    if (token.kind == TokenKind::symbol) {
      return ExpressionError{token.offset,
                             fmt::format("a number or name is missing before '{}'{}", token.text,
                                         token.is('*') ? "; a power is written with '^'" : "")};
    }
    if (token.kind == TokenKind::name && is_function(token.text)) {
      called_ = next.is('(');
      if (called_) return std::nullopt;
      return ExpressionError{token.offset, fmt::format("'{0}' is a function; write {0}(...)", token.text)};
    }
    if (token.kind == TokenKind::name && next.is('(')) {
      return ExpressionError{token.offset, fmt::format("'{}' is not a function{}; functions are {}",
                                                       token.text, did_you_mean(token.text, function_names()),
                                                       list_names(function_names()))};
    }
    expect_operand_ = signed_ = false;
    return std::nullopt;
  }

  Objection take_operator(const Token& token) {
    if (token.is_operator()) {
      expect_operand_ = true;
      return std::nullopt;
    }
    if (token.is(',')) return take_comma(token);
    if (token.is(')')) {
      if (open_.empty())
        return ExpressionError{token.offset, "')' closes nothing; remove it or add '(' before"};
      open_.pop_back();
      return std::nullopt;
    }
    if (token.kind == TokenKind::end) {
      if (open_.empty()) return std::nullopt;
      return ExpressionError{token.offset, "')' is missing; inside [ ] and { } quote what holds a comma"};
    }
    return ExpressionError{
        token.offset,
        fmt::format("an operator is missing before '{}'; a product is written with '*'", token.text)};
  }

  Objection take_comma(const Token& token) {
    expect_operand_ = true;
    if (!open_.empty() && open_.back()) return std::nullopt;
    return ExpressionError{token.offset,
                           "a comma stands between a function's arguments only; decimals take a point"};
  }

  bool expect_operand_ = true;
  bool signed_ = false;     ///< a sign has been read; a second one is an error
  bool called_ = false;     ///< a function's name has been read
  std::vector<bool> open_;  ///< the open parentheses; true for a function's
};

}  // namespace

std::size_t number_length(std::string_view text) {
  std::size_t end = 0;
  const auto skip_digits = [&] {
    while (end < text.size() && is_digit(text[end])) ++end;
  };
  skip_digits();
  if (end < text.size() && text[end] == '.') ++end;
  skip_digits();
  if (end == 0 || end == text.size() || !is_one_of(text[end], "eE")) return end;
  std::size_t digits = end + 1;
  if (digits < text.size() && is_one_of(text[digits], "+-")) ++digits;
  if (digits == text.size() || !is_digit(text[digits])) return end;
  end = digits;
  skip_digits();
  return end;
}

std::variant<std::vector<Token>, ExpressionError> read_tokens(std::string_view expression, Grammar grammar) {
  std::vector<Token> tokens;
  std::size_t offset = 0;
  do {
    TokenResult result = read_token(expression, offset, grammar);
    if (auto* error = std::get_if<ExpressionError>(&result)) return std::move(*error);
    tokens.push_back(std::get<Token>(result));
    offset = tokens.back().offset + tokens.back().text.size();
  } while (tokens.back().kind != TokenKind::end);
  return tokens;
}

Objection check_grammar(const std::vector<Token>& tokens) {
  GrammarCheck check;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (Objection objection = check.take(tokens[i], tokens[std::min(i + 1, tokens.size() - 1)]))
      return objection;
  }
  return std::nullopt;
}

const std::vector<std::string>& function_names() {
  static const std::vector<std::string> names = {
      "abs",  "sqrt", "cbrt", "exp",  "log",  "log2", "log10", "sin",  "cos",   "tan", "asin",
      "acos", "atan", "sinh", "cosh", "tanh", "erf",  "floor", "ceil", "round", "min", "max"};
  return names;
}

bool is_function(std::string_view name) {
  const std::vector<std::string>& names = function_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace spidergen::spec
