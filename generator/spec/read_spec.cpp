#include "spec/read_spec.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "spec/boundary.h"
#include "spec/fields.h"
#include "spec/further_fields.h"
#include "spec/names.h"
#include "spec/operator.h"
#include "spec/parameters.h"
#include "spec/source_text.h"
#include "spec/store_axes.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {
namespace {

constexpr int newest_schema = 1;
constexpr std::size_t longest_description = 500;

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all = {"schema",     "stencil", "description", "dimensions", "storage",
                                    "accumulate", "weights", "accuracy",    "parameters"};
    for (const std::string& key : operator_keys()) {
      if (key != "accuracy") all.push_back(key);
    }
    all.insert(all.end(),
               {"sums", "boundary", "steps", "tolerance", "previous", "fields", "scalars", "update"});
    return all;
  }();
  return keys;
}

const Choices<Accumulate>& accumulators() {
  static const Choices<Accumulate> choices = {
      {"f32", Accumulate::f32}, {"f16", Accumulate::f16}, {"f64", Accumulate::f64}};
  return choices;
}

const Choices<WeightMode>& weight_modes() {
  static const Choices<WeightMode> choices = {{"auto", WeightMode::automatic},
                                              {"f16", WeightMode::f16},
                                              {"f16x2", WeightMode::f16x2},
                                              {"bf16", WeightMode::bf16},
                                              {"bf16x2", WeightMode::bf16x2}};
  return choices;
}

const Choices<Accuracy>& accuracies() {
  static const Choices<Accuracy> choices = {
      {"full", Accuracy::full}, {"tf32", Accuracy::tf32}, {"f16", Accuracy::f16}};
  return choices;
}

/// The document that is read, and what the readers of its keys share.
struct Document {
  const SpecSource& source;
  const Node& root;
  diag::SourceLocation start;  ///< where messages about absent keys point
  Context& context;

  [[nodiscard]] const Node* find(std::string_view key) const {
    const Entry* entry = find_entry(root, key);
    return entry ? &entry->value : nullptr;
  }

  [[nodiscard]] diag::SourceLocation place(std::string_view key) const {
    const Entry* entry = find_entry(root, key);
    return entry ? entry->where : start;
  }

  /// The value of a key that every spec has; `example` shows how to add it.
  [[nodiscard]] const Node* require(std::string_view key, std::string_view example) const {
    const Node* node = find(key);
    if (!node) context.diagnostics.error(start, fmt::format("'{}' is missing; add {}", key, example));
    return node;
  }
};

/// False for a spec of a later schema: its other keys may mean anything.
bool check_schema(const Document& document) {
  const Node* node = document.find("schema");
  if (!node) return true;
  const std::optional<double> schema = read_number(*node, "'schema'", document.context);
  if (!schema) return true;
  const bool is_whole = std::trunc(*schema) == *schema;
  if (is_whole && *schema > newest_schema) {
    document.context.diagnostics.error(
        node->where,
        fmt::format("schema {} needs a newer spider-gen; this one reads schema {}", *schema, newest_schema));
    return false;
  }
  if (!is_whole || *schema < 1) {
    document.context.diagnostics.error(
        node->where, fmt::format("'schema' is a whole number from 1 on, not {}", describe(*node)));
  }
  return true;
}

std::string read_name(const Document& document) {
  const std::string stem = file_stem(document.source.path);
  const Node* node =
      document.require("stencil", "'stencil: NAME', where NAME is the file's name without .yaml");
  if (!node || !expect(*node, NodeKind::scalar, "'stencil' is the stencil's name", document.context))
    return {};
  const std::string objection = objection_to_stencil_name(node->text);
  if (!objection.empty()) {
    document.context.diagnostics.error(node->where, objection);
  } else if (document.source.path != "-" && node->text != stem) {
    document.context.diagnostics.error(
        node->where,
        fmt::format("stencil '{}' stands in a file called '{}'; the names agree, so rename one of them",
                    node->text, stem));
  }
  return document.source.name.empty() ? node->text : document.source.name;
}

