#pragma once

#include <array>

#include "plan/problem.h"

namespace spidergen::plan {

/// The weights of all steps of a sweep together: row dy, column dx, from the lowest of each that they reach.
/// Composed in double: each lies within steps * 2^-52 of itself and the rounding of the spec's.
[[nodiscard]] Matrix compose_taps(const Operator& op);

/// Are the weights of one step the same at an offset along the axis and at its opposite?
[[nodiscard]] bool is_even(const spec::StencilSpec& spec, int axis);

/// Does a rule at every face take what lies beyond it to where all steps together may read it? It does where
/// composing commutes with the rule: `halo` and `periodic`; with weights that are even along the axis those
/// that turn it round, and where taps reach one cell `nearest`, which then is `reflect`, and a constant 0,
/// which is `antisymmetric`. Of one step all do.
[[nodiscard]] bool commutes(const spec::StencilSpec& spec, const spec::Face& face, int axis);

/// Cells along y and x at the low and the high face that all steps of a sweep reach a face from which does
/// not commute; 0 where it does, or is not reached.
using Rims = std::array<std::array<int, 2>, 2>;
[[nodiscard]] Rims rims_of(const spec::StencilSpec& spec, const Operator& op);

}  // namespace spidergen::plan
