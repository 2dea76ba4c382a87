#include "emit/update_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "emit/kernel_text.h"
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

std::string_view symbol_of(UpdateOperation comparison) {
  switch (comparison) {
    case UpdateOperation::less:
      return "<";
    case UpdateOperation::less_equal:
      return "<=";
    case UpdateOperation::greater:
      return ">";
    case UpdateOperation::greater_equal:
      return ">=";
    case UpdateOperation::equal:
      return "==";
    default:
      return "!=";
  }
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return value != 0 && std::fabs(std::frexp(value, &exponent)) == 0.5 &&
         std::isnormal(static_cast<float>(1 / value));
}

/// Writes an update as statements, one an operation. A product that is used but once, in a sum or a
/// difference, is joined with it: a multiply-add, rounded once.
class Writer {
 public:
  /// `reads_before`: the kernel has several steps, so that `previous` is no field that stays as it is.
  Writer(const spec::StencilSpec& spec, bool reads_before)
      : spec_(spec),
        reads_before_(reads_before),
        nodes_(spec.update->nodes),
        type_(number_type(spec.storage)),
        suffix_(spec.storage == spec::Storage::f64 ? "" : "f"),
        scalars_(spec.storage == spec::Storage::f64 ? "wide_scalars" : "scalars"),
        uses_(nodes_.size()),
        texts_(nodes_.size()) {
    for (const UpdateNode& node : nodes_) {
      for (const int argument : node.arguments) ++uses_[argument];
    }
  }

  std::vector<std::string> write() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!is_joined(static_cast<int>(i))) texts_[i] = text_of(nodes_[i]);
    }
    lines_.push_back(fmt::format("return {};", texts_.back()));
    return lines_;
  }

 private:
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

  /// Is the node a product that its only user takes as one operation?
  [[nodiscard]] bool is_joined(int i) const {
    for (const UpdateNode& user : nodes_) {
      if (joined_argument(user).value_or(-1) == i) return true;
    }
    return false;
  }

  /// Of a sum or a difference the argument that is a product of its own: the second, if both are.
  [[nodiscard]] std::optional<int> joined_argument(const UpdateNode& node) const {
    if (node.operation != UpdateOperation::add && node.operation != UpdateOperation::subtract)
      return std::nullopt;
    for (const int argument : {node.arguments[1], node.arguments[0]}) {
      if (factors_of(node_at(argument)) && uses_[static_cast<std::size_t>(argument)] == 1) return argument;
    }
    return std::nullopt;
  }

  std::string name(std::string_view type, const std::string& value, std::string_view comment = {}) {
    const std::string name = fmt::format("t{}", names_++);
    lines_.push_back(
        fmt::format("const {} {} = {};{}{}", type, name, value, comment.empty() ? "" : "  // ", comment));
    return name;
  }

  [[nodiscard]] std::string literal(double value) const { return number_literal(spec_.storage, value); }

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
    return is_result && spec_.storage == spec::Storage::f16 ? "square_root_of_normal" : "square_root";
  }

  /// By multiplications where the exponent is a small integer.
  std::string power_text(const UpdateNode& node) {
    const std::string base = text(node.arguments[0]);
    const UpdateNode& exponent = node_at(node.arguments[1]);
    const bool is_number = exponent.operation == UpdateOperation::number;
    if (is_number && exponent.value == 0.5) return call(root_function(node), base);
    if (!is_number || std::trunc(exponent.value) != exponent.value ||
        std::fabs(exponent.value) > most_multiplied_powers)
      return name(type_, fmt::format("::pow{}({}, {})", suffix_, base, text(node.arguments[1])));
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
    const std::string a = text(node.arguments[0]);
    if (node.function == "min" || node.function == "max") {
      if (node.arguments.size() == 1) return a;
      return call(node.function == "min" ? "smaller" : "larger", a, text(node.arguments[1]));
    }
    if (node.function == "sqrt") return call(root_function(node), a);
    if (node.function == "abs") return name(type_, fmt::format("::fabs{}({})", suffix_, a));
    return name(type_, fmt::format("::{}{}({})", node.function, suffix_, a));
  }

  std::string text_of(const UpdateNode& node) {
    const auto argument = [&](std::size_t i) { return text(node.arguments[i]); };
    const std::size_t before = spec_.previous && !reads_before_ ? 1 : 0;
    switch (node.operation) {
      case UpdateOperation::number:
        return literal(node.value);
      case UpdateOperation::input:
        return "p.u";
      case UpdateOperation::sum:
        return name(type_, fmt::format("p.sums[{}]", node.which),
                    spec_.sums[static_cast<std::size_t>(node.which)].name);
      case UpdateOperation::previous:
        return name(type_, reads_before_ ? "p.before" : "p.field[0]", spec_.previous->name);
      case UpdateOperation::field:
        return name(type_, fmt::format("p.field[{}]", before + static_cast<std::size_t>(node.which)),
                    spec_.fields[static_cast<std::size_t>(node.which)].name);
      case UpdateOperation::scalar:
        return name(type_, fmt::format("p.sweep.{}[{}]", scalars_, node.which),
                    spec_.scalars[static_cast<std::size_t>(node.which)]);
      case UpdateOperation::index:
        return name(type_, fmt::format("p.index({})", node.which),
                    fmt::format("i{}", spec::axis_letters[node.which]));
      case UpdateOperation::extent:
        return name(type_, fmt::format("p.extent({})", node.which),
                    fmt::format("n{}", spec::axis_letters[node.which]));
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
        return name(type_, fmt::format("{} ? {} : {}", argument(0), argument(1), argument(2)));
      case UpdateOperation::call:
        return function_text(node);
      default:
        return name("bool", fmt::format("{} {} {}", argument(0), symbol_of(node.operation), argument(1)));
    }
  }

  const spec::StencilSpec& spec_;
  bool reads_before_;
  const std::vector<UpdateNode>& nodes_;
  std::string type_;    ///< of numbers
  std::string suffix_;  ///< of C's functions of them
  std::string scalars_;
  std::vector<int> uses_;
  std::vector<std::string> texts_;
  std::vector<std::string> lines_;
  int names_ = 0;
};

