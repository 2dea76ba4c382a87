#include <smooth.h>
#include <spider/spider.h>

#include <cstdio>

int main() {
  std::puts(spider_info(smooth_kernel())->name);
}
