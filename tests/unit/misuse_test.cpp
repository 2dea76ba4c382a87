// Wrong calls through the C interface: a status, words, and nothing written.
#include <spider/instructions_emulated.h>
#include <spider/kernel.h>
#include <spider/memory.h>
#include <spider/points.h>
#include <spider/spider.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr spider::TapRow cross_rows[] = {{0, -1, 0, 0}, {0, 0, -1, 1}, {0, 1, 0, 0}};

/// Copies the box; one lane does it all.
void copy_sweep(spider::SweepArguments arguments) {
  if (spider::device::block_index() != 0 || spider::device::lane_index() != 0) return;
  const auto* input = static_cast<const std::uint16_t*>(arguments.input);
  auto* output = static_cast<std::uint16_t*>(arguments.output);
  const spider::Box& box = arguments.box;
  for (std::int64_t y = box.offset[1]; y < box.offset[1] + box.extent[1]; ++y) {
    for (std::int64_t x = box.offset[2]; x < box.offset[2] + box.extent[2]; ++x) {
      spider::device::store_field(output + y * arguments.output_stride[1] + x,
                                  spider::device::load_field(input + y * arguments.input_stride[1] + x));
    }
  }
}

/// A kernel made by hand that reaches one cell in each direction, into halos.
spider_kernel copying_kernel() {
  spider_kernel kernel{};
  kernel.abi = SPIDER_ABI;
  kernel.size = sizeof(spider_kernel);
  kernel.launch_size = sizeof(spider::SweepArguments);
  kernel.info = {sizeof(spider_kernel_info),
                 SPIDER_ABI,
                 "copying",
                 "by hand",
                 "",
                 2,
                 SPIDER_F16,
                 SPIDER_F32,
                 1,
                 {0, 1, 1},
                 {0, 1, 1},
                 80,
                 1,
                 SPIDER_BACKEND_EMULATED,
                 nullptr,
                 0,
                 0,
                 nullptr,
                 nullptr,
                 nullptr,
                 0,
                 nullptr,
                 nullptr,
                 nullptr,
                 0,
                 SPIDER_F16};
  kernel.form_count = 1;
  kernel.forms[0].sweep = copy_sweep;
  kernel.forms[0].tiling.kind = spider::TilingKind::strips;
  kernel.forms[0].tiling.warps_per_block = 1;
  kernel.forms[0].tiling.input_alignment = kernel.forms[0].tiling.output_alignment = 16;
  kernel.forms[0].tiling.tile_extent[2] = 128;
  kernel.forms[0].tiling.anchor = 64;
  kernel.tap_rows = cross_rows;
  kernel.tap_row_count = 3;
  return kernel;
}

/// A field of 6 x 10 points with a halo of one cell, its rows 16 elements apart.
struct Grid {
  static constexpr std::int64_t stride = 16;
  using Cells = std::array<std::uint16_t, 9 * stride>;
  Cells cells{};
  spider_field field{&cells[2 * stride + 2], {1, 6, 10}, {0, stride}};

  explicit Grid(std::uint16_t value) { cells.fill(value); }
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;
  ~Grid() = default;
  [[nodiscard]] bool holds_only(std::uint16_t value) const { return cells == Grid(value).cells; }
};

class Misuse : public ::testing::Test {
 protected:
  spider_kernel kernel = copying_kernel();
  Grid in{1};
  Grid out{2};

  /// The sweep, the same as a box and the iteration fail alike, say `words`, and write nothing.
  void expect_refused(spider_status status, const std::string& words) {
    constexpr std::int64_t offset[3] = {0, 0, 0};
    constexpr std::int64_t extent[3] = {1, 1, 1};
    const auto check = [&](const char* call, spider_status got) {
      EXPECT_EQ(got, status) << call << ": " << spider_last_error();
      EXPECT_NE(std::string(spider_last_error()).find(words), std::string::npos)
          << "no '" << words << "' in: " << spider_last_error();
      EXPECT_EQ(std::string(spider_last_error()).find(call), 0U) << spider_last_error();
    };
    check("spider_apply", spider_apply(&kernel, &in.field, &out.field, nullptr));
    check("spider_apply_box", spider_apply_box(&kernel, &in.field, &out.field, offset, extent, nullptr));
    check("spider_iterate", spider_iterate(&kernel, &in.field, &out.field, 2, nullptr, nullptr));
    EXPECT_TRUE(in.holds_only(1));
    EXPECT_TRUE(out.holds_only(2));
  }

