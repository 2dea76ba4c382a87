#include "spec/read_spec.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "spec/boundary.h"
#include "spec/document.h"
#include "spec/fields.h"
#include "spec/further_fields.h"
#include "spec/names.h"
#include "spec/operator.h"
#include "spec/parameters.h"
#include "spec/read_system.h"
#include "spec/source_text.h"
#include "spec/store_axes.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {
namespace {

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all = {"schema", "stencil",    "description", "dimensions", "storage",
                                    "output", "accumulate", "weights",     "accuracy",   "parameters"};
    for (const std::string& key : operator_keys()) {
      if (key != "accuracy") all.push_back(key);
    }
    all.insert(all.end(), {"sums", "boundary", "steps", "tolerance", "previous", "fields", "scalars",
                           "update", "stages"});
    return all;
  }();
  return keys;
}

/// A key that may be absent; the first choice is its default.
template <typename Value>
Value choice_or_default(const Document& document, const std::string& key, const Choices<Value>& choices) {
  const Node* node = document.find(key);
  if (!node) return choices.front().second;
  return read_choice(*node, fmt::format("'{}'", key), choices, document.context)
      .value_or(choices.front().second);
}

/// f64 fields, and no others, are summed in f64.
void check_sums(const Document& document, StencilSpec& spec) {
  const bool is_double = spec.storage == Storage::f64;
  if (document.find("accumulate") == nullptr) {
    if (is_double) spec.accumulate = Accumulate::f64;
  } else if (is_double != (spec.accumulate == Accumulate::f64)) {
    document.context.diagnostics.error(
        document.place("accumulate"),
        is_double ? "with 'storage: f64' sums are f64; write 'accumulate: f64' or remove it"
                  : fmt::format("'accumulate: f64' goes with 'storage: f64', not with {}; remove it",
                                storage_name(spec.storage)));
    spec.accumulate = is_double ? Accumulate::f64 : Accumulate::f32;
  }
}

/// 'weights' counts the 16-bit terms of a weight for 16-bit fields; f32 fields have 'accuracy' instead.
void check_storage_keys(const Document& document, const StencilSpec& spec, bool is_difference) {
  const std::string_view storage = storage_name(spec.storage);
  const bool of_f16 = spec.weights == WeightMode::f16 || spec.weights == WeightMode::f16x2;
  if (spec.storage != Storage::f32 && document.find("accuracy") && !is_difference) {
    document.context.diagnostics.error(
        document.place("accuracy"), "'accuracy' goes with 'storage: f32', not with {}; remove it", storage);
  }
  if (spec.weights == WeightMode::automatic) return;
  if (is_integer(spec.storage)) {
    document.context.diagnostics.error(
        document.place("weights"),
        "with 'storage: {}' the plan chooses the type of weights; write 'weights: auto' or remove it",
        storage);
  } else if (spec.storage == Storage::f64) {
    document.context.diagnostics.error(document.place("weights"),
                                       "with 'storage: f64' weights are f64 numbers, as the spec has them; "
                                       "write 'weights: auto' or remove it");
  } else if (spec.storage == Storage::f32) {
    document.context.diagnostics.error(document.place("weights"),
                                       "with 'storage: f32' the key 'accuracy' says how weights are held; "
                                       "write 'weights: auto' or remove it");
  } else if (of_f16 != (spec.storage == Storage::f16)) {
    document.context.diagnostics.error(document.place("weights"),
                                       "with 'storage: {0}' weights are '{0}', '{0}x2' or 'auto'", storage);
  }
}

/// The precision of f32 operands. Finite differences use the same key for their order, within their sum.
Accuracy read_accuracy(const Document& document) {
  const Node* node = document.find("accuracy");
  const bool is_order = node != nullptr && node->kind == NodeKind::scalar &&
                        node->text.find_first_not_of("0123456789") == std::string::npos;
  if (!is_order || !document.find("sums"))
    return choice_or_default(document, "accuracy", choices_of<Accuracy>(accuracy_names));
  document.context.diagnostics.error(
      node->where,
      "'accuracy: {}', the order of a finite difference, goes into each of the "
      "'sums' that it is of",
      node->text);
  return Accuracy::full;
}

