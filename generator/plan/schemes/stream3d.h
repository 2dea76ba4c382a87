#pragma once

#include <string>
#include <string_view>

#include "plan/compose.h"
#include "plan/problem.h"

namespace spidergen::plan {

/// Blocks walk along z over a ring buffer of planes (runtime/device/spider/kernels/stream3d.h).
struct Stream3d {
  static constexpr std::string_view name = "stream3d";

  int rows_per_warp = 4;    ///< output rows of a warp
  int warps_per_block = 8;  ///< in a column
  int blocks_per_multiprocessor = 1;
  int ring_planes = 3;    ///< input planes in a block's ring
  int first_column = 0;   ///< column of a ring row's first element, relative to the block's first
  int left_vectors = 0;   ///< of 16 bytes in a ring row before the block's own columns
  int right_vectors = 0;  ///< and after them
  int lead_bytes = 0;     ///< before the block's own columns of the first ring row
  int row_bytes = 0;      ///< pitch of the rows of a plane in the ring
  int plane_bytes = 0;    ///< pitch of planes
  int preferred_planes = 0;
  bool operands_in_registers = true;  ///< otherwise in shared memory, after the ring
  /// Planes of a round of the walk: a multiple of the planes in flight, so that accumulators rotate by
  /// unrolling; otherwise 1.
  int unrolled_planes = 1;
  int estimated_registers = 0;
  int shared_bytes = 0;

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Stream3d> plan(const Problem& problem, const Contraction& contraction);
  /// Reserves shared memory for the contribution of constant faces. Returns the objection otherwise.
  std::string add(const BoundaryContribution& added);
  bool operator==(const Stream3d&) const = default;
};

}  // namespace spidergen::plan
