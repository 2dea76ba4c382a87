#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/engine.h"
#include "plan/half.h"
#include "plan/tile_mapping.h"
#include "plan/variant.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// A tap as the spec has it and as the operands hold it.
struct RoundedTap {
  spec::Offset at{};
  double weight = 0;          ///< the spec's
  std::vector<double> terms;  ///< what operands hold, highest first
  double packed = 0;          ///< what the kernel multiplies with, identity and factor included
  double identity = 0;        ///< 1 where the kernel adds the old value itself: operands hold weight - 1
  double share = 0;           ///< of the common factor: what terms hold, as far as they can

  bool operator==(const RoundedTap&) const = default;
};

/// How the weights became operands. A weight less its identity is its share times the factor; a share is the
/// sum of terms[i] 2^(-i remainder_exponent), times 2^-exponent.
struct RoundedWeights {
  OperandType type = OperandType::f16;
  bool in_f32 = false;  ///< no operands: each weight is one f32 number
  int terms = 1;
  int exponent = 0;
  int remainder_exponent = 0;
  int sum_exponent = 0;        ///< sums hold share * 2^sum_exponent; results are scaled back in f32
  double factor = 1;           ///< an f32 number from 1 to below 2 (plan/common_factor.h)
  bool exact = false;          ///< terms hold the shares
  bool adds_identity = false;  ///< results are the old value plus the sum (generator/README.md, "f32 fields")
  double sum = 0;              ///< of the spec's weights
  double packed_sum = 0;       ///< of the packed ones
  double largest_error = 0;
  std::vector<RoundedTap> taps;  ///< in the spec's order

  /// What terms add up to, still times 2^exponent.
  [[nodiscard]] double total(const std::vector<double>& parts) const;
  bool operator==(const RoundedWeights&) const = default;
};

/// How the values of a field become operands.
struct InputTerms {
  int count = 1;  ///< terms of each value
  bool scaled =
      false;  ///< by a power of two that the kernel finds; products of a window then have a sum of their own

  bool operator==(const InputTerms&) const = default;
};

/// The taps of one (dz, dy): dx from `low` to `high`.
struct TapRow {
  int dz = 0;
  int dy = 0;
  int low = 0;
  int high = 0;

  bool operator==(const TapRow&) const = default;
};

/// One matrix to multiply with, and the first window that needs it.
struct Operand {
  int dy = 0;
  int shift = 0;
  int term = 0;  ///< 0: the weights' leading term; 1 and 2: remainders
  Matrix matrix;
  int dz = 0;
  int source = 0;  ///< index into Pass::sources: the mapping that the matrix is made for

  bool operator==(const Operand&) const = default;
};

/// What a fragment, or for dense products half of one, holds for every input row: the inputs of windows with
/// this mapping at this shift.
struct Source {
  TileMapping mapping;
  int shift = 0;         ///< 0 for pairs of diagonals
  bool along_y = false;  ///< the mapping's positions count along y in place of x (plan/bands.h)

  /// A position of the mapping as one of the field.
  [[nodiscard]] Position place(const Position& position) const {
    return along_y ? Position{position.x, position.y, position.z} : position;
  }
  /// From a window's own tap row to the other that the mapping holds; 0, 0 for windows along x.
  [[nodiscard]] Position distance() const { return mapping.window_rows.back(); }
  bool operator==(const Source&) const = default;
};

/// One MMA: the input row at `row` above the output row times an operand.
struct Product {
  int row = 0;      ///< dy - Pass::row_low of the window's own tap row
  int source = 0;   ///< index into Pass::sources
  int operand = 0;  ///< index into Pass::operands
  int term = 0;
  int plane = 0;       ///< dz - Pass::plane_low of the window's own tap row
  int input_term = 0;  ///< 0: the inputs' leading term; 1: their remainder

  bool operator==(const Product&) const = default;
};

/// One way of cutting a box into tiles whose inputs wait together (generator/README.md, "Tiles in registers"
/// and "Tiles in shared memory").
struct TileForm {
  static constexpr int low_rows = 4;  ///< for fields so small that a sweep takes as long as one tile

  int rows = 0;                       ///< output rows of a warp
  int columns = 128;                  ///< of a warp
  int across = 1;                     ///< warps of a block side by side
  int down = 1;                       ///< and below each other
  int blocks_per_multiprocessor = 1;  ///< promised to the compiler: the register budget
  int least_blocks = 0;               ///< of a multiprocessor: for boxes that have as many
  bool any_rows = false;              ///< for rows that are not aligned, too
  bool in_registers = true;           ///< a warp's inputs; otherwise those of warps abreast, in shared memory

  bool operator==(const TileForm&) const = default;
};

