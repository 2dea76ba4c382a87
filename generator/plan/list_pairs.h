#pragma once

#include <vector>

#include "plan/contraction.h"
#include "plan/singular_values.h"

namespace spidergen::plan {

using List = std::vector<double>;

[[nodiscard]] double sum_of(const List& list);

/// The sum of absolute values.
[[nodiscard]] double magnitude_of(const List& list);

/// The sum of the terms of a list.
[[nodiscard]] List total_of(const std::vector<List>& terms);

/// Adds factor * y[row] * x[column] to each entry.
void add_product(double factor, const List& y, const List& x, Matrix& matrix);

/// The sum of the magnitudes of the differences of two matrices of one size.
[[nodiscard]] double distance(const Matrix& a, const Matrix& b);

/// The pairs as terms of operands. Lists along x sum to at most 1 in magnitude, so that values between the
/// passes are finite where the field is.
[[nodiscard]] LowRank round_pairs(OperandType type, const SingularValues& values, int pairs, int terms);

/// The weights that packed lists represent: row dy, column dx.
[[nodiscard]] Matrix expand(const LowRank& low_rank);

}  // namespace spidergen::plan
