// Kernels in an application that has CUDA of its own: its memory, its streams, its graphs. The C interface is
// all that it takes, in C++17.
//
// Three ways to the same bits: ten steps on a stream; ten steps captured once in a CUDA graph and replayed;
// and single sweeps in boxes on two streams, the rim before the rest, as a code with neighbours does that
// sends its rim while the rest is computed. The first of them is compared with loops on the host.
//
// A source and a line of receivers, too, give the same bits on a stream and in a graph.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <diffusion.h>
#include <spider/points.h>
#include <spider/spider.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

constexpr int rows = 301;
constexpr int columns = 1000;
constexpr int pitch = 1024;  // elements from row to row: rows on 16 bytes are fast
constexpr int steps = 10;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

void check(spider_status status) {
  if (status != SPIDER_OK) throw std::runtime_error(spider_last_error());
}

struct Release {
  void operator()(void* memory) const { cudaFree(memory); }
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  void operator()(spider_points* points) const { spider_points_free(points); }
};

template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Release>;

Owned<cudaStream_t> make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Owned<cudaStream_t>(stream);
}

Owned<cudaEvent_t> make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return Owned<cudaEvent_t>(event);
}

/// rows x columns f16 in device memory. `field` is all that a kernel needs to know of it.
class Grid {
 public:
  Grid() {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes));
    memory_.reset(memory);
    field_ = {memory, {1, rows, columns}, {0, pitch}};
  }

  [[nodiscard]] const spider_field* field() const { return &field_; }

  void upload(const std::vector<__half>& values) {
    check(cudaMemcpy(field_.data, values.data(), bytes, cudaMemcpyHostToDevice));
  }

  [[nodiscard]] std::vector<__half> download() const {
    std::vector<__half> values(rows * pitch);
    check(cudaMemcpy(values.data(), field_.data, bytes, cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  static constexpr std::size_t bytes = sizeof(__half) * rows * pitch;
  std::unique_ptr<void, Release> memory_;
  spider_field field_{};
};

std::vector<__half> initial_values() {
  std::vector<__half> values(rows * pitch);
  for (int i = 0; i < rows * pitch; ++i) {
    const int y = i / pitch;
    const int x = i % pitch;
    values[i] = __float2half(static_cast<float>((7 * y * y + 13 * x + x * y) % 97));
  }
  return values;
}

/// diffusion.yaml in double precision, `nearest` at the faces.
std::vector<double> expected_values() {
  const std::vector<__half> start = initial_values();
  std::vector<double> now(start.size());
  std::transform(start.begin(), start.end(), now.begin(), [](__half value) { return __half2float(value); });
  for (int step = 0; step < steps; ++step) {
    std::vector<double> next(now.size());
    const auto at = [&](int y, int x) {
      return now[std::clamp(y, 0, rows - 1) * pitch + std::clamp(x, 0, columns - 1)];
    };
    for (int y = 0; y < rows; ++y) {
      for (int x = 0; x < columns; ++x) {
        next[y * pitch + x] =
            (at(y, x) + at(y, x - 1) + at(y, x + 1)) / 4 + (at(y - 1, x) + at(y + 1, x)) / 8;
      }
    }
    now.swap(next);
  }
  return now;
}

/// Ten steps on a stream of ours. iterate() queues them and returns; the stream is waited for here.
std::vector<__half> on_a_stream() {
  const Owned<cudaStream_t> stream = make_stream();
  Grid a;
  Grid b;
  a.upload(initial_values());
  const spider_field* result = nullptr;
  check(spider_iterate(diffusion_kernel(), a.field(), b.field(), steps, stream.get(), &result));
  check(cudaStreamSynchronize(stream.get()));
  return (result == a.field() ? a : b).download();
}

/// The same steps as a graph: two of them, from a to b and back, captured once and replayed. spider_prepare()
/// comes first because loading a kernel is no work for a stream.
std::vector<__half> as_a_graph() {
  const Owned<cudaStream_t> stream = make_stream();
  Grid a;
  Grid b;
  a.upload(initial_values());
  check(spider_prepare(diffusion_kernel()));

  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  check(spider_iterate(diffusion_kernel(), a.field(), b.field(), 2, stream.get(), nullptr));
  check(cudaStreamEndCapture(stream.get(), &graph));
  cudaGraphExec_t ready = nullptr;
  const cudaError_t instantiated = cudaGraphInstantiate(&ready, graph, 0);
  check(cudaGraphDestroy(graph));
  check(instantiated);
  const Owned<cudaGraphExec_t> owner(ready);

  for (int step = 0; step < steps; step += 2) check(cudaGraphLaunch(ready, stream.get()));
  check(cudaStreamSynchronize(stream.get()));
  return a.download();
}

std::unique_ptr<spider_points, Release> make_points(const std::vector<std::int64_t>& cells) {
  const std::int64_t extent[] = {1, rows, columns};
  spider_points* points = nullptr;
  check(spider_points_create(diffusion_kernel(), extent, cells.data(),
                             static_cast<std::int64_t>(cells.size() / 3), &points));
  return std::unique_ptr<spider_points, Release>(points);
}

/// Ten steps, each with a source of three values, two of them in one cell, and receivers along a row: what
/// they recorded, a row a step. All of it is queued, or captured and replayed; the recorder waits for
/// nothing.
std::vector<float> traces(bool in_a_graph) {
  const Owned<cudaStream_t> stream = make_stream();
  Grid a;
  Grid b;
  a.upload(initial_values());
  const auto source = make_points({0, 150, 500, 0, 20, 7, 0, 150, 500});
  std::vector<std::int64_t> row;
  for (std::int64_t x = 0; x < columns; ++x) row.insert(row.end(), {0, 151, x});
  const auto line = make_points(row);
  std::vector<float> signal;
  for (int i = 0; i < 3 * steps; ++i) signal.push_back(0.25F * static_cast<float>(i + 1));

  void* memory = nullptr;
  check(cudaMalloc(&memory, sizeof(float) * (3 + columns) * steps));
  const std::unique_ptr<void, Release> values(memory);
  auto* const added = static_cast<float*>(memory);
  auto* const recorded = added + std::ptrdiff_t{3} * steps;
  check(cudaMemcpy(added, signal.data(), sizeof(float) * signal.size(), cudaMemcpyHostToDevice));

  check(spider_prepare(diffusion_kernel()));
  if (in_a_graph) check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  const Grid* in = &a;
  const Grid* out = &b;
  for (int step = 0; step < steps; ++step) {
    check(spider_apply(diffusion_kernel(), in->field(), out->field(), stream.get()));
    check(spider_points_add(source.get(), out->field(), added + std::ptrdiff_t{3} * step, stream.get()));
    check(spider_points_read(line.get(), out->field(), recorded + std::ptrdiff_t{columns} * step,
                             stream.get()));
    std::swap(in, out);
  }
  Owned<cudaGraphExec_t> owner;
  if (in_a_graph) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream.get(), &graph));
    cudaGraphExec_t ready = nullptr;
    const cudaError_t instantiated = cudaGraphInstantiate(&ready, graph, 0);
    check(cudaGraphDestroy(graph));
    check(instantiated);
    owner.reset(ready);
    check(cudaGraphLaunch(ready, stream.get()));
  }
  check(cudaStreamSynchronize(stream.get()));
  std::vector<float> result(std::size_t{columns} * steps);
  check(cudaMemcpy(result.data(), recorded, sizeof(float) * result.size(), cudaMemcpyDeviceToHost));
  return result;
}

