#include <blur.h>

const char* name_of_blur();

const char* name_of_blur() {
  return spider_info(blur_kernel())->name;
}
