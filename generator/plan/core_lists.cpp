#include "plan/core_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/compose.h"
#include "plan/list_pairs.h"
#include "plan/singular_values.h"

namespace spidergen::plan {
namespace {

constexpr int most_pairs = 4;

/// A list in f32. Values are rounded to their other neighbour, the largest first, and equal values at
/// opposite offsets together, where that brings the sum closer to `sum`: time steps would add the difference
/// to every cell again and again.
List round_to_f32(const List& list, double sum) {
  constexpr double most_error = 0x1p-23;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  List rounded;
  for (const double value : list) rounded.push_back(static_cast<double>(static_cast<float>(value)));
  std::vector<std::size_t> order((list.size() + 1) / 2);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::fabs(list[a]) > std::fabs(list[b]); });
  double missing = sum - sum_of(rounded);
  const auto move = [&](std::size_t i, std::size_t opposite) {
    const double other = std::nextafter(static_cast<float>(rounded[i]), missing > 0 ? infinity : -infinity);
    const double change = (other - rounded[i]) * (opposite == i ? 1 : 2);
    const bool allowed = other != 0 && std::fabs(other - list[i]) <= most_error * std::fabs(list[i]) &&
                         std::fabs(other - list[opposite]) <= most_error * std::fabs(list[opposite]);
    if (!allowed || std::fabs(missing - change) >= std::fabs(missing)) return;
    rounded[i] = rounded[opposite] = other;
    missing -= change;
  };
  for (const std::size_t i : order) {
    const std::size_t opposite = list.size() - 1 - i;
    const bool alike = rounded[i] == rounded[opposite];
    move(i, alike ? opposite : i);
    if (!alike) move(opposite, opposite);
  }
  return rounded;
}

/// Both lists in the type of the fields; those along x sum to at most 1 in magnitude.
ListPair round_pair(List y, List x, bool doubles) {
  const int exponent = -std::ilogb(magnitude_of(x)) - 1;
  for (double& value : x) value = std::ldexp(value, exponent);
  for (double& value : y) value = std::ldexp(value, -exponent);
  if (doubles) return {{std::move(y)}, {std::move(x)}};
  const double sum = sum_of(x) * sum_of(y);
  x = round_to_f32(x, sum_of(x));
  const double sum_of_x = sum_of(x);
  y = round_to_f32(y, sum_of_x == 0 ? sum_of(y) : sum / sum_of_x);
  return {{std::move(y)}, {std::move(x)}};
}

/// Divides a list by the largest number of which all its values are multiples, if the integers have at most
/// `digits` binary digits: then products of lists can equal exact weights.
void shorten(List& list, int digits) {
  constexpr int most_digits = 62;
  double largest = 0;
  double smallest = std::numeric_limits<double>::infinity();
  for (const double value : list) {
    if (value == 0) continue;
    largest = std::max(largest, std::fabs(value));
    smallest = std::min(smallest, std::fabs(value));
  }
  const int unit = std::ilogb(smallest) - std::numeric_limits<double>::digits + 1;
  if (std::ilogb(largest) - unit >= most_digits) return;
  std::int64_t common = 0;
  for (const double value : list)
    common = std::gcd(common, static_cast<std::int64_t>(std::ldexp(value, -unit)));
  const double divisor = std::ldexp(static_cast<double>(common), unit);
  if (largest / divisor >= std::ldexp(1.0, digits)) return;
  for (double& value : list) value /= divisor;
}

/// The row and the column of the largest weight, as lists whose product is the weights if their rank is 1.
std::pair<List, List> cross_lists(const Matrix& weights, int digits) {
  const auto largest = std::max_element(weights.values.begin(), weights.values.end(),
                                        [](double a, double b) { return std::fabs(a) < std::fabs(b); }) -
                       weights.values.begin();
  const auto row = static_cast<int>(largest / weights.columns);
  const auto column = static_cast<int>(largest % weights.columns);
  List x;
  for (int i = 0; i < weights.columns; ++i) x.push_back(weights.at(row, i));
  shorten(x, digits);
  List y;
  for (int i = 0; i < weights.rows; ++i) y.push_back(weights.at(i, column) / x[column]);
  return {y, x};
}

/// Fills in the sums of the pairs, whose products together are `packed`.
void sum_up(const Matrix& weights, const Matrix& packed, LowRank& low_rank) {
  low_rank.sum = sum_of(weights.values);
  low_rank.magnitude = magnitude_of(weights.values);
  for (const ListPair& pair : low_rank.pairs) {
    const List& x = pair.x.front();
    const List& y = pair.y.front();
    low_rank.packed_sum += sum_of(x) * sum_of(y);
    low_rank.passed += magnitude_of(x) * magnitude_of(y);
    low_rank.y_magnitude += magnitude_of(y);
  }
  low_rank.deviation = distance(packed, weights) / low_rank.magnitude;
}

