#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace spidergen::spec {

/// An error in an expression, and its byte. `text` is empty where the cause was reported before: a name whose
/// own value is in error.
struct ExpressionError {
  std::size_t offset = 0;
  std::string text;

  bool operator==(const ExpressionError&) const = default;
};

enum class TokenKind { number, name, symbol, end };

/// A piece of an expression.
struct Token {
  TokenKind kind = TokenKind::end;
  std::size_t offset = 0;
  std::string_view text;
  double value = 0;  ///< of a number

  [[nodiscard]] bool is(char symbol) const {
    return kind == TokenKind::symbol && text.size() == 1 && text.front() == symbol;
  }
  [[nodiscard]] bool is_sign() const { return is('+') || is('-'); }
  [[nodiscard]] bool is_operator() const { return is_sign() || is('*') || is('/') || is('^'); }
};

/// Bytes of the decimal number that begins `text`: digits, point, exponent; 0 where none does.
[[nodiscard]] std::size_t number_length(std::string_view text);

/// The syntax of expressions: updates also have comparisons and `? :`, systems also offsets in `[ ]`.
enum class Grammar { numbers, with_conditions, with_neighbours };

/// All tokens, the end included. They refer to `expression`.
[[nodiscard]] std::variant<std::vector<Token>, ExpressionError> read_tokens(
    std::string_view expression, Grammar grammar = Grammar::numbers);

/// Checks that operands and operators alternate, parentheses match, commas occur in calls only, and
/// functions, and nothing else, are called. Does not look at the meaning of names.
[[nodiscard]] std::optional<ExpressionError> check_grammar(const std::vector<Token>& tokens);

/// The functions of expressions.
[[nodiscard]] const std::vector<std::string>& function_names();
[[nodiscard]] bool is_function(std::string_view name);

}  // namespace spidergen::spec
