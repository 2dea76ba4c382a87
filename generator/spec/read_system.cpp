#include "spec/read_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "spec/coefficients.h"
#include "spec/expression_nodes.h"
#include "spec/given_names.h"
#include "spec/names.h"
#include "spec/operator.h"
#include "spec/parameters.h"
#include "spec/read_expression.h"
#include "spec/store_axes.h"
#include "spec/system_fields.h"

namespace spidergen::spec {
namespace {

constexpr std::size_t most_operators = 64;

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = {"schema",    "stencil", "description", "dimensions",
                                                "storage",   "fields",  "parameters",  "scalars",
                                                "operators", "stages",  "reduce",      "boundary"};
  return keys;
}

/// The system's replacement for a key of specs with one update; empty for other keys.
std::string_view in_its_place(std::string_view key) {
  if (key == "sums") return "call them 'operators', and apply each to a field: gx(u)";
  if (key == "update") return "write a stage, which says what becomes of each field: stages: [{u: ...}]";
  if (key == "previous") return "make it one of 'fields', and let a stage write it: u_old: u";
  if (key == "steps") return "a sweep is one step, and is run as often as there are steps; remove it";
  if (key == "tolerance") return "no weights are composed; remove it";
  if (key == "weights" || key == "accumulate" || key == "accuracy")
    return "a system is computed in f32, or in f64 where one of its fields is of f64; remove it";
  const std::vector<std::string>& shape_keys = operator_keys();
  if (std::find(shape_keys.begin(), shape_keys.end(), key) != shape_keys.end())
    return "move it into one of 'operators', such as operators: {lap: {shape: laplacian}}";
  return {};
}

/// Built-in names of systems.
std::optional<std::string> own_meaning(const std::string& name) {
  if (name == "new") return "a field after the sweep";
  if (name == "let") return "the names of a stage's values";
  if (name == "adjoint") return "the transpose of reading a field";
  return meaning_of_axes(name);
}

class Reader {
 public:
  Reader(const Document& document, const std::vector<ParameterOverride>& overrides)
      : document_(document),
        overrides_(overrides),
        context_(document.context),
        names_("systems", own_meaning, context_),
        nodes_(context_.calculator) {}

  SystemSpec read() {
    check_document_keys();
    spec_.where = document_.place("stages");
    spec_.name = read_name(document_);
    spec_.renamed = !document_.source.name.empty();
    spec_.description = read_description(document_);
    const std::optional<int> dimensions = read_dimensions(document_);
    spec_.dimensions = dimensions.value_or(3);  // for checks that do not depend on it
    spec_.storage = require_choice(document_, "storage", float_storages()).value_or(Storage::f32);
    spec_.parameters =
        read_parameters(document_.find("parameters"), overrides_, document_.source.path, context_);
    names_.take_parameters(document_.root, true);
    spec_.fields = read_system_fields(document_, spec_.dimensions, spec_.storage, names_);
    spec_.scalars = read_scalars(document_.root, names_, context_);
    is_wide_ = std::any_of(spec_.fields.begin(), spec_.fields.end(),
                           [](const SystemField& field) { return field.storage == Storage::f64; });
    read_operators(dimensions);
    name_leaves();
    if (!dimensions || !has_all_fields() || !has_all_operators_) return std::move(spec_);
    read_stages();
    read_reductions();
    finish();
    store();
    return std::move(spec_);
  }

 private:
  void refuse(const diag::SourceLocation& where, std::string text) {
    context_.diagnostics.error(where, std::move(text));
  }

  void check_document_keys() {
    Node others = document_.root;
    std::erase_if(others.entries, [this](const Entry& entry) {
      const std::string_view instead = in_its_place(entry.key);
      if (instead.empty()) return false;
      refuse(entry.where,
             fmt::format("'{}' does not go with 'stages', a system of equations; {}", entry.key, instead));
      return true;
    });
    check_keys(others, known_keys(), "the spec", context_);
  }

  /// Does every field have a name? Without it, expressions cannot be checked.
  [[nodiscard]] bool has_all_fields() const {
    const Node* const fields = document_.find("fields");
    return fields != nullptr && !spec_.fields.empty() &&
           spec_.fields.size() == fields->items.size() + fields->entries.size();
  }

