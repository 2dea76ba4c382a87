#include "plan/choose_steps.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/composed_steps.h"
#include "plan/list_pairs.h"
#include "plan/low_rank.h"
#include "plan/one_step.h"
#include "plan/operator.h"
#include "plan/stepping.h"

namespace spidergen::plan {
namespace {

/// The number of steps with the fastest step in two passes, among those that reach whole groups of rows, and
/// the time of a step; 1 and 0 where there is none.
std::pair<int, double> fastest_low_rank(const Problem& single) {
  std::pair<int, double> fastest{1, 0};
  int radius = 0;
  for (const int axis : {spec::axis_y, spec::axis_x})
    radius = std::max({radius, single.op.reach_low[axis], single.op.reach_high[axis]});
  if (radius == 0) return fastest;
  constexpr int step = group_rows / 2;  // on each side
  for (int reach = step; reach <= largest_pass_reach; reach += step) {
    const int steps = reach / radius;
    if (steps < 2) continue;
    const Operator op = operator_of(single.spec, steps);
    const Problem problem{single.spec, op, Engine::dense, single.tap_rows, {}};
    const std::vector<Draft> drafts = draft_low_rank(problem);
    if (drafts.empty() || !drafts.front().is_possible()) continue;
    const double us = drafts.front().candidate.microseconds / steps;
    if (fastest.second == 0 || us < fastest.second) fastest = {steps, us};
  }
  return fastest;
}

/// The same for steps that are composed into one.
std::pair<int, double> fastest_composed(const Problem& single) {
  constexpr int all_up_to = 8;  // above it only multiples
  constexpr int most = 64;
  std::pair<int, double> fastest{1, 0};
  for (int steps = 2; steps <= most; steps += steps < all_up_to ? 1 : all_up_to) {
    const Operator op = operator_of(single.spec, steps);
    const Draft draft = draft_composed({single.spec, op, Engine::sparse, single.tap_rows, {}});
    if (!draft.is_possible()) continue;
    const double us = draft.candidate.microseconds / steps;
    if (fastest.second == 0 || us < fastest.second) fastest = {steps, us};
  }
  return fastest;
}

}  // namespace

int choose_steps(const spec::StencilSpec& spec, const Request& request, double single_us) {
  if (spec.steps) return *spec.steps;
  if (spec.taps.empty() || single_us <= 0) return 1;
  const auto may_use = [&](Engine engine) { return request.engine.value_or(engine) == engine; };
  int fastest = 1;
  double least_us = single_us;
  if (may_use(Engine::cuda)) {
    fastest = fastest_stepping(spec, single_us);
    if (fastest > 1) least_us = *estimate_stepping(spec, fastest) / fastest;
  }
  const Operator op = operator_of(spec);
  const Problem single{spec, op, Engine::sparse, tap_rows_of(op), {}};
  const auto take = [&](const std::pair<int, double>& found) {
    if (found.first > 1 && found.second < least_us) std::tie(fastest, least_us) = found;
  };
  if (may_use(Engine::dense)) take(fastest_low_rank(single));
  if (may_use(Engine::sparse)) take(fastest_composed(single));
  return fastest;
}

}  // namespace spidergen::plan
