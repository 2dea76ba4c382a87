#include "emit/expression_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <utility>

#include "emit/storage_text.h"

namespace spidergen::emit {
namespace {

/// Of a name or a number, which may be negative.
std::string negated(const std::string& text) {
  return text.starts_with('-') ? text.substr(1) : "-" + text;
}

using spec::UpdateNode;
using spec::UpdateOperation;

constexpr int most_multiplied_powers = 16;

bool is_power_of_two(double value) {
  int exponent = 0;
  return value != 0 && std::fabs(std::frexp(value, &exponent)) == 0.5 &&
         std::isnormal(static_cast<float>(1 / value));
}

/// Writes expressions as statements, one an operation. A product in a sum or a difference is joined with it:
/// a multiply-add, rounded once. In an update only where it is used but once; of points always, so that what
/// an expression gives does not depend on what stands beside it.
class Writer {
 public:
  Writer(const Expressions& expressions, const std::function<LeafText(const UpdateNode&)>& leaf)
      : Writer(expressions, leaf, 'p', 0) {}

  ExpressionText write() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (own_[i] && joined_uses_[i] < uses_[i]) texts_[i] = text_of(nodes_[i]);
    }
    ExpressionText result{std::move(lines_), {}};
    for (const int root : expressions_.roots) result.values.push_back(text(root));
    return result;
  }