  void read_operators(std::optional<int> dimensions) {
    const Entry* const entry = find_entry(document_.root, "operators");
    if (entry == nullptr) return;
    if (!expect(entry->value, NodeKind::mapping,
                "'operators' is a mapping of names to stencils such as {dx: {shape: derivative, order: {x: "
                "1}}}",
                context_))
      return;
    if (entry->value.entries.empty()) refuse(entry->where, "'operators' names none; remove it");
    if (entry->value.entries.size() > most_operators) {
      refuse(entry->where, fmt::format("{} operators; a system has at most {}", entry->value.entries.size(),
                                       most_operators));
    }
    std::size_t taps = 0;
    for (const Entry& one : entry->value.entries) {
      if (taps > most_taps) break;  // bounds the time to read
      const std::size_t errors = context_.diagnostics.errors;
      // Weights become constants of the expressions, whatever the storage of the fields.
      Operator read =
          read_named_operator(one, "operator", dimensions, is_wide_ ? Storage::f64 : Storage::f32, context_);
      if (context_.diagnostics.errors > errors) read.taps.clear();
      taps += read.taps.size();
      if (names_.take(one.key, one.where, "operator"))
        vocabulary_.operators.insert_or_assign(one.key, std::move(read.taps));
    }
    has_all_operators_ = taps <= most_taps;
    if (!has_all_operators_) {
      refuse(
          entry->where,
          fmt::format("the operators have more than {0} taps together; a system has at most {0}", most_taps));
    }
  }

  void name_leaves() {
    vocabulary_.dimensions = spec_.dimensions;
    UpdateNames& leaves = vocabulary_.leaves;
    for (std::size_t i = 0; i < spec_.fields.size(); ++i) {
      leaves[spec_.fields[i].name] = {UpdateOperation::cell, 0, static_cast<int>(i), {}, {}};
      vocabulary_.field_axes.push_back(spec_.fields[i].axes);
    }
    for (std::size_t i = 0; i < spec_.scalars.size(); ++i)
      leaves[spec_.scalars[i]] = {UpdateOperation::scalar, 0, static_cast<int>(i), {}, {}};
    for (int axis = first_axis(spec_.dimensions); axis <= axis_x; ++axis) {
      leaves[fmt::format("i{}", axis_letters[axis])] = {UpdateOperation::index, 0, axis, {}, {}};
      leaves[fmt::format("n{}", axis_letters[axis])] = {UpdateOperation::extent, 0, axis, {}, {}};
    }
  }

  /// The node of an expression; none where it is in error. `what` names it in messages.
  int read_value(const Node& node, const std::string& what) {
    if (nodes_.is_full() || context_.diagnostics.full()) return ExpressionNodes::none;  // reported once
    if (!expect(node, NodeKind::scalar, fmt::format("{} is an expression, such as u + dt*v", what), context_))
      return ExpressionNodes::none;
    std::vector<std::string> used;
    const auto read = read_expression(node.text, vocabulary_, nodes_, context_.calculator, used);
    used_.insert(used.begin(), used.end());
    if (const auto* error = std::get_if<ExpressionError>(&read)) {
      if (!error->text.empty())
        refuse(place_in_text(node, error->offset), fmt::format("{}: {}", what, error->text));
      return ExpressionNodes::none;
    }
    check_numbers(std::get<int>(read), node, what);
    return std::get<int>(read);
  }

  /// Reports constants outside the range of f32 where that is the arithmetic.
  void check_numbers(int root, const Node& node, const std::string& what) {
    if (is_wide_) return;
    std::vector<int> open{root};
    while (!open.empty()) {
      const int next = open.back();
      open.pop_back();
      if (!checked_.insert(next).second) continue;
      const UpdateNode& one = nodes_[next];
      open.insert(open.end(), one.arguments.begin(), one.arguments.end());
      if (one.operation != UpdateOperation::number) continue;
      const auto single = static_cast<float>(one.value);
      if (std::isfinite(single) && (single != 0 || one.value == 0)) continue;
      refuse(node.where,
             fmt::format("{}: the constant {} is beyond f32, in which the system is computed; its "
                         "numbers reach from 1e-45 to 3e38",
                         what, one.value));
    }
  }

  void read_stages() {
    const Entry& entry = *find_entry(document_.root, "stages");
    if (!expect(entry.value, NodeKind::sequence,
                "'stages' is a list of mappings of fields to what becomes of them, such as [{u: u + dt*v}]",
                context_))
      return;
    if (entry.value.items.empty()) refuse(entry.where, "'stages' has none; a system has at least one");
    if (entry.value.items.size() > most_stages) {
      refuse(entry.where,
             fmt::format("{} stages; a system has at most {}", entry.value.items.size(), most_stages));
      return;
    }
    for (const Node& item : entry.value.items) read_stage(item);
  }

