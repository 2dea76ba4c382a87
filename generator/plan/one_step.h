#pragma once

#include <vector>

#include "plan/drafts.h"

namespace spidergen::plan {

/// The candidates of sparse tensor cores or CUDA cores, unless the engine has objections.
[[nodiscard]] EngineDrafts ask_engine(const Problem& problem);

/// The plan of lists along x and along y, in two passes; nothing where such fields have none.
[[nodiscard]] std::vector<Draft> draft_low_rank(const Problem& problem);

/// The dense engine: two passes. Where it is requested and has none, reports why.
[[nodiscard]] EngineDrafts ask_dense(const Problem& problem, bool is_asked_for);

/// The plan of a spec of one step.
[[nodiscard]] PlanResult plan_one_step(const spec::StencilSpec& spec, const Request& request = {});

}  // namespace spidergen::plan