 private:
  /// Of the point called so, with numbers for the names of its variables from `names` on.
  Writer(const Expressions& expressions, const std::function<LeafText(const UpdateNode&)>& leaf, char point,
         int names)
      : expressions_(expressions),
        leaf_(leaf),
        nodes_(expressions.nodes),
        number_(number_type(expressions.numbers)),
        type_(expressions.of_points ? "auto" : number_),
        suffix_(expressions.numbers == spec::Storage::f64 ? "" : "f"),
        point_(point),
        uses_(nodes_.size()),
        own_(nodes_.size()),
        joined_uses_(nodes_.size()),
        texts_(nodes_.size()),
        names_(names) {
    for (const int root : expressions.roots) use(root);
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      if (!own_[i] || is_of_other_points(nodes_[i])) continue;
      for (const int argument : nodes_[i].arguments) use(argument);
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const std::optional<int> joined = own_[i] ? joined_argument(nodes_[i]) : std::nullopt;
      if (joined) ++joined_uses_[static_cast<std::size_t>(*joined)];
    }
  }

  static bool is_of_other_points(const UpdateNode& node) {
    return node.operation == UpdateOperation::folded || node.operation == UpdateOperation::inside;
  }

  void use(int node) {
    ++uses_[static_cast<std::size_t>(node)];
    own_[static_cast<std::size_t>(node)] = true;
  }

  [[nodiscard]] const UpdateNode& node_at(int i) const { return nodes_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const std::string& text(int i) const { return texts_[static_cast<std::size_t>(i)]; }

  /// The factors of a product, or of a square.
  [[nodiscard]] std::optional<std::pair<int, int>> factors_of(const UpdateNode& node) const {
    if (node.operation == UpdateOperation::multiply) return std::pair{node.arguments[0], node.arguments[1]};
    if (node.operation != UpdateOperation::power) return std::nullopt;
    const UpdateNode& exponent = node_at(node.arguments[1]);
    if (exponent.operation != UpdateOperation::number || exponent.value != 2) return std::nullopt;
    return std::pair{node.arguments[0], node.arguments[0]};
  }

  /// Of a sum or a difference the argument that is a product of its own: the second, if both are.
  [[nodiscard]] std::optional<int> joined_argument(const UpdateNode& node) const {
    if (node.operation != UpdateOperation::add && node.operation != UpdateOperation::subtract)
      return std::nullopt;
    for (const int argument : {node.arguments[1], node.arguments[0]}) {
      const bool is_alone = uses_[static_cast<std::size_t>(argument)] == 1;
      if (factors_of(node_at(argument)) && (is_alone || expressions_.of_points)) return argument;
    }
    return std::nullopt;
  }

  std::string name(std::string_view type, const std::string& value, std::string_view comment = {}) {
    std::string name = fmt::format("t{}", names_++);
    lines_.push_back(
        fmt::format("const {} {} = {};{}{}", type, name, value, comment.empty() ? "" : "  // ", comment));
    return name;
  }

  [[nodiscard]] std::string literal(double value) const {
    const std::string text = number_literal(expressions_.numbers, value);
    return expressions_.of_points ? fmt::format("{}.number({})", point_, text) : text;
  }

  /// A function of C of one or two numbers.
  std::string c_call(const std::string& function, const std::vector<std::string>& arguments) {
    const std::string own = "::" + function + suffix_;
    if (!expressions_.of_points) return name(type_, fmt::format("{}({})", own, fmt::join(arguments, ", ")));
    const std::string_view values = arguments.size() == 1 ? "v" : "v, w";
    const std::string parameters =
        arguments.size() == 1 ? fmt::format("{} v", number_) : fmt::format("{0} v, {0} w", number_);
    return name(type_, fmt::format("spider::each({}, []({}) {{ return {}({}); }})",
                                   fmt::join(arguments, ", "), parameters, own, values));
  }

  std::string call(std::string_view function, const std::string& a) {
    return name(type_, fmt::format("spider::device::{}({})", function, a));
  }
  std::string call(std::string_view function, const std::string& a, const std::string& b) {
    return name(type_, fmt::format("spider::device::{}({}, {})", function, a, b));
  }

  std::string sum_text(const UpdateNode& node) {
    const bool subtracts = node.operation == UpdateOperation::subtract;
    const std::optional<int> joined = joined_argument(node);
    const int left = node.arguments[0];
    const int right = node.arguments[1];
    if (!joined) return call(subtracts ? "subtract" : "add", text(left), text(right));
    const auto [first, second] = *factors_of(node_at(*joined));
    const std::string& a = text(first);
    const std::string& b = text(second);
    const bool is_right = *joined == right;
    const std::string other = text(is_right ? left : right);
    return name(
        type_, fmt::format("spider::device::multiply_add({}, {}, {})", subtracts && is_right ? negated(a) : a,
                           b, subtracts && !is_right ? negated(other) : other));
  }

  /// As results in f16 roots of subnormal numbers are 0 in any case.
  [[nodiscard]] std::string_view root_function(const UpdateNode& node) const {
    const bool is_result = &node == &nodes_.back();
    return is_result && expressions_.flushes_results ? "square_root_of_normal" : "square_root";
  }

  /// By multiplications where the exponent is a small integer.
  std::string power_text(const UpdateNode& node) {
    const std::string base = text(node.arguments[0]);
    const UpdateNode& exponent = node_at(node.arguments[1]);
    const bool is_number = exponent.operation == UpdateOperation::number;
    if (is_number && exponent.value == 0.5) return call(root_function(node), base);
    if (!is_number || std::trunc(exponent.value) != exponent.value ||
        std::fabs(exponent.value) > most_multiplied_powers)
      return c_call("pow", {base, text(node.arguments[1])});
    const int count = std::abs(static_cast<int>(exponent.value));
    if (count == 0) return literal(1);
    std::string square = base;
    std::string product;
    for (int left = count; left > 0; left /= 2) {
      if (left % 2 == 1) product = product.empty() ? square : call("multiply", product, square);
      if (left > 1) square = call("multiply", square, square);
    }
    return exponent.value < 0 ? call("divide", literal(1), product) : product;
  }

  std::string divide_text(const UpdateNode& node) {
    const UpdateNode& divisor = node_at(node.arguments[1]);
    if (divisor.operation == UpdateOperation::number && is_power_of_two(divisor.value))
      return call("multiply", text(node.arguments[0]), literal(1 / divisor.value));
    return call("divide", text(node.arguments[0]), text(node.arguments[1]));
  }

  std::string function_text(const UpdateNode& node) {
    const std::string& a = text(node.arguments[0]);
    if (node.function == "min" || node.function == "max") {
      if (node.arguments.size() == 1) return a;
      return call(node.function == "min" ? "smaller" : "larger", a, text(node.arguments[1]));
    }
    if (node.function == "sqrt") return call(root_function(node), a);
    return c_call(node.function == "abs" ? "fabs" : node.function, {a});
  }

  std::string comparison_text(const UpdateNode& node) {
    const std::string& a = text(node.arguments[0]);
    const std::string& b = text(node.arguments[1]);
    const std::string_view symbol = name_of(node);
    if (!expressions_.of_points) return name("bool", fmt::format("{} {} {}", a, symbol, b));
    return name(type_, fmt::format("spider::each({0}, {1}, []({2} v, {2} w) {{ return v {3} w; }})", a, b,
                                   number_, symbol));
  }

  /// A function of other points: the argument is computed in it.
  std::string function_of_points(const UpdateNode& node) {
    const bool folds = node.operation == UpdateOperation::folded;
    std::string name = fmt::format("t{}", names_++);
    if (folds) {
      lines_.push_back(fmt::format("const auto {} = {}.template folded<{}, {}>([&](const auto& q) {{", name,
                                   point_, node.which, fmt::join(node.at, ", ")));
    } else {
      lines_.push_back(fmt::format("const auto {} = {}.template inside<{}>([&] {{", name, point_,
                                   fmt::join(node.at, ", ")));
    }
    Expressions own{nodes_, {node.arguments[0]}, expressions_.numbers, false, true};
    Writer inner(own, leaf_, 'q', names_);
    const ExpressionText text = inner.write();
    names_ = inner.names_;
    for (const std::string& line : text.statements) lines_.push_back("  " + line);
    lines_.push_back(fmt::format("  return {};", text.values.front()));
    lines_.emplace_back("});");
    return name;
  }

  std::string text_of(const UpdateNode& node) {
    const auto argument = [&](std::size_t i) { return text(node.arguments[i]); };
    switch (node.operation) {
      case UpdateOperation::number:
        return literal(node.value);
      case UpdateOperation::negate:
        return name(type_, negated(argument(0)));
      case UpdateOperation::add:
      case UpdateOperation::subtract:
        return sum_text(node);
      case UpdateOperation::multiply:
        return call("multiply", argument(0), argument(1));
      case UpdateOperation::divide:
        return divide_text(node);
      case UpdateOperation::power:
        return power_text(node);
      case UpdateOperation::choose:
        return name(type_,
                    expressions_.of_points
                        ? fmt::format("spider::choose({}, {}, {})", argument(0), argument(1), argument(2))
                        : fmt::format("{} ? {} : {}", argument(0), argument(1), argument(2)));
      case UpdateOperation::call:
        return function_text(node);
      case UpdateOperation::bounded:
        return name(type_, fmt::format("{}.template bounded<{}, {}>({})", point_, node.which,
                                       fmt::join(node.at, ", "), argument(0)));
      case UpdateOperation::inside:
      case UpdateOperation::folded:
        return function_of_points(node);
      case UpdateOperation::stored:
        return name(type_, fmt::format("{}.template stored<{}>({})", point_, node.which, argument(0)));
      default:
        break;
    }
    if (spec::is_comparison(node.operation)) return comparison_text(node);
    LeafText leaf = leaf_(node);
    if (expressions_.of_points) leaf.value = fmt::format("{}.{}", point_, leaf.value);
    return leaf.comment.empty() ? leaf.value : name(type_, leaf.value, leaf.comment);
  }

  const Expressions& expressions_;
  const std::function<LeafText(const UpdateNode&)>& leaf_;
  const std::vector<UpdateNode>& nodes_;
  std::string number_;  ///< the type of numbers
  std::string type_;    ///< of variables
  std::string suffix_;  ///< of C's functions of them
  char point_;          ///< its name, where numbers are of points
  std::vector<int> uses_;
  std::vector<bool> own_;         ///< nodes of this point
  std::vector<int> joined_uses_;  ///< of products, by sums that take them as one operation
  std::vector<std::string> texts_;
  std::vector<std::string> lines_;
  int names_ = 0;
};

}  // namespace

ExpressionText write_expressions(const Expressions& expressions,
                                 const std::function<LeafText(const spec::UpdateNode&)>& leaf) {
  return Writer(expressions, leaf).write();
}

}  // namespace spidergen::emit
