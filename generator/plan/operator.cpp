#include "plan/operator.h"

#include <algorithm>
#include <cstddef>

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

spec::StencilSpec spec_of_sum(const spec::StencilSpec& spec, int sum) {
  spec::StencilSpec one = spec;
  one.sums = {spec.sums[static_cast<std::size_t>(sum)]};
  std::erase_if(one.taps, [sum](const spec::Tap& tap) { return tap.sum != sum; });
  for (spec::Tap& tap : one.taps) tap.sum = 0;
  return one;
}

}  // namespace spidergen::plan
