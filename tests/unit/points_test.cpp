// Values added to cells and cells read, through the C interface (spider/points.h), on host memory.
#include <spider/kernel.h>
#include <spider/points.h>
#include <spider/spider.h>
#include <spider/half.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernel_by_hand.h"

namespace {

/// A kernel of which points see the facts alone.
spider_kernel kernel_of(std::int32_t storage, std::int32_t dimensions) {
  return kernel_by_hand("by_hand", dimensions, storage);
}

struct Free {
  void operator()(spider_points* points) const { EXPECT_EQ(spider_points_free(points), SPIDER_OK); }
};
using Points = std::unique_ptr<spider_points, Free>;

using Place = std::array<std::int64_t, 3>;

Points make_points(const spider_kernel& kernel, const spider_field& field, const std::vector<Place>& cells) {
  spider_points* points = nullptr;
  EXPECT_EQ(spider_points_create(&kernel, field.extent, cells.empty() ? nullptr : cells.front().data(),
                                 static_cast<std::int64_t>(cells.size()), &points),
            SPIDER_OK)
      << spider_last_error();
  return Points(points);
}

float number_of(std::uint16_t cell, std::int32_t storage) {
  return storage == SPIDER_F16 ? static_cast<float>(spider::half::from_bits(cell))
                               : std::bit_cast<float>(static_cast<std::uint32_t>(cell) << 16);
}

TEST(Points, AddInTheOrderOfTheListAndRoundOnce) {
  // 1 + 2^-24 is 1 in f32: the order of the values decides. The cell's own value comes first.
  const spider_kernel kernel = kernel_of(SPIDER_F32, 2);
  std::vector<float> cells(4 * 8, 0.5F);
  const spider_field field{cells.data(), {1, 4, 7}, {0, 8}};
  const Points points = make_points(kernel, field, {{0, 2, 3}, {0, 0, 0}, {0, 2, 3}, {0, 3, 6}, {0, 2, 3}});
  const std::vector<float> values{0.5F, 2, 0x1p-24F, 4, 0x1p-24F};
  ASSERT_EQ(spider_points_add(points.get(), &field, values.data(), nullptr), SPIDER_OK)
      << spider_last_error();
  std::vector<float> expected(4 * 8, 0.5F);
  expected[2 * 8 + 3] = 1;
  expected[0] = 2.5F;
  expected[3 * 8 + 6] = 4.5F;
  EXPECT_EQ(cells, expected);

  cells[2 * 8 + 3] = 0;
  const std::vector<float> other_order{0x1p-24F, 0, 0x1p-24F, 0, 1};
  ASSERT_EQ(spider_points_add(points.get(), &field, other_order.data(), nullptr), SPIDER_OK);
  EXPECT_EQ(cells[2 * 8 + 3], 1 + 0x1p-23F);
}

TEST(Points, AddDoublesToDoubles) {
  // 1 + 2^-53 is 1 in doubles, and 1 + 2^-52 is not.
  spider_kernel kernel = kernel_of(SPIDER_F64, 3);
  kernel.info.accumulate = SPIDER_F64;
  std::vector<double> cells(2 * 3 * 4, 1);
  const spider_field field{cells.data(), {2, 3, 4}, {12, 4}};
  const Points points = make_points(kernel, field, {{1, 2, 3}, {0, 0, 1}, {1, 2, 3}});
  const std::vector<double> values{0x1p-53, 0x1p-52, 0x1p-53};
  ASSERT_EQ(spider_points_add(points.get(), &field, values.data(), nullptr), SPIDER_OK)
      << spider_last_error();
  std::vector<double> read(3);
  ASSERT_EQ(spider_points_read(points.get(), &field, read.data(), nullptr), SPIDER_OK);
  EXPECT_EQ(read, (std::vector<double>{1, 1 + 0x1p-52, 1}));
  EXPECT_EQ(std::count(cells.begin(), cells.end(), 1), 23);
}

TEST(Points, RoundHalvesOnce) {
  // Each value alone would be lost: a half at 1 has steps of 2^-10, a bf16 of 2^-7.
  for (const auto& [storage, one, step] :
       {std::tuple<std::int32_t, std::uint16_t, float>{SPIDER_F16, 0x3c00, 0x1p-10F},
        {SPIDER_BF16, 0x3f80, 0x1p-7F}}) {
    const spider_kernel kernel = kernel_of(storage, 1);
    std::vector<std::uint16_t> cells(20, one);
    const spider_field field{cells.data(), {1, 1, 20}, {0, 0}};
    const Points points = make_points(kernel, field, {{0, 0, 19}, {0, 0, 19}, {0, 0, 19}, {0, 0, 19}});
    const std::vector<float> quarters(4, step / 4);
    ASSERT_EQ(spider_points_add(points.get(), &field, quarters.data(), nullptr), SPIDER_OK);
    EXPECT_EQ(number_of(cells[19], storage), 1 + step);
    EXPECT_EQ(std::count(cells.begin(), cells.end(), one), 19);
    std::vector<float> read(4);
    ASSERT_EQ(spider_points_read(points.get(), &field, read.data(), nullptr), SPIDER_OK);
    EXPECT_EQ(read, std::vector<float>(4, 1 + step));
  }
}

TEST(Points, ReadAllCellsOfAVolumeWithGaps) {
  const spider_kernel kernel = kernel_of(SPIDER_F32, 3);
  constexpr std::int64_t planes = 3;
  constexpr std::int64_t rows = 4;
  constexpr std::int64_t columns = 5;
  constexpr std::int64_t row = 7;
  constexpr std::int64_t plane = 40;
  std::vector<float> cells(planes * plane, -1);
  std::vector<Place> places;
  std::vector<float> expected;
  for (std::int64_t z = 0; z < planes; ++z) {
    for (std::int64_t y = 0; y < rows; ++y) {
      for (std::int64_t x = 0; x < columns; ++x) {
        places.insert(places.begin(), {z, y, x});  // not in the order of memory
        expected.insert(expected.begin(), static_cast<float>(100 * z + 10 * y + x));
        cells[static_cast<std::size_t>(z * plane + y * row + x)] = expected.front();
      }
    }
  }
  const spider_field field{cells.data(), {planes, rows, columns}, {plane, row}};
  const Points points = make_points(kernel, field, places);
  std::vector<float> read(2 * places.size(), -2);
  const std::vector<float> before = cells;
  ASSERT_EQ(spider_points_read(points.get(), &field, read.data() + places.size(), nullptr), SPIDER_OK);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                         read.begin() + static_cast<std::ptrdiff_t>(places.size())));
  EXPECT_EQ(std::count(read.begin(), read.end(), -2.0F), static_cast<std::ptrdiff_t>(places.size()));
  EXPECT_EQ(cells, before);
}