/// The first step's receivers hold what the sweep and the source leave there: diffusion.yaml's neighbours in
/// double, and the source's rounded once.
int wrong_in_traces() {
  const std::vector<float> streamed = traces(false);
  const std::vector<float> captured = traces(true);
  int wrong = 0;
  for (std::size_t i = 0; i < streamed.size(); ++i) wrong += streamed[i] == captured[i] ? 0 : 1;
  // Row 151 is next to the source's: it gets an eighth of what was added there a step before.
  const std::vector<float> still = [] {
    Grid a;
    Grid b;
    a.upload(initial_values());
    check(spider_iterate(diffusion_kernel(), a.field(), b.field(), 2, nullptr, nullptr));
    check(cudaDeviceSynchronize());
    const std::vector<__half> values = a.download();
    std::vector<float> of_row;
    for (int x = 0; x < columns; ++x) of_row.push_back(__half2float(values[151 * pitch + x]));
    return of_row;
  }();
  for (int x = 0; x < columns; ++x) {
    const float added = x == 500 ? (0.25F + 0.75F) / 8 : 0.0F;
    // Two roundings of f16 beside each other, of numbers below 128.
    const float off =
        streamed[static_cast<std::size_t>(columns + x)] - still[static_cast<std::size_t>(x)] - added;
    wrong += std::abs(off) <= 2 * 128 * 0x1p-11F ? 0 : 1;
    if (x != 500) wrong += off == 0 ? 0 : 1;
  }
  return wrong;
}

