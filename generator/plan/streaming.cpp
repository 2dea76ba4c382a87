#include "plan/streaming.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

#include "plan/bands.h"
#include "plan/machine.h"
#include "plan/warpgroups.h"

namespace spidergen::plan {
namespace {

constexpr int tile_outputs = 128;
constexpr int registers_per_operand = 4;
constexpr int registers_per_accumulator = 4;
constexpr int registers_per_fragment = 4;
constexpr int operand_bytes = 512;

// A fragment of f32 inputs beside one of f16 ones, its power of two, and the products of windows under way.
constexpr int registers_per_scaled_tile = 40;
// Operands on their way from shared memory to those.
constexpr int registers_for_shared_operands = 48;

// Addresses, counters, one fragment a tile, metadata: what the compiler needs beside accumulators and
// operands. Measured with nvcc 13 for sm_90 on the shipped stencils.
constexpr int base_registers = 36;
constexpr int registers_per_pair = 8;  // where its two rows are
// With more, star2d_r7 is slower on an H200: what is under way at a time lies farther apart in memory.
constexpr int blocks_of_pairs = 2;
constexpr int registers_beside_tile = 20;
constexpr int registers_beside_low_tile = 8;  // more, for a second way to store
constexpr int registers_beside_block_tile = 24;
constexpr int warps_of_tiles = 4;  // of a block

// MMAs per tile that hide behind the tile's bytes, and those that take no more than a third of its time.
constexpr std::size_t most_memory_bound_products = 8;
constexpr std::size_t most_light_products = 5;

// Input rows of an output row with which short walks read few rows twice.
constexpr int most_rows_of_short_walks = 9;

// Beyond this, tiles in shared memory have not been measured: they read ever more rows twice.
constexpr std::size_t most_block_products = 15;
constexpr int most_rows_of_block_tiles = 15;

// A dense MMA takes 3.47 ns where a sparse one takes 4.60 (plan/machine.cpp), so that four of the former
// are as long as three of the latter.
constexpr std::size_t dense_products = 4;
constexpr std::size_t as_sparse_products = 3;

// The same of f32 fields, which have twice the bytes.
constexpr std::size_t most_memory_bound_scaled_products = 21;
// Beyond this operands wait in shared memory.
constexpr int most_scaled_registers = 200;

// More products than this, unrolled once per row in flight, take the compiler over half a minute.
constexpr int most_unrolled_products = 480;

int vector_elements(const Pass& pass) {
  return vector_bytes / pass.element_bytes;
}

int round_to_lines(int bytes) {
  return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}

bool has_diagonal_pairs(const Pass& pass) {
  return !pass.mapping.pairs_rows() && pass.sources.back().distance() != Position{};
}

/// Fragments of a tile and an input row.
int fragments_of(const Pass& pass) {
  return static_cast<int>(pass.whole_operands ? pass.shifts.size() : pass.sources.size());
}

int registers_of(const Pass& pass, int tiles, bool operands_in_registers) {
  const int accumulators = tiles * pass.rows_in_flight() * registers_per_accumulator;
  const int operands =
      operands_in_registers ? static_cast<int>(pass.operands.size()) * registers_per_operand : 0;
  const int further_fragments = tiles * (fragments_of(pass) - 1) * registers_per_fragment * pass.inputs.count;
  int scaled = 0;
  if (pass.inputs.scaled) {
    scaled = tiles * registers_per_scaled_tile + (operands_in_registers ? 0 : registers_for_shared_operands);
  }
  const int pair = has_diagonal_pairs(pass) ? registers_per_pair : 0;
  return base_registers + accumulators + operands + further_fragments + scaled + pair;
}

void set_registers(const Pass& pass, int most_blocks, Streaming& streaming) {
  streaming.estimated_registers =
      registers_of(pass, streaming.tiles_per_warp, streaming.operands_in_registers);
  const int block_registers = streaming.warps_per_block * threads_per_warp * streaming.estimated_registers;
  streaming.blocks_per_multiprocessor =
      std::clamp(registers_per_multiprocessor / block_registers, 1, most_blocks);
}

/// Rows that are kept are none that a copy may be ahead by.
int least_ring_rows(const Pass& pass) {
  constexpr unsigned least_rows_ahead = 5;
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(pass.rows_kept) + 1 + least_rows_ahead));
}

