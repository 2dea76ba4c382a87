#include "plan/schemes/block2d.h"

#include <fmt/format.h>

namespace spidergen::plan {
namespace {

constexpr int registers_beside_tile = 24;

// Up to this many input rows per output row, low tiles read few rows twice.
constexpr int most_rows_of_low_tiles = 9;

// Tiles in shared memory have not been measured with more rows: they read ever more of them twice.
constexpr int most_rows_spanned = 15;

// Sums of u8 fields have no other scheme on tensor cores: with two blocks a multiprocessor, 30 products take
// 185 us for 8192 x 8192 points on an H200; CUDA cores take 650.
int most_products(const Contraction& contraction) {
  return contraction.element_bytes == 1 ? 30 : 15;
}
int min_blocks_per_sm(const Contraction& contraction) {
  return contraction.element_bytes == 1 ? 2 : 3;
}

/// Registers of a lane where a block's tile has its inputs in shared memory.
int registers_of_tile(const Contraction& contraction) {
  // Products of two rows come in two abreast, each with half of the columns.
  const int abreast = contraction.rows_per_product();
  return registers_beside_tile +
         registers_per_accumulator * contraction.rows_in_flight() * abreast * contraction.sums() +
         registers_per_operand * static_cast<int>(contraction.operands.size()) +
         registers_per_fragment * fragments_of(contraction) * abreast;
}

/// The farther taps reach, the more rows low tiles read twice.
int rows_of_high_tiles(const Contraction& contraction) {
  constexpr int rows_of_far_reach = 12;
  if (contraction.rows_spanned() <= most_rows_of_low_tiles) return 16;
  if (contraction.pairs_diagonals()) return 24;
  return contraction.rows_spanned() < rows_of_far_reach ? 32 : 40;
}

/// Four rows of each warp, each shifted by half of the banks. Bytes wait in registers instead.
int warp_stage_bytes(const Contraction& contraction) {
  constexpr int rows = 4;
  const int row_bytes = tile_outputs * contraction.element_bytes + line_bytes / 2;
  return contraction.mapping.pairs_rows() && contraction.element_bytes == 2 ? rows * row_bytes : 0;
}

/// Shared memory of a block whose tile has `rows` rows. An unaligned row begins anywhere in its first vector,
/// and needs one more.
int tile_bytes(const Contraction& contraction, int rows) {
  const int input_rows = rows + contraction.rows_spanned() - 1;
  const int row_bytes =
      round_up((vectors_across(contraction, TileForm::warps_per_block) + 1) * vector_bytes, line_bytes);
  return 2 * line_bytes + input_rows * row_bytes + TileForm::warps_per_block * warp_stage_bytes(contraction);
}

/// Tiles of `rows` rows; a block's inputs are in shared memory. As many blocks as the registers and the
/// shared memory of sm_90 allow.
TileForm block_form(const Contraction& contraction, int rows) {
  constexpr int most_blocks = 6;
  const int registers = TileForm::warps_per_block * threads_per_warp * registers_of_tile(contraction);
  TileForm form;
  form.rows = rows;
  form.across = TileForm::warps_per_block;
  form.blocks_per_multiprocessor =
      std::min({most_blocks, registers_per_multiprocessor / registers,
                shared_per_multiprocessor / (tile_bytes(contraction, rows) + reserved_per_block)});
  form.in_registers = false;
  return form;
}

/// Tiles of one warp each, with all its inputs in registers.
TileForm form_in_registers(const Contraction& contraction, int rows, int across, int down, int most_warps) {
  const int steps = (rows + contraction.rows_spanned() - 1) / contraction.rows_per_product();
  const int fragments = steps * fragments_of(contraction) * contraction.rows_per_product();
  const int registers = registers_beside_tile + fragments * registers_per_fragment +
                        static_cast<int>(contraction.operands.size()) * registers_per_operand;
  const int warps = std::min(most_warps, registers_per_multiprocessor / (threads_per_warp * registers));
  TileForm form;
  form.rows = rows;
  form.across = across;
  form.down = down;
  form.blocks_per_multiprocessor = warps / (across * down);
  return form;
}

/// Forms whose inputs all wait in registers, from high tiles to low ones: for products that take a third of
/// the time of a tile's memory traffic. Higher tiles read fewer rows twice, but leave room for fewer warps.
/// None if registers have no room for five blocks.
std::vector<TileForm> forms_in_registers(const Contraction& contraction) {
  constexpr int most_products = 3;
  constexpr int across = TileForm::warps_per_block;
  if (contraction.element_bytes != 2 || contraction.grouping != Grouping::windows ||
      contraction.pairs_diagonals() || static_cast<int>(contraction.products.size()) > most_products)
    return {};
  TileForm high = form_in_registers(contraction, 12, across, 1, 5 * across);
  if (high.blocks_per_multiprocessor < 5) return {};
  high.min_blocks_per_sm = 16;
  TileForm middle = form_in_registers(contraction, 6, across, 1, 6 * across);
  middle.min_blocks_per_sm = 4;
  return {high, middle, form_in_registers(contraction, TileForm::low_rows, across, 1, 6 * across)};
}

/// Lower tiles than the high ones of `high_rows` rows, for small boxes. These finish sooner if every warp
/// waits only for its own inputs, in registers: small blocks share a multiprocessor evenly, until each has
/// fewer than two. Where registers have room for too few, or taps reach so far that low tiles mostly read the
/// same rows, inputs are in shared memory.
std::vector<TileForm> lower_forms(const Contraction& contraction, int high_rows) {
  constexpr int least_blocks_in_registers = 4;
  TileForm middle = form_in_registers(contraction, 8, 2, 2, 16);
  if (contraction.rows_spanned() <= most_rows_of_low_tiles &&
      middle.blocks_per_multiprocessor >= least_blocks_in_registers) {
    middle.min_blocks_per_sm = 4;
    TileForm low = form_in_registers(contraction, TileForm::low_rows, 2, 1, 24);
    low.min_blocks_per_sm = 2;
    return {middle, low, form_in_registers(contraction, TileForm::low_rows, 2, 2, 24)};
  }
  middle = block_form(contraction, std::min(16, high_rows / 2));
  middle.min_blocks_per_sm = 2;
  return {middle, block_form(contraction, TileForm::low_rows)};
}

/// Forms for unaligned rows: in code for both, the compiler schedules aligned loads up to 4 % slower. Where
/// two blocks' operands fill the registers, high tiles of unaligned rows would spill.
std::vector<TileForm> unaligned_forms(const Contraction& contraction, const TileForm& high,
                                      const std::vector<TileForm>& lower) {
  std::vector<TileForm> forms;
  if (high.blocks_per_multiprocessor > 2) forms.push_back(high);
  if (lower.front().in_registers) {
    forms.push_back(block_form(contraction, 8));
  } else {
    forms.insert(forms.end(), lower.begin(), lower.end());
  }
  for (TileForm& form : forms) form.allows_unaligned = true;
  return forms;
}

/// Fitted to sweeps of 10240 x 10240 points on an H200: 107.3 us for 4 products, 111 for 11 and 138.8 for 15.
/// With equal products windows are taken, whose loads are whole vectors. Updates of several sums leave fewer
/// blocks: with two sums of 6, 9 and 11 products they took 111.0, 132.3 and 147.8 us. u8 fields, whose bytes
/// are converted to f16, take 77 us for 2 products, 85 for 4, 170 for 15 and 290 for 30. With all tiles in
/// registers 3 products take 104.9 us.
double estimate_us(const spec::StencilSpec& spec, const Contraction& contraction, bool in_registers) {
  constexpr double copy_us = 104.4;  // for 4 bytes a point
  if (in_registers) return copy_us + 0.5 * (static_cast<double>(contraction.products.size()) - 2);
  constexpr double half_vectors_us = 0.1;
  const auto products = static_cast<double>(contraction.products.size());
  const bool of_bytes = contraction.element_bytes == 1;
  const double fewer_blocks_us = of_bytes ? 60 : contraction.sums() > 1 ? 69 : 34;
  const double product_us = of_bytes ? 7.5 : 7;
  const int bytes = contraction.element_bytes + spec::element_bytes(spec::output_of(spec));
  return std::max(copy_us * bytes / 4 + 0.75 * products, fewer_blocks_us + product_us * products) +
         (contraction.grouping == Grouping::row_pairs ? half_vectors_us : 0);
}

std::string no_room(const Contraction& contraction) {
  if (contraction.grouping == Grouping::row_pairs) {
    return fmt::format("with pairs of rows {} products of {} input rows find no room in tiles",
                       contraction.products.size(), contraction.rows_spanned() + 1);
  }
  return fmt::format("{} products of {} input rows; tiles in shared memory are for {} of {} at most",
                     contraction.products.size(), contraction.rows_spanned(), most_products(contraction),
                     most_rows_spanned);
}

}  // namespace

bool Block2d::takes(const Problem& problem, const Contraction& contraction) {
  return problem.spec.dimensions == 2 &&
         (contraction.grouping == Grouping::windows || contraction.grouping == Grouping::row_pairs);
}

Offer<Block2d> Block2d::plan(const Problem& problem, const Contraction& contraction) {
  if (contraction.element_bytes > 2)
    return Offer<Block2d>::none("for sparse products of 16-bit fields, and of u8 ones");
  if (static_cast<int>(contraction.products.size()) > most_products(contraction) ||
      contraction.rows_spanned() > most_rows_spanned)
    return Offer<Block2d>::none(no_room(contraction));
  TileForm high = block_form(contraction, rows_of_high_tiles(contraction));
  while (high.blocks_per_multiprocessor < min_blocks_per_sm(contraction) && high.rows > 16)
    high = block_form(contraction, high.rows - 8);
  if (high.blocks_per_multiprocessor < min_blocks_per_sm(contraction))
    return Offer<Block2d>::none(no_room(contraction));
  const std::vector<TileForm> lower = lower_forms(contraction, high.rows);
  high.min_blocks_per_sm = lower.front().in_registers ? 18 : 8;
  Block2d tiles;
  tiles.forms = forms_in_registers(contraction);
  const bool in_registers = !tiles.forms.empty();
  if (!in_registers) {
    tiles.forms = lower;
    tiles.forms.insert(tiles.forms.begin(), high);
  }
  const std::vector<TileForm> unaligned = unaligned_forms(contraction, high, lower);
  tiles.forms.insert(tiles.forms.end(), unaligned.begin(), unaligned.end());
  tiles.window_vectors = vectors_across(contraction, 1);
  tiles.stage_bytes = warp_stage_bytes(contraction);
  tiles.estimated_registers = registers_of_tile(contraction);
  tiles.shared_bytes = tile_bytes(contraction, high.rows);
  make_room_for_update(problem.spec, tiles.forms);
  return {std::move(tiles), estimate_us(problem.spec, contraction, in_registers), ""};
}

}  // namespace spidergen::plan
