#include "spec/operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "spec/names.h"

namespace spidergen::spec {
namespace {

const Choices<Shape>& shapes() {
  static const auto choices = choices_of<Shape>(shape_names);
  return choices;
}

/// A key that only some shapes have.
struct OwnKey {
  std::string_view key;
  std::vector<Shape> shapes;
};

const std::vector<OwnKey>& own_keys() {
  static const std::vector<OwnKey> keys = {
      {"order", {Shape::derivative}},
      {"at", {Shape::derivative}},
      {"spacing", {Shape::derivative, Shape::laplacian}},
      {"sigma", {Shape::gaussian}},
      {"truncate", {Shape::gaussian}},
      {"weight", {Shape::formula}},
      {"coefficients", {Shape::star, Shape::box, Shape::product, Shape::taps}},
  };
  return keys;
}

bool has_coefficients(Shape shape) {
  const std::vector<Shape>& listed = own_keys().back().shapes;
  return std::find(listed.begin(), listed.end(), shape) != listed.end();
}

/// Reports keys that the shape does not use.
void check_own_keys(const Node& mapping, Shape shape, Context& context) {
  for (const OwnKey& own : own_keys()) {
    const Entry* entry = find_entry(mapping, own.key);
    const bool goes = std::find(own.shapes.begin(), own.shapes.end(), shape) != own.shapes.end();
    if (entry == nullptr || goes) continue;
    if (own.key == "coefficients") {
      context.diagnostics.error(entry->where,
                                "'coefficients' do not go with 'shape: {}', which makes them; remove them",
                                shape_name(shape));
      continue;
    }
    std::vector<std::string_view> words;
    for (const Shape one : own.shapes) words.push_back(shape_name(one));
    context.diagnostics.error(entry->where, "'{}' goes with 'shape: {}', not with '{}'; remove it", own.key,
                              fmt::join(words, "' and 'shape: "), shape_name(shape));
  }
}

void check_given_radius(const Node& mapping, std::optional<Shape> shape, std::optional<int> dimensions,
                        const std::optional<Coefficients>& coefficients, Context& context) {
  const Entry* entry = find_entry(mapping, "radius");
  if (entry == nullptr || shape == Shape::formula) return;  // the formula has read it
  if (shape == Shape::taps) {
    context.diagnostics.error(entry->where,
                              "'radius' does not go with 'shape: taps', whose offsets tell it; remove it");
  } else if (dimensions) {
    check_radius(entry->value, *dimensions, coefficients ? &*coefficients->radius : nullptr, context);
  } else {
    check_expressions(entry->value, "'radius'", context);
  }
}

// The room in an update's point (runtime/device/spider/kernel.h).
constexpr std::size_t most_sums = 8;

/// A number that may be absent.
std::optional<double> read_or(const ShapeKeys& keys, std::string_view key, double absent, Context& context) {
  const Node* node = keys.find(key);
  return node ? read_number(*node, fmt::format("'{}'", key), context) : absent;
}

/// Reports that a product with so many taps cannot be combined with something.
void refuse_lists(Operator& read, std::string_view with, Context& context) {
  StencilSpec product;
  product.lists = std::exchange(read.lists, {});
  context.diagnostics.error(read.where, too_many_taps(product, with));
}

/// The one sum that a mapping describes.
Operator read_sum(const Node& mapping, const diag::SourceLocation& start, std::optional<int> dimensions,
                  Storage storage, Context& context) {
  const ShapeKeys keys{mapping, start, dimensions.value_or(0)};
  const Node* shape_node = keys.require("shape", "'shape: star'", context);
  const std::optional<Shape> shape =
      shape_node ? read_choice(*shape_node, "'shape'", shapes(), context) : std::nullopt;
  Operator result;
  result.sums.emplace_back();
  if (shape) result.sums.back().shape = *shape;
  const Entry* at = find_entry(mapping, !shape || has_coefficients(*shape) ? "coefficients" : "shape");
  result.where = at ? at->where : start;

  std::optional<Coefficients> coefficients;
  if (shape) check_own_keys(mapping, *shape, context);
  if (dimensions && shape) {
    coefficients = read_coefficients(keys, *shape, context);
  } else if (!shape || has_coefficients(*shape)) {
    const bool may_lack = shape_node != nullptr && !shape;  // the unknown shape may be one that makes them
    const Node* node =
        may_lack ? keys.find("coefficients")
                 : keys.require("coefficients", "'coefficients: ...' in the form of the shape", context);
    if (node) check_expressions(*node, "a coefficient", context);
  }
  check_given_radius(mapping, shape, dimensions, coefficients, context);
  const std::optional<double> scale = read_or(keys, "scale", 1, context);
  const std::optional<double> center = read_or(keys, "center", 0, context);
  if (!coefficients || !scale || !center) return result;
  result.lists = std::move(coefficients->lists);
  if (!result.lists.empty()) {
    for (double& weight : result.lists.front().weights) weight *= *scale;
    if (*center != 0) refuse_lists(result, "'center'", context);
  }
  result.taps = finish_taps(std::move(coefficients->taps), {*scale, *center}, storage, result.where, context);
  return result;
}

/// Reports keys of one sum next to `sums`. The document's `accuracy` is that of f32 fields.
void check_keys_beside(const Node& root, Context& context) {
  for (const std::string& key : operator_keys()) {
    const Entry* entry = find_entry(root, key);
    if (entry == nullptr || key == "accuracy") continue;
    context.diagnostics.error(entry->where,
                              "'{}' does not go with 'sums', each of which has its own; move it into one "
                              "of them or remove it",
                              key);
  }
}

/// Errors that only the mapping of a named sum can have.
void check_keys_within(const Entry& sum, std::string_view kind, Context& context) {
  check_keys(sum.value, operator_keys(), fmt::format("{} {}", kind, shown(sum.key)), context);
  const std::optional<Shape> shape = find_shape(sum.value);
  const Entry* accuracy = find_entry(sum.value, "accuracy");
  if (accuracy == nullptr || !shape || has_order_of_accuracy(*shape)) return;
  context.diagnostics.error(accuracy->where,
                            "'accuracy' of {} {} goes with 'shape: derivative' and 'shape: "
                            "laplacian', not with '{}'; remove it",
                            kind == "operator" ? "an" : "a", kind, shape_name(*shape));
}

Operator read_sums(const Entry& entry, const Node& root, std::optional<int> dimensions, Storage storage,
                   Context& context) {
  Operator all;
  all.where = entry.where;
  check_keys_beside(root, context);
  const bool is_mapping = expect(
      entry.value, NodeKind::mapping,
      "'sums' is a mapping of names to sums such as {gx: {shape: derivative, order: {x: 1}}}", context);
  if (is_mapping && entry.value.entries.empty())
    context.diagnostics.error(entry.where, "'sums' names none; write a 'shape' and what goes with it");
  for (const Entry& sum : entry.value.entries) {
    const auto place = static_cast<int>(all.sums.size());
    Operator one = read_named_operator(sum, "sum", dimensions, storage, context);
    all.sums.push_back(one.sums.front());
    for (Tap& tap : one.taps) tap.sum = place;
    all.taps.insert(all.taps.end(), one.taps.begin(), one.taps.end());
  }
  if (all.sums.size() > most_sums) {
    context.diagnostics.error(entry.where, "{} sums; a kernel takes at most {}", all.sums.size(), most_sums);
  } else if (all.taps.size() > most_taps) {
    context.diagnostics.error(entry.where, "the sums have {} taps; a stencil has at most {}", all.taps.size(),
                              most_taps);
  }
  // Stable: taps of the same offset stay in the order of the sums.
  std::stable_sort(all.taps.begin(), all.taps.end(), [](const Tap& a, const Tap& b) { return a.at < b.at; });
  return all;
}

}  // namespace

const std::vector<std::string>& operator_keys() {
  static const std::vector<std::string> keys = {"shape",   "radius", "order",  "accuracy",
                                                "spacing", "at",     "sigma",  "truncate",
                                                "weight",  "scale",  "center", "coefficients"};
  return keys;
}

bool has_order_of_accuracy(Shape shape) {
  return shape == Shape::derivative || shape == Shape::laplacian;
}

std::optional<Shape> find_shape(const Node& mapping) {
  const Entry* entry = find_entry(mapping, "shape");
  for (const auto& [word, shape] : shapes()) {
    if (entry && entry->value.kind == NodeKind::scalar && entry->value.text == word) return shape;
  }
  return std::nullopt;
}

Operator read_named_operator(const Entry& entry, std::string_view kind, std::optional<int> dimensions,
                             Storage storage, Context& context) {
  Operator result;
  result.sums.emplace_back();
  const std::string what =
      fmt::format("{} {} is a mapping of 'shape' and what goes with it", kind, shown(entry.key));
  if (expect(entry.value, NodeKind::mapping, what, context)) {
    check_keys_within(entry, kind, context);
    result = read_sum(entry.value, entry.where, dimensions, storage, context);
    if (!result.lists.empty()) refuse_lists(result, fmt::format("'{}s'", kind), context);
  }
  result.sums.front().name = entry.key;
  return result;
}

Operator read_operator(const Node& root, const diag::SourceLocation& start, std::optional<int> dimensions,
                       Storage storage, Context& context) {
  const Entry* sums = find_entry(root, "sums");
  return sums ? read_sums(*sums, root, dimensions, storage, context)
              : read_sum(root, start, dimensions, storage, context);
}

}  // namespace spidergen::spec
