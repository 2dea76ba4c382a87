#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include <spider/spider.h>

#include "layout.h"
#include "storage.h"

namespace bench {
namespace {

TEST(Layout, RowsStartOn128BytesAndHoldTheHalo) {
  const Halo halo{{2, 3, 5}, {1, 4, 7}};
  for (const std::int64_t bytes : {2, 4}) {
    const FieldLayout layout = make_layout({6, 9, 1001}, halo, bytes, 0);
    for (const std::int64_t start : {layout.origin, layout.row_stride, layout.plane_stride}) {
      EXPECT_EQ(start * bytes % 128, 0);
    }
    EXPECT_GE(layout.row_stride, 5 + 1001 + 7);
    EXPECT_GE(layout.index(-2, -3, -5), 0);
    EXPECT_LT(layout.index(6, 9 + 3, 1001 + 6), layout.elements);
  }
}

TEST(Layout, OffsetMovesEveryRow) {
  const FieldLayout layout = make_layout({1, 9, 1000}, {{0, 1, 1}, {0, 1, 1}}, 2, 3);
  for (std::int64_t y = 0; y < 4; ++y) EXPECT_EQ(layout.index(0, y, 0) % 64, 3 * (y + 2)) << y;
  EXPECT_LT(layout.index(0, 9, 1000), layout.elements);
}

TEST(Layout, DenseHasNoGaps) {
  const FieldLayout layout = dense_layout({4, 5, 6});
  EXPECT_EQ(layout.elements, 120);
  EXPECT_EQ(layout.index(3, 4, 5), 119);
}

TEST(Layout, RotationLeavesThreeCachesBetween) {
  EXPECT_EQ(rotating_pairs(400, 100), 1);
  EXPECT_EQ(rotating_pairs(300, 100), 1);
  EXPECT_EQ(rotating_pairs(299, 100), 2);
  EXPECT_EQ(rotating_pairs(1, 100), 300);
}

TEST(Storage, ValuesFillMinusOneToOne) {
  for (const int storage : {SPIDER_F16, SPIDER_F32, SPIDER_BF16, SPIDER_F64}) {
    double sum = 0;
    double lowest = 1;
    double highest = -1;
    constexpr int count = 100'000;
    for (int i = 0; i < count; ++i) {
      const double value = cell_value(storage, 1, i);
      ASSERT_EQ(value, round_to_storage(storage, value));
      sum += value;
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    }
    EXPECT_GE(lowest, -1) << storage_name(storage);
    EXPECT_LT(highest, 1) << storage_name(storage);
    EXPECT_LT(lowest, -0.999);
    EXPECT_GT(highest, 0.99);
    EXPECT_LT(std::fabs(sum / count), 5 / std::sqrt(3.0 * count));  // 5 standard deviations of a uniform mean
  }
}

TEST(Storage, SeedsAndCellsGiveDifferentValues) {
  std::set<double> values;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::int64_t index = 0; index < 10; ++index) values.insert(cell_value(SPIDER_F32, seed, index));
  }
  EXPECT_EQ(values.size(), 100U);
}

TEST(Storage, EveryPatternOf16BitsIsItself) {
  for (const int storage : {SPIDER_F16, SPIDER_BF16}) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const double value = decode(storage, bits);
      if (std::isnan(value)) continue;
      ASSERT_EQ(encode(storage, value), bits) << storage_name(storage);
    }
  }
}

TEST(Storage, RoundsToNearestTiesToEven) {
  for (const int storage : {SPIDER_F16, SPIDER_F32, SPIDER_BF16}) {
    const double step = std::ldexp(1.0, 1 - significant_bits(storage));  // from 1 to the next
    EXPECT_EQ(round_to_storage(storage, 1 + step / 2), 1);
    EXPECT_EQ(round_to_storage(storage, 1 + 3 * step / 2), 1 + 2 * step);
    EXPECT_EQ(round_to_storage(storage, 1 + 0.51 * step), 1 + step);
    EXPECT_EQ(largest_below_one(storage), 1 - step / 2);
  }
  EXPECT_EQ(round_to_storage(SPIDER_F64, 0.1), 0.1);
  EXPECT_EQ(largest_below_one(SPIDER_F64), 1 - 0x1p-53);
}

TEST(Storage, UnknownTypesAreRefused) {
  EXPECT_THROW(static_cast<void>(element_bytes(99)), std::invalid_argument);
}

}  // namespace
}  // namespace bench
