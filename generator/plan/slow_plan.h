#pragma once

#include <optional>
#include <string>

#include "diag/diagnostic.h"
#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// A plan is slow from this multiple of the time that its memory traffic and arithmetic need.
inline constexpr double slow_plan = 3;

/// The estimate of a sweep of one step, divided by the lower bound on an H200; 1 for more steps.
[[nodiscard]] double times_the_floor(const spec::StencilSpec& spec, const KernelPlan& plan);

/// The change of a slow plan's spec that would be faster, in a user's words; nothing where the generator
/// knows none, or the plan is not slow.
[[nodiscard]] std::optional<std::string> advice_for_speed(const spec::StencilSpec& spec,
                                                          const KernelPlan& plan);

/// Warns of a slow plan where there is advice.
void warn_of_slow_plan(const spec::StencilSpec& spec, const KernelPlan& plan, diag::Diagnostics& diagnostics);

}  // namespace spidergen::plan
