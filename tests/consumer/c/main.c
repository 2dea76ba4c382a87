/* Applies generated kernels to small fields of f16, f32 and bf16, and compares with plain loops. */
#include <math.h>
#include <spider/memory.h>
#include <spider/spider.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion.h"
#include "fine.h"
#include "slope.h"
#include "tilt.h"
#include "tint.h"

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

/* bf16 is the upper half of f32. */
static uint16_t to_bfloat(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)(bits >> 16);
}

static double from_bfloat(uint16_t upper) {
  const uint32_t bits = (uint32_t)upper << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static int input_value(int row, int column) {
  return (7 * row * row + 13 * column + row * column) % 97;
}

/* A point and its neighbours, times these weights; beyond a face lies the cell at it. */
static double star_of(int row, int column, double center, double up, double down, double left, double right) {
  return center * input_value(row, column) + up * input_value(row > 0 ? row - 1 : row, column) +
         down * input_value(row < rows - 1 ? row + 1 : row, column) +
         left * input_value(row, column > 0 ? column - 1 : column) +
         right * input_value(row, column < columns - 1 ? column + 1 : column);
}

static double diffusion_of(int row, int column) {
  return star_of(row, column, 1 / 4.0, 1 / 8.0, 1 / 8.0, 1 / 4.0, 1 / 4.0);
}

/* Its input is a seventh of the others'. */
static double tilt_of(int row, int column) {
  return star_of(row, column, 0.5, 0.1, 0.1, 0.2, 0.1) / 7;
}

static double tint_of(int row, int column) {
  return star_of(row, column, 1 / 2.0, 1 / 8.0, 1 / 16.0, 1 / 4.0, 1 / 16.0);
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

/* One element of a field of that storage. */
static void store(void* memory, int i, int32_t storage) {
  const int value = input_value(i / columns, i % columns);
  if (storage == SPIDER_F64) {
    ((double*)memory)[i] = value / 7.0;
  } else if (storage == SPIDER_F32) {
    ((float*)memory)[i] = (float)value / 7;
  } else {
    ((uint16_t*)memory)[i] = storage == SPIDER_F16 ? to_half(value) : to_bfloat((float)value);
  }
}

static double load(const void* memory, int i, int32_t storage) {
  if (storage == SPIDER_F64) return ((const double*)memory)[i];
  if (storage == SPIDER_F32) return ((const float*)memory)[i];
  const uint16_t bits = ((const uint16_t*)memory)[i];
  return storage == SPIDER_F16 ? from_half(bits) : from_bfloat(bits);
}

/* The number of cells that are not what the loops say, within a part of it: what the kernel's header
 * promises. */
static int wrong_cells(const spider_kernel* kernel, double (*expected)(int, int), double part) {
  static double memory[cells]; /* room for any storage */
  const spider_kernel_info* info = spider_info(kernel);
  const uint64_t element = info->storage == SPIDER_F64   ? sizeof(double)
                           : info->storage == SPIDER_F32 ? sizeof(float)
                                                         : sizeof(uint16_t);
  const uint64_t pitch = columns * element;
  spider_field in = {NULL, {1, rows, columns}, {0, columns}};
  spider_field out = in;
  int wrong = 0;
  for (int i = 0; i < cells; ++i) store(memory, i, info->storage);
  require(spider_allocate(rows * pitch, &in.data), "allocate");
  require(spider_allocate(rows * pitch, &out.data), "allocate");
  require(spider_upload(in.data, pitch, memory, pitch, pitch, rows), "upload");
  require(spider_apply(kernel, &in, &out, NULL), info->name);
  require(spider_synchronize(NULL), "synchronize");
  require(spider_download(memory, pitch, out.data, pitch, pitch, rows), "download");
  for (int i = 0; i < cells; ++i) {
    const double value = expected(i / columns, i % columns);
    wrong += !(fabs(load(memory, i, info->storage) - value) <= fabs(value) * part);
  }
  printf("%s: %d of %d cells wrong\n", info->name, wrong, (int)cells);
  require(spider_free(in.data), "free");
  require(spider_free(out.data), "free");
  return wrong;
}

int main(void) {
  const int wrong = wrong_cells(diffusion_kernel(), diffusion_of, 1.0 / 2048) +
                    wrong_cells(fine_kernel(), tilt_of, 1.0 / ((int64_t)1 << 48)) +
                    wrong_cells(slope_kernel(), slope_of, 1.0 / 2048) +
                    wrong_cells(tilt_kernel(), tilt_of, 1.0 / (1 << 18)) +
                    wrong_cells(tint_kernel(), tint_of, 1.0 / 256);
  return wrong == 0 ? 0 : 1;
}
