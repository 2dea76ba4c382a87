#include "adjoint/stencil_adjoint.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "spec/expression.h"
#include "spec/expression_nodes.h"

namespace spidergen::adjoint {
namespace {

using spec::BoundaryRule;
using spec::Tap;
using spec::UpdateNode;
using spec::UpdateOperation;

/// Does each tap have the weight of its mirror image along the axis?
bool is_even_along(const std::vector<Tap>& taps, std::size_t axis) {
  return std::all_of(taps.begin(), taps.end(), [&](const Tap& tap) {
    spec::Offset other = tap.at;
    other[axis] = -other[axis];
    return std::any_of(taps.begin(), taps.end(),
                       [&](const Tap& one) { return one.at == other && one.weight == tap.weight; });
  });
}

bool has_steps(const spec::StencilSpec& spec) {
  return spec.steps != std::optional(1);
}

/// Is the transpose the reversed weights with the same rules?
bool is_own_transpose(const spec::StencilSpec& spec, std::size_t axis) {
  const auto flat = [axis](const Tap& tap) { return tap.at[axis] == 0; };
  if (std::all_of(spec.taps.begin(), spec.taps.end(), flat)) return true;
  bool turns = false;
  for (const spec::Face& face : {spec.boundary[axis].low, spec.boundary[axis].high}) {
    switch (face.rule) {
      case BoundaryRule::halo:
      case BoundaryRule::constant:
      case BoundaryRule::periodic:
        break;
      case BoundaryRule::reflect:
      case BoundaryRule::antisymmetric:
        turns = true;
        break;
      default:
        return false;
    }
  }
  return !turns || is_even_along(spec.taps, axis);
}

class Converter {
 public:
  explicit Converter(const spec::StencilSpec& spec) : spec_(spec), nodes_(calculator_) {}

  spec::SystemSpec run() {
    result_.name = spec_.name;
    result_.description = spec_.description;
    result_.source_name = spec_.source_name;
    result_.dimensions = spec_.dimensions;
    result_.storage = spec_.storage;
    result_.scalars = spec_.scalars;
    result_.where = spec_.where.update;
    add_field("u", spec_.storage);
    result_.fields.front().boundary = spec_.boundary;
    if (spec_.previous) add_field(spec_.previous->name, spec_.previous->storage);
    for (const spec::FurtherField& field : spec_.fields) add_field(field.name, field.storage);
    spec::Stage stage;
    stage.where = spec_.update ? spec_.where.update : spec_.where.coefficients;
    std::vector<int> roots{spec_.update ? update() : sum(0)};
    if (spec_.previous) roots.push_back(cell(0));
    if (std::find(roots.begin(), roots.end(), spec::ExpressionNodes::none) != roots.end()) {
      result_.stages.clear();
      return std::move(result_);
    }
    result_.nodes = nodes_.extract(roots);
    for (std::size_t i = 0; i < roots.size(); ++i)
      stage.assignments.push_back({static_cast<int>(i), roots[i], {}, stage.where});
    result_.stages.push_back(std::move(stage));
    return std::move(result_);
  }

  [[nodiscard]] const std::string& objection() const { return nodes_.objection(); }

 private:
  void add_field(const std::string& name, spec::Storage storage) {
    spec::SystemField field;
    field.name = name;
    field.storage = storage;
    for (int axis = 3 - spec_.dimensions; axis < 3; ++axis) field.axes[static_cast<std::size_t>(axis)] = true;
    result_.fields.push_back(std::move(field));
  }

  int cell(int field) { return nodes_.cell(field, result_.fields[static_cast<std::size_t>(field)].axes, {}); }

  int sum(int which) {
    std::vector<Tap> taps;
    std::copy_if(spec_.taps.begin(), spec_.taps.end(), std::back_inserter(taps),
                 [which](const Tap& tap) { return tap.sum == which; });
    return nodes_.apply(taps, cell(0));
  }

  int update() {
    const int first_field = spec_.previous ? 2 : 1;
    std::vector<int> known;
    for (UpdateNode node : spec_.update->nodes) {
      int place = spec::ExpressionNodes::none;
      switch (node.operation) {
        case UpdateOperation::input:
          place = cell(0);
          break;
        case UpdateOperation::sum:
          place = sum(node.which);
          break;
        case UpdateOperation::previous:
          place = cell(1);
          break;
        case UpdateOperation::field:
          place = cell(first_field + node.which);
          break;
        default:
          for (int& argument : node.arguments) argument = known[static_cast<std::size_t>(argument)];
          place = nodes_.add(std::move(node));
      }
      if (place == spec::ExpressionNodes::none) return place;
      known.push_back(place);
    }
    return known.back();
  }

  const spec::StencilSpec& spec_;
  spec::Calculator calculator_;
  spec::ExpressionNodes nodes_;
  spec::SystemSpec result_;
};

}  // namespace

std::optional<spec::StencilSpec> reversed(const spec::StencilSpec& spec) {
  if (spec.update || spec.sums.size() > 1) return std::nullopt;
  for (std::size_t axis = 0; axis < spec.boundary.size(); ++axis) {
    if (!is_own_transpose(spec, axis)) return std::nullopt;
  }
  spec::StencilSpec result = spec;
  for (Tap& tap : result.taps) {
    for (int& offset : tap.at) offset = -offset;
  }
  std::sort(result.taps.begin(), result.taps.end(), [](const Tap& a, const Tap& b) { return a.at < b.at; });
  for (spec::AxisBoundary& axis : result.boundary) {
    for (spec::Face* face : {&axis.low, &axis.high}) {
      // Steps advance the cells of a halo, but not ghost cells outside a constant face.
      if (face->rule == BoundaryRule::halo && !has_steps(spec)) face->rule = BoundaryRule::constant;
      face->value = 0;
    }
  }
  return result;
}

spec::SystemSpec system_of(const spec::StencilSpec& spec, diag::Diagnostics& diagnostics) {
  if (has_steps(spec)) {
    diagnostics.error(spec.where.steps,
                      "the adjoint of several steps in a sweep is a stencil only without 'update', where all "
                      "faces are periodic or constant, or the weights let them be their own transpose; leave "
                      "'steps' out, and run the adjoint of one step as often");
    return {};
  }
  Converter converter(spec);
  spec::SystemSpec result = converter.run();
  if (result.stages.empty())
    diagnostics.error(spec.where.coefficients, "the adjoint of this stencil: " + converter.objection());
  return result;
}

}  // namespace spidergen::adjoint
