#include "parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace spider::distributed {
namespace {

/// A field into which sweeps look so far along z, y, x, to both sides.
CutField make_field(const Extents& low, const Extents& high) {
  CutField field;
  std::copy(low.begin(), low.end(), field.reach_low);
  std::copy(high.begin(), high.end(), field.reach_high);
  return field;
}

/// The part of a rank at `place` of so many parts along z, y, x.
spider_grid_layout make_part(const Extents& extent, const Parts& parts, const Parts& place,
                             const Parts& periodic = {}) {
  spider_grid_layout layout{};
  std::copy(extent.begin(), extent.end(), layout.extent);
  std::copy(parts.begin(), parts.end(), layout.parts);
  std::copy(place.begin(), place.end(), layout.place);
  std::copy(periodic.begin(), periodic.end(), layout.periodic);
  return layout;
}

/// How often each cell of the part is in one of the boxes.
std::vector<int> count_boxes(const Boxes& boxes, const Extents& extent) {
  std::vector<int> counts(static_cast<std::size_t>(extent[0] * extent[1] * extent[2]), 0);
  for (const std::vector<Box>* some : {&boxes.interior, &boxes.rims}) {
    for (const Box& box : *some) {
      for (std::int64_t z = box.offset[0]; z < box.offset[0] + box.extent[0]; ++z) {
        for (std::int64_t y = box.offset[1]; y < box.offset[1] + box.extent[1]; ++y) {
          for (std::int64_t x = box.offset[2]; x < box.offset[2] + box.extent[2]; ++x)
            ++counts.at(static_cast<std::size_t>((z * extent[1] + y) * extent[2] + x));
        }
      }
    }
  }
  return counts;
}

TEST(DividePart, CoversEachCellOnceAndKeepsTheInteriorFromNeighbours) {
  std::mt19937 random(21);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int with_interior = 0;
  for (int i = 0; i < 500; ++i) {
    Extents low{};
    Extents high{};
    Extents extent{};
    Parts parts{};
    Parts place{};
    Parts periodic{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      low[axis] = draw(0, 5);
      high[axis] = draw(0, 5);
      extent[axis] = draw(5, 40);
      parts[axis] = draw(1, 3);
      place[axis] = draw(0, parts[axis] - 1);
      periodic[axis] = draw(0, 1);
    }
    const spider_grid_layout layout = make_part(extent, parts, place, periodic);
    const Boxes boxes = divide_part(make_field(low, high), layout);
    const std::vector<int> counts = count_boxes(boxes, extent);
    EXPECT_TRUE(std::all_of(counts.begin(), counts.end(), [](int count) { return count == 1; })) << i;
    ASSERT_LE(boxes.interior.size(), 1U);
    for (const Box& box : boxes.interior) {
      ++with_interior;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        // It reads no cell of a neighbour, and writes none that one takes.
        const std::int64_t rim = std::max(low[axis], high[axis]);
        const bool has_low = parts[axis] > 1 && (periodic[axis] != 0 || place[axis] > 0);
        const bool has_high = parts[axis] > 1 && (periodic[axis] != 0 || place[axis] + 1 < parts[axis]);
        EXPECT_GE(box.offset[axis], has_low ? rim : 0) << i;
        EXPECT_LE(box.offset[axis] + box.extent[axis], extent[axis] - (has_high ? rim : 0)) << i;
      }
    }
  }
  EXPECT_GT(with_interior, 300);
}

