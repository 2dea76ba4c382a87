#include "plan/rim_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "plan/machine.h"
#include "plan/stepping.h"
#include "plan/weights.h"

namespace spidergen::plan {
namespace {

bool has_tap(const RimTiles& tiles, int dy, int dx) {
  return std::any_of(tiles.taps.begin(), tiles.taps.end(), [&](const RoundedTap& tap) {
    return tap.at[spec::axis_y] == dy && tap.at[spec::axis_x] == dx;
  });
}

/// Pairs of columns that taps reach, on each side of a pair.
int side_pairs(const RimTiles& tiles) {
  return divide_up(std::max(tiles.column_high, -tiles.column_low), 2);
}

/// Pairs that the kernel loads for each pair of a run.
double count_loads(const RimTiles& tiles) {
  int loads = 0;
  for (int row = tiles.row_low; row < tiles.run + tiles.row_high; ++row) {
    for (int pair = -side_pairs(tiles); pair <= side_pairs(tiles); ++pair) {
      bool is_read = false;
      for (int i = 0; i < tiles.run; ++i) {
        for (int dx = 2 * pair - 1; dx <= 2 * pair + 1; ++dx)
          is_read = is_read || has_tap(tiles, row - i, dx);
      }
      loads += is_read ? 1 : 0;
    }
  }
  return static_cast<double>(loads) / tiles.run;
}

/// The reach of all steps along y or x.
int reach_of(const RimTiles& tiles, std::size_t axis) {
  return tiles.steps * (axis == 0 ? std::max(tiles.row_high, -tiles.row_low)
                                  : std::max(tiles.column_high, -tiles.column_low));
}

/// Lines of a buffer for ghost cells, along the axis that has more.
int lines_beyond(const RimTiles& tiles) {
  return std::max(2 * std::max(tiles.row_high, -tiles.row_low), 4 * side_pairs(tiles) + 1);
}

}  // namespace

std::optional<RimTiles> plan_rim_tiles(const spec::StencilSpec& spec, int steps) {
  constexpr int least_stored = 86;  // columns of a rectangle along a face, where they fit
  constexpr int few_cells = 4096;
  constexpr int most_shared_bytes = shared_per_multiprocessor - reserved_per_block;
  if (has_rule(spec, spec::BoundaryRule::antisymmetric))
    return std::nullopt;  // ghost cells cannot be negated
  const RoundedWeights weights = round_weights_to_f32(spec).weights;
  RimTiles tiles;
  tiles.steps = steps;
  tiles.taps = weights.taps;
  tiles.last = drift_of_steps(spec.storage, weights, steps);
  for (const RoundedTap& tap : tiles.taps) {
    const auto [dz, dy, dx] = tap.at;
    tiles.row_low = std::min(tiles.row_low, dy);
    tiles.row_high = std::max(tiles.row_high, dy);
    tiles.column_low = std::min(tiles.column_low, dx);
    tiles.column_high = std::max(tiles.column_high, dx);
  }
  constexpr int unit = 4;  // cells that are cleared together
  const int radius = std::max(radius_of(spec, spec::axis_y), radius_of(spec, spec::axis_x));
  const int lines = 2 * steps * radius + lines_beyond(tiles);
  const int most_cells = least_block_shared_bytes / (2 * word_bytes);
  tiles.cells = std::max((lines + 1) * (lines + 1),
                         std::min(lines * (lines + std::max(least_stored, 17 * lines / 10)), most_cells));
  tiles.cells = round_up(tiles.cells, unit);
  tiles.shared_bytes = 2 * tiles.cells * word_bytes;
  if (tiles.shared_bytes > most_shared_bytes) return std::nullopt;
  // On an H200 these rims of the same box and star took 18 us with runs of 4, and 75 with 16 warps.
  tiles.warps = 8;
  tiles.run = tiles.cells < few_cells ? 2 : 8;
  constexpr int least_registers = 64;  // of a thread
  const int by_registers = registers_per_multiprocessor / (least_registers * threads_per_warp * tiles.warps);
  const int by_shared = shared_per_multiprocessor / (tiles.shared_bytes + reserved_per_block);
  tiles.blocks_per_multiprocessor = std::min(by_registers, by_shared);
  tiles.loads = count_loads(tiles);
  return tiles;
}

// Fitted to an H200: at all faces 17 us for a box of radius 1 and 7 steps, 71 for a star of radius 2 and 16
// steps.
double estimate_rims_us(const RimTiles& tiles, const Rims& rims) {
  constexpr double start_us = 5;               // of a launch and its loads
  constexpr double step_us = 0.6;              // of a step, however small
  constexpr double loads_per_us = 5.6 * 1750;  // of a multiprocessor at 1750 cycles a us
  const double points = std::sqrt(reference_points(2));
  const DeviceRates& rates = *find_device_rates("sm_90");
  double cells = 0;  // stepped, over all steps
  for (const std::size_t axis : {0, 1}) {
    const int reach = reach_of(tiles, axis);
    const int along = reach_of(tiles, 1 - axis);
    for (const int rim : rims[axis]) {
      if (rim == 0) continue;
      const double lines = rim + reach + lines_beyond(tiles);  // lines along the face
      const double stored = std::max(1.0, tiles.cells / lines - 2.0 * along - lines_beyond(tiles));
      cells += points / stored * (stored + along) * (rim + reach / 2.0) * tiles.steps;
    }
  }
  if (cells == 0) return 0;
  const double pairs = cells / 2;
  return start_us + step_us * tiles.steps + pairs * tiles.loads / (loads_per_us * rates.multiprocessors);
}

std::array<int, 2> least_beside(const Rims& rims) {
  std::array<int, 2> least{};
  for (std::size_t axis = 0; axis < least.size(); ++axis) {
    const auto& [low, high] = rims[axis];
    least[axis] = low + high + std::max(low, high);
  }
  return least;
}

}  // namespace spidergen::plan
