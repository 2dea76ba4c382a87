#include "emit/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "emit/figures.h"
#include "emit/schemes/rims_text.h"
#include "emit/schemes/schemes.h"
#include "emit/schemes/stepping_text.h"
#include "emit/storage_text.h"
#include "plan/error_bound.h"

namespace spidergen::emit {
namespace {

std::string reach_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::vector<std::string> axes;
  for (int axis = 3 - spec.dimensions; axis < 3; ++axis) {
    // Avoids "-0" where taps reach to one side only.
    const int low = plan.op.reach_low[axis];
    axes.push_back(
        fmt::format("{} {}..{}", spec::axis_letters[axis], low == 0 ? 0 : -low, plan.op.reach_high[axis]));
  }
  const std::string of_steps = plan.op.steps == 1 ? "" : fmt::format(" of {} steps", plan.op.steps);
  return fmt::format("{}", fmt::join(axes, ", ")) + of_steps;
}

std::string face_text(const spec::Face& face, spec::Storage storage) {
  if (face.rule != spec::BoundaryRule::constant) return std::string(spec::rule_name(face.rule));
  return fmt::format("constant {}", plan::stored_value(storage, face.value));
}

std::string boundary_text(const spec::StencilSpec& spec) {
  std::vector<std::string> axes;
  for (int axis = 3 - spec.dimensions; axis < 3; ++axis)
    axes.push_back(axis_faces_text(axis, spec.boundary[axis], spec.storage));
  return fmt::format("{}", fmt::join(axes, "; "));
}

/// How f32 values become operands.
std::string inputs_text(const spec::StencilSpec& spec, plan::Engine engine) {
  if (spec.storage != spec::Storage::f32 || engine == plan::Engine::cuda) return "";
  switch (spec.accuracy) {
    case spec::Accuracy::tf32:
      return "; accuracy tf32: values in one f16 term, scaled";
    case spec::Accuracy::f16:
      return "; accuracy f16: values rounded to f16";
    case spec::Accuracy::full:
      break;
  }
  return "; accuracy full: values in two f16 terms, scaled";
}

std::string shapes_text(const spec::StencilSpec& spec) {
  std::vector<std::string_view> shapes;
  for (const spec::Sum& sum : spec.sums) shapes.push_back(spec::shape_name(sum.shape));
  return fmt::format("{}", fmt::join(shapes, ", "));
}

/// For a spec that names its sums: each sum, and the sum of its weights.
void describe_sums(const spec::StencilSpec& spec, const plan::RoundedWeights& weights,
                   std::vector<std::string>& lines) {
  for (int i = 0; i < std::ssize(spec.sums); ++i) {
    const spec::Sum& sum = spec.sums[static_cast<std::size_t>(i)];
    int taps = 0;
    double exact = 0;
    double packed = 0;
    for (const plan::RoundedTap& tap : weights.taps) {
      if (tap.sum != i) continue;
      ++taps;
      exact += tap.weight;
      packed += tap.packed;
    }
    add(lines, "{} {}: {} of {}, whose weights sum to {}, {} packed", i == 0 ? "Sums     " : "         ",
        sum.name, counted(taps, "tap"), spec::shape_name(sum.shape), exact, packed);
  }
}

/// Describes the update and its fields.
void describe_update(const spec::StencilSpec& spec, std::vector<std::string>& lines) {
  add(lines, "Update    {}", spec.update->text);
  std::vector<std::string> fields;
  if (spec.previous)
    fields.push_back(fmt::format("{} {}, one step back", spec.previous->name, storage_name(spec.storage)));
  for (const spec::FurtherField& field : spec.fields)
    fields.push_back(fmt::format("{} {}", field.name, storage_name(field.storage)));
  if (!fields.empty()) add(lines, "Fields    {}", fmt::join(fields, "; "));
  if (!spec.scalars.empty()) add(lines, "Scalars   {}", fmt::join(spec.scalars, ", "));
}

/// How results are stored, where the storage is not a floating-point type.
std::string results_text(const spec::StencilSpec& spec) {
  const spec::Storage output = spec::output_of(spec);
  const std::string stored = spec.output ? fmt::format(", {} results", storage_name(output)) : "";
  return spec::is_integer(output) ? fmt::format("{}, rounded to the nearest from {} to {}", stored,
                                                spec::least_value(output), spec::largest_value(output))
                                  : stored;
}

/// The error bound in words.
std::string bound_text(const plan::ErrorBound& bound) {
  if (bound.neighbourhood > 0) {
    return fmt::format("|error| <= {:.2g} |result| + {:.2g} sum |w| largest |x| + {:.2g}", bound.result,
                       bound.neighbourhood, bound.absolute);
  }
  return fmt::format("|error| <= {:.2g} |result| + {:.2g} sum |w x| + {:.2g}", bound.result, bound.sum,
                     bound.absolute);
}

/// Says where the storage loses time steps.
void describe_lost_steps(const spec::StencilSpec& spec, int steps, std::vector<std::string>& lines) {
  const std::optional<double> lost = plan::lost_difference(spec, steps);
  if (!lost || *lost < plan::largest_silent_loss) return;
  add(lines,
      "          a sweep leaves a cell as it is where its neighbours differ by less than {:.2g} "
      "of its value",
      *lost);
}

std::string engine_text(const spec::StencilSpec& spec, plan::Engine engine) {
  std::string name(plan::engine_name(engine));
  switch (engine) {
    case plan::Engine::sparse:
      return name + ": tensor cores, operands compressed 2:4";
    case plan::Engine::dense:
      return name + ": tensor cores, whole operands";
    case plan::Engine::cuda:
      return fmt::format("{}: CUDA cores, in {}", name, number_name(spec.storage));
  }
  return name;
}

/// Describes composed steps, and the time of one.
void describe_composed(const plan::KernelPlan& plan, std::vector<std::string>& lines) {
  const plan::ComposedSteps& composition = *plan.composition;
  add(lines, "Steps     {} a sweep, composed into {}; what is left of a number of steps is taken one by one",
      plan.op.steps, counted(std::ssize(composition.weights.taps), "tap"));
  describe_step_time(plan, lines);
  add(lines, "          weights of {} {} term{} each, {:.1e} of sum |w| from the exact ones",
      composition.weights.terms, plan::type_name(composition.weights.type),
      composition.weights.terms == 1 ? "" : "s", composition.deviation);
  if (composition.rim_steps)
    describe_rims(*composition.rim_steps, composition.rims, composition.least, composition.rims_us, lines);
  if (composition.added.exist()) {
    const plan::Matrix& plane = composition.added.planes.front();
    const std::string planes =
        plan.dimensions == 1 ? ""
                             : fmt::format("{} planes of {} x ", composition.added.planes.size(), plane.rows);
    add(lines, "Faces     what constants add near them is a table of {}{}", planes, plane.columns);
  }
  if (composition.fewest > 0) {
    add(lines, "Small     fields of fewer than {} {} are stepped", composition.fewest,
        plan.dimensions == 1 ? "cells" : "planes, rows or columns");
  }
}

/// Describes passes, with the share of each in a sweep's estimate.
void describe_passes(const plan::KernelPlan& plan, std::vector<std::string>& lines) {
  add(lines, "Passes    {}, one after the other, of {:.0f} us in all", plan.passes.size(), plan.microseconds);
  for (const plan::PassPlan& pass : plan.passes) {
    add(lines, "          along {}: {}, {}, {:.0f} us", fmt::join(plan::axis_names(pass), " and "),
        counted(std::ssize(pass.spec.taps), "tap"), plan::scheme_name(pass.plan.scheme),
        pass.plan.microseconds);
  }
}

/// Describes the products. Schemes of bands describe theirs.
void describe_products(const plan::Contraction& contraction, std::vector<std::string>& lines) {
  add(lines, "Plan      {}: {} {} per 128 outputs, {}, windows at x shift {}", contraction.mapping.name,
      contraction.products.size(), "mma.sp.m16n8k32",
      counted(std::ssize(contraction.operands), "distinct operand"), fmt::join(contraction.shifts, ", "));
}

}  // namespace

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string axis_faces_text(int axis, const spec::AxisBoundary& faces, spec::Storage storage) {
  const std::string_view letter = spec::axis_letters[static_cast<std::size_t>(axis)];
  const std::string low = face_text(faces.low, storage);
  const std::string high = face_text(faces.high, storage);
  return low == high ? fmt::format("{} {}", letter, low)
                     : fmt::format("{} {} (low), {} (high)", letter, low, high);
}

