#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diag/diagnostic.h"
#include "plan/make_plan.h"
#include "plan/problem.h"

namespace spidergen::plan {

/// A candidate and its plan.
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

/// The text of the first error, without the hint about CUDA cores.
[[nodiscard]] std::string first_error(const diag::Diagnostics& diagnostics);

/// The plan of a problem: the fastest draft of the requested engine, with that engine's diagnostics, and all
/// drafts as candidates. `single_us` is the time of a sweep of one step; 0 where the problem has one step.
[[nodiscard]] PlanResult choose_plan(const Problem& problem, const Request& request,
                                     std::vector<EngineDrafts> asked, double single_us);

/// Fastest first; then drafts without a measured time, and drafts with an objection.
void sort_drafts(std::vector<Draft>& drafts);

}  // namespace spidergen::plan
