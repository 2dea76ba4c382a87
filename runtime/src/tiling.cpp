#include "tiling.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

namespace spider {
namespace {

// Shorter walks would read more lead rows than they write.
constexpr std::int32_t least_rows = 8;

// Kernels count walks with 32 bits.
constexpr std::int64_t largest_walk_count = std::numeric_limits<std::int32_t>::max();

// A walk idles for about this many row steps until its first rows arrive.
constexpr std::int32_t start_steps = 12;

// The same in steps of a block along z, which take longer.
constexpr std::int32_t start_planes = 3;
constexpr std::int32_t least_planes = 4;

/// The strips of a box, not yet cut into rows.
StripGrid cut_columns(const Tiling& tiling, const Box& box) {
  const std::int32_t width = tiling.tile_extent[2];
  StripGrid grid{};
  grid.first_column = static_cast<std::int32_t>(box.offset[2] / tiling.anchor * tiling.anchor);
  const auto columns = static_cast<std::int32_t>(box.offset[2] + box.extent[2] - grid.first_column);
  const auto strips = static_cast<std::int32_t>(divide_up(columns, width));
  const std::int32_t clear_of_right_edge = std::max(0, columns - tiling.right_margin) / width;
  // Kernels treat only the first strip as one at the left edge. If the second one is at it, too (a narrow
  // strip, a far reach), all are.
  const bool second_is_clear = grid.first_column + width >= box.offset[2] + tiling.left_margin;
  grid.inner_strips = second_is_clear ? std::max(0, clear_of_right_edge - 1) : 0;
  grid.edge_strips = strips - grid.inner_strips;
  return grid;
}

/// The rows of a box in groups of Tiling::row_anchor; walks down strips are measured in them.
std::int32_t row_groups(const Tiling& tiling, const Box& box) {
  return static_cast<std::int32_t>(
      divide_up(box.offset[1] % tiling.row_anchor + box.extent[1], tiling.row_anchor));
}

std::int32_t least_groups(const Tiling& tiling) {
  return static_cast<std::int32_t>(divide_up(least_rows, tiling.row_anchor));
}

/// In one wave the slowest walk sets the time, so edge walks get fewer rows. In several waves they come first
/// and others fill in after them, unless they take longer than all waves.
std::int32_t edge_rows(const StripGrid& grid, const Tiling& tiling, std::int64_t waves) {
  if (grid.inner_strips == 0) return grid.inner_rows;
  const std::int64_t fewer =
      std::min<std::int64_t>(grid.inner_rows, grid.inner_rows * waves * tiling.edge_walk_percent / 100);
  return static_cast<std::int32_t>(
      std::max<std::int64_t>(fewer, std::min(grid.inner_rows, least_groups(tiling))));
}

/// How many of the remaining rows of inner strips a walk takes; equal to share_of_rest of
/// spider/field/field2d.h.
std::int64_t share_of_rest(std::int64_t rows, std::int64_t rest, std::int64_t lead) {
  const std::int64_t strips = 1 + rows / rest;
  const std::int64_t ahead = lead + 1;
  return strips < rows / (ahead + 1) ? rows - strips * ahead : 1 + rows / (ahead + 1);
}

std::int64_t count_inner_walks(const StripGrid& grid, const Tiling& tiling, std::int64_t rows) {
  if (!tiling.balances_tail) return grid.inner_strips * divide_up(rows, grid.inner_rows);
  const std::int64_t rest = rows % grid.inner_rows;
  const std::int64_t walks = grid.inner_strips * (rows / grid.inner_rows);
  if (rest == 0) return walks;
  return walks +
         divide_up(grid.inner_strips * rest, share_of_rest(grid.inner_rows, rest, tiling.prologue_steps));
}

Launch cut_rows(StripGrid grid, const Tiling& tiling, std::int32_t rows, std::int32_t rows_per_walk,
                std::int64_t waves) {
  grid.inner_rows = rows_per_walk;
  grid.edge_rows = edge_rows(grid, tiling, waves);
  const std::int64_t edge_walks = grid.edge_strips * divide_up(rows, grid.edge_rows);
  const std::int64_t inner_walks = count_inner_walks(grid, tiling, rows);
  grid.edge_walks = static_cast<std::int32_t>(std::min(edge_walks, largest_walk_count));
  const std::int64_t walks_per_block = tiling.warps_per_block / tiling.warps_per_walk;
  return {{grid, {}, {}}, divide_up(edge_walks + inner_walks, walks_per_block)};
}

/// The shortest walks whose blocks fill at most `waves` waves, or the longest possible ones.
Launch fit_rows(const StripGrid& grid, const Tiling& tiling, std::int32_t rows, std::int64_t waves,
                std::int64_t resident) {
  std::int32_t low = std::min(rows, least_groups(tiling));
  std::int32_t high = rows;
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (cut_rows(grid, tiling, rows, middle, waves).blocks <= waves * resident) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return cut_rows(grid, tiling, rows, low, waves);
}

Launch choose_strips(const Tiling& tiling, const Box& box, const backend::Residency& residency) {
  const std::int32_t rows = row_groups(tiling, box);
  const StripGrid grid = cut_columns(tiling, box);
  const std::int64_t resident = std::max<std::int64_t>(
      1, std::int64_t{residency.multiprocessors} * residency.blocks_per_multiprocessor);
  const std::int32_t preferred = tiling.preferred_steps > 0 ? std::min(tiling.preferred_steps, rows) : rows;
  constexpr std::int64_t many_waves = 100;  // with that many, walks at edges are as long as others
  const std::int64_t fewest_waves =
      std::max<std::int64_t>(1, cut_rows(grid, tiling, rows, preferred, many_waves).blocks / resident);

  const std::int64_t started = divide_up(start_steps, tiling.row_anchor);
  Launch best{};
  std::int64_t best_steps = 0;
  for (std::int64_t waves = fewest_waves; waves < fewest_waves + 3; ++waves) {
    const Launch launch = fit_rows(grid, tiling, rows, waves, resident);
    const std::int64_t steps_of_wave = launch.grid.strips.inner_rows + tiling.prologue_steps + started;
    const std::int64_t steps = divide_up(launch.blocks, resident) * steps_of_wave;
    if (waves == fewest_waves || steps < best_steps) {
      best = launch;
      best_steps = steps;
    }
    // Shared rows make a wave end together. Two waves of half as long walks are slower: walks at edges are
    // then as long as others, and take twice the time.
    const bool fits = launch.blocks <= waves * resident;
    if (tiling.balances_tail && tiling.preferred_steps == 0 && fits) break;
  }
  return best;
}

struct Walks {
  std::int64_t planes;  ///< per walk
  std::int64_t steps;   ///< of all waves
};

/// Cuts a tile's planes into that many walks, and counts the steps of `waves` waves of them.
Walks cut_tiles(const Tiling& tiling, std::int64_t planes, std::int64_t walks, std::int64_t waves) {
  const std::int64_t of_walk = divide_up(planes, walks);
  return {of_walk, waves * (of_walk + lead_of_volume_walk(tiling))};
}

/// Walks of equal length, at most `longest` planes, for that many tiles, which fill whole waves best.
Walks choose_walks(const Tiling& tiling, std::int64_t tiles, std::int64_t planes, std::int64_t longest,
                   std::int64_t resident) {
  constexpr std::int64_t more_walks = 200;  // than fewest, so that high fields take no longer to cut
  Walks best{};
  const std::int64_t fewest_walks = divide_up(planes, longest);
  const std::int64_t most = std::clamp(planes / least_planes, fewest_walks, fewest_walks + more_walks);
  for (std::int64_t walks = most; walks >= fewest_walks; --walks) {
    const Walks cut = cut_tiles(tiling, planes, walks, divide_up(tiles * walks, resident));
    if (best.steps == 0 || cut.steps < best.steps) best = cut;
  }
  return best;
}

/// Tiles whose walks fill waves by themselves; the rest of all `abreast` is left.
struct SharedTiles {
  std::int64_t whole_tiles;
  Walks whole, rest;
};

/// Either some tiles in walks of one length that fill waves and the others in shorter ones, or all in walks
/// of equal length.
SharedTiles share_tiles(const Tiling& tiling, std::int64_t abreast, std::int64_t planes, std::int64_t longest,
                        std::int64_t resident) {
  constexpr std::int64_t most_walks = 8;  // of a tile that fills waves with others
  const Walks equal = choose_walks(tiling, abreast, planes, longest, resident);
  SharedTiles best{abreast, equal, equal};
  if (!tiling.balances_tail) return best;
  std::int64_t best_steps = equal.steps;
  const std::int64_t longest_whole = std::min(planes, longest + longest / 2);
  const std::int64_t fewest_walks = divide_up(planes, longest_whole);
  for (std::int64_t walks = fewest_walks; walks <= std::min(std::max(fewest_walks, most_walks), planes);
       ++walks) {
    const std::int64_t waves = abreast * walks / resident;
    const std::int64_t tiles = waves * resident / walks;
    if (tiles == 0 || tiles == abreast) continue;
    const Walks whole = cut_tiles(tiling, planes, walks, waves);
    const Walks rest = choose_walks(tiling, abreast - tiles, planes, longest, resident);
    if (whole.steps + rest.steps >= best_steps) continue;
    best = {tiles, whole, rest};
    best_steps = whole.steps + rest.steps;
  }
  return best;
}

/// Blocks that walk along z, not much longer than preferred, and fill whole waves of the device best.
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