/// How many products of mma.sp.m16n8k32 take as long as the products of a tile.
std::size_t sparse_products(const Pass& pass) {
  return pass.whole_operands ? pass.products.size() * as_sparse_products / dense_products
                             : pass.products.size();
}

/// Products that are chained into a row's sum.
Streaming choose_chained(const Pass& pass, int most_tiles) {
  Streaming streaming;
  // Two tiles share an operand's registers and the row's bookkeeping; one tile needs fewer accumulators.
  streaming.tiles_per_warp = most_tiles;
  if (registers_of(pass, most_tiles, true) > largest_register_count) streaming.tiles_per_warp = 1;
  if (registers_of(pass, streaming.tiles_per_warp, true) > largest_register_count) {
    streaming.operands_in_registers = false;
    streaming.tiles_per_warp =
        registers_of(pass, most_tiles, false) > largest_register_count ? 1 : most_tiles;
  }
  set_registers(pass, has_diagonal_pairs(pass) ? blocks_of_pairs : 4, streaming);
  // Measured on an H200 (tests/benchmarks/README.md). Where memory binds, a walk short enough to ask for
  // nearly all of its rows at once keeps the rows that are on their way close together, which DRAM rewards;
  // where MMAs bind, the rows that two walks both read cost more.
  const std::size_t products = sparse_products(pass);
  streaming.ring_rows = std::max(products <= most_light_products ? 16 : 8, least_ring_rows(pass));
  const bool short_walks =
      hides_behind_memory(products, pass.inputs) && pass.rows_spanned() <= most_rows_of_short_walks;
  streaming.preferred_rows = !short_walks ? 0 : products <= most_light_products ? 14 : 20;
  const auto unrolled =
      static_cast<int>(pass.products.size()) * streaming.tiles_per_warp * pass.rows_in_flight();
  streaming.rotate_by_unrolling =
      unrolled <= most_unrolled_products && pass.rows_in_flight() <= threads_per_warp;
  return streaming;
}

/// Products that are added to a row's sum in f32, window by window: many small steps, which many warps hide.
/// The sums move for free, to another register than they came from, so that nothing is unrolled.
Streaming choose_scaled(const Pass& pass) {
  Streaming streaming;
  streaming.tiles_per_warp = 1;
  streaming.operands_in_registers = registers_of(pass, 1, true) <= most_scaled_registers;
  streaming.rotate_by_unrolling = false;
  set_registers(pass, 5, streaming);
  const bool memory_bound = hides_behind_memory(sparse_products(pass), pass.inputs);
  streaming.ring_rows = std::max(memory_bound ? 16 : 8, least_ring_rows(pass));
  streaming.preferred_rows = memory_bound ? 20 : 0;
  return streaming;
}

int registers_of_tile(const Pass& pass, int tile_rows) {
  const int fragments = (tile_rows + pass.rows_spanned() - 1) * static_cast<int>(pass.shifts.size());
  const int beside =
      registers_beside_tile + (tile_rows <= TileForm::low_rows ? registers_beside_low_tile : 0);
  return beside + fragments * registers_per_fragment +
         static_cast<int>(pass.operands.size()) * registers_per_operand;
}

