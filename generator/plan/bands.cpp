#include "plan/bands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace spidergen::plan {
namespace {

constexpr int unit_rows = 16;
constexpr int chunk_columns = 16;
constexpr int comb_outputs = band_unit_columns / band_combs;
constexpr int lowest_dy = -8;
constexpr int highest_dy = 7;
constexpr int farthest_dx = 8;

// With fewer tap rows, pairs of rows take no more products (plan/schemes/block2d.cpp).
constexpr std::ptrdiff_t least_tap_rows = 9;
constexpr int most_terms = 2;

bool is_on_axes(const spec::Offset& at) {
  return at[spec::axis_y] == 0 || at[spec::axis_x] == 0;
}

bool is_in_reach(const spec::Offset& at) {
  return at[spec::axis_y] >= lowest_dy && at[spec::axis_y] <= highest_dy &&
         std::abs(at[spec::axis_x]) <= farthest_dx;
}

/// Does the tap belong to the band along y? The centre does: its remainders take one product there.
bool is_along_y(const spec::Offset& at) {
  return at[spec::axis_x] == 0;
}

/// One term of the weights of a sum's band, from the lowest offset that its mapping covers.
std::vector<double> band_weights(const RoundedWeights& weights, int sum, int term, const Source& source) {
  std::vector<double> band(static_cast<std::size_t>(source.mapping.window_width), 0.0);
  for (const RoundedTap& tap : weights.taps) {
    if (tap.sum != sum || is_along_y(tap.at) != source.along_y) continue;
    const int offset = tap.at[source.along_y ? spec::axis_y : spec::axis_x] - source.mapping.window_low;
    band[static_cast<std::size_t>(offset)] = tap.terms[static_cast<std::size_t>(term)];
  }
  return band;
}

/// Does a sum have taps along the axis with a non-zero term?
bool has_band(const RoundedWeights& weights, int sum, int term, bool along_y) {
  return std::any_of(weights.taps.begin(), weights.taps.end(), [&](const RoundedTap& tap) {
    return tap.sum == sum && is_along_y(tap.at) == along_y && tap.terms[static_cast<std::size_t>(term)] != 0;
  });
}

void add_product(const RoundedWeights& weights, int sum, int source, int term, Contraction& contraction) {
  const Source& from = contraction.sources[static_cast<std::size_t>(source)];
  Operand operand;
  operand.term = term;
  operand.source = source;
  operand.matrix = kernel_matrix(from.mapping, band_weights(weights, sum, term, from));
  Product product;
  product.row = -contraction.row_low;
  product.source = source;
  product.operand = static_cast<int>(contraction.operands.size());
  product.term = term;
  product.sum = sum;
  contraction.operands.push_back(std::move(operand));
  contraction.products.push_back(product);
}

}  // namespace

TileMapping column_band_mapping() {
  TileMapping mapping;
  mapping.name = "pair swap along y, L = 16";
  mapping.window_low = lowest_dy;
  mapping.window_width = unit_rows;
  mapping.outputs_per_column = unit_rows;
  for (int m = 0; m < unit_rows; ++m) mapping.row_output.push_back({0, m});
  for (int k = 0; k < 2 * unit_rows; ++k) {
    const int pair = k / 4;
    const int further = k % 4 / 2 * unit_rows;
    mapping.column_input.push_back({0, lowest_dy + 2 * pair + k % 2 + further});
  }
  return mapping;
}

TileMapping comb_mapping(int comb, int chunk) {
  TileMapping mapping;
  mapping.name = "comb";
  mapping.window_low = -farthest_dx;
  mapping.window_width = 2 * farthest_dx + 1;
  mapping.outputs_per_column = band_unit_columns;
  for (int n = 0; n < comb_outputs; ++n) mapping.row_output.push_back({0, band_combs * n + comb});
  const int first = chunk_columns * chunk - farthest_dx;
  for (int k = 0; k < chunk_columns; ++k) {
    const int quarter = k % 8 / 2;
    mapping.column_input.push_back({0, first + 4 * quarter + 2 * (k / 8) + k % 2});
  }
  return mapping;
}

std::string objection_to_bands(const Problem& problem) {
  const RoundedWeights& weights = problem.weights;
  if (problem.spec.storage == spec::Storage::f32 || problem.engine != Engine::sparse)
    return "for sparse products of 16-bit fields";
  std::ptrdiff_t tap_rows = 0;
  for (const RoundedTap& tap : weights.taps) {
    if (!is_on_axes(tap.at) || !is_in_reach(tap.at))
      return "for taps on the two axes, dy = -8 to 7 and dx = -8 to 8";
    tap_rows += is_along_y(tap.at) ? 1 : 0;
  }
  if (tap_rows == static_cast<std::ptrdiff_t>(weights.taps.size())) return "for taps along x, too";
  if (tap_rows < least_tap_rows)
    return fmt::format("for {} taps along y or more, here {}", least_tap_rows, tap_rows);
  if (weights.terms > most_terms) return "registers have room for two terms of the weights";
  // A second band along x has not been timed for a single sum.
  const bool has_second = std::any_of(weights.taps.begin(), weights.taps.end(), [](const RoundedTap& tap) {
    return !is_along_y(tap.at) && tap.terms.size() > 1 && tap.terms[1] != 0;
  });
  return has_second && problem.spec.sums.size() == 1 ? "of one sum for weights along x of one term" : "";
}

Contraction contract_bands(const Problem& problem) {
  const RoundedWeights& weights = problem.weights;
  Contraction contraction;
  contraction.grouping = Grouping::bands;
  contraction.mapping = column_band_mapping();
  contraction.column_reach = column_reach_of(problem.tap_rows);
  contraction.row_low = std::min(0, problem.tap_rows.front().dy);
  contraction.row_high = std::max(0, problem.tap_rows.back().dy);
  contraction.shifts = {0};
  contraction.sources.push_back({contraction.mapping, 0, true});
  for (int comb = 0; comb < band_combs; ++comb) {
    for (int chunk = 0; chunk < band_chunks; ++chunk)
      contraction.sources.push_back({comb_mapping(comb, chunk), 0});
  }
  const auto sums = static_cast<int>(problem.spec.sums.size());
  for (int sum = 0; sum < sums; ++sum) {
    for (int term = 0; term < weights.terms; ++term) {
      if (has_band(weights, sum, term, true)) add_product(weights, sum, 0, term, contraction);
    }
  }
  for (int sum = 0; sum < sums; ++sum) {
    for (int term = 0; term < weights.terms; ++term) {
      if (!has_band(weights, sum, term, false)) continue;
      for (int source = 1; source <= band_combs * band_chunks; ++source)
        add_product(weights, sum, source, term, contraction);
    }
  }
  return contraction;
}

int column_operands_of(const Contraction& contraction) {
  return static_cast<int>(
      std::count_if(contraction.operands.begin(), contraction.operands.end(), [&](const Operand& operand) {
        return contraction.sources[static_cast<std::size_t>(operand.source)].along_y;
      }));
}

int row_bands_of(const Contraction& contraction) {
  return (static_cast<int>(contraction.operands.size()) - column_operands_of(contraction)) /
         (band_combs * band_chunks);
}

}  // namespace spidergen::plan
