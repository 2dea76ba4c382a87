#pragma once

#include <optional>

#include "diag/diagnostic.h"
#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// What the command line asks of a plan.
struct Request {
  std::optional<Engine> engine;  ///< none: that of the fastest candidate
};

/// What is a valid spec but cannot be generated so: not yet (errors), or not without a loss that the user
/// asked for (warnings); located. Without errors, the plan.
struct PlanResult {
  diag::Diagnostics diagnostics;
  KernelPlan plan;
};

/// Decides everything about the kernel of a spec: of all schemes that can hold it with the engine that is
/// asked for, the one with the smallest estimate. Sparse tensor cores and CUDA cores are both considered,
/// whichever is asked for. Also takes invalid specs, so that all errors are reported together.
[[nodiscard]] PlanResult make_plan(const spec::StencilSpec& spec, const Request& request = {});

}  // namespace spidergen::plan
