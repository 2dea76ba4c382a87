#include "plain_loops.h"

void plain_heat(const Plain& field, float middle, float beside) {
  for (std::int64_t y = 0; y < field.rows; ++y) {
    for (std::int64_t x = 0; x < field.columns; ++x) {
      const float* at = field.in + y * field.stride + x;
      field.out[y * field.out_stride + x] =
          middle * at[0] + beside * (at[-field.stride] + at[-1] + at[1] + at[field.stride]);
    }
  }
}

void plain_box(const Plain& field, const float (&weights)[25]) {
  for (std::int64_t y = 0; y < field.rows; ++y) {
    for (std::int64_t x = 0; x < field.columns; ++x) {
      const float* at = field.in + y * field.stride + x;
      float sum = 0;
      for (int dy = -2; dy <= 2; ++dy) {
        for (int dx = -2; dx <= 2; ++dx) sum += weights[5 * (dy + 2) + dx + 2] * at[dy * field.stride + dx];
      }
      field.out[y * field.out_stride + x] = sum;
    }
  }
}