  const auto [whole_tiles, whole, rest] = share_tiles(tiling, abreast, planes, longest, resident);
  grid.planes = static_cast<std::int32_t>(whole.planes);
  grid.rest_planes = static_cast<std::int32_t>(rest.planes);
  grid.whole_tiles = static_cast<std::int32_t>(whole_tiles);
  const std::int64_t whole_blocks = whole_tiles * divide_up(planes, whole.planes);
  grid.whole_blocks = static_cast<std::int32_t>(std::min(whole_blocks, largest_walk_count));
  const std::int64_t blocks = whole_blocks + (abreast - whole_tiles) * divide_up(planes, rest.planes);
  grid.first_wave = static_cast<std::int32_t>(std::min(blocks, resident));
  grid.multiprocessors = residency.multiprocessors;
  return {{{}, grid, {}}, blocks};
}

/// One warp per strip and row, found from its index.
Launch choose_lines(const Tiling& tiling, const Box& box) {
  const std::int64_t first_column = box.offset[2] / tiling.anchor * tiling.anchor;
  const std::int64_t strips =
      divide_up(box.offset[2] + box.extent[2] - first_column, tiling.tile_extent[2]) * box.extent[1];
  return {{}, divide_up(strips, tiling.warps_per_block)};
}

/// Cuts an axis into overlapping pieces.
OverlappedAxis cut_axis(const Tiling& tiling, std::int64_t begin, std::int64_t end, std::int64_t cells) {
  const std::int64_t width = tiling.tile_extent[2];
  const std::int64_t margin = tiling.left_margin;
  const std::int64_t useful = width - margin - tiling.right_margin;
  const bool low = tiling.ends_at_low_face;
  const bool high = tiling.ends_at_high_face;
  const auto axis = [](std::int64_t count, std::int64_t first, std::int64_t second, std::int64_t last) {
    return OverlappedAxis{static_cast<std::int32_t>(count), static_cast<std::int32_t>(first),
                          static_cast<std::int32_t>(second), static_cast<std::int32_t>(last)};
  };
  // The first cell of a piece that stores from `first` on, if it ends at no face; and whether it ends at the
  // high face.
  const auto start_of = [&](std::int64_t first) { return first / tiling.anchor * tiling.anchor - margin; };
  const auto is_closed_high = [&](std::int64_t start) { return high && start + width >= cells; };
  if (low && high && (cells <= tiling.whole_columns || cells == width)) return axis(1, 0, end, 0);
  std::int64_t start = start_of(begin);
  const bool is_closed_low = low && start < 0;
  if (is_closed_low) {
    start = 0;
  } else if (is_closed_high(start)) {
    // Negative if it has only a part of the field.
    return axis(1, cells - width, end, cells - width);
  }
  // If the first piece ends at the low face and the field is a little narrower, it lacks the cells outside
  // the high face.
  const std::int64_t known = is_closed_low && high ? std::min(width, cells) : width;
  const std::int64_t second =
      is_closed_low ? (known - margin) / tiling.anchor * tiling.anchor : start + width - margin;
  if (second >= end) return axis(1, start, end, start);
  // Among the pieces after the first, the last is the first one that reaches the end, or the face.
  std::int64_t behind = divide_up(end - second, useful);
  while (behind > 1 && is_closed_high(second + (behind - 2) * useful - margin)) --behind;
  const std::int64_t last = second + (behind - 1) * useful - margin;
  return axis(1 + behind, start, second, is_closed_high(last) ? cells - width : last);
}

/// Strips whose walks have that many rows, and `fewer` in the first walk and in the last.
Launch cut_walks(OverlappingGrid grid, const Tiling& tiling, std::int64_t rows, std::int64_t rows_per_walk,
                 std::int64_t fewer) {
  const std::int64_t outer = std::min<std::int64_t>(2, grid.columns.count);
  const std::int64_t outer_rows = std::max<std::int64_t>(
      std::min<std::int64_t>(rows_per_walk, least_rows),
      (rows_per_walk + tiling.prologue_steps) * tiling.edge_walk_percent / 100 - tiling.prologue_steps);
  grid.inner_rows = static_cast<std::int32_t>(rows_per_walk);
  grid.outer_rows = static_cast<std::int32_t>(outer_rows);
  const std::int64_t outer_walks = outer * divide_up(rows + fewer, outer_rows);
  const std::int64_t inner_walks = (grid.columns.count - outer) * divide_up(rows + fewer, rows_per_walk);
  grid.outer_walks = static_cast<std::int32_t>(outer_walks);
  return {{{}, {}, grid}, outer_walks + inner_walks};
}

/// The shortest walks whose blocks fill whole waves of the device; between equally good numbers the first.
Launch choose_overlapping(const Tiling& tiling, const Box& box, const backend::Residency& residency,
                          const Box& field) {
  OverlappingGrid grid{};
  grid.columns = cut_axis(tiling, box.offset[2], box.offset[2] + box.extent[2], field.extent[2]);
  const std::int64_t rows = box.extent[1];
  const std::int64_t resident = std::max<std::int64_t>(
      1, std::int64_t{residency.multiprocessors} * residency.blocks_per_multiprocessor);
  const std::int64_t low = box.offset[1] == 0 ? tiling.low_face_steps : 0;
  const std::int64_t high = box.offset[1] + rows == field.extent[1] ? tiling.high_face_steps : 0;
  Launch best{};
  std::int64_t best_steps = 0;
  for (std::int64_t waves = 1; waves <= 3; ++waves) {
    // In one wave the slowest walk sets the time, so walks at faces get fewer rows.
    const std::int64_t fewer = waves == 1 ? low + high : 0;
    grid.first_fewer = static_cast<std::int32_t>(waves == 1 ? low : 0);
    std::int64_t shortest = std::min<std::int64_t>(rows, least_rows);
    std::int64_t longest = rows + fewer;
    while (shortest < longest) {
      const std::int64_t middle = shortest + (longest - shortest) / 2;
      if (cut_walks(grid, tiling, rows, middle, fewer).blocks <= waves * resident) {
        longest = middle;
      } else {
        shortest = middle + 1;
      }
    }
    const Launch launch = cut_walks(grid, tiling, rows, shortest, fewer);
    const std::int64_t steps =
        divide_up(launch.blocks, resident) * (shortest + tiling.prologue_steps + start_steps);
    if (best_steps == 0 || steps < best_steps) {
      best = launch;
      best_steps = steps;
    }
  }
  return best;
}

/// Rectangles of a box that take the least time in all. `form` has the rims that contain the box.
CutBox cut_rectangles(const Tiling& tiling, const SweepForm& form, const Box& box, const Box& field) {
  // Cells of a line of `size` with the reach of the steps, which ends at faces with rims, and outside others.
  const auto needed = [&](int axis, std::int64_t size) {
    const auto [low, high] = form.rim[axis - 1];
    const std::int64_t reach = axis == 1 ? tiling.prologue_steps : tiling.left_margin;
    const std::int64_t behind = field.extent[axis] - box.offset[axis] - box.extent[axis];
    const std::int64_t before_box = low > 0 ? std::min(reach, box.offset[axis]) : reach;
    const std::int64_t behind_box = high > 0 ? std::min(reach, behind) : reach;
    return std::min(size + 2 * reach, box.extent[axis] + before_box + behind_box) + tiling.tile_extent[axis];
  };
  const std::int64_t all_rows = box.extent[1];
  const std::int64_t all_columns = box.extent[2];
  CutBox best{box, 0, 0, 0};
  std::int64_t least_work = 0;
  const auto try_rows = [&](std::int64_t rows) {
    const std::int64_t buffer_rows = needed(1, rows);
    const std::int64_t room = tiling.tile_cells / buffer_rows;  // columns of a buffer
    const std::int64_t columns =
        needed(2, all_columns) <= room ? all_columns : room - 2 * tiling.left_margin - tiling.tile_extent[2];
    if (columns < 1) return;
    const std::int64_t blocks = divide_up(all_rows, rows) * divide_up(all_columns, columns);
    const std::int64_t work = blocks * buffer_rows * needed(2, columns);
    if (least_work > 0 && work >= least_work) return;
    least_work = work;
    best.tile_rows = static_cast<std::int32_t>(rows);
    best.tile_columns = static_cast<std::int32_t>(columns);
    best.end_block = static_cast<std::int32_t>(std::min(blocks, largest_walk_count));
  };
  try_rows(all_rows);
  for (std::int64_t rows = 1; rows < std::min<std::int64_t>(all_rows, tiling.tile_cells); rows *= 2)
    try_rows(rows);
  return best;
}

bool has_points(const Box& box) {
  return box.extent[0] > 0 && box.extent[1] > 0 && box.extent[2] > 0;
}

/// True if choose_among() skips a form, whatever its blocks.
bool is_passed_over(const spider_kernel& kernel, const SweepForm& form, const backend::Residency& residency,
                    bool rows_are_aligned, const Box& whole) {
  const std::int64_t smallest =
      *std::min_element(whole.extent + (3 - kernel.info.dimensions), whole.extent + 3);
  return residency.blocks_per_multiprocessor == 0 || (form.needs_aligned_rows && !rows_are_aligned) ||
         smallest < form.min_extent;
}

/// The forms of one number of steps, from the first to one past the last.
struct FormRange {
  std::size_t begin, end;
};

FormRange forms_of(const spider_kernel& kernel, std::int32_t steps) {
  const auto has_steps = [&](const SweepForm& form) { return form.steps == steps; };
  const SweepForm* const all = kernel.forms;
  const SweepForm* const first = std::find_if(all, all + kernel.form_count, has_steps);
  if (first == all + kernel.form_count)
    throw std::logic_error("a number of steps that the kernel has no form for");
  const SweepForm* const end = std::find_if_not(first, all + kernel.form_count, has_steps);
  return {static_cast<std::size_t>(first - all), static_cast<std::size_t>(end - all)};
}

/// Chooses among the forms `first` to before `end`, of the same number of steps: the first form that the
/// device has shared memory for, that takes such rows and such a field, and that has at least as many blocks
/// as it requires; otherwise the last one. Its rims stay empty.
FormLaunch choose_among(const spider_kernel& kernel, std::size_t first, std::size_t end, const Box& box,
                        bool rows_are_aligned, const backend::Residencies& residencies, const Box& field,
                        const Box& whole) {
  for (std::size_t i = first; i + 1 < end; ++i) {
    const SweepForm& form = kernel.forms[i];
    const backend::Residency& residency = residencies.at(i);
    if (is_passed_over(kernel, form, residency, rows_are_aligned, whole)) continue;
    const Launch launch = choose_blocks(form.tiling, box, residency, field);
    if (launch.blocks >= std::int64_t{form.min_blocks_per_sm} * residency.multiprocessors)
      return {i, launch, box, {}};
  }
  const std::size_t last = end - 1;
  return {last, choose_blocks(kernel.forms[last].tiling, box, residencies.at(last), field), box, {}};
}

/// Cuts a box for forms that have rims, and the rims for the last form, `of_rims`.
FormLaunch choose_with_rims(const spider_kernel& kernel, std::size_t first, std::size_t of_rims,
                            const Box& box, bool rows_are_aligned, const backend::Residencies& residencies,
                            const Box& field, const Box& whole) {
  const SweepForm& form = kernel.forms[first];
  const Tiling& tiling = kernel.forms[of_rims].tiling;
  FormLaunch chosen{first, {}, {}, {}};
  // A device without shared memory for these forms uses the one of the rims alone.
  const bool has_room = residencies.at(of_rims - 1).blocks_per_multiprocessor > 0;
  if (has_room) {
    const Box inside = inside_rims(form, box, field, tiling.anchor);
    if (has_points(inside))
      chosen = choose_among(kernel, first, of_rims, inside, rows_are_aligned, residencies, field, whole);
  }
  chosen.rims_form = of_rims;
  const std::vector<Box> rims = boxes_beside(box, chosen.box);
  if (!rims.empty()) chosen.rims = cut_rims(tiling, form, rims, field);
  return chosen;
}

}  // namespace

