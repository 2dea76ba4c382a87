#pragma once

#include <string_view>

#include "plan/problem.h"

namespace spidergen::plan {

/// Warps walk down strips, with a ring buffer of rows in shared memory
/// (runtime/device/spider/kernels/stream2d.h).
struct Stream2d {
  static constexpr std::string_view name = "stream2d";

  int tiles_per_warp = 1;  ///< adjacent tiles of 128 outputs in a warp's strip
  int warps_per_block = 4;
  int blocks_per_multiprocessor = 1;  ///< in the launch bounds: the register budget
  int rows_kept = 0;                  ///< earlier rows that stay in the ring for later products or results
  int ring_rows = 8;                  ///< input rows in a warp's ring, a power of two
  int ring_vectors = 0;               ///< of 16 bytes, in a ring row
  int ring_row_bytes = 0;             ///< pitch of ring rows, in lines of 128 bytes
  int staged_vectors = 0;             ///< of a ring row that may cross the edges of the field or of a box
  int batch_rows = 1;      ///< whose edge vectors are loaded together, in whole turns of the unrolled loop
  int preferred_rows = 0;  ///< rows of a walk on a large field; 0: as many as fill one wave of blocks
  bool operands_in_registers = true;  ///< otherwise in shared memory
  bool rotate_by_unrolling = true;    ///< otherwise accumulators move between registers after each row
  int estimated_registers = 0;
  int shared_bytes = 0;

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Stream2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Stream2d&) const = default;
};

}  // namespace spidergen::plan
