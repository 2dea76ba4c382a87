#include "plan/bands.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "plan/column_reach.h"
#include "plan/machine.h"

namespace spidergen::plan {
namespace {

constexpr int unit_rows = 16;
constexpr int chunk_columns = 16;
constexpr int comb_outputs = band_unit_columns / band_combs;
constexpr int lowest_dy = -8;
constexpr int highest_dy = 7;
constexpr int farthest_dx = 8;

// With fewer rows of taps their products are no more than pairs of rows take (plan/streaming.cpp).
constexpr int least_tap_rows = 9;
// Of one sum, as remainders take a product more: registers hold no more of them.
constexpr int most_column_operands = 2;

// Of a lane, beside the operands along y; measured with nvcc 13 for sm_90.
constexpr int base_registers = 104;
constexpr int registers_per_operand = 4;

// As in templates/star2d.cu.in.
constexpr int warps_per_block = 4;
constexpr int vector_elements = 8;
constexpr int bank_shift = 32;

bool is_on_axes(const spec::Tap& tap) {
  return tap.at[spec::axis_y] == 0 || tap.at[spec::axis_x] == 0;
}

bool is_in_reach(const spec::Tap& tap) {
  return tap.at[spec::axis_y] >= lowest_dy && tap.at[spec::axis_y] <= highest_dy &&
         std::abs(tap.at[spec::axis_x]) <= farthest_dx;
}

/// The band that a tap is of. The centre is of that along y, where its remainders take one product.
bool is_along_y(const spec::Offset& at) {
  return at[spec::axis_x] == 0;
}

/// A term of the weights of a band, by offset from the lowest that its mapping holds.
std::vector<double> band_weights(const RoundedWeights& weights, int term, const Source& source) {
  std::vector<double> band(static_cast<std::size_t>(source.mapping.window_width), 0.0);
  for (const RoundedTap& tap : weights.taps) {
    if (is_along_y(tap.at) != source.along_y) continue;
    const int offset = tap.at[source.along_y ? spec::axis_y : spec::axis_x] - source.mapping.window_low;
    band[static_cast<std::size_t>(offset)] = tap.terms[static_cast<std::size_t>(term)];
  }
  return band;
}

void add_product(const RoundedWeights& weights, int source, int term, Pass& pass) {
  const Source& from = pass.sources[static_cast<std::size_t>(source)];
  Operand operand;
  operand.term = term;
  operand.source = source;
  operand.matrix = kernel_matrix(from.mapping, band_weights(weights, term, from));
  Product product;
  product.row = -pass.row_low;
  product.source = source;
  product.operand = static_cast<int>(pass.operands.size());
  product.term = term;
  pass.operands.push_back(std::move(operand));
  pass.products.push_back(product);
}

bool has_remainder(const RoundedTap& tap, int term) {
  return tap.terms[static_cast<std::size_t>(term)] != 0;
}

/// Measured on an H200 (tests/benchmarks/README.md).
Streaming choose_band_tiles(const Pass& pass) {
  const auto form = [](int rows, int columns, int blocks, int least_blocks) {
    TileForm tile;
    tile.rows = rows;
    tile.columns = columns;
    tile.across = warps_per_block;
    tile.blocks_per_multiprocessor = blocks;
    tile.least_blocks = least_blocks;
    return tile;
  };
  Streaming streaming;
  streaming.tile_forms = {form(4 * unit_rows, 64, 4, 24), form(3 * unit_rows, 64, 5, 5),
                          form(unit_rows, 128, 4, 3), form(2 * unit_rows, 32, 5, 2),
                          form(unit_rows, 32, 4, 0)};
  streaming.tiles_in_shared_memory = true;
  streaming.warps_per_block = warps_per_block;
  streaming.blocks_per_multiprocessor = streaming.tile_forms.front().blocks_per_multiprocessor;
  streaming.estimated_registers =
      base_registers +
      registers_per_operand * (static_cast<int>(pass.operands.size()) - band_combs * band_chunks);
  return streaming;
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

bool suits_bands(const spec::StencilSpec& spec, const RoundedWeights& weights, Engine engine,
                 const Variant& variant) {
  if (spec.dimensions != 2 || spec.storage == spec::Storage::f32) return false;
  if (engine != Engine::sparse || variant != Variant{} || weights.terms > most_column_operands) return false;
  int tap_rows = 0;
  bool has_row = false;
  for (const spec::Tap& tap : spec.taps) {
    if (!is_on_axes(tap) || !is_in_reach(tap)) return false;
    tap_rows += is_along_y(tap.at) ? 1 : 0;
    has_row = has_row || !is_along_y(tap.at);
  }
  if (!has_row || tap_rows < least_tap_rows) return false;
  return std::all_of(weights.taps.begin(), weights.taps.end(), [&](const RoundedTap& tap) {
    return is_along_y(tap.at) || weights.terms == 1 || !has_remainder(tap, 1);
  });
}

Pass make_band_pass(const RoundedWeights& weights, const std::vector<TapRow>& tap_rows) {
  Pass pass;
  pass.mapping = column_band_mapping();
  pass.column_reach = column_reach_of(tap_rows);
  pass.row_low = std::min(0, tap_rows.front().dy);
  pass.row_high = std::max(0, tap_rows.back().dy);
  pass.shifts = {0};
  pass.sources.push_back({pass.mapping, 0, true});
  for (int term = 0; term < weights.terms; ++term) add_product(weights, 0, term, pass);
  for (int comb = 0; comb < band_combs; ++comb) {
    for (int chunk = 0; chunk < band_chunks; ++chunk) {
      pass.sources.push_back({comb_mapping(comb, chunk), 0});
      add_product(weights, static_cast<int>(pass.sources.size()) - 1, 0, pass);
    }
  }
  pass.streaming = choose_band_tiles(pass);
  return pass;
}

int chained_products(const Pass& pass) {
  const auto products = static_cast<int>(pass.products.size());
  return pass.is_bands() ? products - (band_combs - 1) * band_chunks : products;
}

int band_shared_bytes(const Pass& pass) {
  const TileForm& form = pass.streaming.tile_forms.front();
  const int vectors = form.across * form.columns / vector_elements + 2;
  const int lines = ((vectors + 1) * vector_bytes + line_bytes - 1) / line_bytes;
  const int row_bytes = lines * line_bytes + bank_shift;
  constexpr int stage_bytes = unit_rows / 2 * band_unit_columns * 2;
  return 2 * line_bytes + (form.rows + pass.rows_spanned() - 1) * row_bytes +
         (form.rows / unit_rows + 1) * bank_shift + form.across * stage_bytes;
}

}  // namespace spidergen::plan
