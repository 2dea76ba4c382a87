#include "plan/core_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
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

/// What of a matrix another one leaves, in magnitudes.
double distance(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += std::fabs(a.values[i] - b.values[i]);
  return sum;
}

/// Makes zeros of what rotations leave of them.
void clear_noise(List& list) {
  constexpr double noise = 0x1p-44;
  double largest = 0;
  for (const double value : list) largest = std::max(largest, std::fabs(value));
  for (double& value : list) {
    if (std::fabs(value) < noise * largest) value = 0;
  }
}

/// A list in f32. Values become their other neighbour, one and its opposite alike where they are the same,
/// the largest first, where that brings the sum closer to the list's: a time step would add what is missing
/// to every cell again and again.
List round_to_f32(const List& list) {
  constexpr double most_error = 0x1p-23;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  List rounded;
  for (const double value : list) rounded.push_back(static_cast<double>(static_cast<float>(value)));
  std::vector<std::size_t> order((list.size() + 1) / 2);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::fabs(list[a]) > std::fabs(list[b]); });
  double missing = sum_of(list) - sum_of(rounded);
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

/// The lists of a product, those along x with a power of two as their sum where they sum up.
ListPair pair_of(const SingularValues& values, int pair, bool doubles) {
  List x = values.right[pair];
  List y = values.left[pair];
  clear_noise(x);
  clear_noise(y);
  const double sum = sum_of(x);
  const double magnitude = magnitude_of(x);
  const bool sums_up = std::fabs(sum) > magnitude / 2;
  const double scale =
      sums_up ? std::ldexp(1.0, std::ilogb(std::fabs(sum) / magnitude)) / sum : 1 / magnitude;
  for (double& value : x) value *= scale;
  for (double& value : y) value *= values.value[pair] / scale;
  if (doubles) return {{y}, {x}};
  return {{round_to_f32(y)}, {round_to_f32(x)}};
}

/// What follows from the pairs, whose products together are `packed`.
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

}  // namespace

LowRankOffer find_core_lists(const Problem& problem) {
  const bool doubles = problem.spec.storage == spec::Storage::f64;
  const double tolerance = doubles ? 0x1p-49 : 0x1p-24;
  const Operator& op = problem.op;
  const Matrix weights = compose_taps(op);
  const double magnitude = magnitude_of(weights.values);
  const SingularValues values = singular_values(weights);
  const int most = std::min<int>(most_pairs, static_cast<int>(values.value.size()));
  LowRankOffer offer;
  LowRank& low_rank = offer.low_rank;
  low_rank.y_low = -op.reach_low[spec::axis_y];
  low_rank.x_low = -op.reach_low[spec::axis_x];
  Matrix exact(weights.rows, weights.columns);
  double left = 1;
  for (int pair = 0; pair < most && left > tolerance; ++pair) {
    add_product(values.value[pair], values.left[pair], values.right[pair], exact);
    left = distance(exact, weights) / magnitude;
    low_rank.pairs.push_back(pair_of(values, pair, doubles));
  }
  if (left > tolerance) {
    offer.objection = fmt::format(
        "the weights are no sum of {} products of a list along y and one along x: {:.1e} of them is left",
        most, left);
    return offer;
  }
  low_rank.truncation = left;
  const Matrix packed = expand(low_rank);
  sum_up(weights, packed, low_rank);
  const bool sums_alike = std::fabs(low_rank.packed_sum - low_rank.sum) <= 2 * tolerance * magnitude;
  bool zeros_alike = true;
  for (std::size_t i = 0; i < packed.values.size(); ++i)
    zeros_alike = zeros_alike && (packed.values[i] == 0) == (weights.values[i] == 0);
  if (!sums_alike) {
    offer.objection = "rounded lists do not sum to what the weights do";
  } else if (!zeros_alike) {
    offer.objection = "products of lists are not zero where the weights are";
  }
  return offer;
}

Contraction contract_core_lists(const Problem& problem, LowRank low_rank) {
  Contraction contraction;
  contraction.grouping = Grouping::list_adds;
  contraction.element_bytes = spec::element_bytes(problem.spec.storage);
  contraction.row_low = low_rank.y_low;
  contraction.row_high = low_rank.y_high();
  contraction.column_reach = column_reach_of(problem.tap_rows);
  const auto pairs = static_cast<int>(low_rank.pairs.size());
  contraction.mapping.name = pairs == 1 ? "two passes" : fmt::format("two passes of {}", pairs);
  for (const ListPair& pair : low_rank.pairs) {
    const List& x = pair.x.front();
    const List& y = pair.y.front();
    for (int i = 0; i < std::ssize(x); ++i) {
      if (x[i] != 0) contraction.taps.push_back({0, 0, low_rank.x_low + i, x[i], 0});
    }
    for (int i = 0; i < std::ssize(y); ++i) {
      if (y[i] != 0) contraction.taps.push_back({low_rank.y_low + i, 0, 0, y[i], 0});
    }
  }
  contraction.low_rank = std::move(low_rank);
  return contraction;
}

}  // namespace spidergen::plan
