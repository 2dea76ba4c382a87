#include <spider/instructions_emulated.h>
#include <spider/loads/plane_ring.h>

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace spider {
namespace {

VolumeGrid grid_of(int across, int down, int planes, int first_wave) {
  VolumeGrid grid{};
  grid.across = across;
  grid.down = down;
  grid.planes = planes;
  grid.first_wave = first_wave;
  return grid;
}

TEST(BlocksOfAVolume, HaveEachPlaceOnce) {
  constexpr int planes = 21;
  constexpr int planes_of_walk = 4;
  constexpr int walks = 6;
  for (const int across : {1, 3, 12}) {
    for (int down = 1; down <= 23; ++down) {
      for (const int wave : {1, 5, 12, 40, 132, 1000}) {
        std::set<std::tuple<int, int, int>> places;
        const int blocks = across * down * walks;
        for (int i = 0; i < blocks; ++i) {
          const VolumePlace place =
              find_in_volume<true>(grid_of(across, down, planes_of_walk, wave), planes, i);
          EXPECT_TRUE(place.across >= 0 && place.across < across);
          EXPECT_TRUE(place.down >= 0 && place.down < down);
          EXPECT_TRUE(place.walk >= 0 && place.walk < walks);
          places.insert({place.across, place.down, place.walk});
        }
        EXPECT_EQ(static_cast<int>(places.size()), blocks) << across << " " << down << " " << wave;
      }
    }
  }
}

TEST(BlocksOfAVolume, WalkOnAlongZBeforeRowsThatNoWaveHolds) {
  const VolumeGrid grid = grid_of(12, 22, 8, 132);
  const auto place_of = [&](int i) { return find_in_volume<true>(grid, 768, i); };
  for (int i = 0; i < 132; ++i) {
    const VolumePlace first = place_of(i);
    const VolumePlace next = place_of(i + 132);
    EXPECT_LT(first.down, 11);
    EXPECT_EQ(first.walk, 0);
    EXPECT_EQ(next.walk, 1);
    EXPECT_EQ(next.down, first.down);
    EXPECT_EQ(next.across, first.across);
  }
  EXPECT_EQ(place_of(132 * 96).down, 11);
  EXPECT_EQ(place_of(132 * 96).walk, 0);
  // Where a wave holds all rows there are, all of them come before the next walks.
  EXPECT_EQ(find_in_volume<true>(grid_of(3, 22, 8, 396), 768, 3 * 22 - 1).down, 21);
  EXPECT_EQ(find_in_volume<true>(grid_of(3, 22, 8, 396), 768, 3 * 22).walk, 1);
}

}  // namespace
}  // namespace spider