/// How a kernel streams (generator/README.md, "Streaming").
struct Streaming {
  int tiles_per_warp = 1;  ///< tiles of 128 outputs side by side in a warp's strip
  int warps_per_block = 4;
  int blocks_per_multiprocessor = 1;  ///< promised to the compiler: the register budget
  int ring_rows = 8;                  ///< input rows in a warp's ring, a power of two
  int preferred_rows = 0;  ///< rows of a walk on a large field; 0: as many as fill one wave of blocks
  bool operands_in_registers = true;  ///< otherwise they wait in shared memory
  bool rotate_by_unrolling = true;  ///< otherwise accumulators move from register to register after each row
  int estimated_registers = 0;
  /// Forms of a kernel whose warps have all inputs at once and walk nowhere, from high tiles to low ones:
  /// each warp in registers (templates/tile2d.cu.in), or a block in shared memory
  /// (templates/block2d.cu.in), where lower ones may be in registers; then those for any rows. None: rows are
  /// streamed through a ring (templates/stream2d.cu.in).
  std::vector<TileForm> tile_forms;
  bool tiles_in_shared_memory = false;  ///< those of the highest form
  bool warpgroups = false;              ///< products are those of four warps together (plan/warpgroups.h)

  bool operator==(const Streaming&) const = default;
};

/// How a kernel streams planes (templates/stream3d.cu.in).
struct PlaneStreaming {
  int rows_per_warp = 4;    ///< output rows of a warp
  int warps_per_block = 8;  ///< one below the other
  int blocks_per_multiprocessor = 1;
  int ring_planes = 3;  ///< input planes in a block's ring
  int row_bytes = 0;    ///< from row to row of a plane in the ring
  int plane_bytes = 0;  ///< from plane to plane
  int preferred_planes = 0;
  bool operands_in_registers = true;
  /// Planes that a round of the walk takes: a multiple of those in flight, so that accumulators rotate by
  /// unrolling; otherwise 1.
  int unrolled_planes = 1;
  int estimated_registers = 0;

  bool operator==(const PlaneStreaming&) const = default;
};

/// How a kernel of Walk::lines works (templates/stream1d.cu.in).
struct LineStreaming {
  int tiles_per_warp = 4;  ///< tiles of 128 outputs side by side
  int warps_per_block = 4;
  int blocks_per_multiprocessor = 1;
  bool always_gathers = false;  ///< every warp puts its inputs into shared memory first, not only at edges
  int estimated_registers = 0;

  bool operator==(const LineStreaming&) const = default;
};

/// Products for each tile and row by either mapping, where there is a choice (generator/README.md, "Pairs of
/// rows in 2D").
struct MappingChoice {
  int windows = 0;
  int row_pairs = 0;

  bool operator==(const MappingChoice&) const = default;
};

/// Along which axis a kernel walks, and so which template it comes from.
enum class Walk {
  lines,   ///< taps in one row: nothing is walked, every tile is by itself
  rows,    ///< 2D: down y
  planes,  ///< 3D: along z
};

/// What all tap rows of a pass have in common along x.
struct ColumnReach {
  int highest_low = 0;  ///< of the tap rows' lowest dx
  int lowest_high = 0;  ///< of their highest dx
  int low = 0;          ///< smallest dx of all, <= 0
  int high = 0;         ///< largest dx of all, >= 0

  bool operator==(const ColumnReach&) const = default;
};

/// One trip over the field.
struct Pass {
  Walk walk = Walk::rows;
  TileMapping mapping;
  bool whole_operands = false;  ///< Engine::dense: mma.sync.m16n8k16 instead of mma.sp.m16n8k32
  InputTerms inputs;
  int element_bytes = 2;
  int rows_kept = 0;  ///< rows before the latest that stay in a ring of rows, for products or results to come
  ColumnReach column_reach;
  int row_low = 0;                ///< smallest dy
  int row_high = 0;               ///< largest dy, or with pairs of rows that of the last pair's first row
  int plane_low = 0;              ///< smallest dz
  int plane_high = 0;             ///< largest dz
  std::vector<int> shifts;        ///< of the windows along x, ascending multiples of 8
  std::vector<Source> sources;    ///< those at the shifts first (both halves of each, where operands are
                                  ///< whole), then pairs of diagonals, of Walk::rows at most one
  std::vector<Operand> operands;  ///< no two equal
  std::vector<Product> products;  ///< in issue order: the output row that completes goes first
  std::optional<MappingChoice> mapping_choice;
  Streaming streaming;    ///< of Walk::rows
  PlaneStreaming planes;  ///< of Walk::planes
  LineStreaming lines;    ///< of Walk::lines