/// Time steps of a sweep; `auto` gives none.
std::optional<int> read_steps(const Document& document) {
  constexpr int most_steps = 1024;  // more than fit any kernel
  const Node* node = document.find("steps");
  if (!node) return 1;
  if (node->kind == NodeKind::scalar && node->text == "auto") return std::nullopt;
  if (node->kind == NodeKind::scalar && is_identifier(node->text) && !is_built_in(node->text) &&
      !document.context.calculator.is_parameter(node->text)) {
    document.context.diagnostics.error(node->where, "'steps' is a whole number, or 'auto', not {}",
                                       shown(node->text));
    return 1;
  }
  return read_whole(*node, "'steps'", 1, most_steps, document.context).value_or(1);
}

/// The allowed error of composed weights; none where it follows from the storage.
std::optional<double> read_tolerance(const Document& document) {
  const Node* node = document.find("tolerance");
  if (!node) return std::nullopt;
  const std::optional<double> tolerance = read_number(*node, "'tolerance'", document.context);
  if (tolerance && *tolerance < 0) {
    document.context.diagnostics.error(node->where, "'tolerance' is 0 or more, not {}", describe(*node));
  }
  return tolerance;
}

KeyLocations key_locations(const Document& document, const diag::SourceLocation& coefficients) {
  return {document.place("dimensions"), document.place("storage"),  document.place("accumulate"),
          document.place("weights"),    document.place("accuracy"), coefficients,
          document.place("steps"),      document.place("update"),   document.place("output")};
}

/// Reports face rules that only fields of systems have.
void refuse_rules_of_systems(const std::array<AxisBoundary, 3>& boundary, Context& context) {
  for (const AxisBoundary& axis : boundary) {
    for (const Face* face : {&axis.low, &axis.high}) {
      if (face->rule != BoundaryRule::antireflect && face->rule != BoundaryRule::antimirror) continue;
      context.diagnostics.error(
          face->where,
          "'{}' is a rule for fields of systems of equations; write the stencil as a stage, or "
          "'antisymmetric', which is 0 in the first cell beyond the face",
          rule_name(face->rule));
      return;
    }
  }
}

/// Reports unknown keys, and keys of systems where there are no `stages`.
void check_document_keys(const Document& document) {
  Node others = document.root;
  std::erase_if(others.entries, [&](const Entry& entry) {
    if (entry.key != "operators" && entry.key != "reduce") return false;
    document.context.diagnostics.error(
        entry.where, "'{}' goes with 'stages', the key of a system of equations; {}", entry.key,
        entry.key == "reduce" ? "write 'stages' too, or remove it"
                              : "write 'stages' too, or call them 'sums'");
    return true;
  });
  check_keys(others, known_keys(), "the spec", document.context);
}

/// Integer storage, and results of another storage, require single sweeps of one sum. `steps` and the update
/// were read before.
void check_conversions(const Document& document, StencilSpec& spec) {
  if (!converts_cells(spec)) return;
  const std::string what = is_integer(spec.storage)
                               ? fmt::format("'storage: {}'", storage_name(spec.storage))
                               : fmt::format("'output: {}'", storage_name(output_of(spec)));
  const std::string instead = is_integer(spec.storage) ? "write 'storage: f32'" : "remove 'output'";
  if (spec.steps != 1) {
    document.context.diagnostics.error(
        document.place("steps"), "{} goes with sweeps of one step; write 'steps: 1', or {}", what, instead);
    spec.steps = 1;  // such specs have no plan of several steps to check
  }
  for (const char* key : {"previous", "fields", "scalars", "update"}) {
    if (document.find(key) == nullptr) continue;
    document.context.diagnostics.error(document.place(key),
                                       "{} goes with the sum alone, not with '{}'; remove it, or {}", what,
                                       key, instead);
  }
  if (document.find("sums") != nullptr) {
    document.context.diagnostics.error(
        document.place("sums"),
        "{} goes with one sum, not with 'sums'; write its keys in the spec itself, or {}", what, instead);
  }
}

/// A product that stays a product of lists requires single sweeps of it alone.
void check_lists(const Document& document, StencilSpec& spec) {
  for (const char* key : {"steps", "previous", "fields", "scalars", "update"}) {
    if (document.find(key) == nullptr || (std::string_view(key) == "steps" && spec.steps == 1)) continue;
    document.context.diagnostics.error(spec.where.coefficients,
                                       too_many_taps(spec, fmt::format("'{}'", key)));
    return;
  }
}

