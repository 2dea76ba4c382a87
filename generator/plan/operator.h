#pragma once

#include <vector>

#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// The operator of a sweep.
struct Operator {
  std::vector<spec::Tap> step;      ///< of one time step: the spec's
  std::vector<spec::Tap> composed;  ///< taps of contractions: of one step where steps are taken one by one
  spec::Offset reach_low{};         ///< reach of all steps below a point, >= 0
  spec::Offset reach_high{};
  int steps = 1;  ///< that a sweep advances

  bool operator==(const Operator&) const = default;
};

[[nodiscard]] Operator operator_of(const spec::StencilSpec& spec, int steps = 1);

/// The spec with one of its sums alone.
[[nodiscard]] spec::StencilSpec spec_of_sum(const spec::StencilSpec& spec, int sum);

}  // namespace spidergen::plan
