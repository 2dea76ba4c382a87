#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "adjoint/adjoint_system.h"

namespace spidergen::adjoint {

/// A stage in the words of a spec, in order: `let`, and the new values of fields.
struct StageText {
  std::vector<std::pair<std::string, std::string>> values;
  std::vector<std::pair<std::string, std::string>> assignments;
};

/// Writes the expressions of a system. Repeated and long expressions of a stage get names; long sums of cells
/// become operators.
class ExpressionWriter {
 public:
  explicit ExpressionWriter(const AdjointSystem& system);

  [[nodiscard]] StageText write(const AdjointStage& stage);
  /// The operators of all written stages, by name.
  [[nodiscard]] const std::vector<std::pair<std::string, std::vector<spec::Tap>>>& operators() const {
    return operators_;
  }

 private:
  /// An expression and its precedence: see the definition.
  struct Piece {
    std::string text;
    int binding = 0;
  };

  [[nodiscard]] std::string unused_name(const std::string& stem, std::size_t number) const;
  [[nodiscard]] std::vector<int> count_uses(const AdjointStage& stage) const;
  void write_nodes(const std::vector<int>& uses, StageText& stage);
  [[nodiscard]] Piece piece_of(const spec::UpdateNode& node) const;
  [[nodiscard]] Piece operation(const spec::UpdateNode& node) const;
  [[nodiscard]] std::string argument(int node, int least_binding) const;
  [[nodiscard]] std::string cell(const std::string& name, const spec::Offset& at) const;
  [[nodiscard]] std::string transposed(const Transposed& read, int field);
  [[nodiscard]] std::string taps(const std::vector<spec::Tap>& taps, const std::string& name);

  const AdjointSystem& system_;
  std::vector<Piece> pieces_;  ///< by node, of the current stage
  std::vector<std::pair<std::string, std::vector<spec::Tap>>> operators_;
};

}  // namespace spidergen::adjoint