/// The same steps in boxes: four of the rim on one stream, the rest on another. A step needs all of the one
/// before.
std::vector<__half> in_boxes() {
  constexpr std::int64_t width = 8;
  struct Box {
    std::int64_t offset[3];  // z, y, x
    std::int64_t extent[3];
  };
  const Box rim[] = {
      {{0, 0, 0}, {1, width, columns}},
      {{0, rows - width, 0}, {1, width, columns}},
      {{0, width, 0}, {1, rows - 2 * width, width}},
      {{0, width, columns - width}, {1, rows - 2 * width, width}},
  };
  const Box inner{{0, width, width}, {1, rows - 2 * width, columns - 2 * width}};

  const Owned<cudaStream_t> rim_stream = make_stream();
  const Owned<cudaStream_t> inner_stream = make_stream();
  const Owned<cudaEvent_t> rim_done = make_event();
  const Owned<cudaEvent_t> inner_done = make_event();
  Grid a;
  Grid b;
  a.upload(initial_values());
  const Grid* in = &a;
  const Grid* out = &b;
  for (int step = 0; step < steps; ++step) {
    for (const Box& box : rim) {
      check(spider_apply_box(diffusion_kernel(), in->field(), out->field(), box.offset, box.extent,
                             rim_stream.get()));
    }
    check(spider_apply_box(diffusion_kernel(), in->field(), out->field(), inner.offset, inner.extent,
                           inner_stream.get()));
    // Here an application sends the rim of `out` to its neighbours.
    check(cudaEventRecord(rim_done.get(), rim_stream.get()));
    check(cudaEventRecord(inner_done.get(), inner_stream.get()));
    check(cudaStreamWaitEvent(inner_stream.get(), rim_done.get(), 0));
    check(cudaStreamWaitEvent(rim_stream.get(), inner_done.get(), 0));
    std::swap(in, out);
  }
  check(cudaStreamSynchronize(rim_stream.get()));
  check(cudaStreamSynchronize(inner_stream.get()));
  return in->download();
}

int wrong_cells(const std::vector<__half>& values, const std::vector<double>& expected) {
  int wrong = 0;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      const double right = expected[y * pitch + x];
      // Each sweep rounds to f16, within 2^-11 of the value; the weights add up to 1 and pass that on.
      wrong += std::abs(__half2float(values[y * pitch + x]) - right) <= steps * 97 * 0x1p-11 ? 0 : 1;
    }
  }
  return wrong;
}

int different_cells(const std::vector<__half>& a, const std::vector<__half>& b) {
  int different = 0;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      different += __half2float(a[y * pitch + x]) == __half2float(b[y * pitch + x]) ? 0 : 1;
    }
  }
  return different;
}

}  // namespace

int main() {
  try {
    const std::vector<__half> streamed = on_a_stream();
    const int wrong = wrong_cells(streamed, expected_values());
    const int graph = different_cells(as_a_graph(), streamed);
    const int boxes = different_cells(in_boxes(), streamed);
    const int points = wrong_in_traces();
    std::printf(
        "stream: %d cells wrong; graph: %d cells differ; boxes: %d cells differ; points: %d numbers wrong\n",
        wrong, graph, boxes, points);
    return wrong + graph + boxes + points == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
