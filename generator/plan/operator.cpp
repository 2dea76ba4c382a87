#include "plan/operator.h"

#include <algorithm>

namespace spidergen::plan {

Operator operator_of(const spec::StencilSpec& spec, int steps) {
  Operator op{spec.taps, spec.taps, {}, {}, steps};
  for (const spec::Tap& tap : op.composed) {
    for (int axis = 0; axis < 3; ++axis) {
      op.reach_low[axis] = std::max(op.reach_low[axis], -steps * tap.at[axis]);
      op.reach_high[axis] = std::max(op.reach_high[axis], steps * tap.at[axis]);
    }
  }
  return op;
}

}  // namespace spidergen::plan