void read_document(const Document& document, const std::vector<ParameterOverride>& overrides,
                   StencilSpec& spec) {
  constexpr int any_dimensions = 3;  // to check a boundary where the spec's own dimensions are in error
  check_document_keys(document);
  spec.name = read_name(document);
  spec.description = read_description(document);
  const std::optional<int> dimensions = read_dimensions(document);
  const std::optional<Storage> storage = require_choice(document, "storage", storages());
  // This shape may have an `accuracy` of its own. Named sums have theirs inside.
  const std::optional<Shape> shape = document.find("sums") ? std::nullopt : find_shape(document.root);
  const bool is_difference = shape && has_order_of_accuracy(*shape);
  spec.dimensions = dimensions.value_or(spec.dimensions);
  spec.storage = storage.value_or(spec.storage);
  if (const Node* const output = document.find("output"))
    spec.output = read_choice(*output, "'output'", storages(), document.context);
  if (spec.output == spec.storage) spec.output = std::nullopt;
  spec.accumulate = choice_or_default(document, "accumulate", choices_of<Accumulate>(accumulate_names));
  spec.weights = choice_or_default(document, "weights", choices_of<WeightMode>(weight_mode_names));
  if (!is_difference) spec.accuracy = read_accuracy(document);
  if (storage) check_sums(document, spec);
  if (storage) check_storage_keys(document, spec, is_difference);
  spec.parameters =
      read_parameters(document.find("parameters"), overrides, document.source.path, document.context);
  Operator summed = read_operator(document.root, document.start, dimensions, storage.value_or(Storage::f32),
                                  document.context);
  spec.sums = std::move(summed.sums);
  spec.taps = std::move(summed.taps);
  spec.lists = std::move(summed.lists);
  spec.boundary = read_boundary(document.find("boundary"), dimensions.value_or(any_dimensions),
                                storage.value_or(Storage::f32), document.start, document.context);
  refuse_rules_of_systems(spec.boundary, document.context);
  spec.steps = read_steps(document);
  spec.tolerance = read_tolerance(document);
  spec.where = key_locations(document, summed.where);
  read_further_fields(document.root, dimensions.has_value(), spec, document.context);
  if (storage) check_conversions(document, spec);
  if (!spec.lists.empty()) check_lists(document, spec);
  if (document.source.axes.empty() || !dimensions) return;
  const std::string objection = objection_to_order(document.source.axes, *dimensions);
  if (objection.empty()) {
    store_axes(spec, document.source.axes);
  } else {
    document.context.diagnostics.error(spec.where.dimensions, objection);
  }
}

}  // namespace

ReadResult read_spec(const SpecSource& source, const std::vector<ParameterOverride>& overrides) {
  ReadResult result;
  if (source.text.size() > longest_text) {
    result.diagnostics.error({source.path, 0, 0}, "larger than {} bytes; no spec needs that", longest_text);
    return result;
  }
  if (const std::string objection = objection_to_file_name(source.path); !objection.empty()) {
    result.diagnostics.error({source.path, 0, 0}, objection);
    return result;
  }
  const std::string text = normalise(source.text);
  result.spec.source_name = file_name(source.path);
  result.spec.renamed = !source.name.empty();
  result.spec.source_hash = hash(text);
  if (!check_bytes(text, source.path, result.diagnostics)) return result;
  const std::optional<Node> root = read_yaml(text, source.path, result.diagnostics);
  if (!root) return result;
  Calculator calculator;
  Context context{calculator, result.diagnostics};
  if (expect(*root, NodeKind::mapping, "a spec is a mapping of keys such as 'stencil: NAME'", context)) {
    const Document document{source, *root, {source.path, 1, 1}, context};
    if (check_schema(document)) {
      if (document.find("stages") != nullptr) {
        result.system = read_system(document, overrides);
        result.system->source_name = result.spec.source_name;
        result.system->source_hash = result.spec.source_hash;
        result.spec.name = result.system->name;
      } else {
        read_document(document, overrides, result.spec);
      }
    }
  }
  result.diagnostics.sort_by_location();
  return result;
}

}  // namespace spidergen::spec
