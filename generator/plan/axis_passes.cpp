#include "plan/axis_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "plan/banded_pass.h"
#include "plan/error_bound.h"
#include "plan/half.h"
#include "plan/machine.h"
#include "plan/one_step.h"

namespace spidergen::plan {
namespace {

constexpr double least_gain = 2;  // of passes, over a sweep
// Of a band, over CUDA cores, whose estimate is high: with 41 taps they took 608 us, where bands took 649.
constexpr double least_gain_of_band = 1.2;

/// By how much a product of lists may be off a weight, as a part of it: roundings of what made the weight,
/// and of ratios of weights.
constexpr double largest_deviation = 16 * 0x1p-53;

const spec::Tap& largest_tap(const spec::StencilSpec& spec) {
  return *std::max_element(spec.taps.begin(), spec.taps.end(), [](const spec::Tap& a, const spec::Tap& b) {
    return std::fabs(a.weight) < std::fabs(b.weight);
  });
}

/// The weights of the line along an axis through a tap, over `unit`.
AxisList list_through(const spec::StencilSpec& spec, const spec::Tap& middle, int axis, double unit) {
  std::vector<std::pair<int, double>> found;
  for (const spec::Tap& tap : spec.taps) {
    spec::Offset at = tap.at;
    at[axis] = middle.at[axis];
    if (at == middle.at) found.emplace_back(tap.at[axis], tap.weight / unit);
  }
  const auto [low, high] = std::minmax_element(found.begin(), found.end());
  AxisList list{axis, low->first,
                std::vector<double>(static_cast<std::size_t>(high->first - low->first + 1))};
  for (const auto& [at, weight] : found) list.weights[static_cast<std::size_t>(at - list.low)] = weight;
  return list;
}

std::size_t count_weights(const AxisList& list) {
  return static_cast<std::size_t>(
      std::count_if(list.weights.begin(), list.weights.end(), [](double weight) { return weight != 0; }));
}

/// Is every weight the product of its lists', and no product left out?
bool are_factors(const spec::StencilSpec& spec, const std::vector<AxisList>& lists) {
  std::size_t products = 1;
  for (const AxisList& list : lists) products *= count_weights(list);
  if (products != spec.taps.size()) return false;
  return std::all_of(spec.taps.begin(), spec.taps.end(), [&](const spec::Tap& tap) {
    double product = 1;
    for (const AxisList& list : lists) {
      const int at = tap.at[list.axis] - list.low;
      if (at < 0 || at >= std::ssize(list.weights)) return false;
      product *= list.weights[static_cast<std::size_t>(at)];
    }
    return std::fabs(product - tap.weight) <= largest_deviation * std::fabs(tap.weight);
  });
}

bool reaches_along(const AxisList& list) {
  return list.weights.size() > 1 || list.low != 0;
}

std::vector<const spec::Face*> constants_of(const spec::AxisBoundary& boundary) {
  std::vector<const spec::Face*> faces;
  for (const spec::Face* face : {&boundary.low, &boundary.high}) {
    if (face->rule == spec::BoundaryRule::constant) faces.push_back(face);
  }
  return faces;
}

bool is_antisymmetric(const spec::AxisBoundary& boundary) {
  return boundary.low.rule == spec::BoundaryRule::antisymmetric ||
         boundary.high.rule == spec::BoundaryRule::antisymmetric;
}

/// Is what lies outside of the faces of two axes the same, whichever rule acts first?
bool rules_commute(const spec::AxisBoundary& a, const spec::AxisBoundary& b) {
  const std::vector<const spec::Face*> of_a = constants_of(a);
  const std::vector<const spec::Face*> of_b = constants_of(b);
  const auto is_zero = [](const spec::Face* face) { return face->value == 0; };
  if (is_antisymmetric(a) && !std::all_of(of_b.begin(), of_b.end(), is_zero)) return false;
  if (is_antisymmetric(b) && !std::all_of(of_a.begin(), of_a.end(), is_zero)) return false;
  return std::all_of(of_a.begin(), of_a.end(), [&](const spec::Face* face) {
    return std::all_of(of_b.begin(), of_b.end(),
                       [&](const spec::Face* other) { return other->value == face->value; });
  });
}

bool takes_passes(const spec::StencilSpec& spec) {
  const bool is_plain = spec.steps == 1 && spec.sums.size() == 1 && !spec.update && !spec.previous &&
                        spec.fields.empty() && spec.scalars.empty();
  if (!is_plain || spec.dimensions == 1 || spec.taps.empty() || spec.accumulate == spec::Accumulate::f16)
    return false;
  return rules_commute(spec.boundary[0], spec.boundary[1]) &&
         rules_commute(spec.boundary[0], spec.boundary[2]) &&
         rules_commute(spec.boundary[1], spec.boundary[2]);
}

/// A constant of the spec's storage becomes what the passes so far make of it, whose weights sum to this. Can
/// a cell of the pass hold it?
bool pass_constants(double weights, spec::Storage storage, spec::Storage of_pass,
                    spec::AxisBoundary& boundary) {
  bool fits = true;
  for (spec::Face* face : {&boundary.low, &boundary.high}) {
    if (face->rule != spec::BoundaryRule::constant) continue;
    face->value = stored_value(storage, face->value) * weights;
    fits = fits && std::isfinite(stored_value(of_pass, face->value));
  }
  return fits;
}

/// The storage of sums, which scratch has between passes.
spec::Storage storage_between(const spec::StencilSpec& spec) {
  return spec.storage == spec::Storage::f64 ? spec::Storage::f64 : spec::Storage::f32;
}

spec::StencilSpec spec_of_pass(const spec::StencilSpec& spec, const AxisList& list, bool is_first,
                               bool is_last) {
  spec::StencilSpec pass = spec;
  if (!is_first) pass.storage = storage_between(spec);
  const spec::Storage output = is_last ? spec::output_of(spec) : storage_between(spec);
  pass.output = output == pass.storage ? std::nullopt : std::optional(output);
  pass.taps.clear();
  for (std::size_t i = 0; i < list.weights.size(); ++i) {
    if (list.weights[i] == 0) continue;
    spec::Offset at{};
    at[list.axis] = list.low + static_cast<int>(i);
    pass.taps.push_back({at, list.weights[i], spec.where.coefficients});
  }
  pass.sums = {spec::Sum{}};
  pass.description.clear();
  return pass;
}

/// The axes along which a pass's taps lie.
std::vector<int> axes_of(const spec::StencilSpec& pass) {
  std::vector<int> axes;
  for (const int axis : {spec::axis_z, spec::axis_y, spec::axis_x}) {
    if (std::any_of(pass.taps.begin(), pass.taps.end(),
                    [&](const spec::Tap& tap) { return tap.at[axis] != 0; }))
      axes.push_back(axis);
  }
  return axes;
}

/// Does each product differ from its weight by no more than the roundings of its factors?
bool is_close(const RoundedWeights& weights, std::size_t passes) {
  const double rounding = static_cast<double>(passes) * pass_rounding(weights);
  return std::all_of(weights.taps.begin(), weights.taps.end(), [&](const RoundedTap& tap) {
    return std::fabs(tap.packed - tap.weight) <= rounding * std::fabs(tap.weight);
  });
}

double sum_of(const AxisList& list) {
  return std::accumulate(list.weights.begin(), list.weights.end(), 0.0);
}

/// Of a product that is left as its lists: the sums of all taps, and how far a packed one may be off.
void sum_up_lists(const spec::StencilSpec& spec, const std::vector<PassPlan>& passes,
                  RoundedWeights& weights) {
  weights.sum = weights.packed_sum = 1;
  double largest = 1;
  double largest_packed = 1;
  for (const AxisList& list : spec.lists) weights.sum *= sum_of(list);
  for (const PassPlan& pass : passes) {
    double of_pass = 0;
    for (const RoundedTap& tap : pass.plan.weights.taps) of_pass = std::max(of_pass, std::fabs(tap.weight));
    weights.packed_sum *= pass.plan.weights.packed_sum;
    largest *= of_pass;
    largest_packed *= of_pass + pass.plan.weights.largest_error;
  }
  weights.largest_error = largest_packed - largest;
}

/// The weights that the passes stand for.
RoundedWeights weights_of(const spec::StencilSpec& spec, const std::vector<PassPlan>& passes) {
  RoundedWeights weights = passes.front().plan.weights;
  weights.taps.clear();
  weights.in_f32 = !weights.in_f64;
  weights.terms = 1;
  weights.exponent = 0;
  weights.sum = weights.packed_sum = weights.largest_error = 0;
  for (const spec::Tap& tap : spec.taps) {
    const double value = packed_product(passes, tap.at);
    weights.taps.push_back({tap.at, tap.weight, {value}, value, 0, value, 0});
    weights.sum += tap.weight;
    weights.packed_sum += value;
    weights.largest_error = std::max(weights.largest_error, std::fabs(value - tap.weight));
  }
  if (!spec.lists.empty()) sum_up_lists(spec, passes, weights);
  weights.exact = weights.largest_error == 0;
  return weights;
}

/// Passes that replace one sweep.
struct Passes {
  std::vector<PassPlan> plans;
  Candidate candidate;
  RoundedWeights weights;
};

/// An estimate of a pass over the reference field of so many dimensions, from that of its own: planes have
/// few rows, of which each walk reads some twice.
double pass_us(const spec::StencilSpec& pass, const KernelPlan& plan, int dimensions) {
  constexpr double of_short_walks = 1.08;
  if (pass.dimensions == dimensions) return plan.microseconds;
  return plan.microseconds * of_short_walks * reference_points(dimensions) /
         reference_points(pass.dimensions);
}

/// The same pass along one axis, swept plane by plane.
spec::StencilSpec in_planes(const spec::StencilSpec& pass, int row_axis) {
  spec::StencilSpec planes = pass;
  planes.dimensions = 2;
  planes.boundary[spec::axis_y] = pass.boundary[static_cast<std::size_t>(row_axis)];
  planes.boundary[spec::axis_z] = {};
  for (spec::Tap& tap : planes.taps) {
    tap.at[spec::axis_y] = tap.at[row_axis];
    if (row_axis == spec::axis_z) tap.at[spec::axis_z] = 0;
  }
  return planes;
}

/// Plans a pass; nothing where none does what its spec says.
std::optional<PassPlan> plan_pass(const spec::StencilSpec& pass, std::vector<int> axes, int row_axis,
                                  int dimensions) {
  PlanResult planned = plan_one_step(pass, {Engine::cuda});
  if (planned.diagnostics.has_errors() || planned.plan.error_bound.neighbourhood > 0) return std::nullopt;
  planned.plan.microseconds = pass_us(pass, planned.plan, dimensions);
  return PassPlan{std::move(axes), row_axis, pass, std::move(planned.plan)};
}

/// The fastest plan of a pass.
std::optional<PassPlan> fastest_pass(const spec::StencilSpec& pass, const std::vector<int>& axes,
                                     int dimensions) {
  std::optional<PassPlan> plan = plan_pass(pass, axes, spec::axis_y, dimensions);
  if (!plan || pass.dimensions == 2 || spec::is_half(pass.storage) || spec::converts_cells(pass)) return plan;
  const int row_axis = axes.front() == spec::axis_z ? spec::axis_z : spec::axis_y;
  std::optional<PassPlan> planes = plan_pass(in_planes(pass, row_axis), axes, row_axis, dimensions);
  // Others were not measured on planes whose rows lie far apart.
  const bool takes_planes = planes && std::holds_alternative<Passes2d>(planes->plan.scheme) &&
                            planes->plan.microseconds < plan->plan.microseconds;
  return takes_planes ? std::move(planes) : std::move(plan);
}

/// The largest magnitude of a finite cell.
double largest_cell(spec::Storage storage) {
  if (!spec::is_integer(storage)) return largest_f16;
  return std::max(std::fabs(spec::least_value(storage)), spec::largest_value(storage));
}

/// What a band on tensor cores may count on. `growth`: what the passes before make of the largest cell at
/// most.
PassInput input_of_band(spec::Storage storage, double growth) {
  if (storage == spec::Storage::f32) return {OperandType::bf16, 3, 0};
  return {operand_type(storage), 2, growth * largest_cell(storage)};
}

/// The fastest plan of a pass, which may be a band if it is along one axis.
std::optional<PassPlan> fastest_pass_or_band(const spec::StencilSpec& pass, const std::vector<int>& axes,
                                             const PassInput& input, int dimensions) {
  std::optional<PassPlan> plan = fastest_pass(pass, axes, dimensions);
  if (axes.size() > 1) return plan;
  std::optional<KernelPlan> banded = plan_banded_pass(pass, input);
  if (!banded || (plan && plan->plan.microseconds <= least_gain_of_band * banded->microseconds)) return plan;
  return PassPlan{axes, spec::axis_y, pass, std::move(*banded)};
}

double magnitude_of(const RoundedWeights& weights) {
  return std::accumulate(weights.taps.begin(), weights.taps.end(), 0.0,
                         [](double sum, const RoundedTap& tap) { return sum + std::fabs(tap.packed); });
}

/// Nothing where they do not do what the spec says, or there are none. `on_tensor_cores`: they may be bands.
std::optional<Passes> plan_passes(const spec::StencilSpec& spec, std::vector<spec::StencilSpec> specs,
                                  bool on_tensor_cores) {
  Passes found{{}, {Engine::cuda, passes_name, Grouping::multiply_adds, "", 0, 0, true, ""}, {}};
  const bool may_be_bands = on_tensor_cores && spec.storage != spec::Storage::f64;
  double weights = 1;  // of the passes so far
  double growth = 1;   // by them, of the largest cell
  for (spec::StencilSpec& of_pass : specs) {
    const std::vector<int> axes = axes_of(of_pass);
    for (const int axis : axes) {
      if (!pass_constants(weights, spec.storage, of_pass.storage,
                          of_pass.boundary[static_cast<std::size_t>(axis)]))
        return std::nullopt;
    }
    std::optional<PassPlan> pass =
        may_be_bands
            ? fastest_pass_or_band(of_pass, axes, input_of_band(spec.storage, growth), spec.dimensions)
            : fastest_pass(of_pass, axes, spec.dimensions);
    if (!pass) return std::nullopt;
    weights *= pass->plan.weights.packed_sum;
    growth *= magnitude_of(pass->plan.weights);
    if (pass->plan.engine == Engine::dense) found.candidate.engine = Engine::dense;
    found.candidate.microseconds += pass->plan.microseconds;
    found.candidate.products += static_cast<int>(core_work(pass->plan.contraction));
    found.plans.push_back(std::move(*pass));
  }
  if (found.plans.empty()) return std::nullopt;
  found.weights = weights_of(spec, found.plans);
  if (!is_close(found.weights, found.plans.size())) return std::nullopt;
  return found;
}

/// The fastest passes.
std::optional<Passes> find_passes(const spec::StencilSpec& spec, const Request& request) {
  const bool on_tensor_cores = !request.engine;
  std::optional<Passes> along_axes = plan_passes(spec, pass_specs(spec), on_tensor_cores);
  std::optional<Passes> in_planes = plan_passes(spec, plane_pass_specs(spec), on_tensor_cores);
  const bool takes_planes =
      in_planes && (!along_axes || in_planes->candidate.microseconds < along_axes->candidate.microseconds);
  return takes_planes ? std::move(in_planes) : std::move(along_axes);
}

/// Makes them the plan.
void put(const spec::StencilSpec& spec, Passes passes, KernelPlan& plan) {
  plan.engine = passes.candidate.engine;
  plan.microseconds = passes.candidate.microseconds;
  plan.weights = std::move(passes.weights);
  // Of the passes' own products nothing is told.
  plan.contraction = {};
  plan.contraction.grouping = Grouping::multiply_adds;
  plan.contraction.element_bytes = passes.plans.back().plan.contraction.element_bytes;
  for (const PassPlan& pass : passes.plans) {
    const std::vector<CoreTap>& taps = pass.plan.contraction.taps;
    plan.contraction.taps.insert(plan.contraction.taps.end(), taps.begin(), taps.end());
  }
  plan.scheme = passes.plans.back().plan.scheme;
  plan.candidates.insert(plan.candidates.begin(), std::move(passes.candidate));
  plan.passes = std::move(passes.plans);
  plan.error_bound = bound_error(spec, plan);
}

}  // namespace

std::optional<std::vector<AxisList>> axis_lists(const spec::StencilSpec& spec) {
  if (!spec.lists.empty()) return spec.lists;
  if (spec.sums.size() != 1 || spec.taps.empty()) return std::nullopt;
  const spec::Tap& middle = largest_tap(spec);
  std::vector<AxisList> lists;
  for (const int axis : {spec::axis_x, spec::axis_y, spec::axis_z})
    lists.push_back(list_through(spec, middle, axis, axis == spec::axis_x ? 1 : middle.weight));
  if (!are_factors(spec, lists)) return std::nullopt;
  // A list of one weight at offset 0 along y or z is 1; along x it scales.
  if (!reaches_along(lists.front())) {
    const double scale = lists.front().weights.front();
    for (double& weight : lists[reaches_along(lists[1]) ? 1 : 2].weights) weight *= scale;
    lists.front().weights.front() = 1;
  }
  std::erase_if(lists, [](const AxisList& list) { return !reaches_along(list); });
  return lists;
}

std::vector<spec::StencilSpec> pass_specs(const spec::StencilSpec& spec) {
  if (!takes_passes(spec)) return {};
  const std::optional<std::vector<AxisList>> lists = axis_lists(spec);
  if (!lists || lists->size() < 2) return {};
  std::vector<spec::StencilSpec> specs;
  for (const AxisList& list : *lists)
    specs.push_back(spec_of_pass(spec, list, specs.empty(), specs.size() + 1 == lists->size()));
  return specs;
}

std::vector<spec::StencilSpec> plane_pass_specs(const spec::StencilSpec& spec) {
  constexpr std::size_t most_weights = 100;  // of both lists: more take more registers than there are
  if (!takes_passes(spec) || spec.dimensions != 3 || is_half(spec.storage) || converts_cells(spec)) return {};
  const std::optional<std::vector<AxisList>> lists = axis_lists(spec);
  if (!lists || lists->size() < 3) return {};
  const auto& [x, y, z] = std::tie((*lists)[0], (*lists)[1], (*lists)[2]);
  if (x.weights.size() + y.weights.size() > most_weights) return {};
  spec::StencilSpec plane = spec_of_pass(spec, x, true, false);
  plane.dimensions = 2;
  plane.boundary[spec::axis_z] = {};
  plane.taps.clear();
  for (std::size_t i = 0; i < y.weights.size(); ++i) {
    for (std::size_t j = 0; j < x.weights.size(); ++j) {
      const double weight = y.weights[i] * x.weights[j];
      if (weight != 0)
        plane.taps.push_back(
            {{0, y.low + static_cast<int>(i), x.low + static_cast<int>(j)}, weight, spec.where.coefficients});
    }
  }
  return {plane, spec_of_pass(spec, z, false, true)};
}

void take_passes(const spec::StencilSpec& spec, const Request& request, PlanResult& result) {
  if (result.diagnostics.has_errors() || request.engine.value_or(Engine::cuda) != Engine::cuda) return;
  std::optional<Passes> passes = find_passes(spec, request);
  if (passes && least_gain * passes->candidate.microseconds < result.plan.microseconds)
    put(spec, std::move(*passes), result.plan);
}

PlanResult plan_lists(const spec::StencilSpec& spec, const Request& request) {
  PlanResult result;
  KernelPlan& plan = result.plan;
  plan.engine = Engine::cuda;
  plan.dimensions = spec.dimensions;
  plan.op = operator_of(spec);
  plan.tap_rows = tap_rows_of(plan.op);
  const std::string what = fmt::format("the product has {} taps, which are for passes along one axis each",
                                       spec::count_taps(spec));
  if (request.engine.value_or(Engine::cuda) != Engine::cuda) {
    result.diagnostics.error(spec.where.coefficients,
                             fmt::format("{} on CUDA cores; leave '--engine' out", what));
    return result;
  }
  std::optional<Passes> passes = find_passes(spec, request);
  if (passes) {
    put(spec, std::move(*passes), plan);
  } else {
    result.diagnostics.error(
        spec.where.coefficients,
        fmt::format("{}: these do not do what it says beyond the faces of two axes, or its weights are no "
                    "numbers of theirs; let constants agree, and be 0 beside an antisymmetric face",
                    what));
  }
  return result;
}

}  // namespace spidergen::plan
