// The caller's memory between passes (spider_sweep.scratch), on the host.
#include <gtest/gtest.h>
#include <spider/spider.h>
#include <spider/half.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "passes_far.cu"
#include "passes_gaussian.cu"

namespace {

constexpr std::int64_t extent[3] = {9, 11, 40};
constexpr std::int64_t cells = extent[0] * extent[1] * extent[2];
constexpr std::int64_t images = 2;
constexpr std::size_t alignment = 128;

/// Two images, and a sweep of both.
struct Sweep {
  std::vector<float> from = std::vector<float>(images * cells);
  std::vector<float> to = std::vector<float>(images * cells);
  spider_field in{from.data(), {extent[0], extent[1], extent[2]}, {extent[1] * extent[2], extent[2]}};
  spider_field out{to.data(), {extent[0], extent[1], extent[2]}, {extent[1] * extent[2], extent[2]}};
  spider_sweep given{};

  Sweep() {
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i * i % 97);
    given.size = sizeof given;
    given.in = &in;
    given.out = &out;
    given.batch = images;
    given.batch_stride = cells;
  }
  [[nodiscard]] std::uint64_t scratch_bytes() const {
    std::uint64_t bytes = 0;
    EXPECT_EQ(spider_scratch_bytes(passes_gaussian_kernel(), &given, &bytes), SPIDER_OK)
        << spider_last_error();
    return bytes;
  }
  [[nodiscard]] spider_status run() const { return spider_run(passes_gaussian_kernel(), &given); }
};

/// Memory on a multiple of 128 bytes, and as much behind it that nothing may write.
struct Memory {
  std::vector<std::byte> all;
  std::byte* begin;
  std::uint64_t bytes;

  explicit Memory(std::uint64_t size) : all(size + 2 * alignment, std::byte{0x5a}), bytes(size) {
    const auto at = reinterpret_cast<std::uintptr_t>(all.data());
    begin = all.data() + (alignment - at % alignment) % alignment;
  }
  [[nodiscard]] bool is_whole() const {
    for (const std::byte* one = begin + bytes; one != all.data() + all.size(); ++one) {
      if (*one != std::byte{0x5a}) return false;
    }
    return true;
  }
};

TEST(Scratch, OfTheCallerGivesTheSameBits) {
  Sweep own;
  ASSERT_EQ(own.run(), SPIDER_OK) << spider_last_error();
  Sweep given;
  Memory memory(given.scratch_bytes());
  EXPECT_GE(memory.bytes, cells * sizeof(float));
  given.given.scratch = memory.begin;
  given.given.scratch_bytes = memory.bytes;
  ASSERT_EQ(given.run(), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(own.to, given.to);
  EXPECT_TRUE(memory.is_whole());
}

TEST(Scratch, OfABoxIsLess) {
  Sweep sweep;
  const std::uint64_t whole = sweep.scratch_bytes();
  for (int axis = 0; axis < 3; ++axis) sweep.given.extent[axis] = 2;
  EXPECT_LT(sweep.scratch_bytes(), whole);
  EXPECT_GT(sweep.scratch_bytes(), 0U);
  sweep.given.extent[2] = extent[2] + 1;
  std::uint64_t bytes = 1;
  EXPECT_EQ(spider_scratch_bytes(passes_gaussian_kernel(), &sweep.given, &bytes), SPIDER_ERROR_EXTENT);
  EXPECT_EQ(bytes, 0U);
}

TEST(Scratch, ThatDoesNotFitIsRefusedWithWords) {
  Sweep sweep;
  const std::uint64_t needed = sweep.scratch_bytes();
  Memory memory(needed);
  const auto expect = [&](void* scratch, std::uint64_t bytes, spider_status status,
                          const std::string& words) {
    sweep.given.scratch = scratch;
    sweep.given.scratch_bytes = bytes;
    EXPECT_EQ(sweep.run(), status) << words;
    EXPECT_NE(std::string(spider_last_error()).find(words), std::string::npos) << spider_last_error();
  };
  expect(memory.begin, needed - 1, SPIDER_ERROR_MEMORY, "needs " + std::to_string(needed));
  expect(memory.begin + 4, needed, SPIDER_ERROR_ALIGNMENT, "128 bytes");
  expect(nullptr, needed, SPIDER_ERROR_NULL, "scratch is null");
  const auto at = reinterpret_cast<std::uintptr_t>(sweep.to.data() + cells);
  expect(reinterpret_cast<void*>((at + alignment - 1) / alignment * alignment), needed, SPIDER_ERROR_OVERLAP,
         "share memory");
  EXPECT_EQ(sweep.to, std::vector<float>(images * cells)) << "nothing is written where anything is wrong";
}

TEST(Scratch, IsOfNoConcernToAnOlderCaller) {
  Sweep sweep;
  sweep.given.size = offsetof(spider_sweep, scratch);
  sweep.given.scratch = &sweep;
  EXPECT_EQ(sweep.run(), SPIDER_OK) << spider_last_error();
}

/// Five images of 7 x 120 cells, whose result is the same however many of them the scratch has room for.
TEST(Scratch, LetsImagesGoTogether) {
  constexpr std::int64_t count = 5;
  constexpr std::int64_t rows = 7;
  constexpr std::int64_t columns = 120;
  constexpr std::int64_t apart = rows * columns + 8;
  std::vector<spider::half> from(count * apart);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = spider::half(i * i % 97);
  const auto run = [&](std::uint64_t images) {
    std::vector<spider::half> to(count * apart);
    const spider_field in{from.data(), {1, rows, columns}, {apart, columns}};
    const spider_field out{to.data(), {1, rows, columns}, {apart, columns}};
    spider_sweep sweep{};
    sweep.size = sizeof sweep;
    sweep.in = &in;
    sweep.out = &out;
    sweep.batch = count;
    sweep.batch_stride = apart;
    std::uint64_t bytes = 0;
    EXPECT_EQ(spider_scratch_bytes(passes_far_kernel(), &sweep, &bytes), SPIDER_OK) << spider_last_error();
    Memory memory(bytes * images);
    sweep.scratch = memory.begin;
    sweep.scratch_bytes = memory.bytes;
    EXPECT_EQ(spider_run(passes_far_kernel(), &sweep), SPIDER_OK) << spider_last_error();
    EXPECT_TRUE(memory.is_whole());
    return to;
  };
  const std::vector<spider::half> by_one = run(1);
  EXPECT_NE(by_one[4 * apart + 100], by_one[100]);
  for (const std::uint64_t images : {2, 3, 5, 9}) EXPECT_EQ(run(images), by_one) << images << " together";
}

}  // namespace
