#pragma once

#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// How far a result r of a sweep, or any of a spec's sums, may be from the exact sum over the packed weights
/// w and the stored values x: |error| <= result |r| + sum S + neighbourhood W X + absolute, where S is the
/// sum of all |w x| of the output, W that of all |w| of one step, and X the largest |x| that the output
/// takes. It holds where f16 operands do not overflow and no partial sum leaves f32, as none does where S is
/// below 2^128: this matters for bf16 fields, and for f32 ones on CUDA cores. Derived in
/// generator/accuracy.md.
[[nodiscard]] ErrorBound bound_error(const spec::StencilSpec& spec, const KernelPlan& plan);

}  // namespace spidergen::plan
