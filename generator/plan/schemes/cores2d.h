#pragma once

#include <string_view>
#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// A tap row of a sum whose tap rows are all multiples of its first one.
struct SharedRow {
  int sum = 0;
  int step = 0;
  double weight = 1;  ///< exact multiple of the first

  bool operator==(const SharedRow&) const = default;
};

/// CUDA cores in 2D: a warp requests all input rows of a tile together, into registers
/// (runtime/device/spider/kernels/cores2d.h).
struct Cores2d {
  static constexpr std::string_view name = "cores2d";

  int outputs = 4;  ///< of a lane along x
  int tile_rows = 0;
  int tile_input_rows = 0;
  int left_lanes = 0;  ///< of a warp, without outputs: they pass inputs on
  int right_lanes = 0;
  int warps_per_block = 4;
  int blocks_per_multiprocessor = 1;  ///< in the launch bounds: the register budget
  int preferred_steps = 0;
  std::vector<SharedRow> shared_rows;  ///< ascending in sum and step
  int cells_loaded = 0;                ///< by a lane for a tile
  int estimated_registers = 0;
  int shared_bytes = 0;

  [[nodiscard]] int outputs_of_thread() const { return outputs * tile_rows; }
  /// Lanes without outputs also load.
  [[nodiscard]] double cells_per_output() const {
    const int lanes = threads_per_warp - (left_lanes + right_lanes);
    return static_cast<double>(cells_loaded) * threads_per_warp / (outputs_of_thread() * lanes);
  }
  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Cores2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Cores2d&) const = default;
};

}  // namespace spidergen::plan