void describe_parameters(const std::vector<spec::Parameter>& parameters, std::vector<std::string>& lines) {
  if (parameters.empty()) return;
  std::vector<std::string> texts;
  texts.reserve(parameters.size());
  for (const spec::Parameter& parameter : parameters) {
    texts.push_back(
        fmt::format("{} = {}{}", parameter.name, parameter.value, parameter.overridden ? " (-D)" : ""));
  }
  add(lines, "With      {}", fmt::join(texts, ", "));
}

void describe_mappings(const plan::KernelPlan& plan, std::string_view why_windows,
                       std::vector<std::string>& lines) {
  const std::optional<MappingChoice> choice = mapping_choice_of(plan);
  if (!choice) return;
  if (plan.contraction.grouping == plan::Grouping::row_pairs) {
    add(lines, "          windows of one row, L = 16, would take {}", choice->windows);
  } else {
    add(lines, "          pairs of rows, L = 8, would take {}: {}", choice->row_pairs,
        choice->row_pairs >= choice->windows ? "no fewer" : why_windows);
  }
}

void describe_diagonals(const plan::Contraction& contraction, std::vector<std::string>& lines) {
  if (contraction.pairs_diagonals()) {
    add(lines, "          pairs of diagonals, {} apart",
        counted(contraction.sources.back().distance().y, "row"));
  }
}

