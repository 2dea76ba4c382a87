#include "tiling.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

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

/// The rows of a box in groups of Tiling::row_anchor, in which walks down strips count.
std::int32_t row_groups(const Tiling& tiling, const Box& box) {
  return static_cast<std::int32_t>(
      divide_up(box.offset[1] % tiling.row_anchor + box.extent[1], tiling.row_anchor));
}

std::int32_t least_groups(const Tiling& tiling) {
  return static_cast<std::int32_t>(divide_up(least_rows, tiling.row_anchor));
}

/// In a single wave nothing evens out that walks at an edge take longer: beside others they get fewer rows.
/// In several waves they come first and others fill up behind them, unless they take longer than all waves.
std::int32_t edge_rows(const StripGrid& grid, const Tiling& tiling, std::int64_t waves) {
  if (grid.inner_strips == 0) return grid.inner_rows;
  const std::int64_t fewer =
      std::min<std::int64_t>(grid.inner_rows, grid.inner_rows * waves * tiling.edge_percent / 100);
  return static_cast<std::int32_t>(
      std::max<std::int64_t>(fewer, std::min(grid.inner_rows, least_groups(tiling))));
}

/// How many rows of the rest of inner strips a walk takes, as kernels do (share_of_rest of spider/field2d.h).
std::int64_t share_of_rest(std::int64_t rows, std::int64_t rest, std::int64_t lead) {
  const std::int64_t strips = 1 + rows / rest;
  return strips < rows / (lead + 1) ? rows - strips * lead : 1 + rows / (lead + 1);
}

std::int64_t count_inner_walks(const StripGrid& grid, const Tiling& tiling, std::int64_t rows) {
  if (!tiling.shares_rest) return grid.inner_strips * divide_up(rows, grid.inner_rows);
  const std::int64_t rest = rows % grid.inner_rows;
  const std::int64_t walks = grid.inner_strips * (rows / grid.inner_rows);
  if (rest == 0) return walks;
  return walks + divide_up(grid.inner_strips * rest, share_of_rest(grid.inner_rows, rest, tiling.lead_steps));
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

/// The shortest walks whose blocks fill no more than `waves` waves, or the longest there are.
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
  constexpr std::int64_t many_waves = 100;  // in which walks at edges are as long as others
  const std::int64_t fewest =
      std::max<std::int64_t>(1, cut_rows(grid, tiling, rows, preferred, many_waves).blocks / resident);

  const std::int64_t started = divide_up(start_steps, tiling.row_anchor);
  Launch best{};
  std::int64_t best_steps = 0;
  for (std::int64_t waves = fewest; waves < fewest + 3; ++waves) {
    const Launch launch = fit_rows(grid, tiling, rows, waves, resident);
    const std::int64_t steps_of_wave = launch.grid.strips.inner_rows + tiling.lead_steps + started;
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
  constexpr std::int64_t large_plane = std::int64_t{768} * 768;
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
  return {{{}, grid, {}}, blocks};
}

/// A warp for each strip of each row; they know theirs without more being said.
Launch choose_lines(const Tiling& tiling, const Box& box) {
  const std::int64_t first_column = box.offset[2] / tiling.anchor * tiling.anchor;
  const std::int64_t strips =
      divide_up(box.offset[2] + box.extent[2] - first_column, tiling.tile_extent[2]) * box.extent[1];
  return {{}, divide_up(strips, tiling.warps_per_block)};
}

/// The pieces of an axis that overlap.
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
  // The first cell of a piece that stores from `first` on, if it ended at no face; and ending at the high
  // face.
  const auto start_of = [&](std::int64_t first) { return first / tiling.anchor * tiling.anchor - margin; };
  const auto ends_high = [&](std::int64_t start) { return high && start + width >= cells; };
  if (low && high && (cells <= tiling.whole_columns || cells == width)) return axis(1, 0, end, 0);
  std::int64_t start = start_of(begin);
  const bool ends_low = low && start < 0;
  if (ends_low) {
    start = 0;
  } else if (ends_high(start)) {
    // Below 0 where it has a part of the field only.
    return axis(1, cells - width, end, cells - width);
  }
  // Where the first piece ends at the low face and the field is a little narrower, it knows nothing of what
  // lies beyond the high face.
  const std::int64_t known = ends_low && high ? std::min(width, cells) : width;
  const std::int64_t second =
      ends_low ? (known - margin) / tiling.anchor * tiling.anchor : start + width - margin;
  if (second >= end) return axis(1, start, end, start);
  // Of those behind the first, the last is the first one that reaches the end, or the face.
  std::int64_t behind = divide_up(end - second, useful);
  while (behind > 1 && ends_high(second + (behind - 2) * useful - margin)) --behind;
  const std::int64_t last = second + (behind - 1) * useful - margin;
  return axis(1 + behind, start, second, ends_high(last) ? cells - width : last);
}

