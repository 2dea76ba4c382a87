// The host back end beside plain loop nests: spider-host-bench [--extent N] [--repeats N]. Results are
// compared before times are told, of which the least counts; OMP_NUM_THREADS says how many cores the host
// back end has.
#include <spider/kernel.h>
#include <spider/spider.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "box2d_r2_f32.cu"
#include "heat2d_f32.cu"
#include "plain_loops.h"

namespace {

constexpr std::int64_t halo = 2;

double least_seconds(int repeats, const auto& work) {
  double least = HUGE_VAL;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

/// Compares and measures one kernel; whether it is right.
bool measure(const spider_kernel* kernel, std::int64_t extent, int repeats, const auto& plain_loops) {
  const std::int64_t stride = extent + 2 * halo;
  std::vector<float> input(static_cast<std::size_t>(stride * stride));
  std::uint32_t state = 1;
  for (float& cell : input) {
    state = state * 1664525 + 1013904223;
    cell = static_cast<float>(state >> 8) * 0x1p-24F;
  }
  std::vector<float> results(static_cast<std::size_t>(extent * extent));
  std::vector<float> wanted(results.size());
  float* first = input.data() + halo * stride + halo;
  const spider_field in{first, {1, extent, extent}, {0, stride}};
  const spider_field out{results.data(), {1, extent, extent}, {0, extent}};
  const Plain plain{first, wanted.data(), stride, extent, extent, extent};
  plain_loops(plain);
  if (spider_apply(kernel, &in, &out, nullptr) != SPIDER_OK) {
    std::printf("%s\n", spider_last_error());
    return false;
  }
  double largest = 0;  // difference, away from faces, beyond which the rules may be others
  for (std::int64_t y = halo; y < extent - halo; ++y) {
    for (std::int64_t x = halo; x < extent - halo; ++x) {
      const auto i = static_cast<std::size_t>(y * extent + x);
      largest = std::max(largest, std::fabs(static_cast<double>(results[i]) - wanted[i]));
    }
  }
  double weights = 0;
  for (std::int32_t i = 0; i < kernel->tap_count; ++i) weights += std::fabs(kernel->taps[i].weight);
  if (!(largest <= 2 * kernel->tap_count * 0x1p-24 * weights)) {
    std::printf("%s: results differ by %g\n", kernel->info.name, largest);
    return false;
  }
  const double ours = least_seconds(repeats, [&] { (void)spider_apply(kernel, &in, &out, nullptr); });
  const double theirs = least_seconds(repeats, [&] { plain_loops(plain); });
  const double points = static_cast<double>(extent) * static_cast<double>(extent);
  std::printf("%-14s %5lld x %lld: %7.2f ms, %5.0f Mpoints/s; plain loops %7.2f ms; speed over theirs %.2f\n",
              kernel->info.name, static_cast<long long>(extent), static_cast<long long>(extent), 1e3 * ours,
              1e-6 * points / ours, 1e3 * theirs, theirs / ours);
  return true;
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A step of 8 x 8 cells costs what is around its loops: some 15 times these alone. Is it less than 30 times?
/// The least of many processor times is the same on a busy machine.
bool is_light(const spider_kernel* heat) {
  constexpr std::int64_t extent = 8;
  constexpr std::int64_t stride = extent + 2;
  constexpr int steps = 200;
  std::vector<float> first(stride * stride);
  std::vector<float> second(stride * stride);
  const spider_field a{&first[stride + 1], {1, extent, extent}, {0, stride}};
  const spider_field b{&second[stride + 1], {1, extent, extent}, {0, stride}};
  const Plain plain{&first[stride + 1], &second[stride + 1], stride, stride, extent, extent};
  double ours = HUGE_VAL;
  double theirs = HUGE_VAL;
  for (int repeat = 0; repeat < 300; ++repeat) {
    const double begin = processor_seconds();
    if (spider_iterate(heat, &a, &b, steps, nullptr, nullptr) != SPIDER_OK) return false;
    const double between = processor_seconds();
    for (int step = 0; step < steps; ++step) plain_heat(plain, 0.5F, 0.125F);
    ours = std::min(ours, between - begin);
    theirs = std::min(theirs, processor_seconds() - between);
  }
  std::printf("%-14s     8 x 8: %7.3f us a step; plain loops %7.3f us\n", heat->info.name, 1e6 * ours / steps,
              1e6 * theirs / steps);
#if defined(__OPTIMIZE__)
  return ours < 30 * theirs;
#else
  return true;
#endif
}

}  // namespace

int main(int count, char** words) {
  std::int64_t extent = 4096;
  int repeats = 11;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string option = words[i];
    if (option == "--extent") extent = std::max(8LL, std::atoll(words[i + 1]));
    if (option == "--repeats") repeats = std::max(1, std::atoi(words[i + 1]));
  }
  const spider_kernel* heat = heat2d_f32_kernel();
  const spider_kernel* box = box2d_r2_f32_kernel();
  const auto weight = [](const spider_kernel* kernel, int tap) {
    return static_cast<float>(kernel->taps[tap].weight);
  };
  float weights[25];
  for (int i = 0; i < 25; ++i) weights[i] = weight(box, i);
  const bool right =
      measure(heat, extent, repeats,
              [&](const Plain& plain) { plain_heat(plain, weight(heat, 2), weight(heat, 0)); }) &&
      measure(box, extent, repeats, [&](const Plain& plain) { plain_box(plain, weights); }) && is_light(heat);
  return right ? 0 : 1;
}