  void read_stage(const Node& node) {
    const std::string number = fmt::format("stage {}", ++stages_read_);
    if (!expect(node, NodeKind::mapping,
                number + " is a mapping of fields to what becomes of them, such as u: u + dt*v", context_))
      return;
    Stage stage;
    stage.where = node.where;
    std::vector<GivenName> values;
    if (const Entry* let = find_entry(node, "let")) values = read_let(*let);
    bool assigns = false;
    for (const Entry& entry : node.entries) {
      if (entry.key == "let") continue;
      assigns = true;
      read_assignment(entry, stage);
    }
    if (!assigns)
      refuse(node.where, number + " assigns no field; write what becomes of one, such as u: u + dt*v");
    for (const GivenName& value : values) {
      if (!used_.contains(value.name) && !context_.diagnostics.has_errors())
        refuse(value.where, fmt::format("{} is not used in the stage; use it or remove it", value.what));
      used_.erase(value.name);
    }
    vocabulary_.values.clear();
    spec_.stages.push_back(std::move(stage));
  }

  std::vector<GivenName> read_let(const Entry& let) {
    std::vector<GivenName> values;
    if (!expect(let.value, NodeKind::mapping,
                "'let' is a mapping of names to expressions, such as {div: dx(u) + dy(v)}", context_))
      return values;
    if (let.value.entries.empty()) refuse(let.where, "'let' names none; remove it");
    GivenNames names = names_;  // other stages may use the same names
    for (const Entry& entry : let.value.entries) {
      if (!names.take(entry.key, entry.where, "value")) continue;
      values.push_back(names.all().back());
      vocabulary_.values[entry.key] = read_value(entry.value, fmt::format("value '{}'", entry.key));
    }
    return values;
  }

  void read_assignment(const Entry& entry, Stage& stage) {
    const auto found = std::find_if(spec_.fields.begin(), spec_.fields.end(),
                                    [&](const SystemField& field) { return field.name == entry.key; });
    if (found == spec_.fields.end()) {
      std::vector<std::string> known;
      for (const SystemField& field : spec_.fields) known.push_back(field.name);
      refuse(entry.where, fmt::format("a stage assigns fields, and {} is none{}; fields are {}",
                                      shown(entry.key), did_you_mean(entry.key, known), list_names(known)));
      (void)read_value(entry.value, shown(entry.key));
      return;
    }
    for (int axis = first_axis(spec_.dimensions); axis <= axis_x; ++axis) {
      if (found->axes[static_cast<std::size_t>(axis)]) continue;
      refuse(entry.where,
             fmt::format("field '{}' has no cells along {}, and no stage can assign it: the value "
                         "would be another at each {}; give it all axes",
                         entry.key, axis_name(axis), axis_name(axis)));
      break;
    }
    used_.insert(entry.key);
    const auto field = static_cast<int>(found - spec_.fields.begin());
    assigned_.insert(field);
    const int value = read_value(entry.value, fmt::format("field '{}'", entry.key));
    if (value == ExpressionNodes::none) return;
    stage.assignments.push_back({field, value, entry.value.text, entry.where});
  }

  void read_reductions() {
    const Entry* const entry = find_entry(document_.root, "reduce");
    if (entry == nullptr) return;
    if (!expect(entry->value, NodeKind::mapping,
                "'reduce' is a mapping of names to what is made of all points, such as {mass: {sum: u}}",
                context_))
      return;
    if (entry->value.entries.empty()) refuse(entry->where, "'reduce' names none; remove it");
    if (entry->value.entries.size() > most_reductions) {
      refuse(entry->where, fmt::format("{} reductions; a system has at most {}", entry->value.entries.size(),
                                       most_reductions));
      return;
    }
    vocabulary_.assigned.assign(std::max<std::size_t>(spec_.fields.size(), 1), false);
    for (const int field : assigned_) vocabulary_.assigned[static_cast<std::size_t>(field)] = true;
    for (const Entry& one : entry->value.entries) read_reduction(one);
  }

  void read_reduction(const Entry& entry) {
    GivenNames names = names_;  // no name of expressions; it need not be used
    if (!names.take(entry.key, entry.where, "reduction")) return;
    const std::string what = fmt::format("reduction '{}'", entry.key);
    if (!expect(entry.value, NodeKind::mapping,
                what + " is a mapping of 'sum', 'max' or 'min' to an expression, such as {max: abs(u)}",
                context_))
      return;
    std::vector<std::string> kinds;
    for (const auto& [word, kind] : choices_of<ReductionKind>(reduction_kind_names)) kinds.push_back(word);
    if (!check_keys(entry.value, kinds, what, context_)) return;
    if (entry.value.entries.size() != 1) {
      refuse(entry.where, fmt::format("{} is one of 'sum', 'max' and 'min' of an expression, such as {{max: "
                                      "abs(u)}}",
                                      what));
      return;
    }
    const Entry& only = entry.value.entries.front();
    const int value = read_value(only.value, what);
    if (value == ExpressionNodes::none) return;
    check_moment(value, what, only.value.where);
    for (const auto& [word, kind] : choices_of<ReductionKind>(reduction_kind_names)) {
      if (word == only.key)
        spec_.reductions.push_back({entry.key, kind, value, last_stage_of(value), only.value.text});
    }
  }

