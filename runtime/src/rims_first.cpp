#include "rims_first.h"

#include <algorithm>
#include <limits>
#include <map>

#include "batch.h"

namespace spider {
namespace {

/// Places for blocks on a device, by the step at which they become free. Blocks take the first that is.
class Places {
 public:
  explicit Places(std::int64_t count) : free_{{0, count}} {}

  /// So many blocks of so many steps; when the last of them ends.
  std::int64_t take(std::int64_t blocks, std::int64_t steps) {
    std::int64_t end = 0;
    while (blocks > 0) {
      const auto first = free_.begin();
      const std::int64_t now = std::min(blocks, first->second);
      end = first->first + steps;
      blocks -= now;
      first->second -= now;
      if (first->second == 0) free_.erase(first);
      free_[end] += now;
    }
    return end;
  }
  [[nodiscard]] std::int64_t last_end() const { return free_.rbegin()->first; }

 private:
  std::map<std::int64_t, std::int64_t> free_;
};

std::int64_t count_sides(const RimPlanes& rims) {
  return (rims.low > 0 ? 1 : 0) + (rims.high > 0 ? 1 : 0);
}

/// What all ways of cutting a box have in common.
struct Facts {
  const Tiling& tiling;
  std::int64_t planes;
  std::int64_t tiles;
  std::int64_t places;
  std::int64_t longest;  ///< planes of a walk
  std::int64_t sides;    ///< rims
};

std::int64_t walks_between(const VolumeGrid& grid, const RimGrid& rims, std::int64_t planes) {
  const std::int64_t of_long = std::int64_t{rims.long_walks} * grid.planes;
  return of_long >= planes ? divide_up(planes, grid.planes)
                           : rims.long_walks + divide_up(planes - of_long, grid.rest_planes);
}

/// The blocks between the rims.
std::int64_t blocks_between(const Facts& facts, const VolumeGrid& grid, const RimGrid& rims) {
  const std::int64_t planes = facts.planes - rims.low - rims.high;
  if (!facts.tiling.balances_tail) return facts.tiles * walks_between(grid, rims, planes);
  return grid.whole_blocks + (facts.tiles - grid.whole_tiles) * divide_up(planes, grid.rest_planes);
}

/// About how many steps it all takes: more where rims are not done in half of them.
std::int64_t cost_of(const Facts& facts, const VolumeGrid& grid, const RimGrid& rims) {
  const std::int64_t lead = lead_of_volume_walk(facts.tiling);
  Places places(facts.places);
  const std::int64_t of_rims = places.take(facts.sides * facts.tiles, std::max(rims.low, rims.high) + lead);
  std::int64_t planes = facts.planes - rims.low - rims.high;
  if (facts.tiling.balances_tail) {
    places.take(grid.whole_blocks, grid.planes + lead);
    places.take((facts.tiles - grid.whole_tiles) * divide_up(planes, grid.rest_planes),
                grid.rest_planes + lead);
  } else {
    for (std::int64_t walk = 0; planes > 0; ++walk) {
      const std::int64_t now =
          std::min<std::int64_t>(planes, walk < rims.long_walks ? grid.planes : grid.rest_planes);
      places.take(facts.tiles, now + lead);
      planes -= now;
    }
  }
  const std::int64_t all = places.last_end();
  return all + std::max<std::int64_t>(0, of_rims - all / 2);
}

/// The best way so far.
struct Best {
  VolumeGrid grid{};
  RimGrid rims{};
  std::int64_t cost = std::numeric_limits<std::int64_t>::max();

