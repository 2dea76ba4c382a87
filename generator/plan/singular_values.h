#pragma once

#include <vector>

#include "plan/contraction.h"

namespace spidergen::plan {

/// A matrix as sum of value[i] * left[i] x right[i], values descending; lists have norm 1.
struct SingularValues {
  std::vector<double> value;
  std::vector<std::vector<double>> left;   ///< by row
  std::vector<std::vector<double>> right;  ///< by column
};

/// By one-sided Jacobi rotations (Golub and Van Loan, Matrix Computations, section 8.6.3).
[[nodiscard]] SingularValues singular_values(const Matrix& matrix);

}  // namespace spidergen::plan
