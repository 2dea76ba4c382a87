// spider-bench: times generated kernels beside a device copy of the same bytes, in one process, after
// checking each against double precision. README.md in this folder says what is measured and how to read it.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <spider/kernel.h>
#include <spider/spider.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t halo_rows = 8;
constexpr std::int64_t halo_columns = 64;  // f16: rows start on 128 bytes
constexpr int warm_launches = 3;
constexpr int timed_launches = 25;
constexpr int checked_points = 6000;

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// A field on the device with room for a halo, and its contents on the host.
class Field {
 public:
  Field(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), stride_((columns + 2 * halo_columns + 63) / 64 * 64) {
    void* memory = nullptr;
    require(cudaMalloc(&memory, bytes()), "cudaMalloc");
    memory_.reset(memory);
    require(cudaMemset(memory, 0xFF, bytes()), "cudaMemset");  // NaN, until something else is written
  }

  [[nodiscard]] std::int64_t elements() const { return stride_ * (rows_ + 2 * halo_rows); }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(elements()) * sizeof(__half); }
  [[nodiscard]] std::int64_t index(std::int64_t y, std::int64_t x) const {
    return (y + halo_rows) * stride_ + x + halo_columns;
  }
  [[nodiscard]] void* memory() const { return memory_.get(); }
  [[nodiscard]] spider_field view() const {
    return {static_cast<__half*>(memory_.get()) + index(0, 0), {1, rows_, columns_}, {0, stride_}};
  }

 private:
  struct Free {
    void operator()(void* memory) const { cudaFree(memory); }
  };
  std::int64_t rows_, columns_, stride_;
  std::unique_ptr<void, Free> memory_;
};