/// The fewest pairs that leave no more than `tolerance` of the weights, up to the limit.
void find_pairs(const Matrix& weights, double tolerance, bool doubles, LowRank& low_rank) {
  const SingularValues values = singular_values(weights);
  const int most = std::min<int>(most_pairs, static_cast<int>(values.value.size()));
  const double magnitude = magnitude_of(weights.values);
  Matrix exact(weights.rows, weights.columns);
  low_rank.pairs.clear();
  low_rank.truncation = 1;
  for (int pair = 0; pair < most && low_rank.truncation > tolerance; ++pair) {
    add_product(values.value[pair], values.left[pair], values.right[pair], exact);
    List y = values.left[pair];
    for (double& value : y) value *= values.value[pair];
    low_rank.pairs.push_back(round_pair(y, values.right[pair], doubles));
    low_rank.truncation = distance(exact, weights) / magnitude;
  }
}

/// Pads lists with zeros to all offsets of a contraction's rows and columns.
void reach_as_far(const Contraction& contraction, LowRank& lists) {
  const auto extend = [](List& list, int before, int after) {
    list.insert(list.begin(), static_cast<std::size_t>(before), 0);
    list.insert(list.end(), static_cast<std::size_t>(after), 0);
  };
  const int above = lists.y_low - contraction.row_low;
  const int below = contraction.row_high - lists.y_high();
  const int left = lists.x_low - contraction.column_reach.low;
  const int right = contraction.column_reach.high - lists.x_high();
  for (ListPair& pair : lists.pairs) {
    extend(pair.y.front(), above, below);
    extend(pair.x.front(), left, right);
  }
  lists.y_low -= above;
  lists.x_low -= left;
}

}  // namespace

double most_product_error(bool doubles) {
  return doubles ? 0x1p-50 : 0x1.01p-22;
}

LowRankOffer find_core_lists(const Problem& problem) {
  const bool doubles = problem.spec.storage == spec::Storage::f64;
  const double tolerance = doubles ? 0x1p-49 : 0x1p-24;
  const int digits = doubles ? std::numeric_limits<double>::digits : std::numeric_limits<float>::digits;
  const Operator& op = problem.op;
  const Matrix weights = compose_taps(op).front();
  const double magnitude = magnitude_of(weights.values);
  LowRankOffer offer;
  LowRank& low_rank = offer.low_rank;
  low_rank.y_low = -op.reach_low[spec::axis_y];
  low_rank.x_low = -op.reach_low[spec::axis_x];
  const auto [y, x] = cross_lists(weights, digits);
  Matrix exact(weights.rows, weights.columns);
  add_product(1, y, x, exact);
  low_rank.truncation = distance(exact, weights) / magnitude;
  low_rank.pairs = {round_pair(y, x, doubles)};
  if (low_rank.truncation > tolerance) find_pairs(weights, tolerance, doubles, low_rank);
  if (low_rank.truncation > tolerance) {
    offer.objection = fmt::format(
        "the weights are no sum of {} products of a list along y and one along x: {:.1e} of them is left",
        low_rank.pairs.size(), low_rank.truncation);
    return offer;
  }
  const Matrix packed = expand(low_rank);
  sum_up(weights, packed, low_rank);
  const bool sums_alike = std::fabs(low_rank.packed_sum - low_rank.sum) <= 2 * tolerance * magnitude;
  const double most_error = most_product_error(doubles);
  bool zeros_alike = true;
  bool each_alike = true;
  for (std::size_t i = 0; i < packed.values.size(); ++i) {
    const double weight = weights.values[i];
    zeros_alike = zeros_alike && (packed.values[i] == 0) == (weight == 0);
    each_alike = each_alike && std::fabs(packed.values[i] - weight) <= most_error * std::fabs(weight);
  }
  if (!each_alike && low_rank.pairs.size() == 1) {
    offer.objection = "the weights are no products of a list along y and one along x: some differ from these";
  } else if (!sums_alike) {
    offer.objection = "rounded lists do not sum to what the weights do";
  } else if (!zeros_alike) {
    offer.objection = "products of lists are not zero where the weights are";
  }
  return offer;
}

Contraction contract_core_lists(const Problem& problem, std::vector<LowRank> low_rank) {
  Contraction contraction;
  contraction.grouping = Grouping::list_adds;
  contraction.element_bytes = spec::element_bytes(problem.spec.storage);
  contraction.row_low = -problem.op.reach_low[spec::axis_y];
  contraction.row_high = problem.op.reach_high[spec::axis_y];
  contraction.column_reach = column_reach_of(problem.tap_rows);
  std::size_t pairs = 0;
  for (int sum = 0; sum < std::ssize(low_rank); ++sum) {
    LowRank& lists = low_rank[sum];
    pairs += lists.pairs.size();
    for (const ListPair& pair : lists.pairs) {
      const List& x = pair.x.front();
      const List& y = pair.y.front();
      for (int i = 0; i < std::ssize(x); ++i) {
        if (x[i] != 0) contraction.taps.push_back({0, 0, lists.x_low + i, x[i], sum});
      }
      for (int i = 0; i < std::ssize(y); ++i) {
        if (y[i] != 0) contraction.taps.push_back({lists.y_low + i, 0, 0, y[i], sum});
      }
    }
    reach_as_far(contraction, lists);
  }
  contraction.mapping.name = pairs == 1 ? "two passes" : fmt::format("two passes of {}", pairs);
  contraction.low_rank = std::move(low_rank);
  return contraction;
}

}  // namespace spidergen::plan
