#include "plan/diagonals.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "plan/contraction.h"

namespace spidergen::plan {
namespace {

// With fewer pairs a kernel is memory-bound, and a pair needs a fragment of its own where two windows share
// one.
constexpr std::size_t least_pairs = 2;

// Input columns of a window outside its tile's outputs, on each side.
constexpr int window_reach = 8;

bool is_diagonal(const Window& window) {
  return window.taps.size() == 1 && window.taps.front().at[spec::axis_x] == 0;
}

/// The pairs of one column or row of diagonals, ascending; none unless all have one distance.
std::vector<DiagonalPair> pair_halves(const std::vector<Window>& diagonals) {
  std::vector<DiagonalPair> pairs;
  const std::size_t half = diagonals.size() / 2;
  if (diagonals.size() % 2 != 0 || half < least_pairs) return pairs;
  for (std::size_t i = 0; i < half; ++i) pairs.push_back({diagonals[i], diagonals[i + half]});
  const auto as_first = [&](const DiagonalPair& pair) { return pair.distance() == pairs.front().distance(); };
  if (!std::all_of(pairs.begin(), pairs.end(), as_first)) pairs.clear();
  return pairs;
}

void remove(const Window& taken, std::vector<Window>& windows) {
  windows.erase(std::find_if(windows.begin(), windows.end(), [&](const Window& window) {
    return window.dz == taken.dz && window.dy == taken.dy && window.shift == taken.shift &&
           window.sum() == taken.sum();
  }));
}

/// Pairs the diagonals of a sum that agree in `key`.
template <class Key>
void take_pairs(std::vector<Window>& windows, Key key, std::vector<DiagonalPair>& pairs) {
  std::map<std::pair<int, int>, std::vector<Window>> groups;
  for (const Window& window : windows) {
    if (is_diagonal(window)) groups[{key(window), window.sum()}].push_back(window);
  }
  for (const auto& [value, diagonals] : groups) {
    for (const DiagonalPair& pair : pair_halves(diagonals)) {
      remove(pair.first, windows);
      remove(pair.second, windows);
      pairs.push_back(pair);
    }
  }
}

}  // namespace

std::vector<DiagonalPair> take_diagonal_pairs(std::vector<Window>& windows) {
  std::vector<DiagonalPair> pairs;
  if (std::all_of(windows.begin(), windows.end(), is_diagonal)) return pairs;
  take_pairs(
      windows, [](const Window& window) { return window.dy; }, pairs);
  take_pairs(
      windows, [](const Window& window) { return window.dz; }, pairs);
  return pairs;
}

std::vector<DiagonalPair> take_diagonal_pairs_of_rows(std::vector<Window>& windows) {
  std::vector<Window> others = windows;
  std::vector<DiagonalPair> pairs = take_diagonal_pairs(others);
  if (pairs.empty() || pairs.front().distance().y > largest_row_distance) return {};
  // A kernel has one distance; sums may differ in theirs.
  const auto as_first = [&](const DiagonalPair& pair) { return pair.distance() == pairs.front().distance(); };
  if (!std::all_of(pairs.begin(), pairs.end(), as_first)) return {};
  const auto has_own_columns = [](int low, int high) { return low <= window_reach && high >= -window_reach; };
  const auto [low, high] = std::minmax_element(
      others.begin(), others.end(), [](const Window& a, const Window& b) { return a.shift < b.shift; });
  if (!has_own_columns(low->shift, high->shift)) return {};
  windows = std::move(others);
  return pairs;
}

}  // namespace spidergen::plan
