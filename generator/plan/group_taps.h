#pragma once

#include "plan/problem.h"

namespace spidergen::plan {

/// Windows along x, of 16-bit fields in 2D and in 3D with diagonals in pairs where their products would be
/// felt. In 3D pairs of rows instead where they are fewer.
[[nodiscard]] Contraction contract_windows(const Problem& problem);

/// In 2D: pairs of rows alone.
[[nodiscard]] Contraction contract_row_pairs(const Problem& problem);

/// Why rows are not paired in 2D; empty where they can be.
[[nodiscard]] std::string objection_to_row_pairs(const Problem& problem);

}  // namespace spidergen::plan