/// Tiles of so many rows, as many blocks of which a multiprocessor holds as their registers allow, but no
/// more than are of use.
TileForm tile_form(const Pass& pass, int rows, int most_blocks) {
  constexpr int register_unit = 8;
  constexpr int most_rows_abreast = 3;
  const int registers = (registers_of_tile(pass, rows) + register_unit - 1) / register_unit * register_unit;
  TileForm form;
  form.rows = rows;
  form.across = pass.rows_spanned() > most_rows_abreast ? warps_of_tiles / 2 : warps_of_tiles;
  form.down = warps_of_tiles / form.across;
  form.blocks_per_multiprocessor =
      std::min(most_blocks, registers_per_multiprocessor / (warps_of_tiles * threads_per_warp * registers));
  return form;
}

/// The same tiles for rows that are not aligned, of which each input vector of four words lies across five.
TileForm any_rows_form(const Pass& pass, const TileForm& high) {
  constexpr int most_blocks = 3;
  const int rows_of_as_many_inputs = high.rows + (high.rows + pass.rows_spanned() + 2) / 4;
  TileForm form = tile_form(pass, rows_of_as_many_inputs, most_blocks);
  form.rows = high.rows;
  form.any_rows = true;
  return form;
}

/// A lane's registers where a block has the inputs of its tile in shared memory.
int registers_of_block_tile(const Pass& pass) {
  // Products of two rows are two abreast, of half of the columns each.
  const int abreast = pass.rows_per_product();
  return registers_beside_block_tile + registers_per_accumulator * pass.rows_in_flight() * abreast +
         registers_per_operand * static_cast<int>(pass.operands.size()) +
         registers_per_fragment * fragments_of(pass) * abreast;
}

/// The farther taps reach, the more rows lower tiles read twice.
int block_rows(const Pass& pass) {
  constexpr int rows_of_far_reach = 12;
  if (pass.rows_spanned() <= most_rows_of_short_walks) return 16;
  if (has_diagonal_pairs(pass)) return 24;
  return pass.rows_spanned() < rows_of_far_reach ? 32 : 40;
}

/// Bytes between the rows of a tile in shared memory.
int block_window_row_bytes(const Pass& pass) {
  // A row that is not aligned begins anywhere in its first vector, and takes one more.
  return round_to_lines((window_vectors(pass, warps_of_tiles) + 1) * vector_bytes);
}

/// Shared memory of a block whose tile has so many rows.
int block_tile_bytes(const Pass& pass, int rows) {
  const int input_rows = rows + pass.rows_spanned() - 1;
  return 2 * line_bytes + input_rows * block_window_row_bytes(pass) + warps_of_tiles * warp_stage_bytes(pass);
}

/// Tiles of so many rows, the inputs of a block's together in shared memory; as many blocks as registers and
/// the shared memory of sm_90 have room for.
TileForm block_form(const Pass& pass, int rows) {
  constexpr int most_blocks = 6;
  const int registers = warps_of_tiles * threads_per_warp * registers_of_block_tile(pass);
  TileForm form;
  form.rows = rows;
  form.across = warps_of_tiles;
  form.blocks_per_multiprocessor =
      std::min({most_blocks, registers_per_multiprocessor / registers,
                shared_per_multiprocessor / (block_tile_bytes(pass, rows) + reserved_per_block)});
  form.in_registers = false;
  return form;
}

/// Tiles of one warp each, which has all inputs of its own in registers; two abreast.
TileForm block_form_in_registers(const Pass& pass, int rows, int tiles_down, int most_warps) {
  const int steps = (rows + pass.rows_spanned() - 1) / pass.rows_per_product();
  const int fragments = steps * fragments_of(pass) * pass.rows_per_product();
  const int registers = registers_beside_block_tile + fragments * registers_per_fragment +
                        static_cast<int>(pass.operands.size()) * registers_per_operand;
  const int warps = std::min(most_warps, registers_per_multiprocessor / (threads_per_warp * registers));
  TileForm form;
  form.rows = rows;
  form.across = 2;
  form.down = tiles_down;
  form.blocks_per_multiprocessor = warps / (form.across * form.down);
  return form;
}

