// When two fields share cells: check_fields against the cells one by one; and how far a plane's cells lie
// apart.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <set>

#include "fields.h"

namespace spider {
namespace {

/// A kernel of 3D halves that reaches into halos.
spider_kernel make_kernel(const std::array<int, 3>& low, const std::array<int, 3>& high) {
  spider_kernel kernel{};
  kernel.info.dimensions = 3;
  kernel.info.storage = kernel.info.output = SPIDER_F16;
  for (int axis = 0; axis < 3; ++axis) {
    kernel.info.reach_low[axis] = low[axis];
    kernel.info.reach_high[axis] = high[axis];
  }
  return kernel;
}

/// Addresses of the field's cells, with the halo that a kernel reaches.
std::set<std::uintptr_t> cells_of(const spider_field& field, const std::array<int, 3>& low,
                                  const std::array<int, 3>& high) {
  std::set<std::uintptr_t> cells;
  for (std::int64_t z = -low[0]; z < field.extent[0] + high[0]; ++z) {
    for (std::int64_t y = -low[1]; y < field.extent[1] + high[1]; ++y) {
      for (std::int64_t x = -low[2]; x < field.extent[2] + high[2]; ++x) {
        cells.insert(reinterpret_cast<std::uintptr_t>(field.data) +
                     static_cast<std::uintptr_t>(2 * (z * field.stride[0] + y * field.stride[1] + x)));
      }
    }
  }
  return cells;
}

bool share(const std::set<std::uintptr_t>& a, const std::set<std::uintptr_t>& b) {
  for (const std::uintptr_t cell : a) {
    if (b.contains(cell)) return true;
  }
  return false;
}

void* address(std::int64_t cell) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>((std::int64_t{1} << 32) + 2 * cell));
}

/// Strides that keep rows and planes of so many cells apart, planes within rows where `swapped`.
struct StrideChoice {
  std::mt19937& random;
  std::array<std::int64_t, 3> cells;

  [[nodiscard]] std::int64_t up_to(std::int64_t most) const {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  }

  void choose(spider_field& field, bool swapped) const {
    const int inner = swapped ? 0 : 1;
    const int outer = 1 - inner;
    const std::int64_t narrow = cells[2] + up_to(12);
    field.stride[inner] = narrow;
    field.stride[outer] = cells[static_cast<std::size_t>(inner)] * narrow + up_to(12);
  }
};

TEST(Overlap, IsThatOfTheCells) {
  constexpr std::uint32_t seeds = 4000;
  int apart = 0;
  int shared = 0;
  for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
    const std::array<int, 3> low{up_to(2), up_to(2), up_to(2)};
    const std::array<int, 3> high{up_to(2), up_to(2), up_to(2)};
    const spider_kernel kernel = make_kernel(low, high);
    spider_field in{address(0), {1 + up_to(3), 1 + up_to(3), 1 + up_to(4)}, {}};
    spider_field out = in;
    StrideChoice choice{random, {}};
    for (int axis = 0; axis < 3; ++axis)
      choice.cells[static_cast<std::size_t>(axis)] = in.extent[axis] + low[axis] + high[axis];
    const bool swapped = up_to(3) == 0;
    choice.choose(in, swapped);
    choice.choose(out, up_to(7) == 0 ? !swapped : swapped);
    if (up_to(3) > 0) {
      out.stride[0] = in.stride[0];
      out.stride[1] = in.stride[1];
    }
    const int span = static_cast<int>(in.extent[0] * in.stride[0] + in.extent[1] * in.stride[1]);
    out.data = address(up_to(2 * span) - span);
    const backend::Outcome outcome = check_fields(kernel, in, out, whole_part(in));
    const bool truth = share(cells_of(in, low, high), cells_of(out, {}, {}));
    ASSERT_EQ(outcome.status, truth ? SPIDER_ERROR_OVERLAP : SPIDER_OK) << outcome.reason;
    ++(truth ? shared : apart);
  }
  EXPECT_GT(shared, 500);
  EXPECT_GT(apart, 500);
}

TEST(Overlap, IsKnownAtOnceForFieldsOfAnySize) {
  constexpr std::int64_t extent = 30000;
  const spider_kernel kernel = make_kernel({1, 1, 1}, {1, 1, 1});
  // Rows of the one between rows of the other.
  spider_field in{address(0), {extent, extent, extent}, {}};
  in.stride[1] = 2 * extent + 2;
  in.stride[0] = in.stride[1] * (extent + 2);
  spider_field out = in;
  out.data = address(extent + 1);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(check_fields(kernel, in, out, whole_part(in)).status, SPIDER_OK);
  for (const std::int64_t cell : {extent, extent + 3}) {
    out.data = address(cell);
    EXPECT_EQ(check_fields(kernel, in, out, whole_part(in)).status, SPIDER_ERROR_OVERLAP) << cell;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST(PlaneCells, FitWhereTheLastOnesOffsetDoes) {
  const spider_kernel kernel = make_kernel({1, 1, 1}, {1, 1, 1});
  constexpr std::int64_t rows = 38 + 2;
  constexpr std::int64_t columns = 128 + 2;
  constexpr std::int64_t farthest = (2147483647 - 128 - columns) / rows;
  spider_field field{address(0), {4, 38, 128}, {rows * farthest, farthest}};
  EXPECT_TRUE(plane_cells_fit_32_bits(kernel, field));
  ++field.stride[1];
  EXPECT_FALSE(plane_cells_fit_32_bits(kernel, field));
  field.extent[1] = 36;
  EXPECT_TRUE(plane_cells_fit_32_bits(kernel, field));
}

}  // namespace
}  // namespace spider
