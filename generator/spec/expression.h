#pragma once

#include <muParser.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "spec/tokens.h"

namespace spidergen::spec {

using Evaluation = std::variant<double, ExpressionError>;

/// Names that one expression may use in addition to the defined ones, and their values.
using LocalNames = std::vector<std::pair<std::string, double>>;

/// Evaluates the expressions of specs (stencils/README.md has the grammar) with the names defined so far. The
/// grammar is checked token by token first; muParser, without its own functions and operators, then computes
/// in doubles.
class Calculator {
 public:
  Calculator();

  /// Names that will be defined, so that using one too early gets a message of its own.
  void announce(const std::string& name) { announced_.insert(name); }
  void define(const std::string& name, double value);
  /// Makes `name` known without a value, so that its users are not reported as well.
  void define_broken(const std::string& name) { broken_.insert(name); }

  [[nodiscard]] bool is_parameter(const std::string& name) const { return announced_.contains(name); }

  /// No name of `local` may be defined.
  [[nodiscard]] Evaluation evaluate(std::string_view expression, const LocalNames& local = {});

  /// The defined names: the constant and the parameters, in the order of definition.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  [[nodiscard]] std::optional<ExpressionError> check_name(const Token& name, const LocalNames& local) const;

  mu::Parser parser_;
  std::vector<std::string> names_;  ///< the constant and the parameters, in the order of definition
  std::set<std::string, std::less<>> defined_;  ///< the same, for lookup
  std::set<std::string, std::less<>> announced_;
  std::set<std::string, std::less<>> broken_;
};

/// Whether `name` is a function or a constant of expressions; no parameter can have that name.
[[nodiscard]] bool is_built_in(std::string_view name);

}  // namespace spidergen::spec
