#pragma once

#include <optional>

#include "diag/diagnostic.h"
#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// The command line's requests for a plan.
struct Request {
  std::optional<Engine> engine;  ///< none: that of the fastest candidate
};

/// Located diagnostics: errors for valid specs that cannot be generated yet, warnings for a requested loss.
/// Without errors, also the plan.
struct PlanResult {
  diag::Diagnostics diagnostics;
  KernelPlan plan;
};

/// Decides everything about the kernel of a spec: takes the smallest estimate among all schemes of the
/// requested engine that support it. Always considers both sparse tensor cores and CUDA cores. Also accepts
/// invalid specs, so that all errors are reported together.
[[nodiscard]] PlanResult make_plan(const spec::StencilSpec& spec, const Request& request = {});

}  // namespace spidergen::plan
