#include "spec/operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace spidergen::spec {
namespace {

const Choices<Shape>& shapes() {
  static const Choices<Shape> choices = [] {
    Choices<Shape> all;
    for (const Shape shape : {Shape::star, Shape::box, Shape::product, Shape::taps, Shape::derivative,
                              Shape::laplacian, Shape::gaussian, Shape::formula})
      all.emplace_back(shape_name(shape), shape);
    return all;
  }();
  return choices;
}

/// A key that some shapes have and others do not.
struct OwnKey {
  std::string_view key;
  std::vector<Shape> shapes;
};

const std::vector<OwnKey>& own_keys() {
  static const std::vector<OwnKey> keys = {
      {"order", {Shape::derivative}},
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

/// Reports keys that the shape has no use for.
void check_own_keys(const Node& mapping, Shape shape, Context& context) {
  for (const OwnKey& own : own_keys()) {
    const Entry* entry = find_entry(mapping, own.key);
    const bool goes = std::find(own.shapes.begin(), own.shapes.end(), shape) != own.shapes.end();
    if (entry == nullptr || goes) continue;
    if (own.key == "coefficients") {
      context.diagnostics.error(
          entry->where,
          fmt::format("'coefficients' do not go with 'shape: {}', which makes them; remove them",
                      shape_name(shape)));
      continue;
    }
    std::vector<std::string_view> words;
    for (const Shape one : own.shapes) words.push_back(shape_name(one));
    context.diagnostics.error(entry->where,
                              fmt::format("'{}' goes with 'shape: {}', not with '{}'; remove it", own.key,
                                          fmt::join(words, "' and 'shape: "), shape_name(shape)));
  }
}

void check_given_radius(const Node& mapping, std::optional<Shape> shape, std::optional<int> dimensions,
                        const std::optional<Coefficients>& coefficients, Context& context) {
  const Entry* entry = find_entry(mapping, "radius");
  if (entry == nullptr || shape == Shape::formula) return;  // which has read it
  if (shape == Shape::taps) {
    context.diagnostics.error(entry->where,
                              "'radius' does not go with 'shape: taps', whose offsets tell it; remove it");
  } else if (dimensions) {
    check_radius(entry->value, *dimensions, coefficients ? &*coefficients->radius : nullptr, context);
  } else {
    check_expressions(entry->value, "'radius'", context);
  }
}

/// A number that may be absent.
std::optional<double> read_or(const ShapeKeys& keys, std::string_view key, double absent, Context& context) {
  const Node* node = keys.find(key);
  return node ? read_number(*node, fmt::format("'{}'", key), context) : absent;
}

}  // namespace

const std::vector<std::string>& operator_keys() {
  static const std::vector<std::string> keys = {"shape",   "radius", "order",       "accuracy",
                                                "spacing", "sigma",  "truncate",    "weight",
                                                "scale",   "center", "coefficients"};
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

Operator read_operator(const Node& mapping, const diag::SourceLocation& start, std::optional<int> dimensions,
                       Storage storage, Context& context) {
  const ShapeKeys keys{mapping, start, dimensions.value_or(0)};
  const Node* shape_node = keys.require("shape", "'shape: star'", context);
  const std::optional<Shape> shape =
      shape_node ? read_choice(*shape_node, "'shape'", shapes(), context) : std::nullopt;
  Operator result;
  result.shape = shape.value_or(result.shape);
  const Entry* at = find_entry(mapping, !shape || has_coefficients(*shape) ? "coefficients" : "shape");
  result.where = at ? at->where : start;

  std::optional<Coefficients> coefficients;
  if (shape) check_own_keys(mapping, *shape, context);
  if (dimensions && shape) {
    coefficients = read_coefficients(keys, *shape, context);
  } else if (!shape || has_coefficients(*shape)) {
    const bool may_lack = shape_node != nullptr && !shape;  // it may be a shape that makes them
    const Node* node =
        may_lack ? keys.find("coefficients")
                 : keys.require("coefficients", "'coefficients: ...' in the form of the shape", context);
    if (node) check_expressions(*node, "a coefficient", context);
  }
  check_given_radius(mapping, shape, dimensions, coefficients, context);
  const std::optional<double> scale = read_or(keys, "scale", 1, context);
  const std::optional<double> center = read_or(keys, "center", 0, context);
  if (!coefficients || !scale || !center) return result;
  result.taps = finish_taps(std::move(coefficients->taps), {*scale, *center}, storage, result.where, context);
  return result;
}

}  // namespace spidergen::spec
