#include "adjoint/write_expressions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace spidergen::adjoint {
namespace {

using spec::UpdateNode;
using spec::UpdateOperation;

// Precedence of an expression: an argument of lower precedence than its user requires gets parentheses.
constexpr int choice = 0;
constexpr int comparison = 1;
constexpr int sum = 2;
constexpr int product = 3;
constexpr int power = 4;
constexpr int atom = 5;

constexpr std::size_t longest_part = 400;    // of an expression without a name
constexpr std::size_t longest_taps = 240;    // of a sum of cells without an operator
constexpr std::size_t longest_value = 3000;  // of a field's new value

bool is_negative_number(const UpdateNode& node) {
  return node.operation == UpdateOperation::number && std::signbit(node.value);
}

/// A product whose text begins with its sign.
bool is_negative_product(const std::vector<UpdateNode>& nodes, int node) {
  const UpdateNode& own = nodes[static_cast<std::size_t>(node)];
  return own.operation == UpdateOperation::multiply &&
         is_negative_number(nodes[static_cast<std::size_t>(own.arguments[0])]);
}

bool is_leaf(const UpdateNode& node) {
  return node.arguments.empty();
}

}  // namespace

ExpressionWriter::ExpressionWriter(const AdjointSystem& system)
    : system_(system), pieces_(system.nodes.size()) {}

std::string ExpressionWriter::unused_name(const std::string& stem, std::size_t number) const {
  std::string name = fmt::format("{}{}", stem, number);
  const auto is_taken = [&] {
    return std::any_of(system_.fields.begin(), system_.fields.end(),
                       [&](const spec::SystemField& field) { return field.name == name; }) ||
           std::find(system_.scalars.begin(), system_.scalars.end(), name) != system_.scalars.end();
  };
  while (is_taken()) name += '_';
  return name;
}

std::vector<int> ExpressionWriter::count_uses(const AdjointStage& stage) const {
  std::vector<int> uses(system_.nodes.size());
  for (const AdjointAssignment& one : stage.assignments) {
    if (one.node >= 0) ++uses[static_cast<std::size_t>(one.node)];
    // A value taken at other points needs a name.
    for (const Transposed& read : one.transposed)
      uses[static_cast<std::size_t>(read.node)] += read.is_plain ? 2 : 1;
  }
  for (std::size_t i = uses.size(); i-- > 0;) {
    if (uses[i] == 0) continue;
    for (const int argument : system_.nodes[i].arguments) ++uses[static_cast<std::size_t>(argument)];
  }
  return uses;
}

StageText ExpressionWriter::write(const AdjointStage& stage) {
  StageText text;
  write_nodes(count_uses(stage), text);
  for (const AdjointAssignment& one : stage.assignments) {
    std::vector<std::string> parts;
    std::size_t length = 0;
    if (one.node >= 0) parts.push_back(argument(one.node, sum));
    for (const Transposed& read : one.transposed) parts.push_back(transposed(read, one.field));
    for (const std::string& part : parts) length += part.size() + 3;
    for (std::string& part : parts) {
      if (length <= longest_value || part.size() < 20) continue;
      text.values.emplace_back(unused_name("t", text.values.size() + 1), std::move(part));
      part = text.values.back().first;
    }
    std::string value;
    for (const std::string& part : parts) {
      if (value.empty()) {
        value = part;
      } else {
        value += part.starts_with('-') ? fmt::format(" - {}", part.substr(1)) : fmt::format(" + {}", part);
      }
    }
    text.assignments.emplace_back(system_.fields[static_cast<std::size_t>(one.field)].name, std::move(value));
  }
  return text;
}

void ExpressionWriter::write_nodes(const std::vector<int>& uses, StageText& stage) {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] == 0) continue;
    const UpdateNode& node = system_.nodes[i];
    Piece piece = piece_of(node);
    const bool has_name = uses[i] > 1 || piece.text.size() > longest_part;
    if (has_name && !is_leaf(node) && !spec::is_comparison(node.operation)) {
      const std::string name = unused_name("t", stage.values.size() + 1);
      stage.values.emplace_back(name, std::move(piece.text));
      piece = {name, atom};
    }
    pieces_[i] = std::move(piece);
  }
}

std::string ExpressionWriter::argument(int node, int least_binding) const {
  const Piece& piece = pieces_[static_cast<std::size_t>(node)];
  return piece.binding < least_binding ? fmt::format("({})", piece.text) : piece.text;
}

std::string ExpressionWriter::cell(const std::string& name, const spec::Offset& at) const {
  if (at == spec::Offset{}) return name;
  return fmt::format("{}[{}]", name, fmt::join(std::prev(at.end(), system_.dimensions), at.end(), ", "));
}