  void expect_box_refused(std::array<std::int64_t, 3> offset, std::array<std::int64_t, 3> extent) {
    EXPECT_EQ(spider_apply_box(&kernel, &in.field, &out.field, offset.data(), extent.data(), nullptr),
              SPIDER_ERROR_EXTENT);
    EXPECT_NE(std::string(spider_last_error()).find("the box has offset"), std::string::npos);
    EXPECT_TRUE(out.holds_only(2));
  }
};

TEST_F(Misuse, NothingIsWrongHere) {
  ASSERT_EQ(spider_apply(&kernel, &in.field, &out.field, nullptr), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(out.cells[2 * Grid::stride + 2], 1);
  EXPECT_EQ(out.cells[2 * Grid::stride + 1], 2);
}

TEST_F(Misuse, NullPointers) {
  EXPECT_EQ(spider_apply(nullptr, &in.field, &out.field, nullptr), SPIDER_ERROR_NULL);
  EXPECT_EQ(spider_apply(&kernel, nullptr, &out.field, nullptr), SPIDER_ERROR_NULL);
  EXPECT_EQ(spider_apply(&kernel, &in.field, nullptr, nullptr), SPIDER_ERROR_NULL);
  constexpr std::int64_t three[3] = {1, 1, 1};
  EXPECT_EQ(spider_apply_box(&kernel, &in.field, &out.field, nullptr, three, nullptr), SPIDER_ERROR_NULL);
  EXPECT_EQ(spider_apply_box(&kernel, &in.field, &out.field, three, nullptr, nullptr), SPIDER_ERROR_NULL);
  EXPECT_EQ(spider_iterate(&kernel, &in.field, nullptr, 0, nullptr, nullptr), SPIDER_ERROR_NULL);
  EXPECT_EQ(spider_prepare(nullptr), SPIDER_ERROR_NULL);
  EXPECT_EQ(spider_info(nullptr), nullptr);
  in.field.data = nullptr;
  expect_refused(SPIDER_ERROR_NULL, "the input has no data");
}

TEST_F(Misuse, KernelsOfAnotherAbiOrBackEnd) {
  kernel.abi = SPIDER_ABI + 1;
  expect_refused(SPIDER_ERROR_KERNEL, "generate it again");
  kernel.abi = SPIDER_ABI;
  kernel.size += 8;
  expect_refused(SPIDER_ERROR_KERNEL, "generate it again");
  kernel.size = sizeof(spider_kernel);
  kernel.launch_size -= 8;
  expect_refused(SPIDER_ERROR_KERNEL, "the kernel was generated for launches with");
  kernel.launch_size += 8;
  // A second form for rims at faces takes larger arguments.
  kernel.forms[1].sweep = spider::SweepFunction([](spider::BoxesArguments) {});
  kernel.form_count = 2;
  expect_refused(SPIDER_ERROR_KERNEL, "launches with 216 bytes; this runtime has launches with 472 bytes");
  kernel.form_count = 1;
  kernel.info.backend = SPIDER_BACKEND_CUDA;
  expect_refused(SPIDER_ERROR_KERNEL, "link one back end only");
}

TEST_F(Misuse, Extents) {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (int axis = 0; axis < 3; ++axis) {
    for (const std::int64_t extent : {std::int64_t{-1}, least, most}) {
      const std::int64_t right = in.field.extent[axis];
      in.field.extent[axis] = extent;
      expect_refused(SPIDER_ERROR_EXTENT, "the input has extent " + std::to_string(extent));
      in.field.extent[axis] = right;
    }
  }
  out.field.extent[2] = 9;
  expect_refused(SPIDER_ERROR_EXTENT, "input and output differ on axis x: 10 and 9");
}

TEST_F(Misuse, EmptyFieldsAreNone) {
  for (int axis = 1; axis < 3; ++axis) {
    spider_field empty{nullptr, {1, 8, 10}, {0, 0}};
    empty.extent[axis] = 0;
    spider_field other = empty;
    const spider_field* last = nullptr;
    EXPECT_EQ(spider_apply(&kernel, &empty, &other, nullptr), SPIDER_OK) << spider_last_error();
    EXPECT_EQ(spider_iterate(&kernel, &empty, &other, 3, nullptr, &last), SPIDER_OK) << spider_last_error();
    EXPECT_TRUE(last == &empty || last == &other);
    std::int64_t low[3] = {7, 7, 7};
    std::int64_t high[3] = {7, 7, 7};
    EXPECT_EQ(spider_halo(&kernel, empty.extent, low, high), SPIDER_OK);
    EXPECT_EQ(low[1] + low[2] + high[1] + high[2], 0);
    other.extent[3 - axis] += 1;
    EXPECT_EQ(spider_apply(&kernel, &empty, &other, nullptr), SPIDER_ERROR_EXTENT);
    spider_points* points = nullptr;
    EXPECT_EQ(spider_points_create(&kernel, empty.extent, nullptr, 0, &points), SPIDER_OK)
        << spider_last_error();
    EXPECT_EQ(spider_points_read(points, &empty, nullptr, nullptr), SPIDER_OK) << spider_last_error();
    spider_points_free(points);
  }
}

TEST_F(Misuse, Strides) {
  for (const std::int64_t stride :
       {std::int64_t{-16}, std::int64_t{0}, std::int64_t{11}, std::int64_t{1} << 41}) {
    in.field.stride[1] = stride;
    expect_refused(SPIDER_ERROR_STRIDE,
                   "the input has " + std::to_string(stride) + " elements from row to row");
  }
  in.field.stride[1] = 16;
  out.field.stride[1] = 9;
  expect_refused(SPIDER_ERROR_STRIDE, "at least 10 keep rows apart");
}

TEST_F(Misuse, HugeFieldsDoNotOverflow) {
  in.field.extent[1] = out.field.extent[1] = 2'000'000'000;
  in.field.stride[1] = std::int64_t{1} << 40;
  expect_refused(SPIDER_ERROR_STRIDE, "spans more than 2^60 bytes");
}

TEST_F(Misuse, Alignment) {
  in.field.data = reinterpret_cast<char*>(in.field.data) + 1;
  expect_refused(SPIDER_ERROR_ALIGNMENT, "the input does not start on a multiple of its element size");
}

TEST_F(Misuse, Overlap) {
  out.field.data = in.field.data;
  expect_refused(SPIDER_ERROR_OVERLAP, "share cells");
  // Only the input's halo.
  out.field.data = in.cells.data() + 2 * Grid::stride + 12;
  out.field.extent[1] = in.field.extent[1] = 1;
  out.field.extent[2] = in.field.extent[2] = 4;
  in.field.data = in.cells.data() + 2 * Grid::stride + 8;
  expect_refused(SPIDER_ERROR_OVERLAP, "share cells");
}

TEST_F(Misuse, Steps) {
  EXPECT_EQ(spider_iterate(&kernel, &in.field, &out.field, -1, nullptr, nullptr), SPIDER_ERROR_STEPS);
  kernel.info.steps = 2;
  kernel.forms[0].steps = 2;
  EXPECT_EQ(spider_iterate(&kernel, &in.field, &out.field, 3, nullptr, nullptr), SPIDER_ERROR_STEPS);
  EXPECT_NE(std::string(spider_last_error()).find("a multiple of the kernel's 2"), std::string::npos);
  EXPECT_TRUE(out.holds_only(2));
  const spider_field* result = nullptr;
  EXPECT_EQ(spider_iterate(&kernel, &in.field, &out.field, 0, nullptr, &result), SPIDER_OK);
  EXPECT_EQ(result, &in.field);
  EXPECT_TRUE(out.holds_only(2));
}

TEST_F(Misuse, Boxes) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_box_refused({0, 0, 0}, {1, 0, 10});
  expect_box_refused({0, 0, 0}, {1, 6, -1});
  expect_box_refused({0, -1, 0}, {1, 6, 10});
  expect_box_refused({0, 6, 0}, {1, 1, 10});
  expect_box_refused({0, 1, 0}, {1, 6, 10});
  expect_box_refused({0, 0, 5}, {1, 6, most});
  expect_box_refused({0, 0, most}, {1, 6, most});
  expect_box_refused({1, 0, 0}, {1, 6, 10});
}