/// `previous`, where it is read as they are, and the further fields.
std::vector<spec::FurtherField> all_fields(const spec::StencilSpec& spec, bool reads_before) {
  std::vector<spec::FurtherField> fields;
  if (spec.previous && !reads_before) fields.push_back(*spec.previous);
  fields.insert(fields.end(), spec.fields.begin(), spec.fields.end());
  return fields;
}

/// The tables of what the update takes, for spider_kernel_info.
std::string update_tables(const spec::StencilSpec& spec) {
  std::string text;
  const auto add = [&](std::string_view type, std::string_view name, const std::vector<std::string>& values) {
    if (!values.empty())
      text += fmt::format("constexpr {} {}[] = {{{}}};\n", type, name, fmt::join(values, ", "));
  };
  std::vector<std::string> names;
  std::vector<std::string> storages;
  for (const spec::FurtherField& field : spec.fields) {
    names.push_back('"' + field.name + '"');
    storages.push_back(storage_code(field.storage));
  }
  std::vector<std::string> scalars;
  for (const std::string& scalar : spec.scalars) scalars.push_back('"' + scalar + '"');
  add("const char*", "field_names", names);
  add("std::int32_t", "field_storages", storages);
  add("const char*", "scalar_names", scalars);
  return text;
}

std::string_view operation_name(const UpdateNode& node) {
  switch (node.operation) {
    case UpdateOperation::number:
      return "number";
    case UpdateOperation::input:
      return "input";
    case UpdateOperation::sum:
      return "sum";
    case UpdateOperation::previous:
      return "previous";
    case UpdateOperation::field:
      return "field";
    case UpdateOperation::scalar:
      return "scalar";
    case UpdateOperation::index:
      return "index";
    case UpdateOperation::extent:
      return "extent";
    case UpdateOperation::negate:
      return "negate";
    case UpdateOperation::add:
      return "+";
    case UpdateOperation::subtract:
      return "-";
    case UpdateOperation::multiply:
      return "*";
    case UpdateOperation::divide:
      return "/";
    case UpdateOperation::power:
      return "^";
    case UpdateOperation::choose:
      return "?";
    case UpdateOperation::call:
      return node.function;
    default:
      return symbol_of(node.operation);
  }
}

}  // namespace

std::string update_struct(const spec::StencilSpec& spec, int steps) {
  const bool reads_before = spec.previous && steps > 1;
  std::vector<std::string> cells;
  std::vector<std::string> names;
  for (const spec::FurtherField& field : all_fields(spec, reads_before)) {
    cells.push_back("spider::" + cells_struct(field.storage));
    names.push_back(field.name);
  }
  render::Bindings bindings;
  bindings["cells"] = fmt::format("{}", fmt::join(cells, ", "));
  bindings["number"] = number_type(spec.storage);
  bindings["point"] = wide_name(spec.storage, "UpdatePoint");
  bindings["names"] = names.empty() ? "" : fmt::format("  // {}", fmt::join(names, ", "));
  bindings["reads_input"] = spec.update->uses(UpdateOperation::input) ? "true" : "false";
  bindings["reads_before"] = reads_before ? "true" : "false";
  bindings["of_sums_alone"] = spec.update->is_of_sums_alone() ? "true" : "false";
  bindings["statements"] = fmt::format("{}", fmt::join(Writer(spec, reads_before).write(), "\n"));
  bindings["tables"] = update_tables(spec);
  return render_part("update.cu.in", bindings);
}

std::string update_facts(const spec::StencilSpec& spec) {
  const bool fields = !spec.fields.empty();
  const bool scalars = !spec.scalars.empty();
  return fmt::format(
      "{{{}, {}, {}, {}, {}, {}}}", spec.previous ? '"' + spec.previous->name + '"' : std::string("nullptr"),
      spec.fields.size(), fields ? "field_names" : "nullptr", fields ? "field_storages" : "nullptr",
      spec.scalars.size(), scalars ? "scalar_names" : "nullptr");
}

std::string update_json(const spec::StencilSpec& spec) {
  std::vector<std::string> nodes;
  for (const UpdateNode& node : spec.update->nodes) {
    nodes.push_back(fmt::format(R"(["{}", {}, {}, [{}]])", operation_name(node), node.value, node.which,
                                fmt::join(node.arguments, ", ")));
  }
  std::vector<std::string> fields;
  for (const spec::FurtherField& field : spec.fields)
    fields.push_back(
        fmt::format(R"({{"name": "{}", "storage": "{}"}})", field.name, storage_name(field.storage)));
  std::vector<std::string> scalars;
  for (const std::string& scalar : spec.scalars) scalars.push_back('"' + scalar + '"');
  const std::string previous = spec.previous ? '"' + spec.previous->name + '"' : std::string("null");
  return fmt::format(
      "  \"update\": {{\"previous\": {}, \"fields\": [{}], \"scalars\": [{}],\n    \"nodes\": [{}]}},\n",
      previous, fmt::join(fields, ", "), fmt::join(scalars, ", "), fmt::join(nodes, ", "));
}

}  // namespace spidergen::emit
