#include <gtest/gtest.h>
#include <spider/field/field2d.h>
#include <spider/field/overlapping.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tiling.h"

namespace spider {
namespace {

/// Strips of `columns` with a margin on their right, walked by blocks of `warps`.
Tiling make_tiling(int columns, int margin, int warps, int lead_rows, int preferred_rows) {
  Tiling tiling{};
  tiling.kind = TilingKind::strips;
  tiling.warps_per_block = warps;
  tiling.tile_extent[2] = columns;
  tiling.right_margin = margin;
  tiling.anchor = 64;
  tiling.prologue_steps = lead_rows;
  tiling.preferred_steps = preferred_rows;
  return tiling;
}

/// Strips of two passes on tensor cores: what rows are left is shared.
Tiling make_shared_strips() {
  Tiling tiling = make_tiling(256, 16, 4, 2, 0);
  tiling.warps_per_walk = 4;
  tiling.row_anchor = 16;
  tiling.edge_walk_percent = 50;
  tiling.balances_tail = true;
  return tiling;
}

Launch choose_blocks(const Tiling& tiling, std::int64_t rows, std::int64_t columns,
                     const backend::Residency& residency) {
  return spider::choose_blocks(tiling, Box{{0, 0, 0}, {1, rows, columns}}, residency);
}

/// How often each strip and row is walked, counted warp by warp as kernels do (SweepArguments::grid).
std::vector<std::vector<int>> count_visits(const Launch& launch, const Tiling& tiling, std::int32_t rows) {
  const StripGrid& grid = launch.grid.strips;
  std::vector<std::vector<int>> visits(grid.inner_strips + grid.edge_strips, std::vector<int>(rows, 0));
  for (std::int64_t warp = 0; warp < launch.blocks * tiling.warps_per_block; ++warp) {
    std::int64_t strip = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
    if (warp < grid.edge_walks) {
      strip = warp % grid.edge_strips == 0 ? 0 : grid.inner_strips + warp % grid.edge_strips;
      first = warp / grid.edge_strips * grid.edge_rows;
      count = grid.edge_rows;
    } else if (grid.inner_strips > 0) {
      const std::int64_t inner = warp - grid.edge_walks;
      strip = 1 + inner % grid.inner_strips;
      first = inner / grid.inner_strips * grid.inner_rows;
      count = grid.inner_rows;
    }
    for (std::int64_t row = first; row < first + count && row < rows; ++row) ++visits[strip][row];
  }
  return visits;
}

TEST(Tiling, SharedRowsOfEveryStripAreWalkedOnce) {
  constexpr std::uint32_t seed = 5;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  constexpr int anchor = 8;
  constexpr int lead = 4;
  int shared = 0;  // blocks with several pieces
  for (int i = 0; i < 300; ++i) {
    Tiling tiling = make_tiling(128, 16, 2, lead, 0);
    tiling.warps_per_walk = 2;
    tiling.row_anchor = anchor;
    tiling.balances_tail = true;
    const Box box{{0, draw(0, 40), draw(0, 300)}, {1, draw(1, 9000), draw(1, 6000)}};
    const Launch launch = spider::choose_blocks(tiling, box, {draw(1, 140), draw(1, 8)});
    const StripGrid& grid = launch.grid.strips;
    SweepArguments field{};
    field.box = box;
    field.grid = launch.grid;
    const auto first = static_cast<int>(box.offset[1] / anchor);
    const auto groups = static_cast<int>((box.offset[1] + box.extent[1] + anchor - 1) / anchor) - first;
    std::vector<std::vector<int>> visits(grid.inner_strips + grid.edge_strips, std::vector<int>(groups, 0));
    for (std::int64_t block = 0; block < launch.blocks; ++block) {
      int steps = 0;
      for (int piece = 0;; ++piece) {
        const Walk walk = find_shared_walk<anchor, lead>(field, static_cast<int>(block), piece);
        if (walk.rows == 0) break;
        steps += walk.rows + lead;
        shared += piece == 1 ? 1 : 0;
        for (int row = 0; row < walk.rows; ++row) ++visits.at(walk.across).at(walk.first_row - first + row);
        if (walk.is_last) break;
      }
      EXPECT_LE(steps, std::max(grid.inner_rows, 3 * lead) + 2 * lead) << i;
    }
    for (const std::vector<int>& strip : visits)
      EXPECT_EQ(std::count(strip.begin(), strip.end(), 1), groups) << i;
  }
  EXPECT_GT(shared, 300);
}

TEST(Tiling, EveryRowOfEveryStripIsWalkedOnce) {
  constexpr std::uint32_t seed = 3;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const auto between = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    const Tiling tiling =
        make_tiling(128 * between(1, 2), between(8, 70), between(1, 8), between(0, 14), between(0, 1) * 20);
    const backend::Residency residency{between(1, 132), between(1, 16)};
    const std::int32_t rows = between(1, 1500);
    const Launch launch = choose_blocks(tiling, rows, between(1, 9000), residency);
    for (const std::vector<int>& strip : count_visits(launch, tiling, rows)) {
      for (const int visits : strip) ASSERT_EQ(visits, 1) << "round " << round;
    }
  }
}

TEST(Tiling, WarpsThatWalkTogetherAreOneWalk) {
  const backend::Residency residency{132, 2};
  Tiling tiling = make_tiling(1024, 8, 4, 14, 0);
  tiling.edge_walk_percent = 80;
  const std::int64_t alone = choose_blocks(tiling, 10240, 10240, residency).blocks;
  tiling.warps_per_walk = 4;
  const Launch launch = choose_blocks(tiling, 10240, 10240, residency);
  const StripGrid& grid = launch.grid.strips;
  const std::int32_t rows = 10240;
  const auto walks_of = [&](int strips, int walk_rows) {
    return strips * ((rows + walk_rows - 1) / walk_rows);
  };
  EXPECT_EQ(launch.blocks,
            walks_of(grid.edge_strips, grid.edge_rows) + walks_of(grid.inner_strips, grid.inner_rows));
  EXPECT_LE(launch.blocks, 264);  // one wave
  EXPECT_GT(launch.blocks, 250);
  EXPECT_EQ(grid.edge_rows, grid.inner_rows * 80 / 100);
  EXPECT_LE(alone, 264);
}

TEST(Tiling, EdgeStripsAreThoseWhoseInputsCrossAnEdge) {
  const Tiling tiling = make_tiling(256, 8, 4, 2, 20);
  const backend::Residency residency{132, 4};
  EXPECT_EQ(choose_blocks(tiling, 1000, 10240, residency).grid.strips.inner_strips,
            38);  // not the first and the last
  EXPECT_EQ(choose_blocks(tiling, 1000, 10248, residency).grid.strips.inner_strips,
            39);  // a last strip of 8 columns
  EXPECT_EQ(choose_blocks(tiling, 1000, 10247, residency).grid.strips.inner_strips, 38);
  EXPECT_EQ(choose_blocks(tiling, 1000, 300, residency).grid.strips.inner_strips, 0);
}

TEST(Tiling, WithoutPreferenceBlocksFillOneWave) {
  const Tiling tiling = make_tiling(256, 8, 4, 14, 0);
  const backend::Residency residency{132, 2};
  const Launch launch = choose_blocks(tiling, 10240, 10240, residency);
  EXPECT_LE(launch.blocks, 264);
  EXPECT_GE(launch.blocks, 250);
  EXPECT_LT(launch.grid.strips.edge_rows, launch.grid.strips.inner_rows);
}

TEST(Tiling, WhereRowsAreSharedBlocksFillOneWave) {
  const Tiling tiling = make_shared_strips();
  for (const std::int64_t cells : {6000, 9000, 10000, 10240, 12000, 16384, 30000}) {
    const Launch launch = choose_blocks(tiling, cells, cells, {132, 2});
    EXPECT_LE(launch.blocks, 264) << cells;
    EXPECT_GE(launch.blocks, 250) << cells;
    EXPECT_EQ(launch.grid.strips.edge_rows, launch.grid.strips.inner_rows / 2) << cells;
  }
}

TEST(Tiling, WhereOneWaveHasTooFewBlocksThereAreMore) {
  const Tiling tiling = make_shared_strips();
  // 34 walks of the whole height for 32 blocks at a time: two waves of these would take 1006 steps of a
  // block.
  const Launch launch = choose_blocks(tiling, 8000, 8000, {16, 2});
  const std::int64_t waves = (launch.blocks + 31) / 32;
  EXPECT_LE(waves * (launch.grid.strips.inner_rows + 3), 510);
}

TEST(Tiling, WithAPreferenceWavesAreFullAndWalksComeNearIt) {
  const Tiling tiling = make_tiling(256, 8, 4, 2, 20);
  const backend::Residency residency{132, 4};
  const Launch launch = choose_blocks(tiling, 10240, 10240, residency);
  const double waves = static_cast<double>(launch.blocks) / (132 * 4);
  EXPECT_GT(waves / static_cast<double>(static_cast<std::int64_t>(waves) + 1), 0.93);
  EXPECT_NEAR(launch.grid.strips.inner_rows, 20, 3);
}

TEST(Tiling, AllStripsAreEdgeStripsWhereTheSecondReachesBeyondTheLeftEdge) {
  Tiling tiling = make_tiling(128, 200, 4, 2, 20);
  const backend::Residency residency{132, 4};
  const auto inner_strips = [&](std::int64_t offset) {
    return spider::choose_blocks(tiling, Box{{0, 0, offset}, {1, 100, 1280}}, residency)
        .grid.strips.inner_strips;
  };
  tiling.left_margin = 128;
  EXPECT_EQ(inner_strips(0), 7);
  EXPECT_EQ(inner_strips(1),
            0);  // strips begin at a multiple of 64: the second one 127 columns behind the box
  EXPECT_EQ(inner_strips(64), 7);
  tiling.left_margin = 129;
  EXPECT_EQ(inner_strips(0), 0);
}

TEST(Tiling, SmallFieldsSpreadOverTheDevice) {
  const Tiling tiling = make_tiling(256, 8, 4, 2, 20);
  const Launch launch = choose_blocks(tiling, 512, 512, {132, 4});
  EXPECT_GE(launch.blocks, 30);
  EXPECT_EQ(launch.grid.strips.edge_rows, 8);
}

TEST(Tiling, VeryTallFieldsAreCutInWholeNumbers) {
  const Tiling tiling = make_tiling(256, 8, 4, 14, 0);
  const Launch launch = choose_blocks(tiling, 2'000'000'000, 1000, {132, 2});
  EXPECT_LE(launch.blocks, 3 * 264);
  EXPECT_GE(static_cast<std::int64_t>(launch.grid.strips.edge_walks) * launch.grid.strips.edge_rows,
            std::int64_t{2'000'000'000} * launch.grid.strips.edge_strips);
}

Tiling make_volume_tiling() {
  Tiling tiling{};
  tiling.kind = TilingKind::blocks;
  tiling.warps_per_block = 4;
  tiling.tile_extent[0] = 1;
  tiling.tile_extent[1] = 16;
  tiling.tile_extent[2] = 128;
  tiling.anchor = 128;
  tiling.prologue_steps = 2;
  tiling.preferred_steps = 32;
  return tiling;
}

/// Tiles of 3D steps, of which some fill waves and the others share the rest.
Tiling make_stepped_tiling() {
  Tiling tiling = make_volume_tiling();
  tiling.tile_extent[1] = 32;
  tiling.tile_extent[2] = 112;
  tiling.anchor = 8;
  tiling.prologue_steps = 8;
  tiling.preferred_steps = 256;
  tiling.balances_tail = true;
  return tiling;
}

/// How many steps the waves of its blocks take on 132 multiprocessors; each tile and plane has a block.
std::int64_t count_stepped_waves(const Launch& launch, std::int64_t planes) {
  const VolumeGrid& grid = launch.grid.volume;
  const std::int64_t rest_tiles = std::int64_t{grid.across} * grid.down - grid.whole_tiles;
  const auto walks_of = [&](std::int64_t of_walk) { return (planes + of_walk - 1) / of_walk; };
  EXPECT_EQ(grid.whole_blocks, grid.whole_tiles * walks_of(grid.planes));
  EXPECT_EQ(launch.blocks - grid.whole_blocks, rest_tiles * walks_of(grid.rest_planes));
  constexpr std::int64_t of_start = 11;
  const auto steps_of = [&](std::int64_t blocks, std::int64_t of_walk) {
    return (blocks + 131) / 132 * (of_walk + of_start);
  };
  return steps_of(grid.whole_blocks, grid.planes) +
         steps_of(launch.blocks - grid.whole_blocks, grid.rest_planes);
}

TEST(VolumeTiling, BlocksCoverEveryBoxFromAnAnchor) {
  constexpr std::uint32_t seed = 4;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const Tiling tiling = make_volume_tiling();
  for (int round = 0; round < 300; ++round) {
    const auto between = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    const Box box{{between(0, 50), between(0, 50), between(0, 500)},
                  {between(1, 800), between(1, 800), between(1, 800)}};
    const Launch launch = spider::choose_blocks(tiling, box, {between(1, 132), between(1, 3)});
    const VolumeGrid& grid = launch.grid.volume;
    EXPECT_EQ(grid.first_column % 128, 0);
    EXPECT_LE(grid.first_column, box.offset[2]);
    EXPECT_GE(grid.first_column + 128 * grid.across, box.offset[2] + box.extent[2]);
    EXPECT_LT(grid.first_column + 128 * (grid.across - 1), box.offset[2] + box.extent[2]);
    EXPECT_GE(16 * grid.down, box.extent[1]);
    EXPECT_LT(16 * (grid.down - 1), box.extent[1]);
    const std::int64_t walks = (box.extent[0] + grid.planes - 1) / grid.planes;
    EXPECT_EQ(launch.blocks, walks * grid.across * grid.down);
  }
}

TEST(VolumeTiling, KernelsLearnHowManyBlocksStartAtOnce) {
  Tiling tiling = make_volume_tiling();
  tiling.kind = TilingKind::tiles;
  const auto grid_of = [&](std::int64_t rows) {
    return spider::choose_blocks(tiling, Box{{0, 0, 0}, {1, rows, 128 * 10}}, {20, 3}).grid.volume;
  };
  EXPECT_EQ(grid_of(16 * 5).first_wave, 50);
  EXPECT_EQ(grid_of(16 * 7).first_wave, 60);
  EXPECT_EQ(grid_of(16 * 7).multiprocessors, 20);
}

TEST(VolumeTiling, BlocksBeginAtAnchoredRows) {
  Tiling tiling = make_volume_tiling();
  tiling.row_anchor = 2;
  const auto blocks_down = [&](std::int64_t offset, std::int64_t extent) {
    return spider::choose_blocks(tiling, Box{{0, offset, 0}, {9, extent, 100}}, {132, 3}).grid.volume.down;
  };
  EXPECT_EQ(blocks_down(4, 32), 2);
  EXPECT_EQ(blocks_down(5, 31), 2);
  EXPECT_EQ(blocks_down(5, 32), 3);
}

TEST(VolumeTiling, WalksAreLongerWhereMorePlanesFitTheCache) {
  Tiling tiling = make_volume_tiling();
  tiling.preferred_steps = 8;
  const auto longest = [&](std::int64_t extent) {
    std::int32_t planes = 0;
    for (int multiprocessors = 1; multiprocessors <= 132; ++multiprocessors) {
      const Box box{{0, 0, 0}, {extent, extent, extent}};
      planes = std::max(planes, spider::choose_blocks(tiling, box, {multiprocessors, 3}).grid.volume.planes);
    }
    return planes;
  };
  EXPECT_LE(longest(1536), 16);
  EXPECT_LE(longest(768), 16);
  EXPECT_GT(longest(512), 16);
  EXPECT_LE(longest(512), 36);
  EXPECT_LE(longest(256), 64);
}

TEST(VolumeTiling, LargeFieldsFillWaves) {
  const Launch launch =
      spider::choose_blocks(make_volume_tiling(), Box{{0, 0, 0}, {768, 768, 768}}, {132, 3});
  const double waves = static_cast<double>(launch.blocks) / (132 * 3);
  EXPECT_GT(waves / std::ceil(waves), 0.9);
  EXPECT_LE(launch.grid.volume.planes, 64);
}

TEST(VolumeTiling, TilesThatFillNoWaveHaveShorterWalks) {
  Tiling tiling = make_stepped_tiling();
  const auto steps_of = [&](bool shares) {
    tiling.balances_tail = shares;
    const Launch launch = spider::choose_blocks(tiling, Box{{0, 0, 0}, {768, 768, 768}}, {132, 1});
    const VolumeGrid& grid = launch.grid.volume;
    EXPECT_EQ(grid.whole_tiles, shares ? 132 : grid.across * grid.down);
    return count_stepped_waves(launch, 768);
  };
  EXPECT_EQ(steps_of(false), 1068);
  EXPECT_LE(steps_of(true), 1022);
}

TEST(VolumeTiling, FewTilesFillAWaveInPartsAndShareTheRest) {
  const Tiling tiling = make_stepped_tiling();
  for (const std::int64_t cells : {384, 448, 500, 512, 576, 600, 640, 800, 896}) {
    const Launch launch = spider::choose_blocks(tiling, Box{{0, 0, 0}, {cells, cells, cells}}, {132, 1});
    const VolumeGrid& grid = launch.grid.volume;
    const std::int64_t tiles = std::int64_t{grid.across} * grid.down;
    // All blocks busy all the time, with two walks for each.
    EXPECT_LE(count_stepped_waves(launch, cells),
              std::max<std::int64_t>(1, tiles / 132) * 22 + tiles * cells / 132 * 112 / 100)
        << cells;
    EXPECT_LT(grid.whole_tiles, tiles) << cells;
  }
}

TEST(VolumeTiling, HighFieldsShareTiles) {
  const Launch launch =
      spider::choose_blocks(make_stepped_tiling(), Box{{0, 0, 0}, {7000, 768, 768}}, {132, 1});
  const VolumeGrid& grid = launch.grid.volume;
  EXPECT_LT(grid.whole_tiles, grid.across * grid.down);
}

TEST(TileTiling, BlocksOfTilesCoverABoxAndDoNotWalk) {
  Tiling tiling{};
  tiling.kind = TilingKind::tiles;
  tiling.warps_per_block = 4;
  tiling.tile_extent[0] = 1;
  tiling.tile_extent[1] = 24;
  tiling.tile_extent[2] = 256;
  tiling.anchor = 64;
  const Launch launch = spider::choose_blocks(tiling, Box{{0, 5, 70}, {1, 49, 1000}}, {132, 4});
  EXPECT_EQ(launch.grid.volume.first_column, 64);
  EXPECT_EQ(launch.grid.volume.across, 4);
  EXPECT_EQ(launch.grid.volume.down, 3);
  EXPECT_EQ(launch.grid.volume.planes, 1);
  EXPECT_EQ(launch.blocks, 12);
}

/// Forms in tiles of these rows, which ask for these blocks of a multiprocessor.
spider_kernel make_forms(const std::vector<std::pair<int, int>>& rows_and_least_blocks) {
  spider_kernel kernel{};
  for (const auto& [rows, min_blocks_per_sm] : rows_and_least_blocks) {
    SweepForm& form = kernel.forms[kernel.form_count++];
    form.tiling.kind = TilingKind::tiles;
    form.tiling.tile_extent[0] = 1;
    form.tiling.tile_extent[1] = rows;
    form.tiling.tile_extent[2] = 512;
    form.tiling.anchor = 64;
    form.min_blocks_per_sm = min_blocks_per_sm;
  }
  return kernel;
}

TEST(Forms, TheFirstWithBlocksEnoughIsTaken) {
  const spider_kernel kernel = make_forms({{12, 5}, {8, 2}, {2, 1000}});
  const backend::Residency residency{10, 4};
  const auto form_of = [&](std::int64_t rows) {
    const FormLaunch chosen =
        choose_form(kernel, Box{{0, 0, 0}, {1, rows, 512}}, true, {residency, residency, residency});
    const std::int32_t height = kernel.forms[chosen.form].tiling.tile_extent[1];
    EXPECT_EQ(chosen.launch.blocks, (rows + height - 1) / height);
    return chosen.form;
  };
  EXPECT_EQ(form_of(10000), 0);
  EXPECT_EQ(form_of(49 * 12 + 1), 0);
  EXPECT_EQ(form_of(49 * 12), 1);
  EXPECT_EQ(form_of(19 * 8 + 1), 1);
  EXPECT_EQ(form_of(19 * 8), 2);
  EXPECT_EQ(form_of(1), 2);
}

TEST(Forms, TheLastIsTakenWhateverItAsksFor) {
  const spider_kernel kernel = make_forms({{12, 1000}});
  EXPECT_EQ(choose_form(kernel, Box{{0, 0, 0}, {1, 1, 1}}, true, {}).form, 0);
}

TEST(Forms, OnesThatTheDeviceHasNoSharedMemoryForAreLeftOut) {
  const spider_kernel kernel = make_forms({{12, 0}, {2, 0}});
  const backend::Residency none{10, 0};
  const backend::Residency some{10, 4};
  const Box box{{0, 0, 0}, {1, 10000, 512}};
  EXPECT_EQ(choose_form(kernel, box, true, {some, some}).form, 0);
  EXPECT_EQ(choose_form(kernel, box, true, {none, some}).form, 1);
}

TEST(Forms, RowsThatAreNotAlignedGoToTheFormForThem) {
  spider_kernel kernel = make_forms({{12, 5}, {2, 0}, {12, 0}});
  kernel.forms[0].needs_aligned_rows = kernel.forms[1].needs_aligned_rows = true;
  const backend::Residency residency{10, 4};
  const auto form_of = [&](std::int64_t rows, bool aligned) {
    return choose_form(kernel, Box{{0, 0, 0}, {1, rows, 512}}, aligned, {residency, residency, residency})
        .form;
  };
  EXPECT_EQ(form_of(10000, true), 0);
  EXPECT_EQ(form_of(10, true), 1);
  EXPECT_EQ(form_of(10000, false), 2);
  EXPECT_EQ(form_of(10, false), 2);
}

TEST(Forms, SmallFieldsGoToTheNextOne) {
  spider_kernel kernel = make_forms({{12, 0}, {2, 0}});
  kernel.info.dimensions = 3;
  kernel.forms[0] = of_large_fields(kernel.forms[0], 4);
  const backend::Residency residency{10, 4};
  const auto form_in = [&](const Box& field) {
    return choose_form(kernel, Box{{0, 0, 0}, {1, 1, 1}}, true, {residency, residency}, 1, field).form;
  };
  EXPECT_EQ(form_in({{0, 0, 0}, {4, 4, 4}}), 0);
  EXPECT_EQ(form_in({{0, 0, 0}, {3, 9, 9}}), 1);
  EXPECT_EQ(form_in({{0, 0, 0}, {9, 3, 9}}), 1);
  EXPECT_EQ(form_in({{0, 0, 0}, {9, 9, 3}}), 1);
  // Of a part, to which cells are added where a periodic axis is cut.
  const Box added{{0, 0, 0}, {9, 9, 9}};
  EXPECT_EQ(choose_form(kernel, added, true, {residency, residency}, 1, added, {{0, 0, 0}, {4, 4, 4}}).form,
            0);
  EXPECT_EQ(choose_form(kernel, added, true, {residency, residency}, 1, added, {{0, 0, 0}, {9, 9, 3}}).form,
            1);
  kernel.info.dimensions = 1;
  EXPECT_EQ(form_in({{0, 0, 0}, {1, 1, 4}}), 0);
  EXPECT_EQ(form_in({{0, 0, 0}, {1, 1, 3}}), 1);
}

TEST(LineTiling, AWarpForEachStripOfEachRow) {
  Tiling tiling{};
  tiling.kind = TilingKind::lines;
  tiling.warps_per_block = 4;
  tiling.tile_extent[2] = 512;
  tiling.anchor = 128;
  const auto blocks = [&](std::int64_t first_column, std::int64_t columns, std::int64_t rows) {
    return spider::choose_blocks(tiling, Box{{0, 7, first_column}, {1, rows, columns}}, {132, 4}).blocks;
  };
  EXPECT_EQ(blocks(0, 1, 1), 1);
  EXPECT_EQ(blocks(0, 2048, 1), 1);
  EXPECT_EQ(blocks(0, 2049, 1), 2);
  EXPECT_EQ(blocks(127, 1921, 1), 1);  // strip 0 begins at column 0
  EXPECT_EQ(blocks(127, 1922, 1), 2);
  EXPECT_EQ(blocks(128, 2048, 1), 1);
  EXPECT_EQ(blocks(0, 1, 9), 3);
  EXPECT_EQ(blocks(0, std::int64_t{1} << 40, 1), std::int64_t{1} << 29);
}

TEST(OverlappingTiling, EveryCellIsStoredOnceByAStripThatHasWhatItNeeds) {
  constexpr std::uint32_t seed = 11;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    Tiling tiling{};
    tiling.kind = TilingKind::overlapping;
    tiling.anchor = 4 * between(1, 2);
    tiling.tile_extent[2] = 128 * between(1, 5);
    tiling.left_margin = tiling.anchor * between(1, 7);
    tiling.right_margin = tiling.left_margin;
    tiling.whole_columns = tiling.tile_extent[2] - between(1, 7);
    tiling.ends_at_low_face = between(0, 1) == 1;
    tiling.ends_at_high_face = between(0, 1) == 1;
    tiling.prologue_steps = between(2, 100);
    tiling.edge_walk_percent = between(50, 100);
    tiling.low_face_steps = between(0, 40);
    tiling.high_face_steps = between(0, 40);
    const std::int32_t width = tiling.tile_extent[2];
    const std::int32_t columns = round % 4 == 0 ? width - between(0, 7) : between(1, 2000);
    const Span box_columns = [&] {
      const std::int32_t begin = between(0, columns - 1);
      return Span{begin, between(begin + 1, columns)};
    }();
    const std::int32_t rows = between(1, 900);
    const Span box_rows{between(0, 1) * 3, rows};
    if (box_rows.begin >= box_rows.end) continue;
    const Launch launch = spider::choose_blocks(
        tiling,
        Box{{0, box_rows.begin, box_columns.begin},
            {1, box_rows.end - box_rows.begin, box_columns.end - box_columns.begin}},
        {between(1, 132), between(1, 3)}, Box{{0, 0, 0}, {1, rows + between(0, 1), columns}});
    const OverlappingGrid& grid = launch.grid.overlapping;
    const std::int32_t useful = width - tiling.left_margin - tiling.right_margin;
    std::int32_t stored = box_columns.begin;
    for (std::int32_t strip = 0; strip < grid.columns.count; ++strip) {
      const Piece piece = find_piece(grid.columns, strip, box_columns, useful, tiling.left_margin);
      ASSERT_EQ(piece.stored.begin, stored);
      ASSERT_LT(piece.stored.begin, piece.stored.end);
      stored = piece.stored.end;
      const std::int32_t end = piece.start + width;
      // A strip that begins at a face which acts knows what lies beyond, and one that ends there; a field
      // that is narrower is in one.
      const bool whole = piece.start == 0 && columns <= tiling.whole_columns;
      const bool low = tiling.ends_at_low_face && piece.start == 0;
      const bool high = tiling.ends_at_high_face && (end == columns || (tiling.ends_at_low_face && whole));
      const std::int32_t from = tiling.ends_at_low_face ? std::max(0, piece.start) : piece.start;
      const std::int32_t to = tiling.ends_at_high_face ? std::min(end, columns) : end;
      EXPECT_GE(piece.stored.begin, low ? 0 : from + tiling.left_margin);
      EXPECT_LE(piece.stored.end, high ? columns : to - tiling.right_margin);
      EXPECT_TRUE(low || high || piece.start % tiling.anchor == 0);
    }
    EXPECT_EQ(stored, box_columns.end);
    std::vector<std::vector<int>> visits(grid.columns.count, std::vector<int>(rows, 0));
    for (std::int32_t block = 0; block < launch.blocks; ++block) {
      const StripWalk walk = find_strip_walk(grid, block, box_rows);
      for (std::int32_t row = walk.stored.begin; row < walk.stored.end; ++row)
        ++visits.at(walk.strip).at(row);
    }
    for (const std::vector<int>& strip : visits) {
      for (std::int32_t row = 0; row < rows; ++row) ASSERT_EQ(strip[row], box_rows.holds(row) ? 1 : 0);
    }
  }
}

TEST(OverlappingTiling, WalksThatTakeLongerAreShorter) {
  Tiling tiling{};
  tiling.kind = TilingKind::overlapping;
  tiling.tile_extent[2] = 640;
  tiling.left_margin = tiling.right_margin = 24;
  tiling.anchor = 4;
  tiling.prologue_steps = 80;
  tiling.edge_walk_percent = 80;
  tiling.low_face_steps = 20;
  tiling.high_face_steps = 50;
  tiling.ends_at_low_face = tiling.ends_at_high_face = true;
  tiling.whole_columns = 639;
  const Box box{{0, 0, 0}, {1, 10240, 10240}};
  const Launch launch = spider::choose_blocks(tiling, box, {132, 1}, box);
  const OverlappingGrid& grid = launch.grid.overlapping;
  EXPECT_LE(launch.blocks, 132);
  EXPECT_EQ(grid.columns.count, 18);
  EXPECT_EQ(grid.outer_rows, (grid.inner_rows + 80) * 80 / 100 - 80);
  const Span rows{0, 10240};
  const auto length = [&](std::int32_t block) {
    const Span stored = find_strip_walk(grid, block, rows).stored;
    return stored.end - stored.begin;
  };
  const auto inner_walks = static_cast<std::int32_t>(launch.blocks - grid.outer_walks);
  EXPECT_EQ(length(grid.outer_walks), grid.inner_rows - 20);
  EXPECT_EQ(length(grid.outer_walks + 16), grid.inner_rows);
  EXPECT_LE(length(grid.outer_walks + inner_walks - 1), grid.inner_rows - 50);
}

TEST(OverlappingTiling, FormsOfFewerStepsAreTakenWhereTheyAreAskedFor) {
  spider_kernel kernel{};
  kernel.form_count = 2;
  for (int i = 0; i < 2; ++i) {
    Tiling& tiling = kernel.forms[i].tiling;
    tiling.kind = TilingKind::overlapping;
    tiling.tile_extent[2] = 256;
    tiling.left_margin = tiling.right_margin = tiling.anchor = 8;
  }
  kernel.forms[0].steps = 24;
  const Box box{{0, 0, 0}, {1, 100, 1000}};
  EXPECT_EQ(choose_form(kernel, box, true, {}, 24, box).form, 0);
  EXPECT_EQ(choose_form(kernel, box, true, {}, 1, box).form, 1);
  EXPECT_THROW(static_cast<void>(choose_form(kernel, box, true, {}, 2, box)), std::logic_error);
}

constexpr std::int64_t rim_reach = 24;  // of all steps

/// Forms of 8 steps: the first two, of large boxes and of small ones, leave rims to the last one.
spider_kernel kernel_with_rims(const std::int32_t (&rims)[4]) {
  spider_kernel kernel{};
  kernel.form_count = 3;
  kernel.forms[0].min_blocks_per_sm = 1;
  for (int i = 0; i < 3; ++i) {
    kernel.forms[i].tiling = make_tiling(256, 64, 4, 2, 0);
    kernel.forms[i].steps = 8;
  }
  const auto least = [&](int axis) {
    const std::int32_t low = rims[2 * axis];
    const std::int32_t high = rims[2 * axis + 1];
    return low + high + std::max(low, high);
  };
  for (int i = 0; i < 2; ++i) kernel.forms[i] = with_rims(kernel.forms[i], rims, {least(0), least(1)});
  Tiling& tiling = kernel.forms[2].tiling;
  tiling = {};
  tiling.kind = TilingKind::rectangles;
  tiling.tile_extent[1] = 4;
  tiling.tile_extent[2] = 5;
  tiling.tile_cells = 6000;
  tiling.prologue_steps = tiling.left_margin = tiling.right_margin = rim_reach;
  tiling.anchor = 8;
  return kernel;
}

/// The lines of an axis that a block of spider/kernels/rims2d.h holds, which faces with rims end.
std::int64_t held_lines(const Span& stored, std::int64_t extent, bool is_closed_low, bool is_closed_high) {
  const std::int64_t begin =
      is_closed_low ? std::max<std::int64_t>(0, stored.begin - rim_reach) : stored.begin - rim_reach;
  const std::int64_t end = is_closed_high ? std::min(extent, stored.end + rim_reach) : stored.end + rim_reach;
  return end - begin;
}

/// Who computes each cell of a field of a box: 1 the form, 2 that of its rims, and 4 more that of rims, too.
std::vector<std::vector<int>> count_owners(const spider_kernel& kernel, const FormLaunch& chosen,
                                           const Box& field) {
  std::vector<std::vector<int>> owners(field.extent[1], std::vector<int>(field.extent[2], 0));
  if (chosen.launch.blocks > 0) {
    const auto& [z, first_row, first_column] = chosen.box.offset;
    for (std::int64_t y = first_row; y < first_row + chosen.box.extent[1]; ++y) {
      for (std::int64_t x = first_column; x < first_column + chosen.box.extent[2]; ++x)
        owners.at(y).at(x) += 1;
    }
  }
  const auto take = [&](const Span& rows, const Span& columns) {
    for (std::int32_t y = rows.begin; y < rows.end; ++y) {
      for (std::int32_t x = columns.begin; x < columns.end; ++x) {
        int& owner = owners.at(y).at(x);
        owner += owner == 0 ? 2 : 4;
      }
    }
  };
  for (std::int32_t block = 0; block < chosen.rims.blocks; ++block) {
    std::size_t i = 0;
    while (block >= chosen.rims.boxes[i].end_block) ++i;
    const CutBox& cut = chosen.rims.boxes[i];
    const std::int32_t index = block - (i == 0 ? 0 : chosen.rims.boxes[i - 1].end_block);
    const auto across =
        static_cast<std::int32_t>((cut.box.extent[2] + cut.tile_columns - 1) / cut.tile_columns);
    const auto stored = [&](int axis, std::int32_t tile, std::int32_t size) {
      const std::int64_t begin = cut.box.offset[axis] + std::int64_t{tile} * size;
      const std::int64_t end = std::min(begin + size, cut.box.offset[axis] + cut.box.extent[axis]);
      return Span{static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)};
    };
    const Span rows = stored(1, index / across, cut.tile_rows);
    const Span columns = stored(2, index % across, cut.tile_columns);
    const auto& rim = kernel.forms[0].rim;
    const std::int64_t held_rows = held_lines(rows, field.extent[1], rim[0][0] > 0, rim[0][1] > 0);
    const std::int64_t held_columns = held_lines(columns, field.extent[2], rim[1][0] > 0, rim[1][1] > 0);
    EXPECT_LE((held_rows + 4) * (held_columns + 5), 6000);
    take(rows, columns);
  }
  return owners;
}

TEST(RimTiling, EveryCellHasTheFormOfItsPlaceInTheField) {
  constexpr std::uint32_t seed = 5;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  backend::Residencies residencies;
  residencies.fill({between(1, 132), between(1, 3), false});
  int cut = 0;
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    std::int32_t rims[4];
    for (std::int32_t& rim : rims) rim = between(0, 1) * between(1, 24);
    const spider_kernel kernel = kernel_with_rims(rims);
    const Box field{{0, 0, 0}, {1, between(1, 120), between(1, 400)}};
    const FormLaunch whole = choose_form(kernel, field, true, residencies, 8, field);
    const std::vector<std::vector<int>> owners = count_owners(kernel, whole, field);
    const auto& [z, rows, columns] = field.extent;
    for (std::int64_t y = 0; y < rows; ++y) {
      for (std::int64_t x = 0; x < columns; ++x) {
        const int owner = owners[y][x];
        ASSERT_TRUE(owner == 1 || owner == 2) << owner;
        const bool at_face = y < rims[0] || rows - y <= rims[1] || x < rims[2] || columns - x <= rims[3];
        if (at_face) {
          ASSERT_EQ(owner, 2);
        }
        // What the form computes of a row or column, it computes in whole vectors beside a rim.
        const std::int64_t left = rims[2] == 0 ? 0 : (rims[2] + 7) / 8 * 8;
        const std::int64_t right = rims[3] == 0 ? columns : (columns - rims[3]) / 8 * 8;
        if (whole.launch.blocks > 0 && y >= rims[0] && rows - y > rims[1]) {
          ASSERT_EQ(owner == 1, x >= left && x < right);
        }
      }
    }
    if (whole.launch.blocks > 0 && whole.rims.blocks > 0) ++cut;
    Box box = field;
    for (const int axis : {1, 2}) {
      box.offset[axis] = between(0, static_cast<int>(field.extent[axis]) - 1);
      box.extent[axis] = between(1, static_cast<int>(field.extent[axis] - box.offset[axis]));
    }
    const FormLaunch of_part = choose_form(kernel, box, true, residencies, 8, field);
    const std::vector<std::vector<int>> of_box = count_owners(kernel, of_part, field);
    for (std::int64_t y = 0; y < rows; ++y) {
      for (std::int64_t x = 0; x < columns; ++x) {
        const bool inside = y >= box.offset[1] && y < box.offset[1] + box.extent[1] && x >= box.offset[2] &&
                            x < box.offset[2] + box.extent[2];
        ASSERT_EQ(of_box[y][x], inside ? owners[y][x] : 0);
      }
    }
  }
  EXPECT_GT(cut, 200);
}

TEST(RimTiling, SmallFieldsAreAllRim) {
  const spider_kernel kernel = kernel_with_rims({8, 8, 0, 0});
  backend::Residencies residencies;
  residencies.fill({4, 2, false});
  const auto choose = [&](std::int64_t rows) {
    const Box field{{0, 0, 0}, {1, rows, 300}};
    return choose_form(kernel, field, true, residencies, 8, field);
  };
  EXPECT_EQ(choose(23).launch.blocks, 0);
  EXPECT_GT(choose(23).rims.blocks, 0);
  EXPECT_GT(choose(24).launch.blocks, 0);
  EXPECT_EQ(choose(24).form, 1U);
  EXPECT_EQ(choose(100000).form, 0U);
  EXPECT_EQ(choose(24).rims_form, 2U);
  // A device without the shared memory for the first two forms has the last one.
  residencies[0].blocks_per_multiprocessor = residencies[1].blocks_per_multiprocessor = 0;
  EXPECT_EQ(choose(1000).launch.blocks, 0);
  EXPECT_GT(choose(1000).rims.blocks, 0);
}

}  // namespace
}  // namespace spider
