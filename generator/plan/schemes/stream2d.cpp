#include "plan/schemes/stream2d.h"

#include <fmt/format.h>

#include <bit>

namespace spidergen::plan {
namespace {

// An f32 fragment in addition to an f16 one, its power of two, and the current window's products.
constexpr int registers_per_scaled_tile = 40;
// Operands being loaded from shared memory.
constexpr int registers_for_shared_operands = 48;

// Addresses, counters, one fragment a tile, metadata: registers besides accumulators and operands. Measured
// with nvcc 13 for sm_90 on the shipped stencils.
constexpr int base_registers = 36;
constexpr int registers_per_pair = 8;  // the places of its two rows
// With more, star2d_r7 is slower on an H200: concurrent accesses are farther apart in memory.
constexpr int blocks_of_pairs = 2;
constexpr int most_blocks = 4;
constexpr int most_scaled_blocks = 5;

constexpr int most_light_products = 5;
// Up to this many input rows per output row, short walks read few rows twice.
constexpr int most_rows_of_short_walks = 9;
// With more, operands of scaled inputs are in shared memory.
constexpr int most_scaled_registers = 200;
// More products, unrolled once per row in flight, compile for over half a minute.
constexpr int most_unrolled_products = 480;

int registers_of(const Contraction& contraction, int tiles, bool operands_in_registers) {
  const int accumulators =
      tiles * contraction.rows_in_flight() * contraction.sums() * registers_per_accumulator;
  const int operands =
      operands_in_registers ? static_cast<int>(contraction.operands.size()) * registers_per_operand : 0;
  const int further_fragments =
      tiles * (fragments_of(contraction) - 1) * registers_per_fragment * contraction.inputs.count;
  int scaled = 0;
  if (contraction.inputs.scaled) {
    scaled = tiles * registers_per_scaled_tile + (operands_in_registers ? 0 : registers_for_shared_operands);
  }
  const int pair = contraction.pairs_diagonals() ? registers_per_pair : 0;
  return base_registers + accumulators + operands + further_fragments + scaled + pair;
}

void set_registers(const Contraction& contraction, int blocks, Stream2d& stream) {
  stream.estimated_registers = registers_of(contraction, stream.tiles_per_warp, stream.operands_in_registers);
  const int block_registers = stream.warps_per_block * threads_per_warp * stream.estimated_registers;
  stream.blocks_per_multiprocessor = std::clamp(registers_per_multiprocessor / block_registers, 1, blocks);
}

/// The ring needs rows for copies in flight in addition to rows_kept.
int least_ring_rows(const Stream2d& stream) {
  constexpr unsigned least_rows_ahead = 5;
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(stream.rows_kept) + 1 + least_rows_ahead));
}

/// Lays out products that are chained into a row's sum.
void lay_out_chained(const Contraction& contraction, Stream2d& stream) {
  constexpr int most_tiles = 2;
  // Two tiles share an operand's registers and the row's bookkeeping; one tile needs fewer accumulators.
  stream.tiles_per_warp = most_tiles;
  if (registers_of(contraction, most_tiles, true) > largest_register_count) stream.tiles_per_warp = 1;
  if (registers_of(contraction, stream.tiles_per_warp, true) > largest_register_count) {
    stream.operands_in_registers = false;
    stream.tiles_per_warp =
        registers_of(contraction, most_tiles, false) > largest_register_count ? 1 : most_tiles;
  }
  set_registers(contraction, contraction.pairs_diagonals() ? blocks_of_pairs : most_blocks, stream);
  // Measured on an H200. Where memory is the limit, a walk short enough to request nearly all its rows
  // together has its rows in flight close together in memory, which suits DRAM; where MMAs are the limit, the
  // rows that two walks both read cost more.
  const int products = static_cast<int>(contraction.products.size());
  stream.ring_rows = std::max(products <= most_light_products ? 16 : 8, least_ring_rows(stream));
  const bool short_walks = hides_behind_memory(products, contraction.inputs) &&
                           contraction.rows_spanned() <= most_rows_of_short_walks;
  stream.preferred_rows = !short_walks ? 0 : products <= most_light_products ? 14 : 20;
  const int in_flight = contraction.rows_in_flight();
  const int unrolled = static_cast<int>(contraction.products.size()) * stream.tiles_per_warp * in_flight;
  stream.rotate_by_unrolling = unrolled <= most_unrolled_products && in_flight <= threads_per_warp;
}

/// Lays out products that are added to a row's sum in f32, window by window: many small steps, whose latency
/// many warps hide. The sums move for free, to another register than their own, without unrolling.
void lay_out_scaled(const Contraction& contraction, Stream2d& stream) {
  stream.operands_in_registers = registers_of(contraction, 1, true) <= most_scaled_registers;
  stream.rotate_by_unrolling = false;
  set_registers(contraction, most_scaled_blocks, stream);
  const bool memory_bound =
      hides_behind_memory(static_cast<int>(contraction.products.size()), contraction.inputs);
  stream.ring_rows = std::max(memory_bound ? 16 : 8, least_ring_rows(stream));
  stream.preferred_rows = memory_bound ? 20 : 0;
}

