// Misuse and concurrency that only CUDA has: memory the device cannot reach, errors of earlier work, capture,
// streams, threads, devices. `misuse` checks all but `misuse lost` (a device lost to earlier work: it costs
// the process its device), `misuse reset` (it costs the process what it has there) and `misuse image` (a
// kernel compiled for another architecture). Exit 0: as promised.
#include <cuda_runtime.h>
#include <spider/memory.h>
#include <spider/spider.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heat2d.h"
#include "heat3d_f32.h"

namespace {

int failures = 0;

void expect(bool right, const std::string& what) {
  if (right) return;
  ++failures;
  std::printf("FAILED: %s (last error: %s)\n", what.c_str(), spider_last_error());
}

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

void require(spider_status status) {
  if (status != SPIDER_OK) throw std::runtime_error(spider_last_error());
}

bool last_error_has(const char* words) {
  return std::string(spider_last_error()).find(words) != std::string::npos;
}

constexpr std::int64_t rows = 300;
constexpr std::int64_t columns = 1000;
constexpr std::int64_t stride = 1024;
constexpr std::size_t bytes = rows * stride * sizeof(std::uint16_t);

struct Free {
  void operator()(void* memory) const { cudaFree(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Memory allocate() {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes), "cudaMalloc");
  return Memory(memory);
}

spider_field field_of(void* memory) {
  return {memory, {1, rows, columns}, {0, stride}};
}

/// f16 values from 1 to just below 2 that depend on the seed.
std::vector<std::uint16_t> values(std::uint32_t seed) {
  std::vector<std::uint16_t> bits(rows * stride);
  for (std::uint16_t& value : bits) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<std::uint16_t>(0x3C00U | seed >> 22U);
  }
  return bits;
}

void upload(const Memory& memory, const std::vector<std::uint16_t>& from) {
  require(cudaMemcpy(memory.get(), from.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

std::vector<std::uint16_t> download(const Memory& memory) {
  std::vector<std::uint16_t> to(rows * stride);
  require(cudaMemcpy(to.data(), memory.get(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return to;
}

/// The interior after `steps` sweeps of what values(seed) holds.
std::vector<std::uint16_t> swept(std::uint32_t seed, int steps) {
  const Memory a = allocate();
  const Memory b = allocate();
  upload(a, values(seed));
  upload(b, values(seed));
  const spider_field from = field_of(a.get());
  const spider_field to = field_of(b.get());
  const spider_field* result = nullptr;
  require(spider_iterate(heat2d_kernel(), &from, &to, steps, nullptr, &result));
  require(spider_synchronize(nullptr));
  return download(result == &from ? a : b);
}

spider_status apply(void* in, void* out) {
  const spider_field from = field_of(in);
  const spider_field to = field_of(out);
  return spider_apply(heat2d_kernel(), &from, &to, nullptr);
}

void check_host_memory() {
  const Memory on_device = allocate();
  std::vector<std::uint16_t> on_host(rows * stride);
  int device = 0;
  int reaches_host = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  require(cudaDeviceGetAttribute(&reaches_host, cudaDevAttrPageableMemoryAccess, device),
          "cudaDeviceGetAttribute");
  if (reaches_host != 0) {
    std::printf("this device reaches host memory: nothing to refuse\n");
  } else {
    expect(apply(on_host.data(), on_device.get()) == SPIDER_ERROR_DEVICE,
           "an input in host memory is refused");
    expect(last_error_has("the input is in host memory"), "and it says so");
    expect(apply(on_device.get(), on_host.data()) == SPIDER_ERROR_DEVICE,
           "an output in host memory is refused");
    expect(last_error_has("the output is in host memory"), "and it says so");
  }
  void* pinned = nullptr;
  require(cudaMallocHost(&pinned, bytes), "cudaMallocHost");
  expect(apply(pinned, on_device.get()) == SPIDER_OK, "pinned memory is accepted");
  require(cudaDeviceSynchronize(), "a sweep of pinned memory");
  require(cudaFreeHost(pinned), "cudaFreeHost");
  void* managed = nullptr;
  require(cudaMallocManaged(&managed, bytes), "cudaMallocManaged");
  expect(apply(managed, on_device.get()) == SPIDER_OK, "managed memory is accepted");
  require(cudaDeviceSynchronize(), "a sweep of managed memory");
  require(cudaFree(managed), "cudaFree");
}

void check_earlier_errors() {
  const Memory a = allocate();
  const Memory b = allocate();
  void* memory = nullptr;
  expect(spider_allocate(std::uint64_t{1} << 60, &memory) == SPIDER_ERROR_MEMORY,
         "too much memory is refused");
  expect(memory == nullptr, "without a pointer");
  expect(cudaPeekAtLastError() == cudaSuccess, "and without an error left behind");
  require(spider_prepare(heat2d_kernel()));
  expect(cudaMalloc(&memory, std::size_t{1} << 60) == cudaErrorMemoryAllocation, "a caller's own error");
  expect(apply(a.get(), b.get()) == SPIDER_OK, "it is not reported as the sweep's");
  expect(cudaPeekAtLastError() == cudaErrorMemoryAllocation, "and stays for its owner");
  expect(spider_synchronize(nullptr) == SPIDER_OK, "nor as that of waiting");
  expect(cudaGetLastError() == cudaErrorMemoryAllocation, "and is still there");
}

void check_capture() {
  const Memory a = allocate();
  const Memory b = allocate();
  const Memory c = allocate();
  upload(a, values(1));
  upload(b, values(1));
  upload(c, values(2));
  require(spider_prepare(heat2d_kernel()));
  const spider_field first = field_of(a.get());
  const spider_field second = field_of(b.get());
  const spider_field third = field_of(c.get());
  cudaStream_t stream{};
  require(cudaStreamCreate(&stream), "cudaStreamCreate");
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  const spider_field* result = nullptr;
  expect(spider_iterate(heat2d_kernel(), &first, &second, 3, stream, &result) == SPIDER_OK,
         "iterate is captured");
  constexpr std::int64_t offsets[2][3] = {{0, 0, 0}, {0, 77, 0}};
  constexpr std::int64_t extents[2][3] = {{1, 77, columns}, {1, rows - 77, columns}};
  for (int i = 0; i < 2; ++i) {
    expect(spider_apply_box(heat2d_kernel(), result, &third, offsets[i], extents[i], stream) == SPIDER_OK,
           "boxes are captured");
  }
  cudaGraph_t graph{};
  require(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t run{};
  require(cudaGraphInstantiate(&run, graph, 0), "cudaGraphInstantiate");
  require(cudaGraphLaunch(run, stream), "cudaGraphLaunch");
  require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  expect(result == &second, "an odd number of steps ends in the second field");
  std::vector<std::uint16_t> expected = swept(1, 4);
  const std::vector<std::uint16_t> got = download(c);
  bool same = true;
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = 0; x < columns; ++x) same &= got[y * stride + x] == expected[y * stride + x];
  }
  expect(same, "a graph of sweeps and boxes gives the bits of whole sweeps");
  cudaGraphExecDestroy(run);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

/// Four threads, each with fields and a stream of its own, at once.
void check_threads() {
  std::vector<std::vector<std::uint16_t>> expected;
  for (std::uint32_t seed = 10; seed < 14; ++seed) expected.push_back(swept(seed, 40));
  std::vector<int> right(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      try {
        const Memory a = allocate();
        const Memory b = allocate();
        upload(a, values(10 + static_cast<std::uint32_t>(number)));
        upload(b, values(10 + static_cast<std::uint32_t>(number)));
        const spider_field from = field_of(a.get());
        const spider_field to = field_of(b.get());
        cudaStream_t stream{};
        require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
        require(spider_iterate(heat2d_kernel(), &from, &to, 40, stream, nullptr));
        const bool refused = spider_apply(heat2d_kernel(), &from, &from, stream) == SPIDER_ERROR_OVERLAP;
        require(spider_synchronize(stream));
        right[number] = refused && download(a) == expected[number] ? 1 : 0;
        cudaStreamDestroy(stream);
      } catch (const std::exception& error) {
        std::printf("a thread failed: %s\n", error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int one : right) expect(one == 1, "threads and streams do not disturb each other");
}

/// Two threads on each of two devices at once, which is the kernel's first use on the second.
void check_threads_of_devices(const std::vector<std::uint16_t>& expected) {
  std::vector<int> right(4, 0);
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      try {
        require(cudaSetDevice(number % 2), "cudaSetDevice");
        right[number] = swept(3, 5) == expected ? 1 : 0;
      } catch (const std::exception& error) {
        std::printf("a thread failed: %s\n", error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int one : right) expect(one == 1, "threads on two devices do not disturb each other");
}

/// The device whose memory this is, by number and by its place on the bus.
std::string place_of(const Memory& memory) {
  cudaPointerAttributes attributes{};
  require(cudaPointerGetAttributes(&attributes, memory.get()), "cudaPointerGetAttributes");
  char bus[32]{};
  require(cudaDeviceGetPCIBusId(bus, static_cast<int>(sizeof bus), attributes.device),
          "cudaDeviceGetPCIBusId");
  return std::to_string(attributes.device) + " at " + bus;
}

void check_devices() {
  int devices = 0;
  require(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (devices < 2) {
    std::printf("one device: what two do is not checked\n");
    return;
  }
  const std::vector<std::uint16_t> expected = swept(3, 5);
  const Memory on_first = allocate();
  check_threads_of_devices(expected);
  require(cudaSetDevice(1), "cudaSetDevice");
  expect(swept(3, 5) == expected, "a kernel runs on two devices of a process");
  const Memory on_second = allocate();
  expect(apply(on_first.get(), on_second.get()) == SPIDER_ERROR_DEVICE,
         "memory of another device is refused");
  expect(last_error_has("in the memory of device 0"), "and it says so");
  int reaches = 0;
  require(cudaDeviceCanAccessPeer(&reaches, 1, 0), "cudaDeviceCanAccessPeer");
  if (reaches != 0) {
    require(cudaDeviceEnablePeerAccess(0, 0), "cudaDeviceEnablePeerAccess");
    expect(apply(on_first.get(), on_second.get()) == SPIDER_OK, "and accepted where peer access is enabled");
    require(cudaDeviceSynchronize(), "a sweep over peers");
  }
  std::printf("two devices: sweeps on %s and on %s%s\n", place_of(on_first).c_str(),
              place_of(on_second).c_str(), reaches != 0 ? ", and from one into the other" : "");
  require(cudaSetDevice(0), "cudaSetDevice");
}

/// Rows further apart than cudaMemcpy2D takes, a row without a pitch, and clearing.
void check_copies() {
  constexpr std::uint64_t far = std::uint64_t{3} << 30;
  const std::string text = "one two";
  std::string back(text.size(), ' ');
  void* memory = nullptr;
  if (spider_allocate(far + 4, &memory) != SPIDER_OK) {
    std::printf("no %llu bytes of device memory: far rows are not checked\n",
                static_cast<unsigned long long>(far + 4));
    return;
  }
  const Memory owner(memory);
  expect(spider_upload(memory, far, text.data(), 4, 3, 2) == SPIDER_OK, "rows 3 GiB apart go up");
  expect(spider_download(back.data(), 4, memory, far, 3, 2) == SPIDER_OK && back == text, "and come back");
  expect(spider_upload(memory, 0, "six", 0, 3, 1) == SPIDER_OK, "a row needs no pitch");
  expect(spider_clear(static_cast<char*>(memory) + far, 2) == SPIDER_OK, "clearing");
  expect(
      spider_download(back.data(), 4, memory, far, 3, 2) == SPIDER_OK && back == std::string("six \0\0o", 7),
      "reaches what it is to reach");
}

/// A sweep by a kernel that needs more shared memory than a function has that is not asked.
std::vector<float> swept_volume() {
  constexpr std::int64_t edge = 96;
  constexpr std::size_t volume_bytes = edge * edge * edge * sizeof(float);
  void* in = nullptr;
  void* out = nullptr;
  require(cudaMalloc(&in, volume_bytes), "cudaMalloc");
  const Memory in_owner(in);
  require(cudaMalloc(&out, volume_bytes), "cudaMalloc");
  const Memory out_owner(out);
  std::vector<float> cells(edge * edge * edge);
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<float>(i * 7919 % 1000);
  require(cudaMemcpy(in, cells.data(), volume_bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  const spider_field from{in, {edge, edge, edge}, {edge * edge, edge}};
  const spider_field to{out, {edge, edge, edge}, {edge * edge, edge}};
  require(spider_apply(heat3d_f32_kernel(), &from, &to, nullptr));
  require(cudaMemcpy(cells.data(), out, volume_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return cells;
}

void check_reset() {
  const std::vector<float> expected = swept_volume();
  require(cudaDeviceReset(), "cudaDeviceReset");
  expect(swept_volume() == expected, "a kernel is loaded again after a reset");
  expect(cudaPeekAtLastError() == cudaSuccess, "without an error left behind");
  require(cudaDeviceReset(), "cudaDeviceReset");
  require(spider_prepare(heat3d_f32_kernel()));
  expect(swept_volume() == expected, "also by spider_prepare");
}

__global__ void write_nowhere(int* nowhere) {
  *nowhere = 1;
}

void check_lost_device() {
  const Memory a = allocate();
  const Memory b = allocate();
  require(spider_prepare(heat2d_kernel()));
  write_nowhere<<<1, 1>>>(nullptr);
  expect(cudaDeviceSynchronize() == cudaErrorIllegalAddress, "a caller's own crash");
  expect(apply(a.get(), b.get()) == SPIDER_ERROR_DEVICE, "the sweep cannot run");
  expect(last_error_has("earlier work failed"), "and says that the error is not its own");
  expect(cudaGetLastError() == cudaErrorIllegalAddress, "which stays for its owner");
}

void check_image() {
  const spider_status status = spider_prepare(heat2d_kernel());
  expect(status == SPIDER_ERROR_DEVICE, "a kernel compiled for another architecture is refused");
  expect(last_error_has("compiled for this device's architecture"), "and it says so");
  expect(cudaPeekAtLastError() == cudaSuccess, "without an error left behind");
}

void check(const std::string& what) {
  if (what == "lost") return check_lost_device();
  if (what == "image") return check_image();
  if (what == "reset") return check_reset();
  check_host_memory();
  check_earlier_errors();
  check_capture();
  check_threads();
  check_copies();
  check_devices();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "all";
  try {
    check(what);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
  std::printf("misuse, %s: %s\n", what.c_str(), failures == 0 ? "as promised" : "FAILED");
  return failures == 0 ? 0 : 1;
}
