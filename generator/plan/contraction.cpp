#include "plan/contraction.h"

#include <algorithm>

#include "plan/bands.h"
#include "plan/machine.h"

namespace spidergen::plan {
namespace {

/// The number of products chained into one output that `counts` accepts; for bands along x, into one comb.
template <class Counts>
int count_chained(const Contraction& contraction, const Counts& counts) {
  int whole = 0;
  int of_combs = 0;
  for (const Product& product : contraction.products) {
    if (!counts(product)) continue;
    const bool of_comb = contraction.is_bands() && !contraction.sources[product.source].along_y;
    ++(of_comb ? of_combs : whole);
  }
  return whole + of_combs / band_combs;
}

}  // namespace

ColumnReach column_reach_of(const std::vector<TapRow>& rows) {
  ColumnReach reach{rows.front().low, rows.front().high, 0, 0};
  for (const TapRow& row : rows) {
    reach.highest_low = std::max(reach.highest_low, row.low);
    reach.lowest_high = std::min(reach.lowest_high, row.high);
    reach.low = std::min(reach.low, row.low);
    reach.high = std::max(reach.high, row.high);
  }
  return reach;
}

int columns_across_edges(const ColumnReach& reach, int vector_cells) {
  const int cut = vector_cells - 1;
  const int at_low_edge = std::max(0, reach.highest_low) - reach.low + cut;
  const int at_high_edge = reach.high - std::min(0, reach.lowest_high) + cut;
  return at_low_edge + at_high_edge;
}

int Contraction::first_column() const {
  const int vector = std::max(inputs_per_group, vector_bytes / element_bytes);
  const int first = shifts.front() + mapping.first_input();
  return first - (first % vector + vector) % vector;
}

int Contraction::rows_in_flight() const {
  int first = row_high - row_low;
  for (const Product& product : products) first = std::min(first, last_row(product));
  return (row_high - row_low - first) / rows_per_product() + 1;
}

int Contraction::planes_in_flight() const {
  int first = plane_high - plane_low;
  for (const Product& product : products) first = std::min(first, last_plane(product));
  return plane_high - plane_low - first + 1;
}

int Contraction::chained_products() const {
  return count_chained(*this, [](const Product& /*product*/) { return true; });
}

int Contraction::longest_chain() const {
  int longest = 0;
  for (int sum = 0; sum < sums(); ++sum) {
    longest =
        std::max(longest, count_chained(*this, [sum](const Product& product) { return product.sum == sum; }));
  }
  return longest;
}

int Contraction::sums() const {
  int last = 0;
  for (const Product& product : products) last = std::max(last, product.sum);
  return last + 1;
}

int Contraction::weight_terms() const {
  int terms = 0;
  for (const Product& product : products) terms = std::max(terms, product.term + 1);
  return terms;
}

TapRange range_of(const std::vector<CoreTap>& taps, int CoreTap::*axis) {
  const auto [low, high] = std::minmax_element(
      taps.begin(), taps.end(), [&](const CoreTap& a, const CoreTap& b) { return a.*axis < b.*axis; });
  return {(*low).*axis, (*high).*axis};
}

int sums_in_flight(const std::vector<CoreTap>& taps) {
  const int highest = range_of(taps, &CoreTap::step).high;
  std::map<int, int> lowest;
  for (const CoreTap& tap : taps) {
    const auto [known, is_new] = lowest.try_emplace(tap.sum, tap.step);
    known->second = std::min(known->second, tap.step);
  }
  int count = 0;
  for (const auto& [sum, step] : lowest) count += highest - step + 1;
  return count;
}

CoreAxes core_axes(int dimensions) {
  if (dimensions == 2) return {spec::axis_y, spec::axis_z};
  return {spec::axis_z, spec::axis_y};
}

}  // namespace spidergen::plan
