#include "plan/fuse_stages.h"

#include <cstddef>

namespace spidergen::plan {
namespace {

using spec::BoundaryRule;
using spec::UpdateNode;
using spec::UpdateOperation;

bool has_rule(const spec::AxisBoundary& faces, BoundaryRule rule) {
  return faces.low.rule == rule && faces.high.rule == rule;
}

/// Does the node by itself have the same value one period further?
bool repeats(const spec::SystemSpec& spec, const UpdateNode& node, std::size_t axis) {
  if (node.operation == UpdateOperation::index) return node.which != static_cast<int>(axis);
  if (node.operation != UpdateOperation::cell && node.operation != UpdateOperation::bounded) return true;
  const spec::SystemField& field = spec.fields[static_cast<std::size_t>(node.which)];
  return !field.axes[axis] || has_rule(field.boundary[axis], BoundaryRule::periodic);
}

}  // namespace

StageFuser::StageFuser(const spec::SystemSpec& spec, bool in_doubles)
    : spec_(spec), in_doubles_(in_doubles), nodes_(calculator_) {
  // The spec's nodes are distinct, arguments first, so that each gets its own index again.
  for (const UpdateNode& node : spec.nodes) {
    if (node.operation == UpdateOperation::cell) {
      (void)nodes_.cell(node.which, spec.fields[static_cast<std::size_t>(node.which)].axes, node.at);
    } else {
      (void)nodes_.add(node);
    }
  }
}

StageGroup StageFuser::alone(int stage) const {
  StageGroup group{stage, 1, {}};
  for (const spec::Assignment& one : spec_.stages[static_cast<std::size_t>(stage)].assignments)
    group.values.emplace(one.field, one.node);
  return group;
}

bool StageFuser::can_read(const StageGroup& group, int field, const spec::Offset& at) const {
  const spec::SystemField& read = spec_.fields[static_cast<std::size_t>(field)];
  if (read.storage != (in_doubles_ ? spec::Storage::f64 : spec::Storage::f32)) return false;
  if (at == spec::Offset{}) return true;
  const std::vector<bool> needed = nodes_.needed_by({group.values.at(field)});
  const auto all_needed = [&](const auto& holds) {
    for (std::size_t i = 0; i < needed.size(); ++i) {
      if (needed[i] && !holds(nodes_.all()[i])) return false;
    }
    return true;
  };
  // Operations after `bounded` cannot be shifted.
  if (!all_needed([](const UpdateNode& node) { return node.operation <= UpdateOperation::bounded; }))
    return false;
  for (std::size_t axis = 0; axis < at.size(); ++axis) {
    if (at[axis] == 0 || has_rule(read.boundary[axis], BoundaryRule::constant)) continue;
    const bool closes = has_rule(read.boundary[axis], BoundaryRule::periodic) &&
                        all_needed([&](const UpdateNode& node) { return repeats(spec_, node, axis); });
    if (!closes) return false;
  }
  return true;
}

bool StageFuser::reads_folded(const StageGroup& group, const std::vector<bool>& needed) const {
  std::vector<bool> within(needed.size());
  for (std::size_t i = needed.size(); i-- > 0;) {
    const UpdateNode& node = nodes_.all()[i];
    if (!needed[i]) continue;
    if (within[i] && node.operation == UpdateOperation::cell && group.values.contains(node.which))
      return true;
    if (!within[i] && node.operation != UpdateOperation::folded) continue;
    for (const int argument : node.arguments) within[static_cast<std::size_t>(argument)] = true;
  }
  return false;
}

std::optional<StageGroup> StageFuser::fuse(const StageGroup& group, int stage) {
  constexpr int none = spec::ExpressionNodes::none;
  StageGroup together = group;
  ++together.stages;
  std::vector<int> roots;
  for (const auto& [field, node] : alone(stage).values) roots.push_back(node);
  const std::vector<bool> needed = nodes_.needed_by(roots);
  if (reads_folded(group, needed)) return std::nullopt;
  std::vector<int> values(needed.size(), none);  // of the stage's nodes
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    values[i] = substitute(group, static_cast<int>(i), values);
    if (values[i] == none) return std::nullopt;
  }
  for (const auto& [field, node] : alone(stage).values)
    together.values[field] = values[static_cast<std::size_t>(node)];
  return together;
}

int StageFuser::reduce(const StageGroup& group, const spec::Reduction& reduction) {
  const std::vector<bool> needed = nodes_.needed_by({reduction.node});
  std::vector<int> values(needed.size(), spec::ExpressionNodes::none);
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) values[i] = reduced_node(group, static_cast<int>(i), values);
  }
  return values[static_cast<std::size_t>(reduction.node)];
}

int StageFuser::reduced_node(const StageGroup& group, int node, const std::vector<int>& values) {
  UpdateNode own = nodes_[node];
  if (own.operation != UpdateOperation::written) {
    for (int& argument : own.arguments) argument = values[static_cast<std::size_t>(argument)];
    return nodes_.add(own);
  }
  const spec::SystemField& field = spec_.fields[static_cast<std::size_t>(own.which)];
  const auto value = group.values.find(own.which);
  if (value == group.values.end()) return nodes_.cell(own.which, field.axes, {});
  if (field.storage == (in_doubles_ ? spec::Storage::f64 : spec::Storage::f32)) return value->second;
  return nodes_.add({UpdateOperation::stored, 0, own.which, {}, {value->second}});
}

int StageFuser::substitute(const StageGroup& group, int node, const std::vector<int>& values) {
  UpdateNode own = nodes_[node];
  if (own.operation != UpdateOperation::cell || !group.values.contains(own.which)) {
    for (int& argument : own.arguments) argument = values[static_cast<std::size_t>(argument)];
    return nodes_.add(own);
  }
  if (!can_read(group, own.which, own.at)) return spec::ExpressionNodes::none;
  const int shifted = nodes_.shift(group.values.at(own.which), own.at);
  if (shifted == spec::ExpressionNodes::none || own.at == spec::Offset{}) return shifted;
  return nodes_.add({UpdateOperation::bounded, 0, own.which, {}, {shifted}, own.at});
}

}  // namespace spidergen::plan
