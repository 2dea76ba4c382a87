#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "spec/expression.h"
#include "spec/stencil_spec.h"
#include "spec/update.h"

namespace spidergen::spec {

/// The nodes of expressions, each sub-expression once. Arguments precede their users. Operations on constants
/// are folded.
class ExpressionNodes {
 public:
  /// Stands for a node that could not be made: objection() says why.
  static constexpr int none = -1;

  explicit ExpressionNodes(Calculator& calculator) : calculator_(calculator) {}

  [[nodiscard]] const std::vector<UpdateNode>& all() const { return nodes_; }
  [[nodiscard]] const UpdateNode& operator[](int node) const {
    return nodes_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] bool is_number(int node) const { return (*this)[node].operation == UpdateOperation::number; }

  /// The node, which may exist already; none where there are too many.
  [[nodiscard]] int add(UpdateNode node);
  [[nodiscard]] int number(double constant);
  /// An operation on numbers; constants are folded. None where the result is not finite, or where there are
  /// too many nodes.
  [[nodiscard]] int combine(UpdateOperation operation, std::vector<int> arguments,
                            std::string_view function = {});

  /// The cell of a field with cells along `axes`; the offset is 0 along the other axes.
  [[nodiscard]] int cell(int field, const std::array<bool, 3>& axes, const Offset& at);
  /// The expression at another point: every cell and every index moves `by` along the axes. None where it
  /// reaches too far, has values after the sweep, or makes too many nodes.
  [[nodiscard]] int shift(int node, const Offset& by);
  /// The weighted sum of the expression at the taps. Taps that read one value, along axes without cells, are
  /// merged. None as in shift().
  [[nodiscard]] int apply(const std::vector<Tap>& taps, int node);
  /// The transpose of apply(), applied to the expression. Its value at a point sums, over all taps and over
  /// all cells that take the point's value by the field's faces, the weight times the expression at distance
  /// -tap from the cell, if that is inside. None as in shift(), and within another transpose.
  [[nodiscard]] int transpose(int field, const std::vector<Tap>& taps, int node);

  /// The nodes that `roots` need, `roots` included.
  [[nodiscard]] std::vector<bool> needed_by(const std::vector<int>& roots) const;

  /// The nodes that `roots` need, arguments first; each root becomes its index among them.
  [[nodiscard]] std::vector<UpdateNode> extract(std::vector<int>& roots) const;

  /// Why the last node was none; empty where its cause was reported before.
  [[nodiscard]] const std::string& objection() const { return objection_; }
  /// Are there too many nodes to read on?
  [[nodiscard]] bool is_full() const { return full_; }

 private:
  struct Hash {
    std::size_t operator()(const UpdateNode& node) const;
  };
  struct Same {
    bool operator()(const UpdateNode& a, const UpdateNode& b) const;
  };
  using Moved = std::unordered_map<int, int>;  ///< node to shifted node

  int object(std::string text);
  /// Counts one more operation; false once the limit is reached.
  bool has_room();
  [[nodiscard]] int shift_one(int node, const Offset& by, const Moved& moved);
  [[nodiscard]] int shift_index(const UpdateNode& node, double by);
  [[nodiscard]] int add_term(int sum, double weight, int value);
  [[nodiscard]] int object_to_transpose();

  Calculator& calculator_;
  std::vector<UpdateNode> nodes_;
  std::unordered_map<UpdateNode, int, Hash, Same> known_;
  std::vector<bool> varies_;                     ///< does the node depend on the point?
  std::vector<bool> folds_;                      ///< does it contain a transpose()?
  std::vector<std::array<bool, 3>> field_axes_;  ///< by field, for fields that have a cell
  std::map<Offset, Moved> moved_;
  std::size_t work_ = 0;
  std::string objection_;
  bool full_ = false;
};

}  // namespace spidergen::spec
