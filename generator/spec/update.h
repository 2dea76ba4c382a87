#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/offset.h"
#include "spec/tokens.h"

namespace spidergen::spec {

class Calculator;

/// What updates call the sum of a spec that names none.
inline constexpr std::string_view only_sum = "sum";

/// What a node of an update computes.
enum class UpdateOperation {
  number,    ///< a constant
  input,     ///< `u`: the input at the point
  sum,       ///< a weighted sum of the input there
  previous,  ///< the input one step back
  field,     ///< a further field
  cell,      ///< of a system: a field at an offset, before the stage
  written,   ///< of a system's reductions: a field at the point, after the sweep
  scalar,    ///< a number of the launch
  index,     ///< ix, iy, iz
  extent,    ///< nx, ny, nz
  negate,
  add,
  subtract,
  multiply,
  divide,
  power,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  choose,  ///< the second argument where the first, a comparison, holds; else the third
  call,    ///< a function of expressions
  /// Of a system whose stages are fused: the argument, an earlier stage's value of field `which` at the
  /// offset `at`, where that lies inside; elsewhere the ghost cell of the field.
  bounded,
  stored,  ///< of a reduction: the argument as a cell of field `which` holds it
  /// Of `adjoint` in a system: the argument, a value at the offset `at`, where that lies inside the field; 0
  /// elsewhere, where it is not computed.
  inside,
  /// Of `adjoint` in a system: the argument at the point, and at each ghost cell that the faces' rules of
  /// field `which` give the point's value, with its sign, all added up. `at`: how far such ghost cells lie
  /// beyond a face.
  folded,
};

struct UpdateNode {
  UpdateOperation operation = UpdateOperation::number;
  double value = 0;            ///< of a number
  int which = 0;               ///< sum, field, scalar: its place in the spec's list; index, extent: its axis
  std::string function;        ///< of a call
  std::vector<int> arguments;  ///< nodes before this one
  Offset at{};                 ///< of a cell, and of what the operations say

  bool operator==(const UpdateNode&) const = default;
};

/// `update` as a tree: constants are folded, and what occurs more than once is there once.
struct Update {
  std::string text;               ///< as written
  std::vector<UpdateNode> nodes;  ///< the last one is the result

  /// Is any node of this operation?
  [[nodiscard]] bool uses(UpdateOperation operation) const;
  /// Is it the same function of the sums at all points?
  [[nodiscard]] bool is_of_sums_alone() const;
  bool operator==(const Update&) const = default;
};

/// The names of an update beside parameters and `pi`, each with its leaf.
using UpdateNames = std::map<std::string, UpdateNode, std::less<>>;

[[nodiscard]] constexpr bool is_comparison(UpdateOperation operation) {
  return operation >= UpdateOperation::less && operation <= UpdateOperation::not_equal;
}

/// The sign of a comparison.
[[nodiscard]] std::string_view symbol_of(UpdateOperation comparison);

/// Reads an update: expressions of specs (stencils/README.md) with comparisons before `? :`. `used` gets the
/// names that occur.
[[nodiscard]] std::variant<Update, ExpressionError> parse_update(std::string_view text,
                                                                 const UpdateNames& names,
                                                                 Calculator& calculator,
                                                                 std::vector<std::string>& used);

}  // namespace spidergen::spec
