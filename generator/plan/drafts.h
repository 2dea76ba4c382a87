#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diag/diagnostic.h"
#include "plan/make_plan.h"
#include "plan/problem.h"

namespace spidergen::plan {

/// A candidate and what its plan would be.
struct Draft {
  Candidate candidate;
  RoundedWeights weights;
  Contraction contraction;
  Scheme scheme;
  std::optional<ComposedSteps> composition;

  [[nodiscard]] bool is_possible() const { return candidate.objection.empty(); }
};

/// An engine's candidates, unless it has objections.
struct EngineDrafts {
  Engine engine = Engine::sparse;
  diag::Diagnostics diagnostics;
  std::vector<Draft> drafts;
};

/// The text of the first error, without what it says of CUDA cores.
[[nodiscard]] std::string first_error(const diag::Diagnostics& diagnostics);

/// The plan of a problem: the fastest draft of the engine that is asked for, with the diagnostics of that
/// engine, and all drafts as candidates. `single_us` is what a sweep of one step takes; 0 of one step.
[[nodiscard]] PlanResult choose_plan(const Problem& problem, const Request& request,
                                     std::vector<EngineDrafts> asked, double single_us);

/// Fastest first; then those whose time has not been measured, and those with an objection.
void sort_drafts(std::vector<Draft>& drafts);

}  // namespace spidergen::plan