  /// The stages that assign a field, counted from 0.
  [[nodiscard]] std::vector<int> stages_of(int field) const {
    std::vector<int> found;
    for (std::size_t stage = 0; stage < spec_.stages.size(); ++stage) {
      for (const Assignment& one : spec_.stages[stage].assignments) {
        if (one.field == field) found.push_back(static_cast<int>(stage));
      }
    }
    return found;
  }

  /// The last stage that assigns a value after the sweep that the expression reads; 0 where it reads none.
  [[nodiscard]] int last_stage_of(int value) const {
    int last = 0;
    const std::vector<bool> needed = nodes_.needed_by({value});
    for (std::size_t i = 0; i < needed.size(); ++i) {
      const UpdateNode& node = nodes_[static_cast<int>(i)];
      if (!needed[i] || node.operation != UpdateOperation::written) continue;
      for (const int stage : stages_of(node.which)) last = std::max(last, stage);  // none that has an error
    }
    return last;
  }

  /// Refuses an expression of a value after the sweep and a cell that an earlier stage replaces.
  void check_moment(int value, const std::string& what, const diag::SourceLocation& where) {
    const int last = last_stage_of(value);
    const std::vector<bool> needed = nodes_.needed_by({value});
    for (std::size_t i = 0; i < needed.size(); ++i) {
      const UpdateNode& node = nodes_[static_cast<int>(i)];
      if (!needed[i] || node.operation != UpdateOperation::cell) continue;
      const std::vector<int> stages = stages_of(node.which);
      if (stages.empty() || stages.front() >= last) continue;
      const std::string& name = spec_.fields[static_cast<std::size_t>(node.which)].name;
      refuse(where,
             fmt::format("{0}: stage {1} replaces the '{2}' before the sweep, and stage {3} computes a "
                         "value after it; reduce each by itself, or let a field store '{2}'",
                         what, stages.front() + 1, name, last + 1));
      return;
    }
  }

  /// Reports unused names, and removes nodes that nothing needs.
  void finish() {
    if (context_.diagnostics.has_errors()) return;  // errors may be why a name is unused
    for (const GivenName& one : names_.all()) {
      if (!used_.contains(one.name))
        refuse(one.where, fmt::format("{} is not used in 'stages'; use it or remove it", one.what));
    }
    std::vector<int*> roots;
    for (Stage& stage : spec_.stages) {
      for (Assignment& one : stage.assignments) roots.push_back(&one.node);
    }
    for (Reduction& one : spec_.reductions) roots.push_back(&one.node);
    std::vector<int> places;
    places.reserve(roots.size());
    for (const int* root : roots) places.push_back(*root);
    spec_.nodes = nodes_.extract(places);
    for (std::size_t i = 0; i < roots.size(); ++i) *roots[i] = places[i];
    if (spec_.nodes.size() > most_system_nodes) {
      refuse(spec_.where,
             fmt::format("the expressions have {} operations once operators are sums of cells; a "
                         "system has at most {}",
                         spec_.nodes.size(), most_system_nodes));
    }
  }

  /// Brings the axes into memory order, where the command line gives one.
  void store() {
    const std::string& order = document_.source.axes;
    if (order.empty()) return;
    const std::string objection = objection_to_order(order, spec_.dimensions);
    if (!objection.empty()) return refuse(document_.place("dimensions"), objection);
    store_axes(spec_, order);
  }

  const Document& document_;
  const std::vector<ParameterOverride>& overrides_;
  Context& context_;
  GivenNames names_;
  ExpressionNodes nodes_;
  Vocabulary vocabulary_;
  SystemSpec spec_;
  std::set<std::string> used_;
  std::set<int> assigned_;
  std::set<int> checked_;  ///< nodes whose constants are checked
  bool is_wide_ = false;   ///< is the arithmetic f64?
  bool has_all_operators_ = true;
  int stages_read_ = 0;
};

}  // namespace

SystemSpec read_system(const Document& document, const std::vector<ParameterOverride>& overrides) {
  return Reader(document, overrides).read();
}

}  // namespace spidergen::spec