TEST(Points, AreNoneAndDoNothing) {
  const spider_kernel kernel = kernel_of(SPIDER_F16, 2);
  std::vector<std::uint16_t> cells(6, 7);
  const spider_field field{cells.data(), {1, 2, 3}, {0, 3}};
  const Points points = make_points(kernel, field, {});
  EXPECT_EQ(spider_points_add(points.get(), &field, nullptr, nullptr), SPIDER_OK);
  EXPECT_EQ(spider_points_read(points.get(), &field, nullptr, nullptr), SPIDER_OK);
  EXPECT_EQ(cells, std::vector<std::uint16_t>(6, 7));
  EXPECT_EQ(spider_points_free(nullptr), SPIDER_OK);
}

class Refused : public ::testing::Test {
 protected:
  spider_kernel kernel = kernel_of(SPIDER_F32, 2);
  std::vector<float> cells = std::vector<float>(30, 1);
  spider_field field{cells.data(), {1, 5, 6}, {0, 6}};
  Points points = make_points(kernel, field, {{0, 1, 1}, {0, 4, 5}});
  std::vector<float> values{3, 4, 5};

  static void expect(spider_status got, spider_status status, const std::string& words) {
    EXPECT_EQ(got, status) << spider_last_error();
    EXPECT_NE(std::string(spider_last_error()).find(words), std::string::npos) << spider_last_error();
  }

