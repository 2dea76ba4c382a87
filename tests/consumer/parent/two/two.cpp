#include <blur.h>
#include <spider/memory.h>

spider_status blur(const spider_field& in, const spider_field& out);

spider_status blur(const spider_field& in, const spider_field& out) {
  return spider_apply(blur_kernel(), &in, &out, nullptr);
}
