// Batches and cells of whole numbers by the C and C++ interfaces, with kernels as the generator writes them.
#include <gtest/gtest.h>
#include <spider/host_form.h>
#include <spider/make_kernel.h>
#include <spider/spider.h>
#include <spider/spider.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

constexpr spider::TapRow tap_rows[] = {{0, 0, -1, 1}};
constexpr spider::Tap taps[] = {{0, 0, -1, 0.5}, {0, 0, 0, 1}, {0, 0, 1, -1}};
constexpr spider::Face nearest[3][2] = {
    {{spider::FaceRule::halo, 0}, {spider::FaceRule::halo, 0}},
    {{spider::FaceRule::halo, 0}, {spider::FaceRule::halo, 0}},
    {{spider::FaceRule::nearest, 0}, {spider::FaceRule::nearest, 0}},
};

template <int storage, int output>
constexpr spider::SweepForm forms[] = {
    spider::host_form<taps, tap_rows, nearest, storage, 1, false, spider::loops::NoUpdate, output>()};

template <int storage, int output = storage>
const spider_kernel* kernel() {
  static constexpr spider_kernel made = spider::make_kernel(
      {"images", "by hand", "", 2, storage, {0, 0, 1}, {0, 0, 1}, 80, 3, 1, {}, 0, output},
      forms<storage, output>, tap_rows, taps, nearest);
  return &made;
}

double expected(const float* row, std::int64_t columns, std::int64_t x) {
  return 0.5 * row[std::max<std::int64_t>(x - 1, 0)] + row[x] - row[std::min(x + 1, columns - 1)];
}

/// Some rows of a field, and so many images of it.
struct Stack {
  static constexpr std::int64_t rows = 3, columns = 7;
  std::vector<float> cells;
  spider_field field;

  Stack(std::int64_t size, std::int64_t row_stride)
      : cells(static_cast<std::size_t>(size)), field{cells.data(), {1, rows, columns}, {0, row_stride}} {
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<float>((i * 7 + i * i) % 23);
  }
  [[nodiscard]] const float* row(std::int64_t image, std::int64_t stride, std::int64_t y) const {
    return cells.data() + image * stride + y * field.stride[1];
  }
};

spider_sweep sweep_of(const Stack& in, const Stack& out) {
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  sweep.in = &in.field;
  sweep.out = &out.field;
  return sweep;
}

void expect_images(const Stack& in, std::int64_t in_stride, const Stack& out, std::int64_t out_stride,
                   std::int64_t images) {
  for (std::int64_t image = 0; image < images; ++image) {
    for (std::int64_t y = 0; y < Stack::rows; ++y) {
      for (std::int64_t x = 0; x < Stack::columns; ++x) {
        ASSERT_EQ(out.row(image, out_stride, y)[x], expected(in.row(image, in_stride, y), Stack::columns, x))
            << image << ' ' << y << ' ' << x;
      }
    }
  }
}

TEST(Images, AreSweptEachByItself) {
  const Stack in(200, 8);
  const Stack out(200, 7);
  spider_sweep sweep = sweep_of(in, out);
  sweep.batch = 5;
  sweep.batch_stride = 30;
  sweep.out_batch_stride = 21;
  ASSERT_EQ(spider_run((kernel<SPIDER_F32>()), &sweep), SPIDER_OK) << spider_last_error();
  expect_images(in, 30, out, 21, 5);
}

TEST(Images, MayLieBetweenTheRowsOfOthers) {
  const Stack in(200, 50);
  const Stack out(200, 40);
  spider_sweep sweep = sweep_of(in, out);
  sweep.batch = 5;
  sweep.batch_stride = 8;
  ASSERT_EQ(spider_run((kernel<SPIDER_F32>()), &sweep), SPIDER_OK) << spider_last_error();
  expect_images(in, 8, out, 8, 5);
}