/// Why a text cannot stand in a comment of generated files; empty where it can.
std::string objection_to_description(std::string_view text) {
  if (text.find_first_of("\n\t") != std::string_view::npos)
    return "'description' is one line without tabs; shorten it";
  if (text.size() > longest_description)
    return fmt::format("'description' is one line of at most {} bytes; shorten it", longest_description);
  if (diag::printable(text) != text) {
    return "'description' holds a control character, or a mark that turns the direction of text; leave it "
           "out";
  }
  const bool ends_comment =
      text.find("*/") != std::string_view::npos || text.find("/*") != std::string_view::npos;
  if (ends_comment || text.ends_with('\\') || text.ends_with("?\?/")) {  // in C99 a spelling of the backslash
    return "'description' becomes a comment of the generated files; leave out '/*', '*/' and a final "
           "backslash";
  }
  return {};
}

std::string read_description(const Document& document) {
  const Node* node = document.find("description");
  if (!node || !expect(*node, NodeKind::scalar, "'description' is a line of text", document.context))
    return {};
  std::string text =
      node->text.substr(0, node->text.find_last_not_of(" \n") + 1);  // block texts end in a line end
  const std::string objection = objection_to_description(text);
  if (objection.empty()) return text;
  document.context.diagnostics.error(node->where, objection);
  return {};
}

std::optional<int> read_dimensions(const Document& document) {
  const Node* node = document.require("dimensions", "'dimensions: 2' (or 1 or 3)");
  return node ? read_whole(*node, "'dimensions'", 1, 3, document.context) : std::nullopt;
}

/// A key that every spec has and that takes one of a few words.
template <typename Value>
std::optional<Value> require_choice(const Document& document, const std::string& key,
                                    const Choices<Value>& choices) {
  const Node* node = document.require(key, fmt::format("'{}: {}'", key, choices.front().first));
  return node ? read_choice(*node, fmt::format("'{}'", key), choices, document.context) : std::nullopt;
}

/// A key that may be absent; the first choice is its default.
template <typename Value>
Value choice_or_default(const Document& document, const std::string& key, const Choices<Value>& choices) {
  const Node* node = document.find(key);
  if (!node) return choices.front().second;
  return read_choice(*node, fmt::format("'{}'", key), choices, document.context)
      .value_or(choices.front().second);
}

/// Sums of doubles are doubles, and of no other fields.
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

/// 'weights' counts terms of the type that 16-bit fields have; 'accuracy' takes its place for f32 fields.
void check_storage_keys(const Document& document, const StencilSpec& spec, bool is_difference) {
  const std::string storage = storage_name(spec.storage);
  const bool of_f16 = spec.weights == WeightMode::f16 || spec.weights == WeightMode::f16x2;
  if (spec.storage != Storage::f32 && document.find("accuracy") && !is_difference) {
    document.context.diagnostics.error(
        document.place("accuracy"),
        fmt::format("'accuracy' goes with 'storage: f32', not with {}; remove it", storage));
  }
  if (spec.weights == WeightMode::automatic) return;
  if (spec.storage == Storage::f64) {
    document.context.diagnostics.error(document.place("weights"),
                                       "with 'storage: f64' weights are f64 numbers, as the spec has them; "
                                       "write 'weights: auto' or remove it");
  } else if (spec.storage == Storage::f32) {
    document.context.diagnostics.error(document.place("weights"),
                                       "with 'storage: f32' the key 'accuracy' says how weights are held; "
                                       "write 'weights: auto' or remove it");
  } else if (of_f16 != (spec.storage == Storage::f16)) {
    document.context.diagnostics.error(
        document.place("weights"),
        fmt::format("with 'storage: {0}' weights are '{0}', '{0}x2' or 'auto'", storage));
  }
}

/// How products of f32 fields hold values. The order of finite differences has the same name, in the sum that
/// it is of.
Accuracy read_accuracy(const Document& document) {
  const Node* node = document.find("accuracy");
  const bool is_order = node != nullptr && node->kind == NodeKind::scalar &&
                        node->text.find_first_not_of("0123456789") == std::string::npos;
  if (!is_order || !document.find("sums")) return choice_or_default(document, "accuracy", accuracies());
  document.context.diagnostics.error(
      node->where, fmt::format("'accuracy: {}', the order of a finite difference, goes into each of the "
                               "'sums' that it is of",
                               node->text));
  return Accuracy::full;
}