/// Strips whose walks have so many rows: that many less in the first walk, and in the last.
Launch cut_walks(OverlappingGrid grid, const Tiling& tiling, std::int64_t rows, std::int64_t rows_per_walk,
                 std::int64_t fewer) {
  const std::int64_t outer = std::min<std::int64_t>(2, grid.columns.count);
  const std::int64_t outer_rows = std::max<std::int64_t>(
      std::min<std::int64_t>(rows_per_walk, least_rows),
      (rows_per_walk + tiling.lead_steps) * tiling.edge_percent / 100 - tiling.lead_steps);
  grid.inner_rows = static_cast<std::int32_t>(rows_per_walk);
  grid.outer_rows = static_cast<std::int32_t>(outer_rows);
  const std::int64_t outer_walks = outer * divide_up(rows + fewer, outer_rows);
  const std::int64_t inner_walks = (grid.columns.count - outer) * divide_up(rows + fewer, rows_per_walk);
  grid.outer_walks = static_cast<std::int32_t>(outer_walks);
  return {{{}, {}, grid}, outer_walks + inner_walks};
}

/// A box of overlapping strips, and how many rows less its first and its last walk have.
struct OverlappingBox {
  OverlappingGrid grid;  ///< not yet cut into walks
  std::int64_t rows;
  std::int64_t low_fewer, high_fewer;

  OverlappingBox(const Tiling& tiling, const Box& box, const Box& field)
      : grid{cut_axis(tiling, box.offset[2], box.offset[2] + box.extent[2], field.extent[2]), 0, 0, 0, 0},
        rows(box.extent[1]),
        low_fewer(box.offset[1] == 0 ? tiling.low_face_steps : 0),
        high_fewer(box.offset[1] + rows == field.extent[1] ? tiling.high_face_steps : 0) {}

  /// In a single wave nothing evens out that walks at faces take longer.
  [[nodiscard]] Launch cut(const Tiling& tiling, std::int64_t rows_per_walk, std::int64_t waves) const {
    OverlappingGrid cut = grid;
    cut.first_fewer = static_cast<std::int32_t>(waves == 1 ? low_fewer : 0);
    return cut_walks(cut, tiling, rows, rows_per_walk, waves == 1 ? low_fewer + high_fewer : 0);
  }
};

/// The shortest walks whose blocks, of all boxes, fill one wave of the device or some: of two numbers as good
/// the first.
std::vector<Launch> choose_overlapping(const Tiling& tiling, const std::vector<Box>& boxes,
                                       const backend::Residency& residency, const Box& field) {
  std::vector<OverlappingBox> all;
  std::int64_t most_rows = 0;
  std::int64_t most_fewer = 0;
  for (const Box& box : boxes) {
    const OverlappingBox& last = all.emplace_back(tiling, box, field);
    most_rows = std::max(most_rows, last.rows);
    most_fewer = std::max(most_fewer, last.low_fewer + last.high_fewer);
  }
  const auto cut_all = [&](std::int64_t rows_per_walk, std::int64_t waves) {
    std::vector<Launch> launches;
    for (const OverlappingBox& box : all) launches.push_back(box.cut(tiling, rows_per_walk, waves));
    return launches;
  };
  const auto count_blocks = [](const std::vector<Launch>& launches) {
    std::int64_t blocks = 0;
    for (const Launch& launch : launches) blocks += launch.blocks;
    return blocks;
  };
  const std::int64_t resident = std::max<std::int64_t>(
      1, std::int64_t{residency.multiprocessors} * residency.blocks_per_multiprocessor);
  std::vector<Launch> best;
  std::int64_t best_steps = 0;
  for (std::int64_t waves = 1; waves <= 3; ++waves) {
    std::int64_t shortest = std::min<std::int64_t>(most_rows, least_rows);
    std::int64_t longest = most_rows + (waves == 1 ? most_fewer : 0);
    while (shortest < longest) {
      const std::int64_t middle = shortest + (longest - shortest) / 2;
      if (count_blocks(cut_all(middle, waves)) <= waves * resident) {
        longest = middle;
      } else {
        shortest = middle + 1;
      }
    }
    std::vector<Launch> launches = cut_all(shortest, waves);
    const std::int64_t steps =
        divide_up(count_blocks(launches), resident) * (shortest + tiling.lead_steps + start_steps);
    if (best_steps == 0 || steps < best_steps) {
      best = std::move(launches);
      best_steps = steps;
    }
  }
  return best;
}

