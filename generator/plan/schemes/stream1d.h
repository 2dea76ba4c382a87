#pragma once

#include <string_view>

#include "plan/problem.h"

namespace spidergen::plan {

/// Taps in one row: each warp has some adjacent tiles of one row, without a walk
/// (runtime/device/spider/kernels/stream1d.h).
struct Stream1d {
  static constexpr std::string_view name = "stream1d";

  int tiles_per_warp = 4;  ///< adjacent tiles of 128 outputs
  int warps_per_block = 4;
  int blocks_per_multiprocessor = 1;
  bool always_gathers = false;  ///< every warp stages its inputs in shared memory, not only at edges
  int window_vectors = 0;       ///< of 16 bytes, for the inputs of a warp's tiles
  int estimated_registers = 0;
  int shared_bytes = 0;  ///< of a block: where each warp gathers its inputs

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Stream1d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Stream1d&) const = default;
};

}  // namespace spidergen::plan
