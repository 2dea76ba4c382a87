#include "adjoint/adjoint_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "adjoint/differentiate.h"
#include "spec/expression.h"
#include "spec/expression_nodes.h"

namespace spidergen::adjoint {
namespace {

using spec::BoundaryRule;
using spec::UpdateNode;
using spec::UpdateOperation;

/// The fields that an adjoint may have: each field of the spec, its derivative, and its value before each
/// stage but the first.
class FieldPlaces {
 public:
  FieldPlaces(int fields, int stages) : fields_(fields), stages_(stages) {}

  [[nodiscard]] int count() const { return fields_ * (stages_ + 1); }
  [[nodiscard]] int bar(int field) const { return fields_ + field; }
  /// The field before stage `stage` > 0, after an earlier stage wrote it.
  [[nodiscard]] int before(int stage, int field) const { return fields_ * (stage + 1) + field; }
  [[nodiscard]] int field_of(int place) const { return place % fields_; }
  [[nodiscard]] bool is_bar(int place) const { return place / fields_ == 1; }
  /// The stage of before(); 0 for other fields.
  [[nodiscard]] int stage_of(int place) const { return std::max(place / fields_ - 1, 0); }

 private:
  int fields_, stages_;
};

/// The caller's cells outside the field are not read.
void without_halo(spec::SystemField& field) {
  for (std::size_t axis = 0; axis < field.axes.size(); ++axis) {
    for (spec::Face* face : {&field.boundary[axis].low, &field.boundary[axis].high}) {
      if (field.axes[axis] && face->rule == BoundaryRule::halo) face->rule = BoundaryRule::constant;
    }
  }
}

/// The derivative has the field's faces; constants become 0, and a halo is the caller's.
void become_bar(spec::SystemField& field, int dimensions) {
  field.name = bar_of(field.name);
  for (int axis = 3 - dimensions; axis < 3; ++axis) field.axes[static_cast<std::size_t>(axis)] = true;
  without_halo(field);
  for (spec::AxisBoundary& axis : field.boundary) axis.low.value = axis.high.value = 0;
}

class Transposer {
 public:
  Transposer(const spec::SystemSpec& spec, diag::Diagnostics& diagnostics)
      : spec_(spec),
        diagnostics_(diagnostics),
        places_(static_cast<int>(spec.fields.size()), static_cast<int>(spec.stages.size())),
        nodes_(calculator_) {}

  AdjointSystem run() {
    check_names();
    place_fields();
    for (auto stage = static_cast<int>(spec_.stages.size()); stage-- > 0;) {
      try {
        AdjointStage made = transpose(stage);
        if (!made.assignments.empty()) backward_.push_back(std::move(made));
      } catch (const Objection& objection) {
        refuse(spec_.stages[static_cast<std::size_t>(stage)].where, objection.text);
        return {};
      }
    }
    recompute();
    if (!diagnostics_.has_errors()) gather();
    return std::move(result_);
  }

 private:
  void refuse(const diag::SourceLocation& where, const std::string& text) {
    diagnostics_.error(where, "the adjoint of this stage: " + text);
  }

  [[nodiscard]] bool is_name(const std::string& name) const {
    return std::any_of(spec_.fields.begin(), spec_.fields.end(),
                       [&](const spec::SystemField& field) {
                         return field.name == name || bar_of(field.name) == name;
                       }) ||
           std::find(spec_.scalars.begin(), spec_.scalars.end(), name) != spec_.scalars.end();
  }

  /// Derivatives have fixed names, which the spec must not use.
  void check_names() {
    std::set<std::string> own(spec_.scalars.begin(), spec_.scalars.end());
    for (const spec::SystemField& field : spec_.fields) own.insert(field.name);
    for (const spec::SystemField& field : spec_.fields) {
      if (!own.contains(bar_of(field.name))) continue;
      diagnostics_.error(spec_.where,
                         fmt::format("the adjoint calls the derivative with respect to '{}' '{}', "
                                     "as the spec does another thing; give that another name",
                                     field.name, bar_of(field.name)));
    }
  }

  [[nodiscard]] bool is_read_around(int field) const {
    return std::any_of(spec_.nodes.begin(), spec_.nodes.end(), [field](const UpdateNode& node) {
      return node.operation == UpdateOperation::cell && node.which == field && node.at != spec::Offset{};
    });
  }

