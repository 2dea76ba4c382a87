// Smooths a field by way of a library, carries it along by a second kernel, and compares with what must come
// out.
#include <filters.h>
#include <smooth.h>
#include <upwind.h>

#include <cmath>
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

/// out = 3/4 in(x) + 1/4 in(x - 1), the halo left of the field being 8.
int wrong_after_advection(int rows, int columns) {
  spider::Field<half> in(rows, columns, spider::Halo::of(upwind_kernel()));
  spider::Field<half> out(rows, columns);
  const int pitch = columns + 1;
  std::vector<half> padded;
  for (int i = 0; i < rows * pitch; ++i) {
    padded.push_back(half(i % pitch == 0 ? 8 : (i * 5) % 64));
  }
  in.upload_with_halo(padded);
  spider::apply(upwind_kernel(), in, out);
  spider::synchronize();
  const std::vector<half> result = out.download();
  int wrong = 0;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      const float expected = 0.75F * padded[y * pitch + x + 1] + 0.25F * padded[y * pitch + x];
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

}  // namespace

int main() {
  try {
    spider::prepare(smooth_kernel());
    const int smoothing = wrong_after_smoothing(29, 141);
    const int advection = wrong_after_advection(18, 70);
    const int boxes = wrong_in_boxes(29, 141);
    std::printf("%s: %d cells wrong, %s: %d cells wrong, in boxes: %d cells wrong\n",
                spider::info(smooth_kernel()).name, smoothing, spider::info(upwind_kernel()).name, advection,
                boxes);
    return smoothing + advection + boxes == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