TEST(Images, TakeTimeSteps) {
  const Stack in(200, 8);
  const Stack out(200, 7);
  const Stack start = in;
  spider_sweep sweep = sweep_of(in, out);
  sweep.batch = 4;
  sweep.batch_stride = 24;
  sweep.out_batch_stride = 21;
  const spider_field* last = nullptr;
  ASSERT_EQ(spider_run_steps((kernel<SPIDER_F32>()), &sweep, 2, &last), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(last, &in.field);
  Stack once(200, 7);
  for (std::int64_t image = 0; image < 4; ++image) {
    for (std::int64_t y = 0; y < Stack::rows; ++y) {
      for (std::int64_t x = 0; x < Stack::columns; ++x) {
        once.cells[static_cast<std::size_t>(21 * image + 7 * y + x)] =
            static_cast<float>(expected(start.row(image, 24, y), Stack::columns, x));
      }
    }
  }
  expect_images(once, 21, in, 24, 4);
}

TEST(Images, AreRefusedWhereTheyShareCells) {
  const Stack in(600, 8);
  const Stack out(600, 8);
  spider_sweep sweep = sweep_of(in, out);
  sweep.batch = 5;
  const auto run = [&](std::int64_t stride, std::int64_t out_stride) {
    sweep.batch_stride = stride;
    sweep.out_batch_stride = out_stride;
    return spider_run((kernel<SPIDER_F32>()), &sweep);
  };
  EXPECT_EQ(run(30, 16), SPIDER_ERROR_OVERLAP);  // a row of the next image is one of this
  EXPECT_NE(std::string(spider_last_error()).find("of one image and the output of another"),
            std::string::npos);
  EXPECT_EQ(run(0, 0), SPIDER_ERROR_OVERLAP);
  EXPECT_EQ(run(0, 30), SPIDER_OK) << spider_last_error();  // all of the same input
  EXPECT_EQ(run(-30, 30), SPIDER_ERROR_STRIDE);
  EXPECT_EQ(run(std::int64_t{1} << 41, 30), SPIDER_ERROR_STRIDE);
  Stack beside = in;
  beside.field.data = beside.cells.data() + 25;
  sweep.in = &beside.field;
  Stack here = beside;
  here.field.data = beside.cells.data();
  sweep.out = &here.field;
  EXPECT_EQ(run(50, 50), SPIDER_OK) << spider_last_error();  // in turns
  EXPECT_EQ(run(25, 25), SPIDER_ERROR_OVERLAP);
  EXPECT_EQ(run(50, 25), SPIDER_ERROR_OVERLAP);
  sweep.batch = -1;
  EXPECT_EQ(run(50, 50), SPIDER_ERROR_EXTENT);
}

TEST(Images, AreOneForCallersOfBefore) {
  const Stack in(200, 8);
  const Stack out(200, 8);
  spider_sweep sweep = sweep_of(in, out);
  sweep.batch = 1000;  // what lies behind a shorter sweep
  sweep.batch_stride = -7;
  for (const std::size_t size : {offsetof(spider_sweep, batch), offsetof(spider_sweep, outputs),
                                 offsetof(spider_sweep, out_previous)}) {
    sweep.size = static_cast<std::uint32_t>(size);
    ASSERT_EQ(spider_run((kernel<SPIDER_F32>()), &sweep), SPIDER_OK) << spider_last_error();
  }
  sweep.size = offsetof(spider_sweep, batch_stride);
  EXPECT_EQ(spider_run((kernel<SPIDER_F32>()), &sweep), SPIDER_ERROR_UNSUPPORTED);
}

TEST(Images, OfAFieldArePlanes) {
  spider::Field<float> in(spider::Extents{4, 3, 7});
  spider::Field<float> out(spider::Extents{4, 3, 7});
  std::vector<float> values(static_cast<std::size_t>(in.size()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 31);
  in.upload(values);
  const std::vector<float> found = spider::apply_images((kernel<SPIDER_F32>()), in, out).download();
  for (std::size_t row = 0; row < 12; ++row) {
    for (std::int64_t x = 0; x < 7; ++x)
      EXPECT_EQ(found[7 * row + static_cast<std::size_t>(x)], expected(values.data() + 7 * row, 7, x));
  }
}

/// A row of whole numbers, and what becomes of them.
template <class Cell, class Out>
void expect_rounded(const spider_kernel* kernel, const std::vector<Cell>& cells) {
  const auto columns = static_cast<std::int64_t>(cells.size());
  spider::Field<Cell> in(1, columns);
  spider::Field<Out> out(1, columns);
  in.upload(cells);
  const std::vector<Out> found = spider::apply(kernel, in, out).download();
  const std::vector<float> numbers(cells.begin(), cells.end());
  for (std::int64_t x = 0; x < columns; ++x) {
    const double exact = std::nearbyint(expected(numbers.data(), columns, x));
    const double within = std::clamp(exact, double{std::numeric_limits<Out>::lowest()},
                                     double{std::numeric_limits<Out>::max()});
    EXPECT_EQ(found[static_cast<std::size_t>(x)], static_cast<Out>(within)) << x;
  }
}

TEST(WholeNumbers, AreRoundedToEvenAndStayInTheirRange) {
  expect_rounded<std::uint8_t, std::uint8_t>(kernel<SPIDER_U8>(), {0, 255, 255, 1, 3, 5, 0, 7, 200, 9});
  expect_rounded<std::uint16_t, std::uint16_t>(kernel<SPIDER_U16>(), {0, 65535, 65535, 1, 3, 5, 0, 7});
  expect_rounded<std::int16_t, std::int16_t>(kernel<SPIDER_I16>(), {-32768, -32768, 32767, 32767, -1, 5, -3});
  expect_rounded<std::uint8_t, std::int16_t>(kernel<SPIDER_U8, SPIDER_I16>(), {0, 255, 255, 1, 3, 5, 0});
  expect_rounded<std::int16_t, std::uint8_t>(kernel<SPIDER_I16, SPIDER_U8>(), {-300, 300, 301, 3, 5, -1});
}

TEST(Results, OfAnotherStorageTakeNoSteps) {
  const spider_kernel* converts = kernel<SPIDER_U8, SPIDER_I16>();
  EXPECT_EQ(spider::info(converts).output, SPIDER_I16);
  std::array<std::uint8_t, 16> in{};
  std::array<std::uint8_t, 16> out{};
  const spider_field a{in.data(), {1, 1, 16}, {0, 16}};
  const spider_field b{out.data(), {1, 1, 16}, {0, 16}};
  EXPECT_EQ(spider_iterate(converts, &a, &b, 2, nullptr, nullptr), SPIDER_ERROR_UNSUPPORTED);
  spider::Field<std::uint8_t> u(1, 16);
  spider::Field<std::uint8_t> wrong(1, 16);
  EXPECT_THROW(spider::apply(converts, u, wrong), spider::Error);
}

}  // namespace
