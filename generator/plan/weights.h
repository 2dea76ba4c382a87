#pragma once

#include "diag/diagnostic.h"
#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

struct WeightsResult {
  RoundedWeights weights;
  diag::Diagnostics diagnostics;
};

/// The spec's weights as f16 terms. One term where every weight is exact in f16 or the spec wants it so (then
/// with a located warning that gives the sums), otherwise two.
[[nodiscard]] WeightsResult round_weights(const spec::StencilSpec& spec);

}  // namespace spidergen::plan