bool has_points(const Box& box) {
  return box.extent[0] > 0 && box.extent[1] > 0 && box.extent[2] > 0;
}

/// A box cut for a form that has rims, the form behind it beside that.
FormLaunch choose_with_rims(const spider_kernel& kernel, const Box& box,
                            const backend::Residencies& residencies, std::size_t i, const Box& field) {
  const SweepForm& form = kernel.forms[i];
  const SweepForm& of_rims = kernel.forms[i + 1];
  FormLaunch chosen{i, {}, {}, {}};
  // A device without the shared memory for this form has the other one alone.
  if (residencies.at(i).blocks_per_multiprocessor > 0)
    chosen.box = inside_rims(form, box, field, of_rims.tiling.anchor);
  if (has_points(chosen.box))
    chosen.launch = choose_blocks(form.tiling, chosen.box, residencies.at(i), field);
  const std::vector<Box> rims = boxes_beside(box, chosen.box);
  if (!rims.empty()) chosen.rims = choose_blocks_of(of_rims.tiling, rims, residencies.at(i + 1), field);
  return chosen;
}

}  // namespace

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
    case TilingKind::overlapping:
      return choose_overlapping(tiling, {box}, residency, field).front();
  }
  throw std::logic_error("a kind of tiling that this runtime does not know");
}

BoxesLaunch choose_blocks_of(const Tiling& tiling, const std::vector<Box>& boxes,
                             const backend::Residency& residency, const Box& field) {
  const std::vector<Launch> launches = choose_overlapping(tiling, boxes, residency, field);
  BoxesLaunch all{};
  for (std::size_t i = 0; i < most_boxes; ++i) {
    CutBox& cut = all.boxes[i];
    if (i < boxes.size()) {
      cut.box = boxes.at(i);
      cut.grid = launches.at(i).grid.overlapping;
      all.blocks += launches.at(i).blocks;
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
  Box left = box;  // what is not yet taken apart
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

FormLaunch choose_form(const spider_kernel& kernel, const Box& box, bool rows_are_aligned,
                       const backend::Residencies& residencies, std::int32_t steps, const Box& field) {
  const auto count = static_cast<std::size_t>(kernel.form_count);
  for (std::size_t i = 0; i < count; ++i) {
    const SweepForm& form = kernel.forms[i];
    if (form.steps != steps) continue;
    if (has_rims(form)) return choose_with_rims(kernel, box, residencies, i, field);
    const bool is_last = is_last_form(kernel, static_cast<std::int32_t>(i));
    const backend::Residency& residency = residencies.at(i);
    if (residency.blocks_per_multiprocessor == 0 && !is_last) continue;
    if (form.needs_aligned_rows && !rows_are_aligned && !is_last) continue;
    const Launch launch = choose_blocks(form.tiling, box, residency, field);
    if (is_last || launch.blocks >= std::int64_t{form.min_blocks_per_sm} * residency.multiprocessors)
      return {i, launch, box, {}};
  }
  throw std::logic_error("a number of steps that the kernel has no form for");
}

}  // namespace spider
