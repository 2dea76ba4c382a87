// The host back end beside what its caller does with threads, processes and the floating-point mode.
#include <spider/kernel.h>
#include <spider/spider.h>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

#include "heat2d_f32.cu"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace {

/// A sweep of a field from memory to memory.
class Sweep {
 public:
  Sweep(std::int64_t rows, std::int64_t columns, float scale)
      : rows_(rows), columns_(columns), input_(static_cast<std::size_t>(rows * columns)) {
    std::uint32_t state = 1;
    for (float& cell : input_) {
      state = state * 1664525 + 1013904223;
      cell = static_cast<float>(state >> 8) * scale;
    }
  }

  [[nodiscard]] std::vector<float> results() {
    std::vector<float> output(input_.size());
    const spider_field in{input_.data(), {1, rows_, columns_}, {0, columns_}};
    const spider_field out{output.data(), {1, rows_, columns_}, {0, columns_}};
    if (spider_apply(heat2d_f32_kernel(), &in, &out, nullptr) != SPIDER_OK) output.clear();
    return output;
  }

 private:
  std::int64_t rows_, columns_;
  std::vector<float> input_;
};

constexpr std::int64_t many = 1500;  // rows, and columns, that threads share

/// The exit status of a forked child that runs `body`, which tells whether all is well; -1 where it does not
/// end within half a minute.
template <class Body>
int status_of_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Threads, AForkedChildSweepsAsItsParent) {
  Sweep sweep(many, many, 0x1p-24F);
  const std::vector<float> wanted = sweep.results();
  ASSERT_FALSE(wanted.empty()) << spider_last_error();
  const auto is_right = [&] { return sweep.results() == wanted; };
  EXPECT_EQ(status_of_child(is_right), 0);
  EXPECT_EQ(status_of_child([&] { return is_right() && status_of_child(is_right) == 0; }), 0)
      << "a grandchild";
  EXPECT_TRUE(is_right()) << "the parent goes on";
}

TEST(Threads, ResultsDoNotDependOnWhereRowsAreCut) {
  // Wide rows are read where they are, narrow ones copied, several in a line.
  constexpr std::int64_t rows = 70;
  constexpr std::int64_t columns = 700;
  std::vector<float> input(rows * columns);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i * i % 1021);
  std::vector<float> whole(input.size());
  const spider_field in{input.data(), {1, rows, columns}, {0, columns}};
  const spider_field out{whole.data(), {1, rows, columns}, {0, columns}};
  ASSERT_EQ(spider_apply(heat2d_f32_kernel(), &in, &out, nullptr), SPIDER_OK) << spider_last_error();
  for (const std::int64_t width : {1, 2, 5, 15, 16, 17, 64, 255, 256, 257}) {
    std::vector<float> parts(input.size());
    const spider_field to{parts.data(), {1, rows, columns}, {0, columns}};
    for (std::int64_t x = 0; x < columns; x += width) {
      const std::int64_t offset[3] = {0, 0, x};
      const std::int64_t extent[3] = {1, rows, std::min(width, columns - x)};
      ASSERT_EQ(spider_apply_box(heat2d_f32_kernel(), &in, &to, offset, extent, nullptr), SPIDER_OK);
    }
    EXPECT_EQ(parts, whole) << "in boxes of " << width << " columns";
  }
}

/// Threads of this process.
std::ptrdiff_t thread_count() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads));
}

TEST(Threads, SmallSweepsStartNoThreads) {
  // In a child, which begins with one thread.
  const auto starts = [](std::int64_t extent) {
    return [extent] {
      Sweep sweep(extent, extent, 0x1p-24F);
      static_cast<void>(sweep.results());
      return thread_count() > 1;
    };
  };
  EXPECT_EQ(status_of_child(starts(8)), 1);
  EXPECT_EQ(status_of_child(starts(300)), 1);
  EXPECT_EQ(status_of_child(starts(many)), 0);
}

TEST(Threads, ChildrenOfThreadsSweepToo) {
  Sweep sweep(many, many, 0x1p-24F);
  const std::vector<float> wanted = sweep.results();
  int status = -1;
  std::thread forks([&] {
    const bool before = sweep.results() == wanted;
    status = before ? status_of_child([&] { return sweep.results() == wanted; }) : 1;
  });
  forks.join();
  EXPECT_EQ(status, 0);
}

#if defined(__SSE__)

/// Computes in the mode that linking with -ffast-math begins with.
class Flushing {
 public:
  Flushing() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040U); }
  ~Flushing() { _mm_setcsr(before_); }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
  unsigned before_;
};

/// Subnormal results of fields of this extent, computed in a process that replaces them by 0.
void expect_subnormals(std::int64_t extent) {
  Sweep sweep(extent, extent, 0x1p-149F);
  const std::vector<float> wanted = sweep.results();
  std::vector<float> found;
  {
    const Flushing mode;
    // Threads that begin here inherit the mode.
    std::thread([&] { found = sweep.results(); }).join();
    EXPECT_NE(_mm_getcsr() & 0x8040U, 0U);
  }
  EXPECT_EQ(found, wanted);
  const float largest = *std::max_element(wanted.begin(), wanted.end());
  EXPECT_GT(largest, 0.0F);
  EXPECT_LT(largest, 2 * std::numeric_limits<float>::min());
}

TEST(Threads, SubnormalsAreExactWhateverTheModeOfTheProcess) {
  expect_subnormals(16);
  expect_subnormals(many);
}

#endif

}  // namespace