std::string summary(const spec::StencilSpec& spec) {
  if (!spec.description.empty()) return spec.description;
  return fmt::format("{}D {} stencil of {}", spec.dimensions, shapes_text(spec),
                     counted(spec::count_taps(spec), "tap"));
}

/// The axis of the spec for each axis of the kernel.
std::string axes_text(const spec::StencilSpec& spec) {
  std::vector<std::string> axes;
  const std::size_t first = spec::axis_letters.size() - spec.stored_axes.size();
  for (std::size_t i = 0; i < spec.stored_axes.size(); ++i)
    axes.push_back(fmt::format("{} is the spec's {}", spec::axis_letters[first + i], spec.stored_axes[i]));
  return fmt::format("stored as {}: here {}", spec.stored_axes, fmt::join(axes, ", "));
}

std::vector<std::string> report(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::vector<std::string> lines;
  add(lines, "Stencil   {}D {}, {} in {}, reach {}", spec.dimensions, shapes_text(spec),
      counted(spec::count_taps(spec), "tap"), counted(spec::count_tap_rows(spec), "row"),
      reach_text(spec, plan));
  describe_parameters(spec.parameters, lines);
  if (!spec.stored_axes.empty()) add(lines, "Axes      {}", axes_text(spec));
  add(lines, "Boundary  {}", boundary_text(spec));
  const bool names_sums = spec.sums.front().name != spec::only_sum;
  if (names_sums) describe_sums(spec, plan.weights, lines);
  if (spec.update) describe_update(spec, lines);
  add(lines, "Storage   {} fields, {} sums{}{}", storage_name(spec.storage), number_name(spec.storage),
      inputs_text(spec, plan.engine), results_text(spec));
  add(lines, "Weights   {}", weights_text(plan.weights));
  if (!names_sums) {
    add(lines, "          sum {} in the spec, {} packed", plan.weights.sum, plan.weights.packed_sum);
  }
  if (plan.weights.adds_identity) {
    lines.emplace_back(
        "          the old value is added to the sum of the rest: the centre weight is packed less 1");
  }
  add(lines, "Bound     {}{}",
      spec.sums.size() > 1               ? "of each sum: "
      : spec.update && plan.op.steps > 1 ? "of the sum of each step: "
      : spec.update                      ? "of the sum: "
                                         : "",
      bound_text(plan.error_bound));
  describe_lost_steps(spec, plan.op.steps, lines);
  lines.push_back("Engine    " + engine_text(spec, plan.engine));
  if (!plan.passes.empty()) {
    describe_passes(plan, lines);
    return lines;
  }
  if (plan.composition) describe_composed(plan, lines);
  if (plan.contraction.on_tensor_cores() && !plan.contraction.is_bands() && !plan.contraction.is_low_rank())
    describe_products(plan.contraction, lines);
  const plan::KernelPlan sweep = plan.composition ? plan::plan_of_composed(spec, plan) : plan;
  std::visit([&](const auto& scheme) { describe(scheme, sweep, lines); }, plan.scheme);
  return lines;
}

}  // namespace spidergen::emit
