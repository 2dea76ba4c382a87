/// Sweeps that say when their rims are stored: which blocks come first, and what they count.
#define SPIDER_TELLS_RIMS
#include <spider/instructions_emulated.h>
#include <spider/loads/plane_ring.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "emulator_launch.h"
#include "rims_first.h"

namespace spider {
namespace {

Tiling make_tiling(std::mt19937& random) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Tiling tiling{};
  tiling.kind = TilingKind::blocks;
  tiling.warps_per_block = 4;
  tiling.tile_extent[0] = 1;
  tiling.tile_extent[1] = draw(4, 36);
  tiling.tile_extent[2] = 128;
  tiling.anchor = 32;
  tiling.prologue_steps = draw(1, 8);
  tiling.preferred_steps = draw(4, 64);
  tiling.tells_rims = true;
  return tiling;
}

/// How often each plane of each tile is computed by blocks `first` to before `end`.
template <bool walks_on>
std::vector<std::vector<int>> count_planes(const SweepArguments& field, std::int64_t first,
                                           std::int64_t end) {
  const VolumeGrid& grid = field.grid.volume;
  std::vector<std::vector<int>> counts(static_cast<std::size_t>(grid.across * grid.down),
                                       std::vector<int>(static_cast<std::size_t>(field.box.extent[0]), 0));
  for (std::int64_t block = first; block < end; ++block) {
    const VolumeWalk walk = find_volume_walk<walks_on>(field, static_cast<std::int32_t>(block));
    EXPECT_LT(walk.first, walk.end);
    for (std::int32_t z = walk.first; z < walk.end; ++z)
      ++counts.at(static_cast<std::size_t>(walk.down * grid.across + walk.across))
            .at(static_cast<std::size_t>(z - field.box.offset[0]));
  }
  return counts;
}

TEST(RimsOfAVolume, ComeFirstAndEveryPlaneOnce) {
  const std::uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int i = 0; i < 200; ++i) {
    const Tiling tiling = make_tiling(random);
    const RimPlanes rims{draw(0, 1) * draw(1, 6), draw(0, 1) * draw(1, 6)};
    SweepArguments field{};
    field.box = {{draw(0, 50), draw(0, 50), 0}, {draw(14, 400), draw(1, 400), draw(1, 800)}};
    const backend::Residency residency{draw(1, 132), draw(1, 3), false};
    const RimsFirstLaunch cut = choose_rims_first(tiling, field.box, residency, rims);
    if (rims.low + rims.high == 0) {
      EXPECT_EQ(cut.rims.blocks, 0);
      continue;
    }
    ASSERT_GT(cut.rims.blocks, 0) << "seed " << seed;
    RimGrid told = cut.rims;
    told.counter[0] = 1;
    field.grid = cut.launch.grid;
    put_rims(field.grid, told);
    for (const auto& tile : count_planes<true>(field, 0, cut.rims.blocks)) {
      for (std::int64_t z = 0; z < rims.low; ++z) EXPECT_EQ(tile[static_cast<std::size_t>(z)], 1);
      for (std::int64_t z = 1; z <= rims.high; ++z)
        EXPECT_EQ(tile[tile.size() - static_cast<std::size_t>(z)], 1) << "seed " << seed;
    }
    for (const auto& counts : {count_planes<true>(field, 0, cut.launch.blocks),
                               count_planes<false>(field, 0, cut.launch.blocks)}) {
      for (const auto& tile : counts)
        EXPECT_EQ(tile, std::vector<int>(tile.size(), 1)) << "seed " << seed << ", case " << i;
    }
  }
}

TEST(RimsOfAVolume, AreWholeWalksOfLargeFieldsAndThinOnesOfSmallFields) {
  Tiling tiling{};
  tiling.kind = TilingKind::blocks;
  tiling.tile_extent[1] = 36;
  tiling.tile_extent[2] = 128;
  tiling.anchor = 32;
  tiling.prologue_steps = 8;
  tiling.preferred_steps = 64;
  tiling.tells_rims = true;
  const auto cut = [&](std::int64_t n) {
    return choose_rims_first(tiling, {{0, 0, 0}, {n, n, n}}, {132, 1, false}, {4, 4});
  };
  // Six turns of 132 tiles: none more.
  EXPECT_EQ(cut(768).rims.low, 128);
  EXPECT_EQ(cut(768).launch.blocks, 6 * 132);
  // 33 tiles of one turn: the 66 places beside the rims' get longer walks.
  EXPECT_EQ(cut(384).rims.high, 4);
  EXPECT_GT(cut(384).launch.grid.volume.planes, cut(384).launch.grid.volume.rest_planes);
}

TEST(RimsOfAVolume, AreNotCutWhereNothingIsBetweenThem) {
  Tiling tiling{};
  tiling.kind = TilingKind::blocks;
  tiling.tile_extent[1] = tiling.tile_extent[2] = 32;
  tiling.anchor = 32;
  tiling.preferred_steps = 8;
  tiling.tells_rims = true;
  const Box box{{0, 0, 0}, {8, 64, 64}};
  EXPECT_EQ(choose_rims_first(tiling, box, {}, {4, 4}).rims.blocks, 0);
  EXPECT_GT(choose_rims_first(tiling, box, {}, {4, 0}).rims.blocks, 0);
  tiling.tells_rims = false;
  EXPECT_EQ(choose_rims_first(tiling, box, {}, {1, 1}).rims.blocks, 0);
}

TEST(RimBlocks, RaiseTheCounterOnceEach) {
  static std::uint32_t counter;
  counter = 0;
  test::LaunchCase launch_case;
  launch_case.warps = 3;
  launch_case.blocks = 9;
  test::expect_good(test::launch(
      [](SweepArguments arguments) {
        SweepArguments telling = arguments;
        const auto address = reinterpret_cast<std::uintptr_t>(&counter);
        put_rims(
            telling.grid,
            {{static_cast<std::uint32_t>(address), static_cast<std::uint32_t>(address >> 32U)}, 4, 1, 1, 0});
        const TellRimsAtExit tells(telling);
        test::write_output(arguments);
      },
      launch_case));
  EXPECT_EQ(counter, 4U);
}

}  // namespace
}  // namespace spider