std::int64_t lead_of_volume_walk(const Tiling& tiling) {
  return tiling.prologue_steps + start_planes;
}

/// Blocks that walk far drift apart until rows that neighbours share have left the L2 cache. It has room for
/// more planes when they are smaller than a large field's.
std::int64_t longest_volume_walk(const Tiling& tiling, const Box& box) {
  constexpr std::int64_t large_plane = std::int64_t{768} * 768;
  constexpr std::int64_t most_planes = 64;
  const std::int64_t planes = box.extent[0];
  if (tiling.preferred_steps == 0) return planes;
  const std::int64_t of_large_fields = std::int64_t{2} * tiling.preferred_steps;
  const std::int64_t of_small_fields =
      std::min(most_planes, of_large_fields * large_plane / (box.extent[1] * box.extent[2]));
  return std::min(planes, std::max(of_large_fields, of_small_fields));
}

Launch choose_blocks(const Tiling& tiling, const Box& box, const backend::Residency& residency,
                     const Box& field) {
  switch (tiling.kind) {
    case TilingKind::strips:
      return choose_strips(tiling, box, residency);
    case TilingKind::lines:
      return choose_lines(tiling, box);
    case TilingKind::blocks:
    case TilingKind::tiles:
      return choose_volume(tiling, box, residency);
    case TilingKind::boxes:
      return cut_system(tiling, box, residency);
    case TilingKind::overlapping:
      return choose_overlapping(tiling, box, residency, field);
    case TilingKind::rectangles:
      break;  // several boxes: cut_rims
  }
  throw std::logic_error("a kind of tiling that this runtime does not know");
}

