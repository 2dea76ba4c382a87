// Blurs one row, [0 8 0 4] -> [2 4 3 3], through both parts.
#include <spider/memory.h>
#include <spider/spider.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

const char* name_of_blur();
spider_status blur(const spider_field& in, const spider_field& out);

int main() {
  const std::uint16_t values[] = {0, 0x4800, 0, 0x4400};  // f16
  const std::uint16_t expected[] = {0x4000, 0x4400, 0x4200, 0x4200};
  std::uint16_t result[4] = {};
  spider_field in = {nullptr, {1, 1, 4}, {0, 4}};
  spider_field out = in;
  const bool called =
      spider_allocate(sizeof values, &in.data) == SPIDER_OK &&
      spider_allocate(sizeof values, &out.data) == SPIDER_OK &&
      spider_upload(in.data, sizeof values, values, sizeof values, sizeof values, 1) == SPIDER_OK &&
      blur(in, out) == SPIDER_OK &&
      spider_download(result, sizeof result, out.data, sizeof result, sizeof result, 1) == SPIDER_OK;
  std::printf("%s: %s\n", name_of_blur(), called ? "called" : spider_last_error());
  spider_free(in.data);
  spider_free(out.data);
  return called && std::memcmp(result, expected, sizeof expected) == 0 ? 0 : 1;
}
