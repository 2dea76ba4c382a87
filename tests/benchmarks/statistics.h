/// Medians and spreads of measured times.
#pragma once

#include <vector>

namespace bench {

/// Of a few measurements of the same thing, in their unit.
struct Summary {
  double median;
  double low;   ///< 10th percentile
  double high;  ///< 90th percentile
};

/// The q-quantile, 0 <= q <= 1, linear between the two nearest ranks. Throws std::invalid_argument without
/// values.
[[nodiscard]] double quantile(std::vector<double> values, double q);

[[nodiscard]] Summary summarise(const std::vector<double>& values);

}  // namespace bench
