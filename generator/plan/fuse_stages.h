#pragma once

#include <map>
#include <optional>
#include <vector>

#include "spec/expression.h"
#include "spec/expression_nodes.h"
#include "spec/system_spec.h"

namespace spidergen::plan {

/// Stages that follow each other, as one: what each field that they assign becomes, of values before them.
struct StageGroup {
  int first_stage = 0;
  int stages = 1;
  std::map<int, int> values;  ///< by field, nodes of the fuser
};

/// Writes stages as functions of the values before earlier ones: where the later one reads what the earlier
/// one assigns, the earlier one's expression is computed again, at the point that is read.
class StageFuser {
 public:
  StageFuser(const spec::SystemSpec& spec, bool in_doubles);

  [[nodiscard]] const spec::ExpressionNodes& nodes() const { return nodes_; }
  [[nodiscard]] StageGroup alone(int stage) const;

  /// The group and the stage behind it as one. Nothing where that would not give the same values: where a
  /// field between them is rounded, or read outside a face that neither is constant nor closes a period; and
  /// where expressions grow too large.
  [[nodiscard]] std::optional<StageGroup> fuse(const StageGroup& group, int stage);

  /// A reduction's expression behind a group that has its stage: values after the sweep are the group's, as
  /// fields store them, or those that a group before it has written.
  [[nodiscard]] int reduce(const StageGroup& group, const spec::Reduction& reduction);

 private:
  [[nodiscard]] bool can_read(const StageGroup& group, int field, const spec::Offset& at) const;
  /// Do the nodes read what the group assigns at ghost cells' own points?
  [[nodiscard]] bool reads_folded(const StageGroup& group, const std::vector<bool>& needed) const;
  /// The node with values of the group in the place of what it assigns, and its arguments' in `values`; none
  /// where that cannot be.
  [[nodiscard]] int reduced_node(const StageGroup& group, int node, const std::vector<int>& values);
  [[nodiscard]] int substitute(const StageGroup& group, int node, const std::vector<int>& values);

  const spec::SystemSpec& spec_;
  bool in_doubles_;
  spec::Calculator calculator_;
  spec::ExpressionNodes nodes_;
};

}  // namespace spidergen::plan
