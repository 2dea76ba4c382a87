#include "adjoint/split_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace spidergen::adjoint {
namespace {

using spec::UpdateNode;
using spec::UpdateOperation;

/// Are numbers of all fields stored as they are computed?
bool is_stored_exactly(const AdjointSystem& system) {
  const auto is_alike = [&](const spec::SystemField& field) { return field.storage == system.storage; };
  return (system.storage == spec::Storage::f32 || system.storage == spec::Storage::f64) &&
         std::all_of(system.fields.begin(), system.fields.end(), is_alike);
}

/// Is the transposed read the sum of a field's cells at the opposite taps, a field with the derivative's
/// faces? Constants of derivatives are 0.
bool reads_a_field(const spec::SystemField& bar, const Transposed& read) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const bool is_crossed = std::any_of(read.taps.begin(), read.taps.end(),
                                        [axis](const spec::Tap& tap) { return tap.at[axis] != 0; });
    const spec::BoundaryRule low = bar.boundary[axis].low.rule;
    const bool is_field = low == bar.boundary[axis].high.rule &&
                          (low == spec::BoundaryRule::constant || low == spec::BoundaryRule::periodic);
    if (is_crossed && !is_field) return false;
  }
  return true;
}

bool can_split(const AdjointSystem& system, const AdjointStage& stage) {
  bool reads = false;
  for (const AdjointAssignment& one : stage.assignments) {
    for (const Transposed& read : one.transposed) {
      if (!reads_a_field(system.fields[static_cast<std::size_t>(one.field)], read)) return false;
      reads = true;
    }
  }
  return reads && stage.assignments.size() > 1;
}

class StageSplitter {
 public:
  explicit StageSplitter(AdjointSystem& system) : system_(system) {}

  /// The stages in the place of one: results that read fields around points and that no other result reads;
  /// then the further fields and all that is at the point; then the sums.
  std::vector<AdjointStage> split(const AdjointStage& stage) {
    std::vector<AdjointStage> stages;
    AdjointStage at_point{stage.comment, {}};
    std::vector<AdjointStage> sums;
    for (const AdjointAssignment& one : stage.assignments) {
      if (one.transposed.empty() && reads_around(one.node) && !is_read_by_others(stage, one.field)) {
        stages.push_back({stage.comment, {one}});
        continue;
      }
      bool adds = one.node >= 0;
      if (adds && one.node != cell(one.field)) at_point.assignments.push_back({one.field, one.node, {}});
      for (const Transposed& read : one.transposed) {
        const int term = add_field(one.field);
        at_point.assignments.push_back({term, read.node, {}});
        sums.push_back({stage.comment + ", sums",
                        {{one.field, adds ? cell(one.field) : -1, {{read.taps, cell(term), true}}}}});
        adds = true;
      }
    }
    stages.push_back(std::move(at_point));
    stages.insert(stages.end(), sums.begin(), sums.end());
    return stages;
  }

 private:
  /// Does any node that the roots need pass the test?
  template <class Test>
  [[nodiscard]] bool any_needed(std::set<int> roots, const Test& passes) const {
    for (auto i = static_cast<int>(system_.nodes.size()); i-- > 0;) {
      if (!roots.contains(i)) continue;
      const UpdateNode& node = system_.nodes[static_cast<std::size_t>(i)];
      if (passes(node)) return true;
      roots.insert(node.arguments.begin(), node.arguments.end());
    }
    return false;
  }

  [[nodiscard]] bool reads_around(int root) const {
    return any_needed({root}, [](const UpdateNode& node) {
      return node.operation == UpdateOperation::cell && node.at != spec::Offset{};
    });
  }

  [[nodiscard]] bool is_read_by_others(const AdjointStage& stage, int field) const {
    std::set<int> roots;
    for (const AdjointAssignment& one : stage.assignments) {
      if (one.field == field) continue;
      roots.insert(one.node);
      for (const Transposed& read : one.transposed) roots.insert(read.node);
    }
    return any_needed(std::move(roots), [field](const UpdateNode& node) {
      return node.operation == UpdateOperation::cell && node.which == field;
    });
  }

  /// The node of a field at the point.
  int cell(int field) {
    const UpdateNode node{UpdateOperation::cell, 0, field, {}, {}, {}};
    const auto known = std::find(system_.nodes.begin(), system_.nodes.end(), node);
    const auto place = static_cast<int>(known - system_.nodes.begin());
    if (known == system_.nodes.end()) system_.nodes.push_back(node);
    return place;
  }

  /// A field for what is read around points into a derivative, with its faces.
  int add_field(int bar) {
    spec::SystemField field = system_.fields[static_cast<std::size_t>(bar)];
    field.name += "_term";
    const auto is_taken = [&](const spec::SystemField& one) { return one.name == field.name; };
    while (std::any_of(system_.fields.begin(), system_.fields.end(), is_taken)) field.name += '_';
    system_.notes.push_back(field.name + " is room for values, which are written before they are read.");
    system_.fields.push_back(std::move(field));
    return static_cast<int>(system_.fields.size()) - 1;
  }

  AdjointSystem& system_;
};

}  // namespace

AdjointSystem split_stages(AdjointSystem system) {
  if (!is_stored_exactly(system)) return system;
  std::vector<AdjointStage> stages;
  StageSplitter splitter(system);
  for (const AdjointStage& stage : std::exchange(system.stages, {})) {
    std::vector<AdjointStage> parts = can_split(system, stage) ? splitter.split(stage) : std::vector{stage};
    stages.insert(stages.end(), parts.begin(), parts.end());
  }
  system.stages = std::move(stages);
  return system;
}

}  // namespace spidergen::adjoint
