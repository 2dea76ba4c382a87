#include "spec/boundary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/names.h"

namespace spidergen::spec {
namespace {

/// All but `constant`, which has a value.
const Choices<BoundaryRule>& plain_rules() {
  static const Choices<BoundaryRule> rules = [] {
    auto all = choices_of<BoundaryRule>(rule_names);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(BoundaryRule::constant));
    return all;
  }();
  return rules;
}

struct ForeignNames {
  std::string_view right;
  std::string_view words;
};

// Names from SciPy, NumPy, OpenCV, PyTorch and textbooks.
constexpr ForeignNames foreign_names[] = {
    {"'periodic'", " wrap circular cyclic grid-wrap "},
    {"'nearest'", " clamp edge replicate "},
    {"'reflect', which repeats the edge cell", " symmetric grid-mirror "},
    {"'antisymmetric', which is 0 in the first cell beyond the face", " odd antisym free-surface "},
    {"'nearest' or 'reflect', which let nothing through the face", " neumann "},
    {"{constant: VALUE}", " dirichlet fixed constant grid-constant "},
    {"{constant: 0}", " zero zeros "},
    {"'halo', whose cells the caller fills", " none ghost "},
};

std::string foreign_hint(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const ForeignNames& foreign : foreign_names) {
    if (is_word_of(foreign.words, text)) return std::string(foreign.right);
  }
  return {};
}

std::optional<Face> read_plain_rule(const Node& node, Storage storage, Context& context) {
  for (const auto& [name, rule] : plain_rules()) {
    if (node.text != name) continue;
    if (rule == BoundaryRule::antisymmetric && is_integer(storage)) {
      context.diagnostics.error(node.where,
                                "'antisymmetric' takes negatives of cells, which {} cannot hold; "
                                "write 'reflect' or 'mirror', or 'storage: f32'",
                                storage_name(storage));
      return std::nullopt;
    }
    return Face{rule, 0, node.where};
  }
  const std::string hint = foreign_hint(node.text);
  if (!hint.empty()) {
    context.diagnostics.error(node.where, "'{}' is no boundary rule here; write {}", node.text, hint);
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const auto& [name, rule] : plain_rules()) names.push_back(name);
  context.diagnostics.error(node.where, "{} is no boundary rule{}; rules are {} and {{constant: VALUE}}",
                            describe(node), did_you_mean(node.text, names), fmt::join(names, ", "));
  return std::nullopt;
}

/// Reports keys that are not in `places`. A rule among them, or nearly one, belongs to `whole`.
void check_places(const Node& mapping, const std::vector<std::string>& places, std::string_view owner,
                  std::string_view whole, Context& context) {
  std::vector<std::string> rules = {"constant"};
  for (const auto& [name, rule] : plain_rules()) rules.push_back(name);
  std::erase_if(rules, [&](const std::string& rule) {
    return std::find(places.begin(), places.end(), rule) != places.end();
  });
  Node others = mapping;
  std::erase_if(others.entries, [&](const Entry& entry) {
    const std::string rule = nearest_name(entry.key, rules);
    if (rule.empty() || std::find(places.begin(), places.end(), entry.key) != places.end()) return false;
    context.diagnostics.error(entry.where,
                              "unknown key {} in {}; known keys are {}, and the rule '{}' is "
                              "written {}: {}",
                              shown(entry.key), owner, list_names(places), rule, whole,
                              rule == "constant" ? "{constant: VALUE}" : rule);
    return true;
  });
  check_keys(others, places, owner, context);
}

std::optional<Face> read_constant(const Node& mapping, Storage storage, Context& context) {
  check_keys(mapping, {"constant"}, "a boundary rule", context);
  const Entry* entry = find_entry(mapping, "constant");
  if (!entry) return std::nullopt;
  const std::optional<double> value = read_number(entry->value, "the constant of a boundary", context);
  if (!value) return std::nullopt;
  const bool is_between = *value >= least_value(storage) && *value <= largest_value(storage);
  if (is_integer(storage) && (!is_between || *value != std::floor(*value))) {
    context.diagnostics.error(entry->value.where,
                              "{0} cannot hold the constant {1}; write a whole number from {2} to {3}",
                              storage_name(storage), *value, least_value(storage), largest_value(storage));
    return std::nullopt;
  }
  if (std::fabs(*value) > largest_value(storage)) {
    context.diagnostics.error(entry->value.where, "{} cannot hold the constant {}; its largest value is {}",
                              storage_name(storage), *value, largest_value(storage));
    return std::nullopt;
  }
  return Face{BoundaryRule::constant, *value, entry->where};
}