  void expect_no_points(const std::vector<Place>& places, std::int64_t count, spider_status status,
                        const std::string& words) const {
    spider_points* made = points.get();
    expect(spider_points_create(&kernel, field.extent, places.empty() ? nullptr : places.front().data(),
                                count, &made),
           status, words);
    EXPECT_EQ(made, nullptr);
  }

  void expect_no_access(const spider_field& other, const void* list, spider_status status,
                        const std::string& words) const {
    const std::vector<float> before = cells;
    expect(spider_points_add(points.get(), &other, list, nullptr), status, words);
    expect(spider_points_read(points.get(), &other, const_cast<void*>(list), nullptr), status, words);
    EXPECT_EQ(cells, before);
    EXPECT_EQ(values, (std::vector<float>{3, 4, 5}));
  }
};

TEST_F(Refused, CellsOutside) {
  expect_no_points({{0, 1, 1}, {0, 5, 0}}, 2, SPIDER_ERROR_EXTENT,
                   "point 1 has index 5 on axis y; it must be 0 to 4");
  expect_no_points({{0, 0, -1}}, 1, SPIDER_ERROR_EXTENT, "point 0 has index -1 on axis x; it must be 0 to 5");
  expect_no_points({{1, 0, 0}}, 1, SPIDER_ERROR_EXTENT, "on axis z; it must be 0 to 0");
  expect_no_points({{0, 0, 0}}, -1, SPIDER_ERROR_EXTENT, "-1 points");
  expect_no_points({}, 3, SPIDER_ERROR_NULL, "the cells are null");
}

TEST_F(Refused, KernelsAndExtentsThatAreNone) {
  spider_points* made = nullptr;
  const Place cell{0, 0, 0};
  expect(spider_points_create(nullptr, field.extent, cell.data(), 1, &made), SPIDER_ERROR_NULL, "kernel");
  expect(spider_points_create(&kernel, nullptr, cell.data(), 1, &made), SPIDER_ERROR_NULL, "extents");
  expect(spider_points_create(&kernel, field.extent, cell.data(), 1, nullptr), SPIDER_ERROR_NULL, "place");
  spider_kernel other = kernel;
  other.info.backend = SPIDER_BACKEND_CUDA;
  expect(spider_points_create(&other, field.extent, cell.data(), 1, &made), SPIDER_ERROR_KERNEL, "back end");
  field.extent[0] = 2;
  expect_no_points({{0, 0, 0}}, 1, SPIDER_ERROR_EXTENT, "extent 2 on axis z");
}

TEST_F(Refused, FieldsThatDoNotFit) {
  expect_no_access({cells.data(), {1, 6, 5}, {0, 6}}, values.data(), SPIDER_ERROR_EXTENT,
                   "extent 6 on axis y; the points are of fields with 5");
  expect_no_access({nullptr, {1, 5, 6}, {0, 6}}, values.data(), SPIDER_ERROR_NULL, "no data");
  expect_no_access({cells.data(), {1, 5, 6}, {0, 5}}, values.data(), SPIDER_ERROR_STRIDE, "row to row");
  auto* const odd = reinterpret_cast<std::byte*>(cells.data()) + 2;
  expect_no_access({odd, {1, 5, 6}, {0, 6}}, values.data(), SPIDER_ERROR_ALIGNMENT, "element size");
  expect(spider_points_add(nullptr, &field, values.data(), nullptr), SPIDER_ERROR_NULL, "points");
  expect(spider_points_add(points.get(), nullptr, values.data(), nullptr), SPIDER_ERROR_NULL, "field");
}

TEST_F(Refused, ValuesThatDoNotFit) {
  expect_no_access(field, nullptr, SPIDER_ERROR_NULL, "the values are null");
  expect_no_access(field, reinterpret_cast<std::byte*>(values.data()) + 1, SPIDER_ERROR_ALIGNMENT, "values");
  expect_no_access(field, &cells[28], SPIDER_ERROR_OVERLAP, "share cells");
}

}  // namespace