  /// Of Walk::rows: column of the first input that a strip or tile fetches, counted from its first output; it
  /// begins a vector.
  [[nodiscard]] int first_column() const {
    constexpr int vector = 8;
    const int first = shifts.front() + mapping.first_input();
    return first - (first % vector + vector) % vector;
  }
  /// Output rows of a product: two where rows are paired, whose products are those of pairs of input rows.
  [[nodiscard]] int rows_per_product() const { return mapping.pairs_rows() ? 2 : 1; }
  /// Are products those of a band along y and of one along x (plan/bands.h)?
  [[nodiscard]] bool is_bands() const { return !sources.empty() && sources.front().along_y; }
  /// Input rows that an output row needs, from the first to the last.
  [[nodiscard]] int rows_spanned() const { return row_high - row_low + 1; }
  /// dy - row_low of the last input row that a product reads; of the first of a pair of rows.
  [[nodiscard]] int last_row(const Product& product) const {
    return product.row + (mapping.pairs_rows() ? 0 : sources[product.source].distance().y);
  }
  /// Of Walk::rows: output rows, or pairs of them, whose sums are under way at once; a product is made when
  /// its last row is there.
  [[nodiscard]] int rows_in_flight() const {
    int first = row_high - row_low;
    for (const Product& product : products) first = last_row(product) < first ? last_row(product) : first;
    return (row_high - row_low - first) / rows_per_product() + 1;
  }
  /// dz - plane_low of the last input plane that a product reads: it is made when that plane is there.
  [[nodiscard]] int last_plane(const Product& product) const {
    return product.plane + sources[product.source].distance().z;
  }
  /// Output planes whose sums are under way at once.
  [[nodiscard]] int planes_in_flight() const {
    int first = plane_high - plane_low;
    for (const Product& product : products) first = last_plane(product) < first ? last_plane(product) : first;
    return plane_high - plane_low - first + 1;
  }
  bool operator==(const Pass&) const = default;
};

/// A tap as a kernel on CUDA cores has it (CoreAxes in plan/cores.h).
struct CoreTap {
  int step = 0;
  int row = 0;
  int column = 0;
  float weight = 0;

  bool operator==(const CoreTap&) const = default;
};

/// How a block of a 3D kernel on CUDA cores streams planes through shared memory (templates/cores3d.cu.in).
struct CoreRing {
  int rows_per_thread = 2;  ///< output rows of a thread, which has four outputs in each
  int warps_across = 1;     ///< 128 columns each
  int warps_down = 8;
  int planes_at_once = 1;        ///< input planes between two barriers
  int groups_ahead = 3;          ///< as many planes each that are on their way
  bool edges_in_memory = false;  ///< where cells at edges come from: shared memory keeps it, not registers
  int blocks_per_multiprocessor = 1;  ///< promised to the compiler: the register budget
  int estimated_registers = 0;

  bool operator==(const CoreRing&) const = default;
};

/// How a kernel computes on CUDA cores (generator/README.md, "CUDA cores").
struct CorePlan {
  std::vector<CoreTap> taps;  ///< ascending in (row, step, column)
  bool unrolled = true;       ///< taps are in the code; otherwise in a table
  std::string objection;      ///< why they are not in the code
  int outputs = 4;            ///< of a thread along x
  int tile_rows = 0;          ///< of a warp that requests all its input rows at once; 0: it walks
  int tile_input_rows = 0;
  int left_lanes = 0;  ///< of such a warp, that pass inputs on and have no outputs
  int right_lanes = 0;
  int row_ring_rows = 0;     ///< in shared memory, of a warp that walks; 0: there is no such ring
  int row_ring_column = 0;   ///< of a ring row's first element, counted from the strip's first output
  int row_ring_vectors = 0;  ///< of 16 bytes, in a ring row
  int unrolled_steps = 1;    ///< of the loop along the walk; a multiple of the steps in flight, or 1
  int warps_per_block = 4;
  int blocks_per_multiprocessor = 1;  ///< promised to the compiler: the register budget
  int preferred_steps = 0;            ///< of a walk on a large field; 0: as many as fill one wave of blocks
  int estimated_registers = 0;
  int cells_loaded = 0;          ///< by a thread for the outputs of a step, or of a tile
  std::optional<CoreRing> ring;  ///< in 3D, where all of it fits; otherwise taps are in a table

  bool operator==(const CorePlan&) const = default;
};

/// Coefficients of a result's error bound (plan/error_bound.h).
struct ErrorBound {
  double result = 0;
  double sum = 0;
  double absolute = 0;

  bool operator==(const ErrorBound&) const = default;
};

/// About how many microseconds the kernels of two engines take for a sweep over 10240 x 10240 points on an
/// H200.
struct EngineTimes {
  double sparse_us = 0;
  double cuda_us = 0;

  bool operator==(const EngineTimes&) const = default;

  /// The faster of them.
  [[nodiscard]] Engine faster() const { return cuda_us < sparse_us ? Engine::cuda : Engine::sparse; }
};

/// All decisions about a kernel; nothing about its text.
struct KernelPlan {
  Engine engine = Engine::sparse;
  Variant variant;
  int dimensions = 2;
  RoundedWeights weights;
  std::vector<TapRow> tap_rows;  ///< ascending in (dz, dy)
  spec::Offset reach_low{};      ///< how far taps go below a point, >= 0
  spec::Offset reach_high{};
  std::vector<Pass> passes;  ///< on tensor cores: today always one; on CUDA cores none
  CorePlan cores;            ///< of Engine::cuda
  ErrorBound error_bound;
  std::optional<EngineTimes> engine_times;  ///< of 2D f32, where there was a choice (estimate_engines)

  bool operator==(const KernelPlan&) const = default;
};

}  // namespace spidergen::plan
