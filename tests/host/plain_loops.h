/// The loop nests that anybody would write: what the host back end is measured against.
#pragma once

#include <cstdint>

/// Fields of rows, `stride` elements apart, the first interior element given; the input has a halo.
struct Plain {
  const float* in;
  float* out;
  std::int64_t stride, out_stride, rows, columns;
};

void plain_heat(const Plain& field, float middle, float beside);
/// Weights row by row.
void plain_box(const Plain& field, const float (&weights)[25]);
