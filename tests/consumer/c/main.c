/* Applies two generated kernels to small fields and compares with plain loops. */
#include <math.h>
#include <spider/memory.h>
#include <spider/spider.h>
#include <stdio.h>
#include <stdlib.h>

#include "diffusion.h"
#include "slope.h"

enum { rows = 37, columns = 133, cells = rows * columns };

/* f16 bits of an integer from 0 to 2047, which f16 holds exactly. */
static uint16_t to_half(int value) {
  int exponent = 0;
  if (value == 0) return 0;
  while (value >> (exponent + 1)) ++exponent;
  return (uint16_t)((exponent + 15) << 10 | ((value << (10 - exponent)) & 0x3ff));
}

static double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double size = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -size : size;
}

static int input_value(int row, int column) {
  return (7 * row * row + 13 * column + row * column) % 97;
}

static double diffusion_of(int row, int column) {
  const int up = row > 0 ? row - 1 : row;
  const int down = row < rows - 1 ? row + 1 : row;
  const int left = column > 0 ? column - 1 : column;
  const int right = column < columns - 1 ? column + 1 : column;
  return (input_value(row, column) + input_value(row, left) + input_value(row, right)) / 4.0 +
         (input_value(up, column) + input_value(down, column)) / 8.0;
}

static double slope_of(int row, int column) {
  const double left = column > 0 ? input_value(row, column - 1) : 2;
  const double right = column < columns - 1 ? input_value(row, column + 1) : 2;
  return (right - left) / 2;
}

static void require(spider_status status, const char* what) {
  if (status != SPIDER_OK) {
    fprintf(stderr, "%s: %s (%s)\n", what, spider_status_string(status), spider_last_error());
    exit(1);
  }
}

/* The number of cells that are not what the loops say. */
static int wrong_cells(const spider_kernel* kernel, const spider_field* in, const spider_field* out,
                       double (*expected)(int, int)) {
  static uint16_t result[cells];
  const uint64_t pitch = columns * sizeof(uint16_t);
  int wrong = 0;
  require(spider_apply(kernel, in, out, NULL), spider_info(kernel)->name);
  require(spider_synchronize(NULL), "synchronize");
  require(spider_download(result, pitch, out->data, pitch, pitch, rows), "download");
  for (int i = 0; i < cells; ++i) {
    const double value = expected(i / columns, i % columns);
    wrong += !(fabs(from_half(result[i]) - value) <= fabs(value) / 2048);
  }
  printf("%s: %d of %d cells wrong\n", spider_info(kernel)->name, wrong, (int)cells);
  return wrong;
}

int main(void) {
  static uint16_t values[cells];
  const uint64_t pitch = columns * sizeof(uint16_t);
  spider_field in = {NULL, {1, rows, columns}, {0, columns}};
  spider_field out = in;
  int wrong = 0;
  for (int i = 0; i < cells; ++i) values[i] = to_half(input_value(i / columns, i % columns));
  require(spider_allocate(cells * sizeof(uint16_t), &in.data), "allocate");
  require(spider_allocate(cells * sizeof(uint16_t), &out.data), "allocate");
  require(spider_upload(in.data, pitch, values, pitch, pitch, rows), "upload");
  wrong += wrong_cells(diffusion_kernel(), &in, &out, diffusion_of);
  wrong += wrong_cells(slope_kernel(), &in, &out, slope_of);
  require(spider_free(in.data), "free");
  require(spider_free(out.data), "free");
  return wrong == 0 ? 0 : 1;
}
