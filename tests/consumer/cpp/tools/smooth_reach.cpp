#include <smooth.h>
#include <spider/spider.h>

#include <cstdio>

int main() {
  std::printf("%d\n", static_cast<int>(spider_info(smooth_kernel())->reach_high[2]));
}
