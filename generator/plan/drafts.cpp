#include "plan/drafts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/error_bound.h"
#include "plan/objections.h"

namespace spidergen::plan {
namespace {

/// Extends the taps to the reach of all steps of a sweep together.
void reach_all_steps(KernelPlan& plan) {
  plan.tap_rows.clear();
  for (int dz = -plan.op.reach_low[spec::axis_z]; dz <= plan.op.reach_high[spec::axis_z]; ++dz) {
    for (int dy = -plan.op.reach_low[spec::axis_y]; dy <= plan.op.reach_high[spec::axis_y]; ++dy)
      plan.tap_rows.push_back({dz, dy, -plan.op.reach_low[spec::axis_x], plan.op.reach_high[spec::axis_x]});
  }
}

}  // namespace

void sort_drafts(std::vector<Draft>& drafts) {
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) {
    const auto key = [](const Draft& draft) {
      const Candidate& candidate = draft.candidate;
      return std::tuple(!draft.is_possible(), !candidate.measured,
                        draft.is_possible() ? candidate.microseconds : 0);
    };
    return key(a) < key(b);
  });
}

std::string first_error(const diag::Diagnostics& diagnostics) {
  const auto error =
      std::find_if(diagnostics.items.begin(), diagnostics.items.end(),
                   [](const diag::Diagnostic& item) { return item.severity == diag::Severity::error; });
  std::string text = error->text;
  remove_advice(text);
  return text;
}

PlanResult choose_plan(const Problem& problem, const Request& request, std::vector<EngineDrafts> asked,
                       double single_us) {
  std::vector<Draft> drafts;
  std::map<Engine, diag::Diagnostics> diagnostics;
  for (EngineDrafts& of_engine : asked) {
    diagnostics[of_engine.engine] = std::move(of_engine.diagnostics);
    std::move(of_engine.drafts.begin(), of_engine.drafts.end(), std::back_inserter(drafts));
  }
  sort_drafts(drafts);
  const auto fits = [&](const Draft& draft) {
    return draft.candidate.engine == request.engine.value_or(draft.candidate.engine);
  };
  const auto chosen = std::find_if(drafts.begin(), drafts.end(), fits);

  PlanResult result;
  KernelPlan& plan = result.plan;
  const spec::StencilSpec& spec = problem.spec;
  const Operator& op = problem.op;
  const Engine last_resort = has_sparse_plan(spec) ? Engine::sparse : Engine::cuda;
  const bool found = chosen != drafts.end() && chosen->is_possible();
  plan.engine =
      found ? chosen->candidate.engine : request.engine.value_or(op.steps > 1 ? Engine::cuda : last_resort);
  result.diagnostics = std::move(diagnostics[plan.engine]);
  plan.dimensions = spec.dimensions;
  plan.further_bytes = further_bytes(spec);
  plan.tap_rows = problem.tap_rows;
  plan.op = op;
  plan.single_step_us = single_us;
  if (op.steps > 1) reach_all_steps(plan);
  for (const Draft& draft : drafts) plan.candidates.push_back(draft.candidate);
  if (!found) return result;
  plan.microseconds = chosen->candidate.microseconds;
  plan.weights = std::move(chosen->weights);
  plan.contraction = std::move(chosen->contraction);
  plan.scheme = std::move(chosen->scheme);
  plan.composition = std::move(chosen->composition);
  plan.error_bound = bound_error(spec, plan);
  return result;
}

}  // namespace spidergen::plan