BoxesLaunch cut_rims(const Tiling& tiling, const SweepForm& form, const std::vector<Box>& boxes,
                     const Box& field) {
  BoxesLaunch all{};
  for (std::size_t i = 0; i < most_boxes; ++i) {
    CutBox& cut = all.boxes[i];
    if (i < boxes.size()) {
      cut = cut_rectangles(tiling, form, boxes.at(i), field);
      all.blocks += cut.end_block;
    }
    cut.end_block = static_cast<std::int32_t>(std::min(all.blocks, largest_walk_count));
  }
  return all;
}

bool has_rims(const SweepForm& form) {
  return form.least[0] > 0 || form.least[1] > 0;
}

Box inside_rims(const SweepForm& form, const Box& box, const Box& field, std::int64_t vector) {
  Box inside = box;
  for (const int axis : {1, 2}) {
    const auto [low, high] = form.rim[axis - 1];
    const std::int64_t unit = axis == 2 ? vector : 1;
    const std::int64_t extent = field.extent[axis];
    const std::int64_t begin = divide_up(low, unit) * unit;
    const std::int64_t end = high == 0 ? extent : (extent - high) / unit * unit;
    if (extent < form.least[axis - 1]) return {};
    const std::int64_t first = std::max(begin, box.offset[axis]);
    const std::int64_t behind = std::min(end, box.offset[axis] + box.extent[axis]);
    if (first >= behind) return {};
    inside.offset[axis] = first;
    inside.extent[axis] = behind - first;
  }
  return inside;
}

