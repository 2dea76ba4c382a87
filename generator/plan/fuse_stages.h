#pragma once

#include <map>
#include <optional>
#include <vector>

#include "spec/expression.h"
#include "spec/expression_nodes.h"
#include "spec/system_spec.h"

namespace spidergen::plan {

/// Successive stages as one: the new value of each assigned field, from values before the group.
struct StageGroup {
  int first_stage = 0;
  int stages = 1;
  std::map<int, int> values;  ///< by field, nodes of the fuser
};

/// Expresses stages by the values before earlier stages: where the later one reads a field that the earlier
/// one assigns, it recomputes the earlier expression at the point that it reads.
class StageFuser {
 public:
  StageFuser(const spec::SystemSpec& spec, bool in_doubles);

  [[nodiscard]] const spec::ExpressionNodes& nodes() const { return nodes_; }
  [[nodiscard]] StageGroup alone(int stage) const;

  /// The group and the next stage as one. Nothing where values would change: where a field between them is
  /// rounded, or read outside a face that is neither constant nor closes a period; and where expressions grow
  /// too large.
  [[nodiscard]] std::optional<StageGroup> fuse(const StageGroup& group, int stage);

  /// A reduction's expression after a group that contains its stage: values after the sweep are the group's,
  /// rounded to the fields' storage, or those that an earlier group has written.
  [[nodiscard]] int reduce(const StageGroup& group, const spec::Reduction& reduction);

 private:
  [[nodiscard]] bool can_read(const StageGroup& group, int field, const spec::Offset& at) const;
  /// Do nodes below `folded` read cells that the group assigns?
  [[nodiscard]] bool reads_folded(const StageGroup& group, const std::vector<bool>& needed) const;
  /// The node with the group's values in place of assigned fields, and its arguments from `values`; none
  /// where that is not possible.
  [[nodiscard]] int reduced_node(const StageGroup& group, int node, const std::vector<int>& values);
  [[nodiscard]] int substitute(const StageGroup& group, int node, const std::vector<int>& values);

  const spec::SystemSpec& spec_;
  bool in_doubles_;
  spec::Calculator calculator_;
  spec::ExpressionNodes nodes_;
};

}  // namespace spidergen::plan