class Event {
 public:
  Event() { require(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record() { require(cudaEventRecord(event_), "cudaEventRecord"); }
  float milliseconds_since(const Event& start) {
    require(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  cudaEvent_t event_{};
};

__global__ void copy_vectors(const uint4* __restrict__ from, uint4* __restrict__ to, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = from[i];
}

struct Times {
  std::vector<float> milliseconds;

  [[nodiscard]] double quantile(double q) const {
    std::vector<float> sorted = milliseconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
  }
  [[nodiscard]] double median() const { return quantile(0.5); }
};

/// One timed launch of each in turn, so that clocks and heat are the same for all.
template <class... Launches>
std::vector<Times> time_interleaved(Launches... launches) {
  std::vector<Times> times(sizeof...(launches));
  Event start;
  Event stop;
  for (int round = 0; round < warm_launches + timed_launches; ++round) {
    std::size_t which = 0;
    const auto once = [&](auto& launch) {
      start.record();
      launch();
      stop.record();
      const float milliseconds = stop.milliseconds_since(start);
      if (round >= warm_launches) times[which].milliseconds.push_back(milliseconds);
      ++which;
    };
    (once(launches), ...);
  }
  return times;
}

/// Where the check takes a cell beyond the field from; false where it is the constant `value`.
bool map_axis(const spider::Face (&faces)[2], std::int64_t& i, std::int64_t extent, double& value) {
  if (i >= 0 && i < extent) return true;
  const spider::Face& face = faces[i < 0 ? 0 : 1];
  if (face.rule == spider::FaceRule::nearest) i = i < 0 ? 0 : extent - 1;
  if (face.rule == spider::FaceRule::constant) value = face.value;
  return face.rule != spider::FaceRule::constant;
}

double cell(const spider_kernel& kernel, const Field& field, const std::vector<__half>& values,
            std::int64_t y, std::int64_t x) {
  const spider_field view = field.view();
  double value = 0;
  const bool row_in_memory = map_axis(kernel.faces[1], y, view.extent[1], value);
  // x last: where two constants meet, the faster axis gives the value.
  if (!map_axis(kernel.faces[2], x, view.extent[2], value) || !row_in_memory) return value;
  return static_cast<double>(__half2float(values[field.index(y, x)]));
}

struct Errors {
  double relative_l2 = 0;
  double worst_of_bound = 0;  ///< largest |error| over what the arithmetic allows
};

/// Compares with double precision at random points and along the rim.
Errors check(const spider_kernel& kernel, const Field& in, const std::vector<__half>& before,
             const Field& out, std::uint32_t seed) {
  std::vector<__half> after(static_cast<std::size_t>(out.elements()));
  require(cudaMemcpy(after.data(), out.memory(), out.bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  const spider_field view = in.view();
  std::mt19937_64 random(seed);
  double error_squares = 0;
  double squares = 0;
  Errors errors;
  for (int i = 0; i < checked_points; ++i) {
    auto y = static_cast<std::int64_t>(random() % view.extent[1]);
    auto x = static_cast<std::int64_t>(random() % view.extent[2]);
    if (i % 4 == 1) y = i % 8 < 4 ? y % 16 : view.extent[1] - 1 - y % 16;
    if (i % 4 == 2 || i % 16 == 1) x = i % 8 < 4 ? x % 16 : view.extent[2] - 1 - x % 16;
    y = std::clamp<std::int64_t>(y, 0, view.extent[1] - 1);
    x = std::clamp<std::int64_t>(x, 0, view.extent[2] - 1);
    double exact = 0;
    double magnitude = 0;
    for (int t = 0; t < kernel.tap_count; ++t) {
      const spider::Tap& tap = kernel.taps[t];
      const double product = tap.weight * cell(kernel, in, before, y + tap.dy, x + tap.dx);
      exact += product;
      magnitude += std::fabs(product);
    }
    const double error = std::fabs(static_cast<double>(__half2float(after[out.index(y, x)])) - exact);
    // One rounding to f16, and 18 truncating additions of 24 bits in each of the chained products.
    const double bound = std::ldexp(std::fabs(exact), -11) +
                         1.001 * 18 * kernel.products * std::ldexp(magnitude, -23) + 0x1p-25;
    errors.worst_of_bound = std::max(errors.worst_of_bound, std::isnan(error) ? INFINITY : error / bound);
    error_squares += error * error;
    squares += exact * exact;
  }
  errors.relative_l2 = std::sqrt(error_squares / squares);
  return errors;
}

struct Options {
  std::string library;
  std::vector<std::string> kernels;
  std::vector<std::int64_t> sizes{10240};
  std::vector<std::int32_t> rows;  ///< rows per block to try instead of the kernel's own choice
  std::uint32_t seed = 1;
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  std::stringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--library") {
      options.library = value;
    } else if (name == "--kernels") {
      options.kernels = split(value);
    } else if (name == "--sizes") {
      options.sizes.clear();
      for (const std::string& size : split(value)) options.sizes.push_back(std::stoll(size));
    } else if (name == "--rows") {
      for (const std::string& rows : split(value)) options.rows.push_back(std::stoi(rows));
    } else if (name == "--seed") {
      options.seed = static_cast<std::uint32_t>(std::stoul(value));
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  if (argc % 2 == 0 || options.library.empty() || options.kernels.empty()) {
    throw std::invalid_argument(
        "usage: spider-bench --library FILE --kernels NAME,... [--sizes N,...] [--rows N,...] "
        "[--seed N]");
  }
  return options;
}

using KernelFunction = const spider_kernel* (*)();

const spider_kernel& find_kernel(void* library, const std::string& name) {
  const auto function = reinterpret_cast<KernelFunction>(dlsym(library, (name + "_kernel").c_str()));
  if (function == nullptr) throw std::invalid_argument("no kernel " + name + " in the library");
  return *function();
}

using Apply = decltype(&spider_apply);
using LastError = decltype(&spider_last_error);

void measure(void* library, const spider_kernel& kernel, std::int64_t size, std::uint32_t seed) {
  const auto apply = reinterpret_cast<Apply>(dlsym(library, "spider_apply"));
  const auto last_error = reinterpret_cast<LastError>(dlsym(library, "spider_last_error"));
  if (apply == nullptr || last_error == nullptr) throw std::runtime_error("the library has no spider_apply");
  Field in(size, size);
  Field out(size, size);
  std::vector<__half> values(static_cast<std::size_t>(in.elements()));
  std::mt19937 random(seed);
  for (__half& value : values) value = __float2half(static_cast<float>(random() >> 8) * 0x1p-23F - 1.0F);
  require(cudaMemcpy(in.memory(), values.data(), in.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");

  const spider_field from = in.view();
  const spider_field to = out.view();
  const auto sweep = [&] {
    if (apply(&kernel, &from, &to, nullptr) != SPIDER_OK) throw std::runtime_error(last_error());
  };
  sweep();
  require(cudaDeviceSynchronize(), "the kernel");
  const Errors errors = check(kernel, in, values, out, seed);
  if (!(errors.worst_of_bound <= 1) || !(errors.relative_l2 <= 1e-3)) {
    std::printf("%-16s %7lld  WRONG: relative L2 %.2e, %.2f of the bound\n", kernel.info.name,
                static_cast<long long>(size), errors.relative_l2, errors.worst_of_bound);
    throw std::runtime_error("a result is wrong; no time is printed");
  }

  const std::size_t bytes = static_cast<std::size_t>(size) * size * sizeof(__half);
  int multiprocessors = 0;
  require(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
          "cudaDeviceGetAttribute");
  const auto copy_engine = [&] {
    require(cudaMemcpyAsync(out.memory(), in.memory(), bytes, cudaMemcpyDeviceToDevice), "cudaMemcpyAsync");
  };
  const auto copy_kernel = [&] {
    copy_vectors<<<16 * multiprocessors, 512>>>(static_cast<const uint4*>(in.memory()),
                                                static_cast<uint4*>(out.memory()),
                                                static_cast<std::int64_t>(bytes / sizeof(uint4)));
    require(cudaGetLastError(), "the copy kernel");
  };
  const std::vector<Times> times = time_interleaved(copy_engine, copy_kernel, sweep);
  const double copy = std::min(times[0].median(), times[1].median());
  const double median = times[2].median();
  std::printf("%-16s %7lld %5d %10.1f %8.1f %10.1f %8.3f %9.1f %10.2e %8.3f\n", kernel.info.name,
              static_cast<long long>(size), kernel.tiling.preferred_steps, median * 1e3,
              (times[2].quantile(0.9) - times[2].quantile(0.1)) * 1e3, copy * 1e3, median / copy,
              static_cast<double>(size) * static_cast<double>(size) / median / 1e6, errors.relative_l2,
              errors.worst_of_bound);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const std::unique_ptr<void, int (*)(void*)> library(dlopen(options.library.c_str(), RTLD_NOW | RTLD_LOCAL),
                                                      dlclose);
  if (library == nullptr) throw std::runtime_error(dlerror());
  cudaDeviceProp device{};
  require(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  std::printf("%s, f16 fields, single launches, medians of %d; seed %u\n", device.name, timed_launches,
              options.seed);
  std::printf("%-16s %7s %5s %10s %8s %10s %8s %9s %10s %8s\n", "kernel", "size", "rows", "time us", "spread",
              "copy us", "x copy", "GSt/s", "rel. L2", "of bound");
  for (const std::string& name : options.kernels) {
    spider_kernel kernel = find_kernel(library.get(), name);
    const std::vector<std::int32_t> own{kernel.tiling.preferred_steps};
    for (const std::int32_t rows : options.rows.empty() ? own : options.rows) {
      kernel.tiling.preferred_steps = rows;
      for (const std::int64_t size : options.sizes) measure(library.get(), kernel, size, options.seed);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "spider-bench: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spider-bench: %s\n", error.what());
    return 1;
  }
}