std::vector<Box> boxes_beside(const Box& box, const Box& inside) {
  if (!has_points(inside)) return {box};
  std::vector<Box> beside;
  Box left = box;  // not yet cut
  for (const int axis : {1, 2}) {
    const std::int64_t begin = inside.offset[axis];
    const std::int64_t end = begin + inside.extent[axis];
    const auto add = [&](std::int64_t first, std::int64_t behind) {
      if (first >= behind) return;
      Box& part = beside.emplace_back(left);
      part.offset[axis] = first;
      part.extent[axis] = behind - first;
    };
    add(box.offset[axis], begin);
    add(end, box.offset[axis] + box.extent[axis]);
    left.offset[axis] = begin;
    left.extent[axis] = end - begin;
  }
  return beside;
}

bool is_last_form(const spider_kernel& kernel, std::int32_t i) {
  return i + 1 == kernel.form_count || kernel.forms[i + 1].steps != kernel.forms[i].steps;
}

backend::FormSet forms_to_choose_from(const spider_kernel& kernel, bool rows_are_aligned,
                                      const backend::Residencies& residencies, std::int32_t steps,
                                      const Box& whole) {
  backend::FormSet forms;
  const auto [begin, end] = forms_of(kernel, steps);
  const bool leaves_rims = has_rims(kernel.forms[begin]);
  const std::size_t last = leaves_rims ? end - 2 : end - 1;  // the last one takes the rest
  if (leaves_rims) forms.set(end - 1);
  for (std::size_t i = begin; i <= last; ++i) {
    const SweepForm& form = kernel.forms[i];
    if (i < last && is_passed_over(kernel, form, residencies.at(i), rows_are_aligned, whole)) continue;
    forms.set(i);
    if (form.min_blocks_per_sm == 0) break;
  }
  return forms;
}

