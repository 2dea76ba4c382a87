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

/// The name in updates of the sum of a spec that names none.
inline constexpr std::string_view only_sum = "sum";

/// The operation of a node.
enum class UpdateOperation {
  number,    ///< a constant
  input,     ///< `u`: the input at the point
  sum,       ///< a weighted sum of the input around the point
  previous,  ///< the input one time step back
  field,     ///< a further field
  cell,      ///< in a system: a field at an offset, before the stage
  written,   ///< in a system's reductions: a field at the point, after the sweep
  scalar,    ///< a number of the launch
  index,     ///< ix, iy or iz
  extent,    ///< nx, ny or nz
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
  /// In a system with fused stages: the argument, an earlier stage's value of field `which` at the offset
  /// `at`, if that is inside; elsewhere the ghost cell of the field.
  bounded,
  stored,  ///< in a reduction: the argument rounded to the storage of field `which`
  /// For `adjoint` in a system: the argument, a value at the offset `at`, if that is inside the field;
  /// elsewhere 0, without computing it.
  inside,
  /// For `adjoint` in a system: the sum of the argument at the point and at each ghost cell to which the
  /// faces' rules of field `which` copy the point's value, with its sign. `at`: the distance of the farthest
  /// such ghost cell from a face.
  folded,
};

struct UpdateNode {
  UpdateOperation operation = UpdateOperation::number;
  double value = 0;            ///< of a number
  int which = 0;               ///< sum, field, scalar: index in the spec's list; index, extent: its axis
  std::string function;        ///< of a call
  std::vector<int> arguments;  ///< earlier nodes
  Offset at{};                 ///< of a cell, and as the operations above define

  bool operator==(const UpdateNode&) const = default;
};

/// `update` as a graph: constants are folded, and each sub-expression occurs once.
struct Update {
  std::string text;               ///< as written
  std::vector<UpdateNode> nodes;  ///< the last one is the result

  /// Is any node of this operation?
  [[nodiscard]] bool uses(UpdateOperation operation) const;
  /// Is the result the same function of the sums at every point?
  [[nodiscard]] bool is_of_sums_alone() const;
  bool operator==(const Update&) const = default;
};

/// The names that an update knows in addition to parameters and `pi`, each with its leaf.
using UpdateNames = std::map<std::string, UpdateNode, std::less<>>;

[[nodiscard]] constexpr bool is_comparison(UpdateOperation operation) {
  return operation >= UpdateOperation::less && operation <= UpdateOperation::not_equal;
}

/// The name of a leaf, a function or a choice, or the sign of a node that expressions of specs have.
[[nodiscard]] std::string_view name_of(const UpdateNode& node);

/// Reads an update: expressions of specs (stencils/README.md) with comparisons before `? :`. Adds the names
/// that occur to `used`.
[[nodiscard]] std::variant<Update, ExpressionError> parse_update(std::string_view text,
                                                                 const UpdateNames& names,
                                                                 Calculator& calculator,
                                                                 std::vector<std::string>& used);

}  // namespace spidergen::spec