/// Lower tiles than the high ones, of `high_rows` rows, for small boxes, which are done sooner if every warp
/// waits for its own inputs only, and has them in registers: small blocks share a multiprocessor evenly,
/// until there are fewer than two for each. Where registers have room for too few, or taps reach so far that
/// low tiles mostly read what others read, too, inputs are in shared memory.
std::vector<TileForm> lower_block_forms(const Pass& pass, int high_rows) {
  constexpr int least_blocks = 4;
  TileForm middle = block_form_in_registers(pass, 8, 2, 16);
  if (pass.rows_spanned() <= most_rows_of_short_walks && middle.blocks_per_multiprocessor >= least_blocks) {
    middle.least_blocks = 4;
    TileForm low = block_form_in_registers(pass, TileForm::low_rows, 1, 24);
    low.least_blocks = 2;
    return {middle, low, block_form_in_registers(pass, TileForm::low_rows, 2, 24)};
  }
  middle = block_form(pass, std::min(16, high_rows / 2));
  middle.least_blocks = 2;
  return {middle, block_form(pass, TileForm::low_rows)};
}

/// All of a kernel: those for rows that are not aligned come behind those for rows that are, for in code for
/// both the compiler orders the loads of aligned ones less well, by up to 4 %.
std::vector<TileForm> block_forms(const Pass& pass, const TileForm& high,
                                  const std::vector<TileForm>& lower) {
  std::vector<TileForm> any_rows = {high};
  if (lower.front().in_registers) {
    any_rows.push_back(block_form(pass, 8));
  } else {
    any_rows.insert(any_rows.end(), lower.begin(), lower.end());
  }
  for (TileForm& form : any_rows) form.any_rows = true;
  std::vector<TileForm> forms = {high};
  forms.insert(forms.end(), lower.begin(), lower.end());
  forms.insert(forms.end(), any_rows.begin(), any_rows.end());
  return forms;
}

/// All inputs of a tile in registers at once, where they fit and memory binds. Measured on an H200
/// (tests/benchmarks/README.md): nothing waits for a ring, and the blocks that run at a time have a compact
/// part of the field, most of all where a block is a row of tiles. Where taps reach far up and down, tiles
/// below each other read the same rows, and had better be of one block, which has an L1 cache. Where products
/// are many, fewer warps keep the tensor cores busy. Small fields are done sooner in low tiles.
void choose_tiles(const Pass& pass, Streaming& streaming) {
  constexpr int least_rows = 8;
  constexpr int rows_of_short_reach = 5;
  if (has_diagonal_pairs(pass) || sparse_products(pass) > most_memory_bound_products) return;
  // Higher tiles read fewer rows twice, but fewer warps have room.
  const bool reaches_far = pass.rows_spanned() > 3;
  const bool is_light = sparse_products(pass) <= most_light_products;
  const int most_rows = is_light && reaches_far ? 13 : 12;
  const int wanted_blocks = is_light && !reaches_far ? 5 : 4;
  const int most_blocks_of_lower_tiles = reaches_far ? 5 : 6;
  for (int rows = most_rows; rows >= least_rows; --rows) {
    TileForm high = tile_form(pass, rows, wanted_blocks);
    if (high.blocks_per_multiprocessor < wanted_blocks) continue;
    high.least_blocks = 16;
    // Lower tiles read more rows twice, the more so the farther taps reach.
    const int middle_rows = pass.rows_spanned() <= rows_of_short_reach ? 6 : 8;
    TileForm middle = tile_form(pass, middle_rows, most_blocks_of_lower_tiles);
    middle.least_blocks = 4;
    streaming = {};
    streaming.tile_forms = {high, middle, tile_form(pass, TileForm::low_rows, most_blocks_of_lower_tiles),
                            any_rows_form(pass, high)};
    streaming.warps_per_block = warps_of_tiles;
    streaming.blocks_per_multiprocessor = high.blocks_per_multiprocessor;
    streaming.estimated_registers = registers_of_tile(pass, rows);
    return;
  }
}