TEST_F(Misuse, BoxesWriteThemselvesOnly) {
  constexpr std::int64_t offset[3] = {0, 2, 3};
  constexpr std::int64_t extent[3] = {1, 1, 2};
  ASSERT_EQ(spider_apply_box(&kernel, &in.field, &out.field, offset, extent, nullptr), SPIDER_OK);
  Grid::Cells expected = Grid(2).cells;
  expected[4 * Grid::stride + 5] = expected[4 * Grid::stride + 6] = 1;
  EXPECT_EQ(out.cells, expected);
}

TEST_F(Misuse, Copies) {
  std::vector<std::uint16_t> host(64, 7);
  EXPECT_EQ(spider_upload(nullptr, 8, host.data(), 8, 8, 2), SPIDER_ERROR_NULL);
  EXPECT_EQ(spider_upload(out.cells.data(), 6, host.data(), 8, 8, 2), SPIDER_ERROR_STRIDE);
  EXPECT_EQ(spider_download(host.data(), 8, in.cells.data(), 6, 8, 2), SPIDER_ERROR_STRIDE);
  EXPECT_TRUE(out.holds_only(2));
  EXPECT_EQ(spider_upload(out.cells.data(), 0, host.data(), 0, 8, 1), SPIDER_OK);
  EXPECT_EQ(spider_allocate(1, nullptr), SPIDER_ERROR_NULL);
  void* memory = nullptr;
  EXPECT_EQ(spider_allocate(std::numeric_limits<std::uint64_t>::max(), &memory), SPIDER_ERROR_MEMORY);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(spider_allocate(0, &memory), SPIDER_OK);
  EXPECT_NE(memory, nullptr);
  EXPECT_EQ(spider_free(memory), SPIDER_OK);
  EXPECT_EQ(spider_free(nullptr), SPIDER_OK);
  EXPECT_EQ(spider_clear(nullptr, 8), SPIDER_ERROR_NULL);
  EXPECT_EQ(spider_clear(out.cells.data() + 9, 2), SPIDER_OK);
  EXPECT_EQ(out.cells[8], 2);
  EXPECT_EQ(out.cells[9], 0);
  EXPECT_EQ(out.cells[10], 2);
}

TEST_F(Misuse, LastErrorIsTheThreadsOwn) {
  EXPECT_EQ(spider_prepare(nullptr), SPIDER_ERROR_NULL);
  const std::string mine = spider_last_error();
  std::thread([&] {
    EXPECT_STREQ(spider_last_error(), "");
    EXPECT_EQ(spider_iterate(&kernel, &in.field, &out.field, -1, nullptr, nullptr), SPIDER_ERROR_STEPS);
    EXPECT_NE(std::string(spider_last_error()), mine);
  }).join();
  EXPECT_EQ(std::string(spider_last_error()), mine);
}

TEST_F(Misuse, ThreadsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (std::uint16_t number = 10; number < 14; ++number) {
    threads.emplace_back([&, number] {
      const Grid from(number);
      for (int round = 0; round < 20; ++round) {
        Grid to(2);
        EXPECT_EQ(spider_apply(&kernel, &from.field, &to.field, nullptr), SPIDER_OK);
        EXPECT_EQ(to.cells[2 * Grid::stride + 2], number);
        EXPECT_EQ(spider_apply(&kernel, &from.field, &from.field, nullptr), SPIDER_ERROR_OVERLAP);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
