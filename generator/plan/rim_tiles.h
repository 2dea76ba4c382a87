#pragma once

#include <optional>
#include <vector>

#include "plan/compose.h"
#include "plan/problem.h"

namespace spidergen::plan {

/// How the cells of rims are stepped in 2D, next to a form that composes all steps: a block has a rectangle
/// of them in shared memory, with the reach of all steps around it (runtime/device/spider/kernels/rims2d.h).
struct RimTiles {
  static constexpr std::string_view name = "rims2d";

  int steps = 1;
  int cells = 0;  ///< of a block, in each of two buffers
  int warps = 8;  ///< of a block
  int run = 4;    ///< pairs of cells of a thread in a column
  int blocks_per_multiprocessor = 1;
  int shared_bytes = 0;
  int row_low = 0, row_high = 0, column_low = 0, column_high = 0;  ///< offsets of taps
  std::vector<RoundedTap> taps;                                    ///< of one step
  /// The omitted share of results next to rims, relative to the largest cell, where rims have fewer cells
  /// than all steps reach.
  double left_out = 0;
  double last = 1;   ///< factor of results, so that all weights sum to the spec's
  double loads = 0;  ///< from shared memory, per cell and step

  bool operator==(const RimTiles&) const = default;
};

/// The layout for `steps` steps of a 2D spec; nothing where shared memory is too small for their reach from a
/// cell, and with `antisymmetric` faces.
[[nodiscard]] std::optional<RimTiles> plan_rim_tiles(const spec::StencilSpec& spec, int steps);

/// Microseconds of the rims of the 2D reference field (plan/machine.h) on an H200.
[[nodiscard]] double estimate_rims_us(const RimTiles& tiles, const Rims& rims);

/// Least rows and columns of a field whose faces have rims; all cells of a smaller one are rim. The mirrored
/// cells of a face must reach neither a rim nor the other face's images.
[[nodiscard]] std::array<int, 2> least_beside(const Rims& rims);

}  // namespace spidergen::plan