/// All inputs of a block's tile in shared memory at once, where products are many or taps reach too far up
/// and down for registers. Measured on an H200 (tests/benchmarks/README.md): whole rows come by bulk copies,
/// a lane's registers hold sums and operands alone, so that more warps are under way than walk down strips,
/// and nobody waits for a ring.
void choose_block_tiles(const Pass& pass, Streaming& streaming) {
  constexpr int least_blocks = 3;
  const bool has_tiles = !streaming.tile_forms.empty();
  if (has_tiles || sparse_products(pass) > most_block_products ||
      pass.rows_spanned() > most_rows_of_block_tiles)
    return;
  TileForm high = block_form(pass, block_rows(pass));
  while (high.blocks_per_multiprocessor < least_blocks && high.rows > 16)
    high = block_form(pass, high.rows - 8);
  if (high.blocks_per_multiprocessor < least_blocks) return;
  const std::vector<TileForm> lower = lower_block_forms(pass, high.rows);
  high.least_blocks = lower.front().in_registers ? 18 : 8;
  streaming = {};
  streaming.tile_forms = block_forms(pass, high, lower);
  streaming.tiles_in_shared_memory = true;
  streaming.warps_per_block = warps_of_tiles;
  streaming.blocks_per_multiprocessor = high.blocks_per_multiprocessor;
  streaming.estimated_registers = registers_of_block_tile(pass);
}

}  // namespace

bool hides_behind_memory(std::size_t products, const InputTerms& inputs) {
  return products <= (inputs.scaled ? most_memory_bound_scaled_products : most_memory_bound_products);
}

bool prefers_row_pairs(const Pass& windows, const Pass& row_pairs) {
  // On an H200 windows of 3 products in registers are faster than pairs that take 2, and those of 5 slower
  // than pairs that take 3 (generator/README.md).
  constexpr std::size_t most_window_products = 4;
  const bool windows_in_registers =
      !windows.streaming.tile_forms.empty() && !windows.streaming.tiles_in_shared_memory;
  const bool windows_are_faster = windows_in_registers && windows.products.size() <= most_window_products;
  return row_pairs.streaming.tiles_in_shared_memory && !windows_are_faster &&
         row_pairs.products.size() < windows.products.size();
}

Streaming choose_streaming(const Pass& pass, const Variant& variant) {
  if (pass.inputs.scaled) return choose_scaled(pass);
  Streaming streaming = choose_chained(pass, variant.most_tiles);
  const bool own_tiles = variant.most_tiles == Variant{}.most_tiles && variant.swap != Swap::element;
  if (own_tiles && pass.element_bytes == 2 && !pass.whole_operands) {
    const bool has_block_tiles = variant.swap == Swap::pair;
    const bool is_light = sparse_products(pass) <= most_light_products;
    if (!pass.mapping.pairs_rows() && (is_light || !has_block_tiles)) choose_tiles(pass, streaming);
    if (has_block_tiles) choose_block_tiles(pass, streaming);
  }
  return streaming;
}

std::string objection_to_size(const Pass& pass) {
  const Streaming& streaming = pass.streaming;
  if (pass.mapping.pairs_rows() && !streaming.tiles_in_shared_memory) {
    return fmt::format(
        "with pairs of rows {} products of {} input rows find no room in tiles; '--length 16' streams them",
        pass.products.size(), pass.rows_spanned() + 1);
  }
  if (streaming.estimated_registers > largest_register_count) {
    return fmt::format("{} rows in flight and {} shifts along x take {} registers of a lane; it has {}",
                       pass.rows_in_flight(), pass.shifts.size(), streaming.estimated_registers,
                       largest_register_count);
  }
  const int products = static_cast<int>(pass.products.size()) * streaming.tiles_per_warp;
  if (products > most_unrolled_products) {
    return fmt::format("it takes {} products a row; kernels of more than {} compile for too long", products,
                       most_unrolled_products);
  }
  const int bytes = shared_bytes(pass);
  if (bytes > least_block_shared_bytes) {
    return fmt::format(
        "{} operands and the input rows take {} KiB of a block's shared memory; devices have {}",
        pass.operands.size(), (bytes + 1023) / 1024, least_block_shared_bytes / 1024);
  }
  return {};
}