FormLaunch choose_form(const spider_kernel& kernel, const Box& box, bool rows_are_aligned,
                       const backend::Residencies& residencies, std::int32_t steps, const Box& field,
                       const Box& whole) {
  const Box& unchanged = has_points(whole) ? whole : field;
  const auto [begin, end] = forms_of(kernel, steps);
  if (has_rims(kernel.forms[begin]))
    return choose_with_rims(kernel, begin, end - 1, box, rows_are_aligned, residencies, field, unchanged);
  return choose_among(kernel, begin, end, box, rows_are_aligned, residencies, field, unchanged);
}

Launch cut_system(const Tiling& tiling, const Box& box, const backend::Residency& residency) {
  VolumeGrid grid{};
  grid.first_column = static_cast<std::int32_t>(box.offset[2] / tiling.anchor * tiling.anchor);
  grid.across = static_cast<std::int32_t>(
      divide_up(box.offset[2] + box.extent[2] - grid.first_column, tiling.tile_extent[2]));
  grid.down = static_cast<std::int32_t>(divide_up(box.extent[1], tiling.tile_extent[1]));
  grid.planes = tiling.tile_extent[0];
  grid.multiprocessors = residency.multiprocessors;
  const std::int64_t tiles =
      std::int64_t{grid.across} * grid.down * divide_up(box.extent[0], tiling.tile_extent[0]);
  grid.whole_tiles = grid.whole_blocks = static_cast<std::int32_t>(tiles);
  return {{{}, grid, {}}, tiles};
}

}  // namespace spider
