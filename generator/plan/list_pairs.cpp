#include "plan/list_pairs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace spidergen::plan {
namespace {

/// A list times a scale as terms of a type, highest first.
std::vector<List> round_list(OperandType type, const List& list, double scale, int terms) {
  std::vector<List> rounded(terms, List(list.size()));
  for (std::size_t i = 0; i < list.size(); ++i) {
    double rest = list[i] * scale;
    for (int term = 0; term < terms; ++term) {
      rounded[term][i] = round_to(type, rest);
      rest -= rounded[term][i];
    }
  }
  return rounded;
}

/// The scale in [scale, 2 scale) whose rounded list is nearest to the list.
double best_scale(OperandType type, const List& list, double scale, int terms) {
  constexpr int candidates = 128;
  double best = scale;
  double least = -1;
  for (int i = 0; i < candidates; ++i) {
    const double tried = scale * (1 + static_cast<double>(i) / candidates);
    const List rounded = total_of(round_list(type, list, tried, terms));
    double error = 0;
    for (std::size_t k = 0; k < list.size(); ++k) error += std::fabs(rounded[k] / tried - list[k]);
    if (least < 0 || error < least) {
      least = error;
      best = tried;
    }
  }
  return best;
}

/// Unit in the last place of a rounded value.
double unit_of(OperandType type, double value) {
  return std::max(smallest_value(type), std::ldexp(1.0, std::ilogb(value) - digits_of(type) + 1));
}

/// Changes the last digit of last-term weights, the worst rounded ones first and opposite offsets together,
/// until they sum to `target` as nearly as rounded constant cells need. `list` has the exact values.
void balance_list(OperandType type, const List& list, double target, std::vector<List>& terms) {
  constexpr int most_moves = 64;
  const double near = target * rounding_error(type) / 4;
  List& last = terms.back();
  for (int move = 0; move < most_moves; ++move) {
    const List total = total_of(terms);
    const double missing = target - sum_of(total);
    if (std::fabs(missing) <= near) return;
    double least = 0;
    std::size_t best = last.size();
    for (std::size_t i = 0; 2 * i < last.size(); ++i) {
      const std::size_t other = last.size() - 1 - i;
      double step = 0;
      double cost = 0;
      for (const std::size_t k : {i, other}) {
        if (last[k] == 0 || (k == other && other == i && step != 0)) continue;
        const double unit = std::copysign(unit_of(type, last[k]), missing);
        step += unit;
        cost += std::fabs(total[k] + unit - list[k]) - std::fabs(total[k] - list[k]);
      }
      const double gain = std::fabs(missing) - std::fabs(missing - step);
      if (gain <= 0) continue;
      if (best == last.size() || cost / gain < least) {
        least = cost / gain;
        best = i;
      }
    }
    if (best == last.size()) return;
    for (const std::size_t k : {best, last.size() - 1 - best}) {
      if (last[k] == 0 || (k != best && 2 * best + 1 == last.size())) continue;
      last[k] = round_to(type, last[k] + std::copysign(unit_of(type, last[k]), missing));
      if (2 * best + 1 == last.size()) break;
    }
  }
}

/// Do the values of a list add up, rather than cancel?
bool sums_up(const List& list) {
  return std::fabs(sum_of(list)) > magnitude_of(list) / 2;
}

}  // namespace

double sum_of(const List& list) {
  return std::accumulate(list.begin(), list.end(), 0.0);
}

double magnitude_of(const List& list) {
  return std::accumulate(list.begin(), list.end(), 0.0,
                         [](double sum, double value) { return sum + std::fabs(value); });
}

List total_of(const std::vector<List>& terms) {
  List total(terms.front().size(), 0.0);
  for (const List& term : terms) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += term[i];
  }
  return total;
}

void add_product(double factor, const List& y, const List& x, Matrix& matrix) {
  for (int row = 0; row < matrix.rows; ++row) {
    for (int column = 0; column < matrix.columns; ++column)
      matrix.at(row, column) += factor * y[row] * x[column];
  }
}

double distance(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += std::fabs(a.values[i] - b.values[i]);
  return sum;
}

LowRank round_pairs(OperandType type, const SingularValues& values, int pairs, int terms) {
  // Sums of pass y are f32, whose range bf16 fields fill: their lists along y sum to less than 1, too.
  constexpr double largest_y = 256;
  LowRank result;
  result.type = type;
  result.terms = terms;
  double product = 0;  // of the scales of both lists, the same for all pairs
  for (int pair = 0; pair < pairs; ++pair) {
    List x = values.right[pair];
    List y = values.left[pair];
    if (sum_of(x) < 0) {
      for (double& value : x) value = -value;
      for (double& value : y) value = -value;
    }
    for (double& value : y) value *= values.value[pair];
    const bool balanced = pair == 0 && sums_up(x);
    const double share = std::fabs(sum_of(x)) / magnitude_of(x);
    const double target = balanced ? std::ldexp(1.0, std::ilogb(share)) : 0;
    const double x_scale = balanced ? target / sum_of(x) : best_scale(type, x, 0.5 / magnitude_of(x), terms);
    ListPair rounded;
    rounded.x = round_list(type, x, x_scale, terms);
    if (balanced) {
      List exact = x;
      for (double& value : exact) value *= x_scale;
      balance_list(type, exact, target, rounded.x);
    }
    if (pair == 0) {
      double largest = 0;
      for (const double value : y) largest = std::max(largest, std::fabs(value));
      const double y_scale = type == OperandType::f16 ? largest_y / largest / 2 : 0.25 / magnitude_of(y);
      product = x_scale * best_scale(type, y, y_scale, terms);
    }
    rounded.y = round_list(type, y, product / x_scale, terms);
    result.pairs.push_back(std::move(rounded));
  }
  result.scale = 1 / product;
  return result;
}

Matrix expand(const LowRank& low_rank) {
  const auto rows = static_cast<int>(low_rank.pairs.front().y.front().size());
  const auto columns = static_cast<int>(low_rank.pairs.front().x.front().size());
  Matrix matrix(rows, columns);
  for (const ListPair& pair : low_rank.pairs)
    add_product(low_rank.scale, total_of(pair.y), total_of(pair.x), matrix);
  return matrix;
}

}  // namespace spidergen::plan
