#include "plan/make_plan.h"

#include <utility>
#include <vector>

#include "plan/axis_passes.h"
#include "plan/choose_steps.h"
#include "plan/composed_steps.h"
#include "plan/one_step.h"

namespace spidergen::plan {
namespace {

/// The sparse engine: several steps are composed into one.
EngineDrafts ask_sparse(const Problem& problem) {
  if (problem.spec.taps.empty()) return ask_engine(problem);
  EngineDrafts asked{Engine::sparse, {}, {draft_composed(problem)}};
  const Draft& draft = asked.drafts.front();
  if (!draft.is_possible()) {
    asked.diagnostics.error(problem.spec.where.steps,
                            "'--engine sparse' does not take so many steps: {}; leave it out",
                            draft.candidate.objection);
  }
  return asked;
}

/// The approximate time of a sweep of one step, in microseconds; 0 where there is no plan for it.
double estimate_single_step(const spec::StencilSpec& spec) {
  spec::StencilSpec single = spec;
  single.steps = 1;
  const PlanResult planned = plan_one_step(single);
  return planned.diagnostics.has_errors() ? 0 : planned.plan.microseconds;
}

}  // namespace

PlanResult make_plan(const spec::StencilSpec& spec, const Request& request) {
  if (!spec.lists.empty() && spec.steps == 1) return plan_lists(spec, request);
  if (spec.steps == 1) {
    PlanResult result = plan_one_step(spec, request);
    take_passes(spec, request, result);
    return result;
  }
  const double single_us = estimate_single_step(spec);
  const Operator op = operator_of(spec, choose_steps(spec, request, single_us));
  Problem problem{spec, op, Engine::sparse, tap_rows_of(op), {}};
  std::vector<EngineDrafts> asked;
  asked.push_back(op.steps == 1 ? ask_engine(problem) : ask_sparse(problem));
  problem.engine = Engine::cuda;
  asked.push_back(ask_engine(problem));
  problem.engine = Engine::dense;
  asked.push_back(ask_dense(problem, request.engine == Engine::dense));
  return choose_plan(problem, request, std::move(asked), single_us);
}

}  // namespace spidergen::plan
