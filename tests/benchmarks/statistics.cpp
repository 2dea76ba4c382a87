#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace bench {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) throw std::invalid_argument("no values, no quantile");
  std::sort(values.begin(), values.end());
  const double rank = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(rank));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], rank - std::floor(rank));
}

Summary summarise(const std::vector<double>& values) {
  return {quantile(values, 0.5), quantile(values, 0.1), quantile(values, 0.9)};
}

}  // namespace bench
