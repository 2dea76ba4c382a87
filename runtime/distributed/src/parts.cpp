#include "parts.h"

#include <algorithm>
#include <limits>

namespace spider::distributed {
namespace {

/// Cells that a GPU sweeps while one cell of a halo moves: a sweep reads and writes at some 3.5 TB/s, copy
/// engines between GPUs of a host write 300 GB/s, a network between hosts 25.
constexpr double cells_per_halo_cell_of_host = 6;
constexpr double cells_per_halo_cell_of_network = 70;

/// A rim is a box of its own. What it costs beside its cells, in planes, rows or columns: the reach that it
/// reads again, and along y and x what a block is wide, of which it needs less.
constexpr std::array<std::int64_t, 3> least_rim{0, 32, 128};

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The sides of an inner part, or of the widest there is, that have a neighbour.
std::int32_t count_sides(const CutField& field, int axis, std::int32_t parts) {
  if (parts == 1) return 0;
  return parts == 2 && field.faces[axis][0].rule != FaceRule::periodic ? 1 : 2;
}

bool fits(const CutField& field, const Extents& whole, const Parts& parts) {
  return make_layout(field, whole, parts, 0).outcome.status == SPIDER_OK;
}

}  // namespace

double estimate_step(const CutField& field, const Extents& whole, const Parts& parts, bool on_one_host) {
  if (!fits(field, whole, parts)) return std::numeric_limits<double>::infinity();
  std::array<double, 3> extent{};
  for (std::size_t axis = 0; axis < 3; ++axis)
    extent[axis] = static_cast<double>(divide_up(whole[axis], parts[axis]));
  const double cells = extent[0] * extent[1] * extent[2];
  double rims = 0;
  double halos = 0;
  for (int axis = 0; axis < 3; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const std::int64_t reach = std::max(field.reach_low[axis], field.reach_high[axis]);
    const double face = cells / extent[i];
    const double sides = count_sides(field, axis, parts[i]);
    rims += sides * face * static_cast<double>(2 * reach + least_rim[i]);
    halos += sides * face * static_cast<double>(reach);
  }
  return std::max(cells + rims,
                  halos * (on_one_host ? cells_per_halo_cell_of_host : cells_per_halo_cell_of_network));
}

Parts choose_parts(const CutField& field, const Extents& whole, const std::array<bool, 3>& cut,
                   const RankFacts& ranks) {
  Parts best{};
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t z = ranks.count; z >= 1; --z) {
    if (ranks.count % z != 0 || (z > 1 && !cut[0])) continue;
    for (std::int32_t y = ranks.count / z; y >= 1; --y) {
      const std::int32_t x = ranks.count / z / y;
      if (ranks.count / z % y != 0 || (y > 1 && !cut[1]) || (x > 1 && !cut[2])) continue;
      const double estimate = estimate_step(field, whole, {z, y, x}, ranks.on_one_host);
      if (estimate >= least) continue;
      least = estimate;
      best = {z, y, x};
    }
  }
  return best;
}

}  // namespace spider::distributed
