#pragma once

#include "diag/diagnostic.h"
#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// What is a valid spec but cannot be generated yet, located. Looks at keys only, so that it can be asked of
/// a spec that has other errors.
[[nodiscard]] diag::Diagnostics check_supported(const spec::StencilSpec& spec);

struct PlanResult {
  KernelPlan plan;  ///< complete when there are no errors
  diag::Diagnostics diagnostics;
};

/// Decides everything about the kernel of a spec that read_spec and check_supported passed. Errors: taps
/// beyond what one pass can hold, weights that f16 terms cannot hold. Warning: rounding that the user asked
/// for.
[[nodiscard]] PlanResult make_plan(const spec::StencilSpec& spec);

}  // namespace spidergen::plan
