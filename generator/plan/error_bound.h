#pragma once

#include <optional>

#include "diag/diagnostic.h"
#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// Bounds the distance of a result r of a sweep, or of any of a spec's sums, from the exact sum over the
/// packed weights w and the stored values x: |error| <= result |r| + sum S + neighbourhood W X + absolute. S
/// is the sum of all |w x| of the output, W that of all |w| of one step, and X the largest |x| that the
/// output reads. It holds where f16 operands do not overflow and no partial sum leaves f32's range, which is
/// certain where S is below 2^128: this matters for bf16 fields, and for f32 ones on CUDA cores. Derived in
/// generator/accuracy.md.
[[nodiscard]] ErrorBound bound_error(const spec::StencilSpec& spec, const KernelPlan& plan);

/// For time steps of 16-bit fields whose weights sum to 1: a sweep of this many steps does not change a cell
/// whose neighbours differ from it by less than this share of its value, because the change is below half a
/// unit in the last place. Nothing where sweeps are not such steps, or have an update.
[[nodiscard]] std::optional<double> lost_difference(const spec::StencilSpec& spec, int steps);

/// A larger lost_difference is reported to the user: well resolved fields differ by less between cells.
inline constexpr double largest_silent_loss = 0x1p-6;

/// Warns of a storage that loses time steps.
void warn_of_lost_steps(const spec::StencilSpec& spec, int steps, diag::Diagnostics& diagnostics);

}  // namespace spidergen::plan
