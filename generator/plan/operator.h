#pragma once

#include <vector>

#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// What a sweep computes.
struct Operator {
  std::vector<spec::Tap> step;  ///< of one time step: the spec's
  std::vector<spec::Tap>
      composed;              ///< of all steps that a sweep advances, which is one: what contractions hold
  spec::Offset reach_low{};  ///< how far composed taps go below a point, >= 0
  spec::Offset reach_high{};

  bool operator==(const Operator&) const = default;
};

[[nodiscard]] Operator operator_of(const spec::StencilSpec& spec);

}  // namespace spidergen::plan
