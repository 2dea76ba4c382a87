#include "plan/windows.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "diag/diagnostic.h"

namespace spidergen::plan {
namespace {

// Up to this reach all sets of shifts are tried: 2^7, or 2^9 of narrow windows.
constexpr int largest_searched_reach = 31;

constexpr int shift_step = 8;  // a 16-byte vector of f16: loads stay aligned

using Row = std::vector<RoundedTap>;

/// The windows of one row from the given shifts, or nothing if they do not cover every tap. Greedy: the
/// lowest tap takes the highest shift that still covers it, which is optimal in number.
std::optional<std::vector<Window>> cover(const Row& row, const std::vector<int>& shifts,
                                         const TileMapping& mapping) {
  std::vector<Window> windows;
  for (const RoundedTap& tap : row) {
    const int dx = tap.at[spec::axis_x];
    const auto holds = [&](int shift) {
      const int index = dx - shift - mapping.window_low;
      return index >= 0 && index < mapping.window_width;
    };
    if (windows.empty() || !holds(windows.back().shift)) {
      const auto best = std::find_if(shifts.rbegin(), shifts.rend(), holds);
      if (best == shifts.rend()) return std::nullopt;
      windows.push_back({tap.at[spec::axis_y], *best, {}, tap.at[spec::axis_z]});
    }
    windows.back().taps.push_back(tap);
  }
  return windows;
}

struct Cut {
  std::vector<Window> windows;
  int cost = 0;
  int distance = 0;  // of the shifts from 0, to break ties
};

/// Tap rows by (dz, dy, sum).
using Rows = std::map<std::tuple<int, int, int>, Row>;

std::optional<Cut> cut_with(const Rows& rows, const std::vector<int>& shifts, const TileMapping& mapping) {
  Cut cut;
  for (const auto& [at, row] : rows) {
    const auto windows = cover(row, shifts, mapping);
    if (!windows) return std::nullopt;
    cut.windows.insert(cut.windows.end(), windows->begin(), windows->end());
  }
  cut.cost = static_cast<int>(cut.windows.size() + shifts.size());
  for (const int shift : shifts) cut.distance += std::abs(shift);
  return cut;
}

/// Multiples of shift_step up to `reach` on both sides, and further ones that cover the taps there.
std::vector<int> all_shifts(int reach, const TileMapping& mapping) {
  int low = -reach / shift_step * shift_step;
  int high = -low;
  while (low + mapping.window_low > -reach) low -= shift_step;
  while (high + mapping.window_low + mapping.window_width - 1 < reach) high += shift_step;
  std::vector<int> shifts;
  for (int shift = low; shift <= high; shift += shift_step) shifts.push_back(shift);
  return shifts;
}

/// Tries every set of shifts.
std::optional<Cut> cheapest_cut(const Rows& rows, const TileMapping& mapping) {
  const std::vector<int> candidates = all_shifts(largest_searched_reach, mapping);
  std::optional<Cut> best;
  for (unsigned chosen = 1; chosen < 1U << candidates.size(); ++chosen) {
    std::vector<int> shifts;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if ((chosen >> i & 1U) != 0) shifts.push_back(candidates[i]);
    }
    const auto cut = cut_with(rows, shifts, mapping);
    if (cut && (!best || std::pair(cut->cost, cut->distance) < std::pair(best->cost, best->distance)))
      best = cut;
  }
  return best;
}

/// The shifts of a row that has a tap wherever any row has one.
std::optional<Cut> cut_for_all_columns(const Rows& rows, int reach, const TileMapping& mapping) {
  std::map<int, RoundedTap> columns;
  for (const auto& [at, row] : rows) {
    for (const RoundedTap& tap : row) columns.emplace(tap.at[spec::axis_x], tap);
  }
  Row all;
  for (const auto& [dx, tap] : columns) all.push_back(tap);
  const auto windows = cover(all, all_shifts(reach, mapping), mapping);
  if (!windows) return std::nullopt;
  std::vector<int> shifts;
  for (const Window& window : *windows) shifts.push_back(window.shift);
  return cut_with(rows, shifts, mapping);
}

}  // namespace

std::vector<Window> cut_windows(const std::vector<RoundedTap>& taps, const TileMapping& mapping) {
  Rows rows;
  int reach = 0;
  for (const RoundedTap& tap : taps) {
    rows[{tap.at[spec::axis_z], tap.at[spec::axis_y], tap.sum}].push_back(tap);
    reach = std::max(reach, std::abs(tap.at[spec::axis_x]));
  }
  const auto best = reach <= largest_searched_reach ? cheapest_cut(rows, mapping)
                                                    : cut_for_all_columns(rows, reach, mapping);
  if (!best)
    throw diag::InternalError("no shifts reach every tap: a tap lies beyond what make_plan lets through");
  return best->windows;
}

}  // namespace spidergen::plan
