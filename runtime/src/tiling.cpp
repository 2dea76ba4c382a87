#include "tiling.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>

namespace spider {
namespace {

// Shorter walks would read more lead rows than they write.
constexpr std::int32_t least_rows = 8;

// Kernels count walks with 32 bits.
constexpr std::int64_t largest_walk_count = std::numeric_limits<std::int32_t>::max();

// Until a walk's first rows arrive it does nothing: about as many row steps.
constexpr std::int32_t start_steps = 12;

// The same in steps of a block along z, which take longer.
constexpr std::int32_t start_planes = 3;
constexpr std::int32_t least_planes = 4;

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The strips of a box, not yet cut into rows.
StripGrid cut_columns(const Tiling& tiling, const Box& box) {
  const std::int32_t width = tiling.tile_extent[2];
  StripGrid grid{};
  grid.first_column = static_cast<std::int32_t>(box.offset[2] / tiling.anchor * tiling.anchor);
  const auto columns = static_cast<std::int32_t>(box.offset[2] + box.extent[2] - grid.first_column);
  const auto strips = static_cast<std::int32_t>(divide_up(columns, width));
  const std::int32_t clear_of_right_edge = std::max(0, columns - tiling.right_margin) / width;
  // Kernels take the first strip alone for one at the left edge. Where the second one is at it, too, which
  // takes a narrow strip and a far reach, all are.
  const bool second_is_clear = grid.first_column + width >= box.offset[2] + tiling.left_margin;
  grid.inner_strips = second_is_clear ? std::max(0, clear_of_right_edge - 1) : 0;
  grid.edge_strips = strips - grid.inner_strips;
  return grid;
}

/// In a single wave nothing evens out that walks at an edge take longer: beside others they get fewer rows.
/// In several waves they come first and others fill up behind them.
std::int32_t edge_rows(const StripGrid& grid, const Tiling& tiling, bool single_wave) {
  if (!single_wave || grid.inner_strips == 0) return grid.inner_rows;
  const std::int64_t fewer = std::int64_t{grid.inner_rows} * tiling.edge_percent / 100;
  return static_cast<std::int32_t>(std::max<std::int64_t>(fewer, std::min(grid.inner_rows, least_rows)));
}

Launch cut_rows(StripGrid grid, const Tiling& tiling, std::int32_t rows, std::int32_t rows_per_walk,
                bool single_wave) {
  grid.inner_rows = rows_per_walk;
  grid.edge_rows = edge_rows(grid, tiling, single_wave);
  const std::int64_t edge_walks = grid.edge_strips * divide_up(rows, grid.edge_rows);
  const std::int64_t inner_walks = grid.inner_strips * divide_up(rows, grid.inner_rows);
  grid.edge_walks = static_cast<std::int32_t>(std::min(edge_walks, largest_walk_count));
  const std::int64_t walks_per_block = tiling.warps_per_block / tiling.warps_per_walk;
  return {{grid, {}}, divide_up(edge_walks + inner_walks, walks_per_block)};
}

/// The shortest walks whose blocks fill no more than `waves` waves, or the longest there are.
Launch fit_rows(const StripGrid& grid, const Tiling& tiling, std::int32_t rows, std::int64_t waves,
                std::int64_t resident) {
  std::int32_t low = std::min(rows, least_rows);
  std::int32_t high = rows;
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (cut_rows(grid, tiling, rows, middle, waves == 1).blocks <= waves * resident) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return cut_rows(grid, tiling, rows, low, waves == 1);
}

Launch choose_strips(const Tiling& tiling, const Box& box, const backend::Residency& residency) {
  const auto rows = static_cast<std::int32_t>(box.extent[1]);
  const StripGrid grid = cut_columns(tiling, box);
  const std::int64_t resident = std::max<std::int64_t>(
      1, std::int64_t{residency.multiprocessors} * residency.blocks_per_multiprocessor);
  const std::int32_t preferred = tiling.preferred_steps > 0 ? std::min(tiling.preferred_steps, rows) : rows;
  const std::int64_t fewest =
      std::max<std::int64_t>(1, cut_rows(grid, tiling, rows, preferred, false).blocks / resident);

  Launch best{};
  std::int64_t best_steps = 0;
  for (std::int64_t waves = fewest; waves < fewest + 3; ++waves) {
    const Launch launch = fit_rows(grid, tiling, rows, waves, resident);
    const std::int64_t steps_of_wave = launch.grid.strips.inner_rows + tiling.lead_steps + start_steps;
    const std::int64_t steps = divide_up(launch.blocks, resident) * steps_of_wave;
    if (waves == fewest || steps < best_steps) {
      best = launch;
      best_steps = steps;
    }
  }
  return best;
}

/// Blocks that walk far drift apart, until what neighbours share has left the L2 cache. It holds more planes
/// where they are smaller than those of a large field.
std::int64_t longest_volume_walk(const Tiling& tiling, const Box& box) {
  constexpr std::int64_t large_plane = 768 * 768;
  constexpr std::int64_t most_planes = 64;
  const std::int64_t planes = box.extent[0];
  if (tiling.preferred_steps == 0) return planes;
  const std::int64_t of_large_fields = std::int64_t{2} * tiling.preferred_steps;
  const std::int64_t of_small_fields =
      std::min(most_planes, of_large_fields * large_plane / (box.extent[1] * box.extent[2]));
  return std::min(planes, std::max(of_large_fields, of_small_fields));
}

/// Walks of equal length, not much longer than preferred, whose blocks fill whole waves of the device best.
Launch choose_volume(const Tiling& tiling, const Box& box, const backend::Residency& residency) {
  VolumeGrid grid{};
  grid.first_column = static_cast<std::int32_t>(box.offset[2] / tiling.anchor * tiling.anchor);
  grid.across = static_cast<std::int32_t>(
      divide_up(box.offset[2] + box.extent[2] - grid.first_column, tiling.tile_extent[2]));
  grid.down = static_cast<std::int32_t>(
      divide_up(box.offset[1] % tiling.row_anchor + box.extent[1], tiling.tile_extent[1]));
  const std::int64_t abreast = std::int64_t{grid.across} * grid.down;
  const std::int64_t resident = std::max<std::int64_t>(
      1, std::int64_t{residency.multiprocessors} * residency.blocks_per_multiprocessor);
  const std::int64_t planes = box.extent[0];
  const std::int64_t longest = longest_volume_walk(tiling, box);

  std::int64_t best_steps = 0;
  for (std::int64_t walk = std::min<std::int64_t>(planes, least_planes); walk <= longest; ++walk) {
    const std::int64_t waves = divide_up(abreast * divide_up(planes, walk), resident);
    const std::int64_t steps = waves * (walk + tiling.lead_steps + start_planes);
    if (best_steps == 0 || steps < best_steps) {
      grid.planes = static_cast<std::int32_t>(walk);
      best_steps = steps;
    }
  }
  const std::int64_t blocks = abreast * divide_up(planes, grid.planes);
  grid.first_wave = static_cast<std::int32_t>(std::min(blocks, resident));
  grid.multiprocessors = residency.multiprocessors;
  return {{{}, grid}, blocks};
}

/// A warp for each strip of each row; they know theirs without more being said.
Launch choose_lines(const Tiling& tiling, const Box& box) {
  const std::int64_t first_column = box.offset[2] / tiling.anchor * tiling.anchor;
  const std::int64_t strips =
      divide_up(box.offset[2] + box.extent[2] - first_column, tiling.tile_extent[2]) * box.extent[1];
  return {{}, divide_up(strips, tiling.warps_per_block)};
}

/// The strips of a box that overlap: each stores what lies within its margins, and up to a face at which it
/// ends.
VolumeGrid cut_overlapping(const Tiling& tiling, const Box& box, std::int64_t columns) {
  const std::int64_t width = tiling.tile_extent[2];
  const std::int64_t margin = tiling.left_margin;
  const std::int64_t stored = width - margin - tiling.right_margin;
  const std::int64_t begin = box.offset[2];
  const std::int64_t end = begin + box.extent[2];
  // The first column of a strip that stores from `first` on, if it ended at no face.
  const auto start_of = [&](std::int64_t first) { return first / tiling.anchor * tiling.anchor - margin; };
  const auto ends_high = [&](std::int64_t first) {
    return tiling.ends_at_high_face && start_of(first) + width >= columns;
  };
  const bool ends_low = tiling.ends_at_low_face && start_of(begin) < 0;
  // Where the first strip ends at the low face and the field is a little narrower, it knows nothing of what
  // lies beyond the high face.
  const std::int64_t known = tiling.ends_at_high_face ? std::min(width, columns) : width;
  const std::int64_t second =
      ends_low ? (known - margin) / tiling.anchor * tiling.anchor : start_of(begin) + margin + stored;
  VolumeGrid grid{};
  grid.first_column = static_cast<std::int32_t>(second);
  grid.down = 1;
  const bool one = second >= end || ends_high(begin) ||
                   (tiling.ends_at_low_face && tiling.ends_at_high_face &&
                    (columns <= tiling.whole_columns || columns == width));
  std::int64_t strips = 1;
  if (!one) {
    // Of those behind the first, the last is the first one that reaches the end, or the face.
    strips += divide_up(end - second, stored);
    while (strips > 2 && ends_high(second + (strips - 3) * stored)) --strips;
  }
  grid.across = static_cast<std::int32_t>(strips);
  return grid;
}

/// Walks of equal length, whose blocks fill one wave of the device or some: of two numbers as good the first.
Launch choose_overlapping(const Tiling& tiling, const Box& box, const backend::Residency& residency,
                          std::int64_t columns) {
  VolumeGrid grid = cut_overlapping(tiling, box, columns);
  const std::int64_t resident = std::max<std::int64_t>(
      1, std::int64_t{residency.multiprocessors} * residency.blocks_per_multiprocessor);
  const std::int64_t rows = box.extent[1];
  std::int64_t best_steps = 0;
  for (std::int64_t waves = 1; waves <= 3; ++waves) {
    const std::int64_t walks = std::max<std::int64_t>(1, waves * resident / grid.across);
    const std::int64_t walk = std::max(divide_up(rows, walks), std::min<std::int64_t>(rows, least_rows));
    const std::int64_t blocks = grid.across * divide_up(rows, walk);
    const std::int64_t steps = divide_up(blocks, resident) * (walk + tiling.lead_steps + start_steps);
    if (best_steps == 0 || steps < best_steps) {
      grid.planes = static_cast<std::int32_t>(walk);
      best_steps = steps;
    }
  }
  const std::int64_t blocks = grid.across * divide_up(rows, grid.planes);
  grid.first_wave = static_cast<std::int32_t>(std::min(blocks, resident));
  grid.multiprocessors = residency.multiprocessors;
  return {{{}, grid}, blocks};
}

}  // namespace

Launch choose_blocks(const Tiling& tiling, const Box& box, const backend::Residency& residency,
                     std::int64_t columns) {
  switch (tiling.kind) {
    case TilingKind::strips:
      return choose_strips(tiling, box, residency);
    case TilingKind::lines:
      return choose_lines(tiling, box);
    case TilingKind::blocks:
    case TilingKind::tiles:
      return choose_volume(tiling, box, residency);
    case TilingKind::overlapping:
      return choose_overlapping(tiling, box, residency, columns);
  }
  throw std::logic_error("a kind of tiling that this runtime does not know");
}

FormLaunch choose_form(const spider_kernel& kernel, const Box& box, bool rows_are_aligned,
                       const backend::Residencies& residencies, std::int32_t steps, std::int64_t columns) {
  const auto count = static_cast<std::size_t>(kernel.form_count);
  for (std::size_t i = 0; i < count; ++i) {
    const SweepForm& form = kernel.forms[i];
    if (form.steps != steps) continue;
    const bool is_last = i + 1 == count || kernel.forms[i + 1].steps != steps;
    if (form.needs_aligned_rows && !rows_are_aligned && !is_last) continue;
    const backend::Residency& residency = residencies.at(i);
    const Launch launch = choose_blocks(form.tiling, box, residency, columns);
    if (is_last || launch.blocks >= std::int64_t{form.min_blocks_per_sm} * residency.multiprocessors)
      return {i, launch};
  }
  throw std::logic_error("a number of steps that the kernel has no form for");
}

}  // namespace spider