  void place_fields() {
    const auto stages = static_cast<int>(spec_.stages.size());
    all_.resize(static_cast<std::size_t>(places_.count()));
    for (int place = 0; place < places_.count(); ++place) {
      const int own = places_.field_of(place);
      spec::SystemField field = spec_.fields[static_cast<std::size_t>(own)];
      if (places_.is_bar(place)) {
        become_bar(field, spec_.dimensions);
      } else {
        // The sweep itself reads none of this field's ghost cells.
        if (!is_read_around(own)) without_halo(field);
        if (places_.stage_of(place) > 0) {
          field.name = fmt::format("{}_{}", field.name, places_.stage_of(place) + 1);
          while (is_name(field.name)) field.name += '_';
        }
      }
      all_[static_cast<std::size_t>(place)] = std::move(field);
    }
    // By stage, the place of each field that the stage reads.
    seen_.resize(static_cast<std::size_t>(stages) + 1);
    for (int field = 0; field < static_cast<int>(spec_.fields.size()); ++field) seen_[0].push_back(field);
    for (int stage = 0; stage < stages; ++stage) {
      seen_[std::size_t(stage) + 1] = seen_[std::size_t(stage)];
      for (const spec::Assignment& one : spec_.stages[std::size_t(stage)].assignments)
        seen_[std::size_t(stage) + 1][std::size_t(one.field)] = places_.before(stage + 1, one.field);
    }
  }

  /// The spec's nodes, reading the places that a stage reads.
  const std::vector<int>& as_seen(int stage) {
    std::vector<int>& known = imported_[stage];
    if (!known.empty()) return known;
    for (UpdateNode node : spec_.nodes) {
      int place = spec::ExpressionNodes::none;
      if (node.operation == UpdateOperation::cell) {
        place = nodes_.cell(seen_[std::size_t(stage)][std::size_t(node.which)],
                            spec_.fields[std::size_t(node.which)].axes, node.at);
      } else {
        for (int& argument : node.arguments) argument = known[static_cast<std::size_t>(argument)];
        place = nodes_.add(std::move(node));
      }
      if (place == spec::ExpressionNodes::none) throw Objection{nodes_.objection()};
      known.push_back(place);
    }
    return known;
  }

  int bar_cell(int field) {
    const int place = places_.bar(field);
    return nodes_.cell(place, all_[static_cast<std::size_t>(place)].axes, {});
  }

  AdjointStage transpose(int stage) {
    const std::vector<int>& nodes = as_seen(stage);
    std::map<int, Terms> seeds;
    std::set<int> written;
    for (const spec::Assignment& one : spec_.stages[std::size_t(stage)].assignments) {
      seeds[nodes[std::size_t(one.node)]].emplace_back(1.0, bar_cell(one.field));
      written.insert(one.field);
    }
    std::map<int, std::map<spec::Offset, Terms>> by_field;
    for (const int field : written) by_field[field];
    for (auto& [cell, terms] : differentiate(nodes_, seeds))
      by_field[places_.field_of(cell.field)][cell.at] = std::move(terms);
    AdjointStage result;
    result.comment = fmt::format("the adjoint of stage {}", stage + 1);
    for (const auto& [field, cells] : by_field) {
      if (cells.empty() && !written.contains(field)) continue;
      AdjointAssignment made = assignment(field, cells, !written.contains(field));
      const bool stays = made.transposed.empty() && made.node == bar_cell(field);
      if (!stays) result.assignments.push_back(std::move(made));
    }
    return result;
  }

  /// Taps with equal values become one transposed read, and values with equal taps one value.
  AdjointAssignment assignment(int field, const std::map<spec::Offset, Terms>& cells, bool adds) {
    Terms at_point;
    if (adds) at_point.emplace_back(1.0, bar_cell(field));
    std::map<int, std::vector<spec::Tap>> taps_of;
    for (const auto& [at, terms] : cells) {
      for (const auto& [weight, node] : terms) taps_of[node].push_back({at, weight, {}});
    }
    const auto same = [](const std::vector<spec::Tap>& a, const std::vector<spec::Tap>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const spec::Tap& s, const spec::Tap& t) {
        return s.at == t.at && s.weight == t.weight;
      });
    };
    std::vector<std::pair<std::vector<spec::Tap>, Terms>> groups;
    for (const auto& [node, taps] : taps_of) {
      if (taps.size() == 1 && taps.front().at == spec::Offset{}) {
        at_point.emplace_back(taps.front().weight, node);
        continue;
      }
      const auto known = std::find_if(groups.begin(), groups.end(),
                                      [&, &own = taps](const auto& group) { return same(group.first, own); });
      if (known == groups.end()) {
        groups.push_back({taps, {{1.0, node}}});
      } else {
        known->second.emplace_back(1.0, node);
      }
    }
    AdjointAssignment result{places_.bar(field), -1, {}};
    if (!at_point.empty() || groups.empty()) result.node = sum_of(nodes_, at_point);
    for (auto& [taps, terms] : groups) {
      const int node = sum_of(nodes_, terms);
      const bool is_plain = crosses_plainly(result.field, taps, node);
      result.transposed.push_back({std::move(taps), node, is_plain});
    }
    return result;
  }

