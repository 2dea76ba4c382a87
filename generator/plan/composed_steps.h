#pragma once

#include "plan/drafts.h"

namespace spidergen::plan {

/// All steps of a sweep as one, on sparse tensor cores; the rest of a number of steps on CUDA cores.
[[nodiscard]] Draft draft_composed(const Problem& problem);

}  // namespace spidergen::plan
