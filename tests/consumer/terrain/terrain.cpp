#include "terrain.h"

#include <spider/spider.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "gauss2d_r7.h"
#include "heat2d_f32.h"
#include "heat2d_steps_f32.h"
#include "sobel_x.h"
#include "sobel_y.h"
#include "terrain_curvature.h"

namespace {

using Bits = std::uint16_t;  // f16 values travel as bit patterns: the host does not compute with them

struct NamedKernel {
  std::string_view name;
  const spider_kernel* (*kernel)();
};

constexpr std::array kernels{
    NamedKernel{"gauss2d_r7", gauss2d_r7_kernel},
    NamedKernel{"heat2d_f32", heat2d_f32_kernel},
    NamedKernel{"heat2d_steps_f32", heat2d_steps_f32_kernel},
    NamedKernel{"sobel_x", sobel_x_kernel},
    NamedKernel{"sobel_y", sobel_y_kernel},
    NamedKernel{"terrain_curvature", terrain_curvature_kernel},
};

const spider_kernel* find_kernel(std::string_view name) {
  for (const NamedKernel& candidate : kernels) {
    if (candidate.name == name) return candidate.kernel();
  }
  throw std::invalid_argument("no kernel is called " + std::string(name));
}

/// Mean seconds of one sweep.
double timed_sweeps(const spider_kernel* kernel, const spider::Field<Bits>& in, spider::Field<Bits>& out,
                    int sweeps) {
  using Clock = std::chrono::steady_clock;
  spider::prepare(kernel);
  if (sweeps > 1) spider::apply(kernel, in, out);
  spider::synchronize();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < sweeps; ++i) spider::apply(kernel, in, out);
  spider::synchronize();
  return std::chrono::duration<double>(Clock::now() - begin).count() / sweeps;
}

thread_local std::string last_error;

}  // namespace

const char* terrain_backend() {
  switch (spider::info(gauss2d_r7_kernel()).backend) {
    case SPIDER_BACKEND_HOST:
      return "host";
    case SPIDER_BACKEND_EMULATED:
      return "emulated";
    default:
      return "cuda";
  }
}

std::int32_t terrain_filter(const char* name, std::int64_t rows, std::int64_t columns, const Bits* in,
                            Bits* out, std::int32_t sweeps, double* seconds) try {
  if (sweeps < 1) throw std::invalid_argument("at least one sweep is needed");
  const spider_kernel* kernel = find_kernel(name);
  spider::Field<Bits> input(rows, columns, spider::Halo::of(kernel, {1, rows, columns}));
  spider::Field<Bits> output(rows, columns);
  input.upload(in);
  *seconds = timed_sweeps(kernel, input, output, sweeps);
  output.download(out);
  return 0;
} catch (const std::exception& error) {
  last_error = error.what();
  return -1;
}

std::int32_t terrain_diffuse(const char* kernel, std::int64_t rows, std::int64_t columns, const float* in,
                             float* out, std::int64_t steps, double* seconds) try {
  using Clock = std::chrono::steady_clock;
  spider::Field<float> a(rows, columns);
  spider::Field<float> b(rows, columns);
  a.upload(in);
  const spider_kernel* const steps_kernel = find_kernel(kernel);
  spider::prepare(steps_kernel);
  spider::synchronize();
  const Clock::time_point begin = Clock::now();
  const spider::Field<float>& result = spider::iterate(steps_kernel, a, b, steps);
  spider::synchronize();
  *seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  result.download(out);
  return 0;
} catch (const std::exception& error) {
  last_error = error.what();
  return -1;
}

const char* terrain_error() {
  return last_error.c_str();
}
