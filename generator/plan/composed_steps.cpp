#include "plan/composed_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "plan/compose.h"
#include "plan/objections.h"
#include "plan/one_step.h"
#include "plan/stepping.h"
#include "plan/weights.h"

namespace spidergen::plan {
namespace {

/// All steps of a sweep as a spec of one step with weights rounded so, without those that vanish.
spec::StencilSpec compose_spec(const Problem& problem, spec::WeightMode mode) {
  const Operator& op = problem.op;
  RoundedWeights exact;
  const std::vector<Matrix> planes = compose_taps(op);
  for (int plane = 0; plane < std::ssize(planes); ++plane) {
    for (int row = 0; row < planes[plane].rows; ++row) {
      for (int column = 0; column < planes[plane].columns; ++column) {
        const double weight = planes[plane].at(row, column);
        const spec::Offset at{plane - op.reach_low[spec::axis_z], row - op.reach_low[spec::axis_y],
                              column - op.reach_low[spec::axis_x]};
        if (weight != 0) exact.taps.push_back({at, weight, {}, 0, 0, weight});
      }
    }
  }
  spec::StencilSpec composed = composed_spec(problem.spec, exact);
  composed.weights = mode;
  RoundedWeights rounded = round_weights(composed).weights;
  std::erase_if(rounded.taps, [](const RoundedTap& tap) { return tap.packed == 0; });
  composed.taps = composed_spec(problem.spec, rounded).taps;
  return composed;
}

/// Scales results so that the weights sum to the exact sum of all steps, unless the exact ones nearly cancel.
ComposedSums settle_sum(const Operator& op, RoundedWeights& weights) {
  ComposedSums sums = compare_composed(op, weights);
  if (std::fabs(sums.sum) <= sums.magnitude / 2) return sums;
  weights.factor = static_cast<float>(weights.factor * (sums.sum / sums.packed_sum));
  weights.packed_sum = weights.largest_error = 0;
  for (RoundedTap& tap : weights.taps) {
    tap.packed = weights.packed_of(tap);
    weights.packed_sum += tap.packed;
    weights.largest_error = std::max(weights.largest_error, std::fabs(tap.packed - tap.weight));
  }
  return compare_composed(op, weights);
}

/// All steps of a sweep as a spec of one step, with as few terms a weight as possible: one, unless the
/// tolerance or the sum of the weights requires more.
spec::StencilSpec choose_composed(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  spec::StencilSpec composed = compose_spec(problem, spec.weights);
  if (spec.weights != spec::WeightMode::automatic || round_weights(composed).weights.terms == 1)
    return composed;
  const bool f16 = spec.storage == spec::Storage::f16;
  spec::StencilSpec of_one_term = compose_spec(problem, f16 ? spec::WeightMode::f16 : spec::WeightMode::bf16);
  RoundedWeights weights = round_weights(of_one_term).weights;
  const ComposedSums sums = settle_sum(problem.op, weights);
  const bool is_near = !spec.tolerance || sums.deviation <= *spec.tolerance;
  return is_near && sums.sums_agree() ? of_one_term : composed;
}

/// Do the steps reach few enough points to be composed? With more, steps in registers are faster.
bool are_few(const Operator& op) {
  constexpr std::int64_t most_taps = 1000;
  std::int64_t taps = 1;
  for (int axis = 0; axis < 3; ++axis) taps *= op.reach_low[axis] + op.reach_high[axis] + 1;
  return taps <= most_taps;
}

std::string objection_to_composed(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  if (spec.update || spec.previous) return "steps of an update are not composed";
  if (!spec::is_half(spec.storage) || !has_sparse_plan(spec))
    return "steps are composed of f16 fields, and in 1D and 2D of bf16 fields";
  if (spec.accumulate != spec::Accumulate::f32) return "steps are composed with f32 sums";
  if (!are_few(problem.op)) return "so many steps reach too many points";
  return objection_to_composing(spec);
}

/// Plans separate steps for cells near faces that do not commute. Returns the objection otherwise.
std::string plan_rims(const Problem& problem, ComposedSteps& composition) {
  if (problem.spec.dimensions != 2) return "";
  composition.rims = rims_of(problem.spec, problem.op);
  if (composition.rims == Rims{}) return "";
  composition.least = least_beside(composition.rims);
  composition.rim_steps = plan_rim_tiles(problem.spec, problem.op.steps);
  if (!composition.rim_steps) return "steps at faces find no room in shared memory, or turn signs round";
  composition.rims_us = estimate_rims_us(*composition.rim_steps, composition.rims);
  return "";
}

/// For constant faces that add to all steps, and a `mirror` that faces another rule: plans single steps for
/// small fields, where two faces are near, and for the rest of a number of steps. Returns the objection
/// otherwise.
std::string plan_large_fields(const Problem& problem, ComposedSteps& composition) {
  if (!compose_when_large(problem.spec)) return "";
  composition.added = added_by_constants(problem.spec, problem.op);
  if (!composition.added.is_moderate()) return "what constants beyond faces add grows beyond 2^100";
  Problem of_steps = problem;
  of_steps.engine = Engine::cuda;
  of_steps.weights = round_weights_to_f32(problem.spec).weights;
  const auto plan_steps = [&]<class Stepping>(Offer<Stepping> steps) {
    if (steps.objection.empty()) composition.single_scheme = std::move(steps.scheme);
    return steps.objection;
  };
  std::string objection = problem.spec.dimensions == 1 ? plan_steps(Stepping1d::plan(of_steps, {}))
                                                       : plan_steps(Stepping3d::plan(of_steps, {}));
  if (!objection.empty()) return objection;
  for (int axis = 0; axis < 3; ++axis) {
    composition.fewest =
        std::max({composition.fewest, 2 * problem.op.reach_low[axis], 2 * problem.op.reach_high[axis]});
  }
  return "";
}

/// Why the rounded weights of all steps cannot replace the exact ones; empty where they can.
std::string objection_to_sums(const spec::StencilSpec& spec, const ComposedSums& sums,
                              const RoundedWeights& weights) {
  const double tolerance = spec.tolerance.value_or(1);
  if (sums.deviation > tolerance) {
    return fmt::format(
        "rounded to operands the weights lie {:.1e} from the exact ones, the tolerance is {:.1e}",
        sums.deviation, tolerance);
  }
  if (!sums.sums_agree()) return "rounded weights do not sum to what the exact ones do";
  if (!std::isnormal(static_cast<float>(weights.result_scale(0))))
    return "weights of all steps are scaled by no normal f32 number";
  return "";
}

/// Passes the contribution of constant faces to a scheme with tables for it. Returns the objection otherwise.
std::string add_contribution(Scheme& scheme, const BoundaryContribution& added) {
  return std::visit(
      [&](auto& chosen) -> std::string {
        if constexpr (requires { chosen.add(added); }) return chosen.add(added);
        return "";
      },
      scheme);
}

}  // namespace

Draft draft_composed(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  Draft draft;
  draft.candidate.engine = Engine::sparse;
  draft.candidate.scheme = "composed";
  std::string& objection = draft.candidate.objection;
  objection = objection_to_composed(problem);
  if (!objection.empty()) return draft;
  const Request sparse{.engine = Engine::sparse};
  const Request on_cores{.engine = Engine::cuda};
  const spec::StencilSpec as_one = choose_composed(problem);
  if (as_one.taps.empty()) {
    objection = "all weights of so many steps vanish";
    return draft;
  }
  PlanResult composed = plan_one_step(as_one, sparse);
  spec::StencilSpec single = spec;
  single.steps = 1;
  PlanResult left = plan_one_step(single, on_cores);
  for (const PlanResult* planned : {&composed, &left}) {
    if (objection.empty() && planned->diagnostics.has_errors()) objection = first_error(planned->diagnostics);
  }
  if (!objection.empty()) return draft;
  const ComposedSums sums = settle_sum(problem.op, composed.plan.weights);
  objection = objection_to_sums(spec, sums, composed.plan.weights);
  if (!objection.empty()) return draft;
  ComposedSteps composition;
  composition.weights = std::move(composed.plan.weights);
  composition.magnitude = sums.magnitude;
  composition.deviation = sums.deviation;
  composition.single_contraction = std::move(left.plan.contraction);
  composition.single_scheme = std::move(left.plan.scheme);
  if (objection = plan_rims(problem, composition); !objection.empty()) return draft;
  if (objection = plan_large_fields(problem, composition); !objection.empty()) return draft;
  const auto taken =
      std::find_if(composed.plan.candidates.begin(), composed.plan.candidates.end(),
                   [](const Candidate& candidate) { return candidate.engine == Engine::sparse; });
  draft.candidate = *taken;
  draft.candidate.mapping = "composed, " + draft.candidate.mapping;
  draft.weights = round_weights_to_f32(spec).weights;
  draft.contraction = std::move(composed.plan.contraction);
  draft.scheme = std::move(composed.plan.scheme);
  objection = add_contribution(draft.scheme, composition.added);
  draft.candidate.microseconds += composition.rims_us;
  draft.composition = std::move(composition);
  return draft;
}

}  // namespace spidergen::plan
