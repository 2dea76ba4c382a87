#include "plan/singular_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace spidergen::plan {

SingularValues singular_values(const Matrix& matrix) {
  constexpr int most_sweeps = 40;
  constexpr double negligible = 0x1p-46;
  const int count = matrix.columns;
  std::vector<std::vector<double>> columns(count, std::vector<double>(matrix.rows));
  std::vector<std::vector<double>> right(count, std::vector<double>(count, 0.0));
  for (int i = 0; i < count; ++i) {
    right[i][i] = 1;
    for (int row = 0; row < matrix.rows; ++row) columns[i][row] = matrix.at(row, i);
  }
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  double largest = 0;
  for (const std::vector<double>& column : columns) largest = std::max(largest, product(column, column));
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < most_sweeps; ++sweep) {
    rotated = false;
    for (int i = 0; i < count; ++i) {
      for (int j = i + 1; j < count; ++j) {
        const double a = product(columns[i], columns[i]);
        const double b = product(columns[j], columns[j]);
        const double c = product(columns[i], columns[j]);
        const double both = std::sqrt(a * b);
        if (std::fabs(c) <= negligible * both || both <= negligible * negligible * largest) continue;
        rotated = true;
        const double zeta = (b - a) / (2 * c);
        const double t = std::copysign(1.0, zeta) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
        const double cosine = 1 / std::sqrt(1 + t * t);
        const double sine = cosine * t;
        const auto rotate = [&](std::vector<double>& p, std::vector<double>& q) {
          for (std::size_t k = 0; k < p.size(); ++k) {
            const double before = p[k];
            p[k] = cosine * before - sine * q[k];
            q[k] = sine * before + cosine * q[k];
          }
        };
        rotate(columns[i], columns[j]);
        rotate(right[i], right[j]);
      }
    }
  }
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return product(columns[a], columns[a]) > product(columns[b], columns[b]);
  });
  SingularValues values;
  for (const int i : order) {
    const double value = std::sqrt(product(columns[i], columns[i]));
    std::vector<double> left = columns[i];
    for (double& entry : left) entry = value > 0 ? entry / value : 0;
    values.value.push_back(value);
    values.left.push_back(std::move(left));
    values.right.push_back(std::move(right[i]));
  }
  return values;
}

}  // namespace spidergen::plan