/// Time steps of a sweep; `auto` is none.
std::optional<int> read_steps(const Document& document) {
  constexpr int most_steps = 1024;  // more than fit any kernel
  const Node* node = document.find("steps");
  if (!node) return 1;
  if (node->kind == NodeKind::scalar && node->text == "auto") return std::nullopt;
  if (node->kind == NodeKind::scalar && is_identifier(node->text) && !is_built_in(node->text) &&
      !document.context.calculator.is_parameter(node->text)) {
    document.context.diagnostics.error(
        node->where, fmt::format("'steps' is a whole number, or 'auto', not {}", shown(node->text)));
    return 1;
  }
  return read_whole(*node, "'steps'", 1, most_steps, document.context).value_or(1);
}

/// How far composed weights may lie from the exact ones; none where it is left to the storage.
std::optional<double> read_tolerance(const Document& document) {
  const Node* node = document.find("tolerance");
  if (!node) return std::nullopt;
  const std::optional<double> tolerance = read_number(*node, "'tolerance'", document.context);
  if (tolerance && *tolerance < 0) {
    document.context.diagnostics.error(node->where,
                                       fmt::format("'tolerance' is 0 or more, not {}", describe(*node)));
  }
  return tolerance;
}

KeyLocations key_locations(const Document& document, const diag::SourceLocation& coefficients) {
  return {document.place("dimensions"), document.place("storage"),  document.place("accumulate"),
          document.place("weights"),    document.place("accuracy"), coefficients,
          document.place("steps"),      document.place("update")};
}

void read_document(const Document& document, const std::vector<ParameterOverride>& overrides,
                   StencilSpec& spec) {
  constexpr int any_dimensions = 3;  // to judge a boundary where the spec's own dimensions are in error
  if (!check_schema(document)) return;
  check_keys(document.root, known_keys(), "the spec", document.context);
  spec.name = read_name(document);
  spec.description = read_description(document);
  const std::optional<int> dimensions = read_dimensions(document);
  const std::optional<Storage> storage = require_choice(document, "storage", storages());
  // Whose `accuracy` is another. Sums have one of their own.
  const std::optional<Shape> shape = document.find("sums") ? std::nullopt : find_shape(document.root);
  const bool is_difference = shape && has_order_of_accuracy(*shape);
  spec.dimensions = dimensions.value_or(spec.dimensions);
  spec.storage = storage.value_or(spec.storage);
  spec.accumulate = choice_or_default(document, "accumulate", accumulators());
  spec.weights = choice_or_default(document, "weights", weight_modes());
  if (!is_difference) spec.accuracy = read_accuracy(document);
  if (storage) check_sums(document, spec);
  if (storage) check_storage_keys(document, spec, is_difference);
  spec.parameters =
      read_parameters(document.find("parameters"), overrides, document.source.path, document.context);
  Operator summed = read_operator(document.root, document.start, dimensions, storage.value_or(Storage::f32),
                                  document.context);
  spec.sums = std::move(summed.sums);
  spec.taps = std::move(summed.taps);
  spec.boundary = read_boundary(document.find("boundary"), dimensions.value_or(any_dimensions),
                                storage.value_or(Storage::f32), document.start, document.context);
  spec.steps = read_steps(document);
  spec.tolerance = read_tolerance(document);
  spec.where = key_locations(document, summed.where);
  read_further_fields(document.root, dimensions.has_value(), spec, document.context);
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
    result.diagnostics.error({source.path, 0, 0},
                             fmt::format("larger than {} bytes; no spec needs that", longest_text));
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
    read_document({source, *root, {source.path, 1, 1}, context}, overrides, result.spec);
  }
  result.diagnostics.sort_by_location();
  return result;
}

}  // namespace spidergen::spec