ExpressionWriter::Piece ExpressionWriter::piece_of(const UpdateNode& node) const {
  switch (node.operation) {
    case UpdateOperation::number:
      // A sign has the precedence of a sum.
      return {fmt::format("{}", node.value), std::signbit(node.value) ? sum : atom};
    case UpdateOperation::cell:
      return {cell(system_.fields[static_cast<std::size_t>(node.which)].name, node.at), atom};
    case UpdateOperation::scalar:
      return {system_.scalars[static_cast<std::size_t>(node.which)], atom};
    case UpdateOperation::index:
      return {fmt::format("i{}", spec::axis_letters[static_cast<std::size_t>(node.which)]), atom};
    case UpdateOperation::extent:
      return {fmt::format("n{}", spec::axis_letters[static_cast<std::size_t>(node.which)]), atom};
    default:
      return operation(node);
  }
}

ExpressionWriter::Piece ExpressionWriter::operation(const UpdateNode& node) const {
  const std::vector<int>& of = node.arguments;
  switch (node.operation) {
    case UpdateOperation::negate:
      return {fmt::format("-{}", argument(of[0], power)), sum};
    case UpdateOperation::add: {
      const std::string right = argument(of[1], product);
      const std::string& plain = pieces_[static_cast<std::size_t>(of[1])].text;
      if (is_negative_product(system_.nodes, of[1]) && plain.starts_with('-'))
        return {fmt::format("{} - {}", argument(of[0], sum), plain.substr(1)), sum};
      return {fmt::format("{} + {}", argument(of[0], sum), right), sum};
    }
    case UpdateOperation::subtract:
      return {fmt::format("{} - {}", argument(of[0], sum), argument(of[1], product)), sum};
    case UpdateOperation::multiply:
      if (is_negative_number(system_.nodes[static_cast<std::size_t>(of[0])]))
        return {fmt::format("{}*{}", argument(of[0], sum), argument(of[1], power)), sum};
      return {fmt::format("{}*{}", argument(of[0], product), argument(of[1], power)), product};
    case UpdateOperation::divide:
      return {fmt::format("{}/{}", argument(of[0], product), argument(of[1], power)), product};
    case UpdateOperation::power:
      return {fmt::format("{}^{}", argument(of[0], atom), argument(of[1], atom)), power};
    case UpdateOperation::choose:
      return {fmt::format("{} ? {} : {}", argument(of[0], comparison), argument(of[1], sum),
                          argument(of[2], sum)),
              choice};
    case UpdateOperation::call: {
      std::vector<std::string> arguments;
      for (const int one : of) arguments.push_back(argument(one, choice));
      return {fmt::format("{}({})", node.function, fmt::join(arguments, ", ")), atom};
    }
    default:
      return {fmt::format("{} {} {}", argument(of[0], sum), name_of(node), argument(of[1], sum)), comparison};
  }
}

std::string ExpressionWriter::taps(const std::vector<spec::Tap>& taps, const std::string& name) {
  std::string text;
  for (const spec::Tap& tap : taps) {
    const bool negative = tap.weight < 0;
    const double weight = std::fabs(tap.weight);
    text += std::string_view(text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + "));
    if (weight != 1) text += fmt::format("{}*", weight);
    text += cell(name, tap.at);
  }
  if (text.size() <= longest_taps) return text;
  const auto same = [&](const auto& one) {
    return std::equal(
        one.second.begin(), one.second.end(), taps.begin(), taps.end(),
        [](const spec::Tap& a, const spec::Tap& b) { return a.at == b.at && a.weight == b.weight; });
  };
  auto known = std::find_if(operators_.begin(), operators_.end(), same);
  if (known == operators_.end()) {
    operators_.emplace_back(unused_name("sum", operators_.size() + 1), taps);
    known = std::prev(operators_.end());
  }
  return fmt::format("{}({})", known->first, name);
}

std::string ExpressionWriter::transposed(const Transposed& read, int field) {
  const std::string value = argument(read.node, choice);
  if (!read.is_plain) {
    const std::string& name = system_.fields[static_cast<std::size_t>(field)].name;
    return fmt::format("adjoint({}, {})", taps(read.taps, name), value);
  }
  std::vector<spec::Tap> opposite(read.taps.rbegin(), read.taps.rend());
  for (spec::Tap& tap : opposite) {
    for (int& offset : tap.at) offset = -offset;
  }
  return taps(opposite, value);
}

}  // namespace spidergen::adjoint