void fit_shared_memory(Pass& pass) {
  if (!pass.streaming.tile_forms.empty()) return;  // 54 rows of 98 vectors (13 lines) at most
  while (pass.streaming.warps_per_block > 1 && shared_bytes(pass) > least_block_shared_bytes) {
    pass.streaming.warps_per_block /= 2;
    pass.streaming.blocks_per_multiprocessor *= 2;
  }
}

int ring_row_vectors(const Pass& pass) {
  const int beyond_tile = pass.mapping.input_span() - pass.mapping.outputs_per_column;
  const int columns =
      pass.streaming.tiles_per_warp * tile_outputs + beyond_tile + (pass.shifts.back() - pass.shifts.front());
  return columns / vector_elements(pass);
}

int window_vectors(const Pass& pass, int warps) {
  const int last_input = pass.shifts.back() + pass.mapping.first_input() + pass.mapping.input_span() - 1;
  const int last_column = warps * tile_outputs - pass.mapping.outputs_per_column + last_input;
  const int columns = last_column + 1 - pass.first_column();
  return (columns + vector_elements(pass) - 1) / vector_elements(pass);
}

int warp_stage_bytes(const Pass& pass) {
  constexpr int rows = 4;
  const int row_bytes = tile_outputs * pass.element_bytes + line_bytes / 2;
  return pass.mapping.pairs_rows() ? rows * row_bytes : 0;
}

int ring_row_bytes(const Pass& pass) {
  // A row that is not aligned begins anywhere in its first vector, and takes one more.
  return round_to_lines((ring_row_vectors(pass) + 1) * vector_bytes);
}

int staged_vectors(const Pass& pass) {
  const int elements = vector_elements(pass);
  const auto vectors = [elements](int columns) { return (columns + elements - 1) / elements; };
  const ColumnReach& reach = pass.column_reach;
  // Either edge may fall inside a vector, which makes one more; a field or box may be narrower than a strip.
  const int at_low_edge = vectors(std::max(0, reach.highest_low) - reach.low) + 1;
  const int at_high_edge = vectors(reach.high - std::min(0, reach.lowest_high)) + 1;
  return at_low_edge + at_high_edge;
}

int batch_rows(const Pass& pass) {
  constexpr int wanted_rows = 8;    // on their way for about as long as a load takes
  constexpr int most_bytes = 3072;  // of a warp's stage
  const int rows = std::min(wanted_rows, most_bytes / (staged_vectors(pass) * vector_bytes));
  const int turn = pass.streaming.rotate_by_unrolling ? pass.rows_in_flight() : 1;
  return std::max(turn, rows / turn * turn);
}

int shared_bytes(const Pass& pass) {
  if (pass.streaming.warpgroups) return warpgroup_shared_bytes(pass);
  if (pass.is_bands()) return band_shared_bytes(pass);
  if (!pass.streaming.tile_forms.empty()) {
    const int rows = pass.streaming.tile_forms.front().rows;
    if (pass.streaming.tiles_in_shared_memory) return block_tile_bytes(pass, rows);
    const int input_rows = rows + pass.rows_spanned() - 1;
    return pass.streaming.warps_per_block * input_rows * ring_row_vectors(pass) * vector_bytes;
  }
  constexpr int row_table = 32 * vector_bytes;
  const int stage = batch_rows(pass) * staged_vectors(pass) * vector_bytes + row_table;
  const int warp = round_to_lines(pass.streaming.ring_rows * ring_row_bytes(pass) + stage);
  const int operands = static_cast<int>(pass.operands.size()) * operand_bytes;
  return pass.streaming.warps_per_block * warp + line_bytes + operands;
}

}  // namespace spidergen::plan