/// Either edge may fall inside a vector, which needs one more; a field or box may be narrower than a strip.
int staged_vectors(const Contraction& contraction) {
  const int elements = vector_bytes / contraction.element_bytes;
  const ColumnReach& reach = contraction.column_reach;
  return divide_up(std::max(0, reach.highest_low) - reach.low, elements) + 1 +
         divide_up(reach.high - std::min(0, reach.lowest_high), elements) + 1;
}

int batch_rows(const Contraction& contraction, const Stream2d& stream) {
  constexpr int wanted_rows = 8;    // in flight for about the latency of a load
  constexpr int most_bytes = 3072;  // of a warp's stage
  const int rows = std::min(wanted_rows, most_bytes / (stream.staged_vectors * vector_bytes));
  const int turn = stream.rotate_by_unrolling ? contraction.rows_in_flight() : 1;
  return std::max(turn, rows / turn * turn);
}

/// A ring buffer and a stage per warp, then the operands. An unaligned row begins anywhere in its first
/// vector, and needs one more.
void set_ring(const Contraction& contraction, Stream2d& stream) {
  constexpr int row_table = 32 * vector_bytes;
  stream.ring_vectors = strip_vectors(contraction, stream.tiles_per_warp);
  stream.ring_row_bytes = round_up((stream.ring_vectors + 1) * vector_bytes, line_bytes);
  stream.staged_vectors = staged_vectors(contraction);
  stream.batch_rows = batch_rows(contraction, stream);
  const int stage = stream.batch_rows * stream.staged_vectors * vector_bytes + row_table;
  const int warp = round_up(stream.ring_rows * stream.ring_row_bytes + stage, line_bytes);
  const int shared = line_bytes + static_cast<int>(contraction.operands.size()) * operand_bytes;
  // Halves a block until its shared memory is available on every device, or it is one warp.
  while (stream.warps_per_block > 1 && stream.warps_per_block * warp + shared > least_block_shared_bytes) {
    stream.warps_per_block /= 2;
    stream.blocks_per_multiprocessor *= 2;
  }
  stream.shared_bytes = stream.warps_per_block * warp + shared;
}

/// Why there are too many rows in flight for the registers, products for half a minute of compilation, or
/// operands for shared memory.
std::string objection_to(const Contraction& contraction, const Stream2d& stream) {
  if (stream.estimated_registers > largest_register_count) {
    return fmt::format("{} rows in flight and {} shifts along x take {} registers of a lane; it has {}",
                       contraction.rows_in_flight(), contraction.shifts.size(), stream.estimated_registers,
                       largest_register_count);
  }
  const int products = static_cast<int>(contraction.products.size()) * stream.tiles_per_warp;
  if (products > most_unrolled_products) {
    return fmt::format("it takes {} products a row; kernels of more than {} compile for too long", products,
                       most_unrolled_products);
  }
  if (stream.shared_bytes > least_block_shared_bytes) {
    return fmt::format(
        "{} operands and the input rows take {} KiB of a block's shared memory; devices have {}",
        contraction.operands.size(), (stream.shared_bytes + 1023) / 1024, least_block_shared_bytes / 1024);
  }
  return {};
}

/// Fitted to sweeps of 10240 x 10240 points on an H200. 16-bit fields: dense MMAs 112 us for 6 products, 117
/// for 10, 126 for 14; sparse ones 163 for 15 and 283 for 30. f32 fields, where splitting, scaling and adding
/// to a window's sums take longer than the MMAs: 287, 404, 516 and 734 for 9, 15, 21 and 45.
double estimate_us(const Contraction& contraction) {
  if (contraction.element_bytes == 2) {
    const auto products = static_cast<double>(contraction.products.size());
    return std::max(109 + products, 49 + 7.5 * products);
  }
  const auto products = static_cast<double>(contraction.products.size());
  return std::max(230.0, std::min(115 + 19 * products, 325 + 9.1 * products));
}

}  // namespace

bool Stream2d::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.grouping == Grouping::windows && problem.spec.dimensions == 2;
}

Offer<Stream2d> Stream2d::plan(const Problem& problem, const Contraction& contraction) {
  Stream2d stream;
  stream.rows_kept = problem.weights.adds_identity ? contraction.row_high : 0;
  if (contraction.pairs_diagonals())
    stream.rows_kept = std::max(stream.rows_kept, contraction.sources.back().distance().y);
  if (contraction.inputs.scaled) {
    lay_out_scaled(contraction, stream);
  } else {
    lay_out_chained(contraction, stream);
  }
  set_ring(contraction, stream);
  stream.blocks_per_multiprocessor = blocks_beside_update(problem.spec, stream.blocks_per_multiprocessor,
                                                          stream.warps_per_block * threads_per_warp);
  return {stream, estimate_us(contraction), objection_to(contraction, stream)};
}

}  // namespace spidergen::plan