/// A rule by name, or `{constant: v}`.
std::optional<Face> read_face(const Node& node, Storage storage, Context& context) {
  if (node.kind == NodeKind::scalar) return read_plain_rule(node, storage, context);
  if (!expect(node, NodeKind::mapping, "a boundary rule is a name or {constant: VALUE}", context))
    return std::nullopt;
  if (node.entries.empty()) {
    context.diagnostics.error(node.where,
                              "an empty mapping is no boundary rule; write a name or {constant: VALUE}");
  }
  return read_constant(node, storage, context);
}

bool names_faces(const Node& node) {
  return find_entry(node, "low") != nullptr || find_entry(node, "high") != nullptr;
}

/// A period needs both faces: the low face continues with the cells at the high one.
void check_periodic(const AxisBoundary& faces, const std::string& axis, Context& context) {
  const bool low = faces.low.rule == BoundaryRule::periodic;
  const bool high = faces.high.rule == BoundaryRule::periodic;
  if (low == high) return;
  context.diagnostics.error(low ? faces.low.where : faces.high.where,
                            "'periodic' holds on both faces of an axis or on none; write {}: periodic", axis);
}

/// One rule for both faces, or `{low: ..., high: ...}`.
AxisBoundary read_axis(const Entry& entry, const AxisBoundary& absent, Storage storage, Context& context) {
  const Node& node = entry.value;
  if (node.kind == NodeKind::refused) return absent;
  const bool constant = find_entry(node, "constant") != nullptr && !names_faces(node);
  if (node.kind != NodeKind::mapping || constant) {
    const std::optional<Face> face = read_face(node, storage, context);
    return face ? AxisBoundary{*face, *face} : absent;
  }
  std::vector<std::string> known = {"low", "high"};
  if (!names_faces(node)) known.emplace_back("constant");
  check_places(node, known, fmt::format("the boundary of axis '{}'", entry.key), entry.key, context);
  AxisBoundary faces = absent;
  bool complete = true;
  for (auto [key, target] : {std::pair{"low", &faces.low}, std::pair{"high", &faces.high}}) {
    const Entry* given = find_entry(node, key);
    if (!given) continue;
    const std::optional<Face> face = read_face(given->value, storage, context);
    complete = complete && face;
    if (face) *target = *face;
  }
  if (complete) check_periodic(faces, entry.key, context);
  return faces;
}

}  // namespace

std::array<AxisBoundary, 3> read_boundary(const Node* node, int dimensions, Storage storage,
                                          const diag::SourceLocation& start, Context& context) {
  const Face halo{BoundaryRule::halo, 0, start};
  std::array<AxisBoundary, 3> boundary;
  boundary.fill({halo, halo});
  if (!node || node->kind == NodeKind::refused) return boundary;
  const std::vector<std::string> axes = axis_names(dimensions);
  if (node->kind != NodeKind::mapping && node->kind != NodeKind::scalar) {
    (void)expect(
        *node, NodeKind::mapping,
        fmt::format("'boundary' is a rule, or a mapping of rules such as {{{}: periodic}}", axes.back()),
        context);
    return boundary;
  }
  if (node->kind != NodeKind::mapping || find_entry(*node, "constant")) {
    const std::optional<Face> face = read_face(*node, storage, context);
    for (int axis = first_axis(dimensions); face && axis <= axis_x; ++axis) {
      boundary[static_cast<std::size_t>(axis)] = {*face, *face};
    }
    return boundary;
  }
  if (names_faces(*node)) {
    context.diagnostics.error(node->where,
                              "'low' and 'high' are faces of one axis; write {}: {{low: ..., "
                              "high: ...}}",
                              axes.back());
    return boundary;
  }
  check_places(*node, axes, "'boundary'", "boundary", context);
  for (int axis = first_axis(dimensions); axis <= axis_x; ++axis) {
    AxisBoundary& faces = boundary[static_cast<std::size_t>(axis)];
    if (const Entry* entry = find_entry(*node, axis_name(axis)))
      faces = read_axis(*entry, faces, storage, context);
  }
  return boundary;
}

}  // namespace spidergen::spec