  void keep(const Facts& facts, const VolumeGrid& other, const RimGrid& other_rims) {
    const std::int64_t other_cost = cost_of(facts, other, other_rims);
    if (other_cost >= cost) return;
    *this = {other, other_rims, other_cost};
  }
};

/// So many walks between rims: all as long, or as many longer as places are left beside the rims, by what
/// these take.
void try_walks(const Facts& facts, VolumeGrid grid, RimGrid rims, Best& best) {
  constexpr std::int64_t most_walks = 12;
  const std::int64_t planes = facts.planes - rims.low - rims.high;
  const std::int64_t of_rim = std::max(rims.low, rims.high) + lead_of_volume_walk(facts.tiling);
  const std::int64_t fewest = divide_up(planes, facts.longest);
  for (std::int64_t walks = fewest; walks <= std::min(fewest + most_walks, planes); ++walks) {
    rims.long_walks = static_cast<std::int32_t>(walks);
    grid.planes = grid.rest_planes = static_cast<std::int32_t>(divide_up(planes, walks));
    best.keep(facts, grid, rims);
    const std::int64_t beside = facts.places - facts.sides * facts.tiles;
    const std::int64_t longer = beside < 0 ? 0 : beside / facts.tiles;
    const std::int64_t shorter_planes = divide_up(planes - longer * of_rim, walks);
    if (longer == 0 || longer >= walks || shorter_planes < 1) continue;
    rims.long_walks = static_cast<std::int32_t>(longer);
    grid.rest_planes = static_cast<std::int32_t>(shorter_planes);
    grid.planes = static_cast<std::int32_t>(shorter_planes + of_rim);
    best.keep(facts, grid, rims);
  }
}

}  // namespace

RimsFirstLaunch choose_rims_first(const Tiling& tiling, const Box& box, const backend::Residency& residency,
                                  const RimPlanes& rims) {
  constexpr std::int64_t most_parts = 16;
  const std::int64_t thinnest = std::max(rims.low, rims.high);
  const std::int64_t sides = count_sides(rims);
  if (!tiling.tells_rims || sides == 0 || sides * thinnest >= box.extent[0]) return {};
  const Launch whole = choose_blocks(tiling, box, residency);
  const VolumeGrid& all = whole.grid.volume;
  const std::int64_t tiles = std::int64_t{all.across} * all.down;
  const Facts facts{tiling,
                    box.extent[0],
                    tiles,
                    std::max<std::int64_t>(
                        1, std::int64_t{residency.multiprocessors} * residency.blocks_per_multiprocessor),
                    longest_volume_walk(tiling, box),
                    sides};
  Best best;
  const auto try_thick = [&](std::int64_t planes) {
    if (planes < thinnest || planes > std::max(thinnest, facts.longest)) return;
    if (sides * planes >= box.extent[0]) return;
    const auto thick = static_cast<std::int32_t>(planes);
    const RimGrid of_part{
        {}, static_cast<std::int32_t>(sides * tiles), rims.low > 0 ? thick : 0, rims.high > 0 ? thick : 0, 0};
    Box between = box;
    between.extent[0] -= of_part.low + of_part.high;
    if (tiling.balances_tail) {
      best.keep(facts, choose_blocks(tiling, between, residency).grid.volume, of_part);
    } else {
      try_walks(facts, all, of_part, best);
    }
  };
  try_thick(thinnest);
  for (std::int64_t parts = 3; parts <= most_parts; ++parts) try_thick(divide_up(box.extent[0], parts));
  const std::int64_t rim_blocks = sides * tiles;
  const std::int64_t blocks = rim_blocks + blocks_between(facts, best.grid, best.rims);
  if (blocks > std::numeric_limits<std::int32_t>::max()) return {};
  return {{{{}, best.grid, {}}, blocks}, best.rims};
}

void put_rims(BlockGrid& grid, const RimGrid& rims) {
  grid.strips = {static_cast<std::int32_t>(rims.counter[0]),
                 static_cast<std::int32_t>(rims.counter[1]),
                 rims.blocks,
                 rims.low,
                 rims.high,
                 rims.long_walks};
}

RimsFirstLaunch RimCuts::find(const SweepForm& form, const Box& box, const backend::Residency& residency,
                              const RimPlanes& rims) {
  const auto is_it = [&](const Known& known) {
    return known.form == &form && known.rims == rims &&
           std::equal(box.offset, box.offset + 3, known.box.offset) &&
           std::equal(box.extent, box.extent + 3, known.box.extent);
  };
  const auto found = std::find_if(known_.begin(), known_.end(), is_it);
  if (found != known_.end()) return found->cut;
  return known_.emplace_back(Known{&form, box, rims, choose_rims_first(form.tiling, box, residency, rims)})
      .cut;
}

SweepWithRims make_with_rims(const spider_kernel& kernel, const spider_sweep& sweep,
                             const backend::Residencies& residencies, std::int32_t steps,
                             const RimPlanes& rims, std::uintptr_t counter, RimCuts& cuts) {
  SweepWithRims made{
      make_ready(kernel, given_by(sweep), whole_interior(*sweep.in), sweep.part, residencies, steps)};
  ReadySweep& ready = made.sweep;
  if (ready.rim_blocks > 0 || ready.images.count > 1) return made;
  const RimsFirstLaunch cut =
      cuts.find(*ready.form, ready.arguments.box,
                residencies.at(static_cast<std::size_t>(ready.form - kernel.forms)), rims);
  if (cut.rims.blocks == 0) return made;
  RimGrid rims_of_launch = cut.rims;
  rims_of_launch.counter[0] = static_cast<std::uint32_t>(counter);
  rims_of_launch.counter[1] = static_cast<std::uint32_t>(counter >> 32U);
  ready.arguments.grid = cut.launch.grid;
  put_rims(ready.arguments.grid, rims_of_launch);
  ready.blocks = cut.launch.blocks;
  made.rim_blocks = cut.rims.blocks;
  return made;
}

}  // namespace spider
