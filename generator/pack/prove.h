#pragma once

#include "pack/pack.h"
#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::pack {

/// Proves that the packed kernel computes the spec, from its registers back to its taps: unpack(pack(A)) == A
/// for every operand; the products, expanded symbolically, give every output of a tile exactly the plan's
/// packed taps; and these are the spec's taps, each within its rounding bound. For two passes
/// (plan/low_rank.h), the lists in the registers represent weights that differ from those of all steps
/// together by no more than the plan says, have the same sum within 2^-24, and reach no farther; the same
/// holds for the packed taps of composed steps. Throws InternalError with the operand, or the output and tap.
void prove(const spec::StencilSpec& spec, const plan::KernelPlan& plan, const PackedKernel& packed);

}  // namespace spidergen::pack
