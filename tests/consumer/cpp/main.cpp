// Smooths a field by way of a library, carries it along by a second kernel, takes means in f32 and in bf16,
// and compares with what must come out.
#include <fast_upwind.h>
#include <filters.h>
#include <smooth.h>
#include <tilt.h>
#include <tint.h>
#include <upwind.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <spider/spider.hpp>
#include <vector>

namespace {

using spider::half;

/// The smoothing keeps linear functions away from the faces, and constants everywhere.
int wrong_after_smoothing(int rows, int columns) {
  std::vector<half> image;
  for (int i = 0; i < rows * columns; ++i) {
    image.push_back(half(i / columns + 2 * (i % columns)));
  }
  const std::vector<half> result = smoothed(image, rows, columns, 2);
  int wrong = 0;
  for (int y = 4; y < rows - 4; ++y) {
    for (int x = 4; x < columns - 4; ++x) {
      wrong += result[y * columns + x] == image[y * columns + x] ? 0 : 1;
    }
  }
  for (const half value : smoothed(std::vector<half>(rows * columns, half(3)), rows, columns, 3)) {
    wrong += value == 3.0F ? 0 : 1;
  }
  return wrong;
}

/// out = (1 - c) in(x) + c in(x - 1), the halo left of the field being 8.
int wrong_after_advection(const spider_kernel* kernel, float c, int rows, int columns) {
  spider::Field<half> in(rows, columns, spider::Halo::of(kernel));
  spider::Field<half> out(rows, columns);
  const int pitch = columns + 1;
  std::vector<half> padded;
  for (int i = 0; i < rows * pitch; ++i) {
    padded.push_back(half(i % pitch == 0 ? 8 : (i * 5) % 64));
  }
  in.upload_with_halo(padded);
  spider::apply(kernel, in, out);
  spider::synchronize();
  const std::vector<half> result = out.download();
  int wrong = 0;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      const float expected = (1 - c) * padded[y * pitch + x + 1] + c * padded[y * pitch + x];
      wrong += result[y * columns + x] == expected ? 0 : 1;
    }
  }
  return wrong;
}

/// A sweep in boxes gives the bits of a whole one. They may be of any size and in any order; a code with
/// neighbours computes its rim first, sends it, and then does the rest.
int wrong_in_boxes(int rows, int columns) {
  std::vector<half> image;
  for (int i = 0; i < rows * columns; ++i) image.push_back(half((i * 37) % 101));
  spider::Field<half> in(rows, columns, spider::Halo::of(smooth_kernel()));
  in.upload(image);
  spider::Field<half> whole(rows, columns);
  spider::Field<half> boxes(rows, columns);
  spider::apply(smooth_kernel(), in, whole);

  const int rim = 3;
  const auto sweep = [&](spider::Extents offset, spider::Extents extent) {
    spider::apply_box(smooth_kernel(), in, boxes, offset, extent);
  };
  sweep({0, 0, 0}, {1, rim, columns});  // z, y, x
  sweep({0, rows - rim, 0}, {1, rim, columns});
  sweep({0, rim, 0}, {1, rows - 2 * rim, rim});
  sweep({0, rim, columns - rim}, {1, rows - 2 * rim, rim});
  sweep({0, rim, rim}, {1, rows - 2 * rim, columns - 2 * rim});
  spider::synchronize();

  const std::vector<half> expected = whole.download();
  const std::vector<half> result = boxes.download();
  int wrong = 0;
  for (int i = 0; i < rows * columns; ++i) wrong += result[i].bits() == expected[i].bits() ? 0 : 1;
  return wrong;
}

float value_of(float stored) {
  return stored;
}

/// bf16 is the upper half of f32.
float value_of(std::uint16_t stored) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16);
}

float store_as(float value, float /*type*/) {
  return value;
}

std::uint16_t store_as(float value, std::uint16_t /*type*/) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

struct Star {
  double center, up, down, left, right;
};

/// A field of T, whose cells T holds exactly, against plain loops: wrong is what is further off than a part
/// of the result.
template <typename T>
int wrong_means(const spider_kernel* kernel, const Star& star, float unit, double part) {
  const int rows = 23;
  const int columns = 141;
  std::vector<T> cells;
  for (int i = 0; i < rows * columns; ++i)
    cells.push_back(store_as(unit * static_cast<float>(1 + i * 37 % 101), T()));
  spider::Field<T> in(rows, columns);
  spider::Field<T> out(rows, columns);
  in.upload(cells);
  spider::apply(kernel, in, out);
  const std::vector<T> result = out.download();
  const auto at = [&](int y, int x) -> double {
    return value_of(cells[std::clamp(y, 0, rows - 1) * columns + std::clamp(x, 0, columns - 1)]);
  };
  int wrong = 0;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      const double expected = star.center * at(y, x) + star.up * at(y - 1, x) + star.down * at(y + 1, x) +
                              star.left * at(y, x - 1) + star.right * at(y, x + 1);
      wrong += std::fabs(value_of(result[y * columns + x]) - expected) <= part * expected ? 0 : 1;
    }
  }
  return wrong;
}

}  // namespace

int main() {
  try {
    spider::prepare(smooth_kernel());
    const int smoothing = wrong_after_smoothing(29, 141);
    const int advection = wrong_after_advection(upwind_kernel(), 0.25F, 18, 70) +
                          wrong_after_advection(fast_upwind_kernel(), 0.5F, 18, 70);
    const int boxes = wrong_in_boxes(29, 141);
    const int single = wrong_means<float>(tilt_kernel(), {0.5, 0.1, 0.1, 0.2, 0.1}, 1.0F / 7, 0x1p-18);
    const int bfloat =
        wrong_means<std::uint16_t>(tint_kernel(), {0.5, 0.125, 0.0625, 0.25, 0.0625}, 1, 0x1p-8);
    std::printf("cells wrong: %s %d, %s %d, in boxes %d, f32 %d, bf16 %d\n",
                spider::info(smooth_kernel()).name, smoothing, spider::info(upwind_kernel()).name, advection,
                boxes, single, bfloat);
    return smoothing + advection + boxes + single + bfloat == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
