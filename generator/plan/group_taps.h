#pragma once

#include "plan/problem.h"

namespace spidergen::plan {

/// Windows along x. In 2D with 16-bit fields and in 3D, diagonals are paired where their products would limit
/// the speed. In 3D pairs of rows where they are fewer.
[[nodiscard]] Contraction contract_windows(const Problem& problem);

/// In 2D: pairs of rows alone.
[[nodiscard]] Contraction contract_row_pairs(const Problem& problem);

/// Why rows cannot be paired in 2D; empty where they can.
[[nodiscard]] std::string objection_to_row_pairs(const Problem& problem);

}  // namespace spidergen::plan
