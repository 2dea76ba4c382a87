#pragma once

#include <string>
#include <string_view>

#include "plan/compose.h"
#include "plan/problem.h"

namespace spidergen::plan {

/// Blocks walk along z, with planes in a ring in shared memory (runtime/device/spider/kernels/stream3d.h).
struct Stream3d {
  static constexpr std::string_view name = "stream3d";

  int rows_per_warp = 4;    ///< output rows of a warp
  int warps_per_block = 8;  ///< one below the other
  int blocks_per_multiprocessor = 1;
  int ring_planes = 3;    ///< input planes in a block's ring
  int first_column = 0;   ///< column of a ring row's first element, counted from the block's first
  int left_vectors = 0;   ///< of 16 bytes of a ring row before the block's own columns
  int right_vectors = 0;  ///< and behind them
  int lead_bytes = 0;     ///< before the block's own columns of the first ring row
  int row_bytes = 0;      ///< from row to row of a plane in the ring
  int plane_bytes = 0;    ///< from plane to plane
  int preferred_planes = 0;
  bool operands_in_registers = true;  ///< otherwise they wait in shared memory behind the ring
  /// Planes that a round of the walk takes: a multiple of those in flight, so that accumulators rotate by
  /// unrolling; otherwise 1.
  int unrolled_planes = 1;
  int estimated_registers = 0;
  int shared_bytes = 0;

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Stream3d> plan(const Problem& problem, const Contraction& contraction);
  /// Takes shared memory for what constants beyond faces add. Else the objection.
  std::string hold(const BoundaryContribution& added);
  bool operator==(const Stream3d&) const = default;
};

}  // namespace spidergen::plan
