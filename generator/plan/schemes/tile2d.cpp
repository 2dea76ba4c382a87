#include "plan/schemes/tile2d.h"

#include <fmt/format.h>

#include <optional>

namespace spidergen::plan {
namespace {

constexpr int registers_beside_tile = 20;
constexpr int registers_beside_low_tile = 8;  // for a second store path
constexpr int registers_of_update = 8;        // with sums alone; others get theirs in make_room_for_update
constexpr int register_unit = 8;
constexpr int least_rows = 8;
constexpr int rows_of_short_reach = 5;

// Most MMAs: they take a third of the time of a tile's memory traffic. With more, tiles in shared memory have
// more warps in flight.
constexpr int most_products = 5;

/// An update of sums alone reduces a tile's rows, not its blocks: Sobel's magnitude took 110.7 us with 10
/// rows and five blocks, 115.1 with 12 and four (10240 x 10240 f16 points, H200; a copy takes 100.5).
int registers_of_tile(const Contraction& contraction, int tile_rows, bool updates_sums) {
  const int fragments =
      (tile_rows + contraction.rows_spanned() - 1) * static_cast<int>(contraction.shifts.size());
  const int beside =
      registers_beside_tile + (tile_rows <= TileForm::low_rows ? registers_beside_low_tile : 0);
  return beside + (updates_sums ? registers_of_update : 0) +
         (contraction.sums() - 1) * registers_per_accumulator + fragments * registers_per_fragment +
         static_cast<int>(contraction.operands.size()) * registers_per_operand;
}

/// Tiles of `rows` rows, with as many blocks a multiprocessor as registers allow, up to the useful number.
TileForm tile_form(const Contraction& contraction, int rows, int most_blocks, bool updates_sums) {
  constexpr int most_rows_abreast = 3;
  const int registers = round_up(registers_of_tile(contraction, rows, updates_sums), register_unit);
  TileForm form;
  form.rows = rows;
  form.across = contraction.rows_spanned() > most_rows_abreast ? TileForm::warps_per_block / 2
                                                               : TileForm::warps_per_block;
  form.down = TileForm::warps_per_block / form.across;
  form.blocks_per_multiprocessor = std::min(
      most_blocks, registers_per_multiprocessor / (TileForm::warps_per_block * threads_per_warp * registers));
  return form;
}

/// The same tiles for unaligned rows, where each input vector of four words spans five.
TileForm any_rows_form(const Contraction& contraction, const TileForm& high, bool updates_sums) {
  constexpr int most_blocks = 3;
  const int rows_of_as_many_inputs = high.rows + (high.rows + contraction.rows_spanned() + 2) / 4;
  TileForm form = tile_form(contraction, rows_of_as_many_inputs, most_blocks, updates_sums);
  form.rows = high.rows;
  form.allows_unaligned = true;
  return form;
}

/// The highest tiles with enough blocks in the registers, and lower ones. Where taps reach far along y,
/// vertical neighbours read the same rows, and belong in one block, which shares an L1 cache.
std::optional<Tile2d> lay_out(const Contraction& contraction, bool updates_sums) {
  // Higher tiles read fewer rows twice, but leave room for fewer warps.
  const bool reaches_far = contraction.rows_spanned() > 3;
  const int most_rows = reaches_far ? 13 : 12;
  const int wanted_blocks = reaches_far ? 4 : 5;
  const int most_blocks_of_lower_tiles = reaches_far ? 5 : 6;
  for (int rows = most_rows; rows >= least_rows; --rows) {
    TileForm high = tile_form(contraction, rows, wanted_blocks, updates_sums);
    if (high.blocks_per_multiprocessor < wanted_blocks) continue;
    high.min_blocks_per_sm = 16;
    // Lower tiles read more rows twice, and more of them the farther taps reach.
    const int middle_rows = contraction.rows_spanned() <= rows_of_short_reach ? 6 : 8;
    TileForm middle = tile_form(contraction, middle_rows, most_blocks_of_lower_tiles, updates_sums);
    middle.min_blocks_per_sm = 4;
    Tile2d tiles;
    tiles.forms = {high, middle,
                   tile_form(contraction, TileForm::low_rows, most_blocks_of_lower_tiles, updates_sums),
                   any_rows_form(contraction, high, updates_sums)};
    tiles.window_vectors = strip_vectors(contraction, 1);
    tiles.estimated_registers = registers_of_tile(contraction, rows, updates_sums);
    tiles.shared_bytes = TileForm::warps_per_block * (rows + contraction.rows_spanned() - 1) *
                         tiles.window_vectors * vector_bytes;
    return tiles;
  }
  return std::nullopt;
}

/// Fitted to sweeps of 10240 x 10240 points on an H200: 105.0 us for 3 products and 107.9 for 5, where a copy
/// takes 101.
double estimate_us(int products) {
  constexpr double three_products_us = 104.9;
  const double more = products - 3;
  return three_products_us + (more < 0 ? 0.5 * more : 0.75 * more * std::min(more, 2.0));
}

}  // namespace

void make_room_for_update(const spec::StencilSpec& spec, std::vector<TileForm>& forms) {
  for (TileForm& form : forms) {
    form.blocks_per_multiprocessor = blocks_beside_update(spec, form.blocks_per_multiprocessor,
                                                          form.across * form.down * threads_per_warp);
  }
}

bool Tile2d::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.grouping == Grouping::windows && problem.spec.dimensions == 2;
}

Offer<Tile2d> Tile2d::plan(const Problem& problem, const Contraction& contraction) {
  const int products = static_cast<int>(contraction.products.size());
  if (contraction.element_bytes != 2) return Offer<Tile2d>::none("for sparse products of 16-bit fields");
  if (contraction.pairs_diagonals()) return Offer<Tile2d>::none("does not pair diagonals");
  if (products > most_products)
    return Offer<Tile2d>::none(
        fmt::format("{} products; tiles in registers are for {} at most", products, most_products));
  const bool updates_sums = problem.spec.update && problem.spec.update->is_of_sums_alone();
  std::optional<Tile2d> tiles = lay_out(contraction, updates_sums);
  if (!tiles) {
    return Offer<Tile2d>::none(fmt::format("inputs of {} rows and {} operands find no room in registers",
                                           least_rows + contraction.rows_spanned() - 1,
                                           contraction.operands.size()));
  }
  if (!updates_sums) make_room_for_update(problem.spec, tiles->forms);
  return {*std::move(tiles), estimate_us(products), ""};
}

}  // namespace spidergen::plan