  [[nodiscard]] bool has_rule(int place, std::size_t axis, BoundaryRule rule) const {
    const spec::AxisBoundary& faces = all_[static_cast<std::size_t>(place)].boundary[axis];
    return faces.low.rule == rule && faces.high.rule == rule;
  }

  /// Is the value at points outside harmless, along all axes that taps reach along: is it 0 outside constant
  /// faces, and does it repeat across periodic ones?
  [[nodiscard]] bool crosses_plainly(int field, const std::vector<spec::Tap>& taps, int node) const {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (std::all_of(taps.begin(), taps.end(), [axis](const spec::Tap& tap) { return tap.at[axis] == 0; }))
        continue;
      const bool closes = has_rule(field, axis, BoundaryRule::periodic) && repeats(axis, node);
      const bool ends = has_rule(field, axis, BoundaryRule::constant) && is_zero_outside(axis, node);
      if (!closes && !ends) return false;
    }
    return true;
  }

  [[nodiscard]] bool repeats(std::size_t axis, int node) const {
    const std::vector<bool> needed = nodes_.needed_by({node});
    for (std::size_t i = 0; i < needed.size(); ++i) {
      const UpdateNode& own = nodes_.all()[i];
      if (!needed[i]) continue;
      if (own.operation == UpdateOperation::index && own.which == static_cast<int>(axis)) return false;
      if (own.operation == UpdateOperation::cell && all_[std::size_t(own.which)].axes[axis] &&
          !has_rule(own.which, axis, BoundaryRule::periodic))
        return false;
    }
    return true;
  }

  /// True for sums of products of a derivative, which is 0 outside, and finite numbers there.
  [[nodiscard]] bool is_zero_outside(std::size_t axis, int root) const {
    enum class Outside { unknown, number, zero };
    const std::vector<bool> needed = nodes_.needed_by({root});
    std::vector<Outside> known(needed.size(), Outside::unknown);
    for (std::size_t i = 0; i < needed.size(); ++i) {
      if (!needed[i]) continue;
      const UpdateNode& node = nodes_.all()[i];
      const auto of = [&](std::size_t argument) { return known[std::size_t(node.arguments[argument])]; };
      if (node.operation == UpdateOperation::cell) {
        const bool is_constant =
            node.at == spec::Offset{} && has_rule(node.which, axis, BoundaryRule::constant);
        if (!all_[std::size_t(node.which)].axes[axis]) known[i] = Outside::number;
        if (is_constant) known[i] = places_.is_bar(node.which) ? Outside::zero : Outside::number;
      } else if (node.operation == UpdateOperation::negate) {
        known[i] = of(0);
      } else if (node.operation == UpdateOperation::add || node.operation == UpdateOperation::subtract) {
        known[i] = std::min(of(0), of(1));
      } else if (node.operation == UpdateOperation::multiply) {
        const bool is_known = of(0) != Outside::unknown && of(1) != Outside::unknown;
        if (is_known) known[i] = std::max(of(0), of(1));
      } else if (node.arguments.empty()) {
        known[i] = Outside::number;
      }
    }
    return known[static_cast<std::size_t>(root)] == Outside::zero;
  }

  /// The fields that expressions read or assign.
  std::set<int> places_of(const std::vector<AdjointStage>& stages) const {
    std::vector<int> roots;
    std::set<int> found;
    for (const AdjointStage& stage : stages) {
      for (const AdjointAssignment& one : stage.assignments) {
        found.insert(one.field);
        if (one.node >= 0) roots.push_back(one.node);
        for (const Transposed& read : one.transposed) roots.push_back(read.node);
      }
    }
    const std::vector<bool> needed = nodes_.needed_by(roots);
    for (std::size_t i = 0; i < needed.size(); ++i) {
      if (needed[i] && nodes_.all()[i].operation == UpdateOperation::cell)
        found.insert(nodes_.all()[i].which);
    }
    return found;
  }

  /// Adds the stages that recompute values which derivatives of later stages need.
  void recompute() {
    for (auto stage = static_cast<int>(spec_.stages.size()) - 1; stage-- > 0;) {
      std::vector<AdjointStage> all = backward_;
      all.insert(all.end(), forward_.begin(), forward_.end());
      const std::set<int> used = places_of(all);
      AdjointStage again;
      again.comment = fmt::format("stage {} again", stage + 1);
      for (const spec::Assignment& one : spec_.stages[std::size_t(stage)].assignments) {
        const int place = places_.before(stage + 1, one.field);
        if (used.contains(place))
          again.assignments.push_back({place, as_seen(stage)[std::size_t(one.node)], {}});
      }
      if (!again.assignments.empty()) forward_.insert(forward_.begin(), std::move(again));
    }
  }

  /// Collects the used fields: those of the spec, those before later stages, derivatives.
  void gather() {
    std::vector<AdjointStage>& stages = result_.stages;
    stages = forward_;
    stages.insert(stages.end(), backward_.begin(), backward_.end());
    const std::set<int> used = places_of(stages);
    std::vector<int> order;
    for (const int place : used) {
      if (!places_.is_bar(place)) order.push_back(place);
    }
    for (const int place : used) {
      if (places_.is_bar(place)) order.push_back(place);
    }
    std::map<int, int> moved;
    for (const int place : order) {
      moved[place] = static_cast<int>(result_.fields.size());
      result_.fields.push_back(all_[static_cast<std::size_t>(place)]);
    }
    std::vector<int*> roots;
    for (AdjointStage& stage : stages) {
      for (AdjointAssignment& one : stage.assignments) {
        one.field = moved.at(one.field);
        if (one.node >= 0) roots.push_back(&one.node);
        for (Transposed& read : one.transposed) roots.push_back(&read.node);
      }
    }
    std::vector<int> nodes;
    for (const int* root : roots) nodes.push_back(*root);
    result_.nodes = nodes_.extract(nodes);
    for (std::size_t i = 0; i < roots.size(); ++i) *roots[i] = nodes[i];
    for (UpdateNode& node : result_.nodes) {
      if (node.operation == UpdateOperation::cell) node.which = moved.at(node.which);
    }
    keep_scalars();
    result_.name = spec_.name + "_adjoint";
    result_.dimensions = spec_.dimensions;
    result_.storage = spec_.storage;
    describe(used);
  }

  void keep_scalars() {
    std::map<int, int> moved;
    for (UpdateNode& node : result_.nodes) {
      if (node.operation != UpdateOperation::scalar) continue;
      moved.emplace(node.which, 0);
    }
    for (auto& [scalar, place] : moved) {
      place = static_cast<int>(result_.scalars.size());
      result_.scalars.push_back(spec_.scalars[static_cast<std::size_t>(scalar)]);
    }
    for (UpdateNode& node : result_.nodes) {
      if (node.operation == UpdateOperation::scalar) node.which = moved.at(node.which);
    }
  }

  void describe(const std::set<int>& used) {
    result_.description = fmt::format("adjoint of {}, by spider-gen", spec_.name);
    std::vector<std::string>& notes = result_.notes;
    notes.emplace_back(
        "X_bar is the derivative with respect to X: on entry of what the sweep wrote or left,");
    notes.emplace_back("on return of what it read. Fields of other names have the values before the sweep.");
    for (const int place : used) {
      const int stage = places_.stage_of(place);
      const std::string& own = spec_.fields[static_cast<std::size_t>(places_.field_of(place))].name;
      if (stage > 0) {
        notes.push_back(fmt::format("{} is {} before stage {}, which the first stages write again.",
                                    all_[static_cast<std::size_t>(place)].name, own, stage + 1));
      }
    }
    for (std::size_t i = 0; i < spec_.fields.size(); ++i) {
      const spec::SystemField& field = spec_.fields[i];
      const int bar = places_.bar(static_cast<int>(i));
      if (!used.contains(bar)) {
        notes.push_back(fmt::format("{} is absent, and stays as it is: no derivative reaches {}.",
                                    bar_of(field.name), field.name));
      } else if (all_[static_cast<std::size_t>(bar)].axes != field.axes) {
        notes.push_back(fmt::format("{} has cells along all axes: sum it over those that {} does not have.",
                                    bar_of(field.name), field.name));
      }
    }
    for (const UpdateNode& node : result_.nodes) {
      if (node.operation != UpdateOperation::choose) continue;
      notes.emplace_back("Conditions are fixed: the derivative is that of the branch which was taken.");
      break;
    }
    if (!spec_.reductions.empty()) notes.emplace_back("Reductions have no part in it.");
  }

  const spec::SystemSpec& spec_;
  diag::Diagnostics& diagnostics_;
  FieldPlaces places_;
  spec::Calculator calculator_;
  spec::ExpressionNodes nodes_;
  std::vector<spec::SystemField> all_;        ///< by place
  std::vector<std::vector<int>> seen_;        ///< by stage and field, a place
  std::map<int, std::vector<int>> imported_;  ///< by stage and node of the spec, a node
  std::vector<AdjointStage> backward_;
  std::vector<AdjointStage> forward_;
  AdjointSystem result_;
};

}  // namespace

std::string bar_of(const std::string& field) {
  return field + "_bar";
}

AdjointSystem adjoint_of(const spec::SystemSpec& spec, diag::Diagnostics& diagnostics) {
  return Transposer(spec, diagnostics).run();
}

}  // namespace spidergen::adjoint
