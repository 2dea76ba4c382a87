#pragma once

#include <optional>

#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// What a pass may count on of its input, beside its storage.
struct PassInput {
  OperandType type = OperandType::f16;  ///< of the operands
  int terms = 2;                        ///< of a cell that is no operand; three, of bf16, have all of an f32
  double largest = 0;                   ///< magnitude of a finite cell; bf16 operands hold any
};

/// The plan of a pass along one axis as a band matrix on tensor cores (plan/schemes/banded_list.h): the spec
/// has taps along one axis, in 2D or 3D, and cells of 8 or 16 bits, or f32 cells, of a field or between
/// passes. Weights are sums of two f16 numbers or three bf16 ones, each within pass_rounding of itself.
/// Nothing where they are not, or shared memory has no room for the cells.
[[nodiscard]] std::optional<KernelPlan> plan_banded_pass(const spec::StencilSpec& pass,
                                                         const PassInput& input);

}  // namespace spidergen::plan
