#pragma once

#include <string_view>

#include "plan/problem.h"

namespace spidergen::plan {

/// CUDA cores in 3D: blocks walk along z, with a ring buffer of planes in shared memory
/// (runtime/device/spider/kernels/cores3d.h).
struct Cores3d {
  static constexpr std::string_view name = "cores3d";

  int row_outputs = 4;      ///< of a thread along x
  int rows_per_thread = 2;  ///< output rows of a thread
  int warps_across = 1;     ///< 32 row_outputs columns each
  int warps_down = 8;
  int planes_at_once = 1;             ///< input planes between two barriers
  int groups_ahead = 3;               ///< groups of that many planes in flight
  bool edges_in_memory = false;       ///< shared memory, not registers, has the sources of edge cells
  int left_vectors = 0;               ///< of 16 bytes in a ring row before the block's own columns
  int right_vectors = 0;              ///< and after them
  int row_bytes = 0;                  ///< pitch of ring rows
  int lead_bytes = 0;                 ///< before the block's own columns of the first row
  int blocks_per_multiprocessor = 1;  ///< in the launch bounds: the register budget
  int preferred_steps = 0;            ///< of a walk on a large field
  int cells_loaded = 0;               ///< by a thread for its outputs of a plane, from the ring
  int estimated_registers = 0;
  int shared_bytes = 0;

  /// With an update, a form of the same blocks with points in shared memory, as far as devices have it:
  /// groups in flight, 0 for no such form; bytes of a block.
  int kept_groups_ahead = 0;
  int kept_shared_bytes = 0;

  [[nodiscard]] int warps_per_block() const { return warps_across * warps_down; }
  [[nodiscard]] int outputs_of_thread() const { return row_outputs * rows_per_thread; }
  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Cores3d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Cores3d&) const = default;
};

/// Cells that a thread reads from the ring for its outputs of a plane.
[[nodiscard]] int core_cells_loaded(int rows_per_thread, const Contraction& contraction);

/// Words of the table with the sources of a thread's edge cells (EdgeTable in
/// runtime/device/spider/loads/plane_ring.h).
[[nodiscard]] int core_edge_words(const Cores3d& ring, const Contraction& contraction);

/// Bytes of shared memory of a block.
[[nodiscard]] int core_ring_bytes(const Cores3d& ring, const Contraction& contraction);

}  // namespace spidergen::plan
