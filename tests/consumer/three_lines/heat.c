/* One step of heat2d from a point source of 1000: 600 stay, 100 go to each neighbour. */
#include <spider/memory.h>
#include <spider/spider.h>
#include <stdio.h>

#include "heat2d.h"

enum { rows = 9, columns = 20, middle = 4 * columns + 10 };

static int failed(spider_status status) {
  if (status != SPIDER_OK) fprintf(stderr, "%s\n", spider_last_error());
  return status != SPIDER_OK;
}

int main(void) {
  static uint16_t values[rows * columns]; /* f16 bits */
  const uint64_t pitch = columns * sizeof(uint16_t);
  spider_field in = {NULL, {1, rows, columns}, {0, columns}};
  spider_field out = in;
  values[middle] = 0x63d0; /* 1000 */
  if (failed(spider_allocate(sizeof(values), &in.data)) ||
      failed(spider_allocate(sizeof(values), &out.data)) ||
      failed(spider_upload(in.data, pitch, values, pitch, pitch, rows)) ||
      failed(spider_apply(heat2d_kernel(), &in, &out, NULL)) ||
      failed(spider_download(values, pitch, out.data, pitch, pitch, rows)) || failed(spider_free(in.data)) ||
      failed(spider_free(out.data))) {
    return 1;
  }
  printf("%s: f16 bits %#x and %#x\n", spider_info(heat2d_kernel())->name, (unsigned)values[middle],
         (unsigned)values[middle - columns]);
  return values[middle] == 0x60b0 && values[middle - columns] == 0x5640 ? 0 : 1; /* 600, 100 */
}
