#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/expression_nodes.h"
#include "spec/stencil_spec.h"
#include "spec/tokens.h"
#include "spec/update.h"

namespace spidergen::spec {

/// The words of an expression other than numbers, functions, parameters and `pi`.
struct Vocabulary {
  UpdateNames leaves;
  // For a system of equations:
  int dimensions = 0;                                              ///< 0: not a system
  std::map<std::string, std::vector<Tap>, std::less<>> operators;  ///< an operator in error has no taps
  std::map<std::string, int, std::less<>> values;                  ///< of `let`: nodes, or none in error
  std::vector<std::array<bool, 3>> field_axes;                     ///< by field
  std::vector<bool> assigned;  ///< by field: does a stage assign it? Empty where `new(u)` is not allowed
};

/// Reads an expression of `update` or of a system (stencils/README.md) and adds its nodes; the result is the
/// node of its value. Adds the names that occur to `used`.
[[nodiscard]] std::variant<int, ExpressionError> read_expression(std::string_view text,
                                                                 const Vocabulary& vocabulary,
                                                                 ExpressionNodes& nodes,
                                                                 Calculator& calculator,
                                                                 std::vector<std::string>& used);

}  // namespace spidergen::spec