TEST(PlaceOf, IsWhereTheReceiverExpectsTheCells) {
  std::mt19937 random(22);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int compared = 0;
  for (int i = 0; i < 100; ++i) {
    const CutField field =
        make_field({draw(0, 3), draw(0, 3), draw(0, 3)}, {draw(0, 3), draw(0, 3), draw(0, 3)});
    const Extents whole{draw(13, 30), draw(13, 30), draw(13, 30)};
    const Parts parts{draw(1, 3), draw(1, 3), draw(1, 3)};
    std::vector<spider_grid_layout> layouts;
    std::vector<Messages> messages;
    for (int rank = 0; rank < parts[0] * parts[1] * parts[2]; ++rank) {
      layouts.push_back(make_layout(field, whole, parts, rank).layout);
      messages.push_back(make_messages(field, layouts.back()));
    }
    for (const Messages& own : messages) {
      for (const Message& message : own.all) {
        if (!message.sends) continue;
        const auto to = static_cast<std::size_t>(message.to);
        const std::vector<Message>& theirs = messages[to].all;
        const auto same = std::find_if(theirs.begin(), theirs.end(),
                                       [&](const Message& other) { return other.tag == message.tag; });
        ASSERT_NE(same, theirs.end());
        const Box place = place_of(message, layouts[to].extent);
        EXPECT_TRUE(std::equal(place.offset, place.offset + 3, same->receive.offset)) << i;
        EXPECT_TRUE(std::equal(place.extent, place.extent + 3, same->receive.extent)) << i;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

TEST(DividePart, HasNoRimsWithoutNeighbours) {
  const Boxes boxes =
      divide_part(make_field({4, 4, 4}, {4, 4, 4}), make_part({20, 20, 20}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}));
  ASSERT_EQ(boxes.interior.size(), 1U);
  EXPECT_EQ(count_cells(boxes.interior[0]), 8000);
  EXPECT_TRUE(boxes.rims.empty());
}

TEST(DividePart, SweepsAllAtOnceWhereRimsMeet) {
  const Boxes boxes =
      divide_part(make_field({4, 0, 0}, {4, 0, 0}), make_part({8, 20, 20}, {3, 1, 1}, {1, 0, 0}));
  EXPECT_TRUE(boxes.interior.empty());
  ASSERT_EQ(boxes.rims.size(), 1U);
  EXPECT_EQ(count_cells(boxes.rims[0]), 3200);
}

TEST(DividePart, BeginsTheInteriorOfWideRowsAtWholeBlocks) {
  const Boxes boxes =
      divide_part(make_field({0, 0, 1}, {0, 0, 1}), make_part({1, 1, 2000}, {1, 1, 3}, {0, 0, 1}));
  ASSERT_EQ(boxes.interior.size(), 1U);
  EXPECT_EQ(boxes.interior[0].offset[2] % 128, 0);
  EXPECT_EQ((boxes.interior[0].offset[2] + boxes.interior[0].extent[2]) % 128, 0);
}

TEST(ChooseParts, CutsPlanesBetweenGpusOfOneHost) {
  const CutField field = make_field({4, 4, 4}, {4, 4, 4});
  const std::array<bool, 3> all{true, true, true};
  EXPECT_EQ(choose_parts(field, {1536, 1536, 768}, all, {4, true}), (Parts{4, 1, 1}));
  EXPECT_EQ(choose_parts(field, {768, 768, 768}, all, {4, true}), (Parts{4, 1, 1}));
  // Planes are few: rims would be most of the parts.
  EXPECT_EQ(choose_parts(field, {32, 4096, 512}, all, {4, true}), (Parts{1, 4, 1}));
}

TEST(ChooseParts, CutsAllAxesWhereANetworkIsBetweenMostRanks) {
  const CutField field = make_field({4, 4, 4}, {4, 4, 4});
  EXPECT_EQ(choose_parts(field, {2048, 2048, 2048}, {true, true, true}, {512, false}), (Parts{8, 8, 8}));
}

TEST(ChooseParts, CutsRowsOfPlatesAndNoAxisThatMustNotBe) {
  const CutField field = make_field({0, 1, 1}, {0, 1, 1});
  EXPECT_EQ(choose_parts(field, {1, 16384, 16384}, {false, true, true}, {4, true}), (Parts{1, 4, 1}));
  EXPECT_EQ(choose_parts(field, {1, 16384, 16384}, {false, false, true}, {4, true}), (Parts{1, 1, 4}));
}

TEST(ChooseParts, FindsPartsAsWideAsTheHaloOrNone) {
  const CutField field = make_field({0, 7, 0}, {0, 7, 0});
  const std::array<bool, 3> plates{false, true, true};
  EXPECT_EQ(choose_parts(field, {1, 20, 3}, plates, {4, true}), (Parts{1, 2, 2}));
  EXPECT_EQ(choose_parts(field, {1, 20, 3}, plates, {8, true}), (Parts{0, 0, 0}));
}

TEST(ChooseParts, HasTheLeastEstimateOfAllThatFit) {
  std::mt19937 random(22);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int i = 0; i < 300; ++i) {
    const Extents reach{draw(0, 4), draw(0, 8), draw(0, 16)};
    const CutField field = make_field(reach, reach);
    const Extents whole{draw(1, 300), draw(1, 300), draw(1, 300)};
    const RankFacts ranks{draw(1, 24), draw(0, 1) == 1};
    const Parts best = choose_parts(field, whole, {true, true, true}, ranks);
    if (best[0] == 0) continue;
    EXPECT_EQ(best[0] * best[1] * best[2], ranks.count) << "seed 22, case " << i;
    const double least = estimate_step(field, whole, best, ranks.on_one_host);
    for (std::int32_t z = 1; z <= ranks.count; ++z) {
      for (std::int32_t y = 1; z * y <= ranks.count; ++y) {
        if (ranks.count % (z * y) != 0) continue;
        EXPECT_LE(least, estimate_step(field, whole, {z, y, ranks.count / z / y}, ranks.on_one_host))
            << "seed 22, case " << i;
      }
    }
  }
}

}  // namespace
}  // namespace spider::distributed
