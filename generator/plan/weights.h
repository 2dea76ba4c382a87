#pragma once

#include "diag/diagnostic.h"
#include "plan/contraction.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

struct WeightsResult {
  RoundedWeights weights;
  diag::Diagnostics diagnostics;
};

/// The operand terms of fields, from a spec's storage and accuracy.
[[nodiscard]] InputTerms input_terms(const spec::StencilSpec& spec);

enum class CommonFactors { allowed, none };

/// The spec's weights as terms of operands. 16-bit fields: one term where every weight is exact in it, if
/// allowed up to a common factor, or where the spec requests one (then with a located warning that gives the
/// sums); otherwise as many as bring each within 2^-21 of the largest. f32 fields: two f16 terms, each weight
/// within 2^-22 of itself and their sum the spec's as nearly as that allows; one term where that is exact,
/// and at a lower accuracy. A factor that does not fit all weights is one that fits more tap rows than none.
[[nodiscard]] WeightsResult round_weights(const spec::StencilSpec& spec,
                                          CommonFactors factors = CommonFactors::allowed);

/// The spec's weights in f32, each within 2^-23 of itself and their sum the spec's as nearly as that allows,
/// regardless of the spec's keys weights and accuracy.
[[nodiscard]] WeightsResult round_weights_to_f32(const spec::StencilSpec& spec);

/// The spec's weights for CUDA cores: unchanged for f64 fields, else in f32.
[[nodiscard]] WeightsResult core_weights(const spec::StencilSpec& spec);

}  // namespace spidergen::plan
