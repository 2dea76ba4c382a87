/// As much of CUDA's runtime as halos on GPUs take, made up: memory is the host's, and a stream's work is
/// done when it is asked for.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

struct dim3 {
  unsigned x;
  unsigned y;
  unsigned z = 1;
  explicit dim3(unsigned width = 1, unsigned height = 1) : x(width), y(height) {}
};
inline thread_local dim3 blockIdx;
inline thread_local dim3 threadIdx;
inline thread_local dim3 gridDim;

inline int __clz(int number) {
  return number == 0 ? 32 : __builtin_clz(static_cast<unsigned>(number));
}

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation, cudaErrorNotReady };
using cudaStream_t = struct FakeStream*;
using cudaEvent_t = struct FakeEvent*;
inline constexpr cudaStream_t cudaStreamLegacy = nullptr;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;

inline const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "an error";
}
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
/// Filled with NaN.
inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xFF, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* /*least*/, int* /*greatest*/) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* /*stream*/, unsigned /*flags*/,
                                                int /*priority*/) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamQuery(cudaStream_t /*stream*/) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t /*stream*/, cudaEvent_t /*event*/, unsigned /*flags*/) {
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* /*event*/, unsigned /*flags*/) {
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t /*event*/) {
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t /*event*/, cudaStream_t /*stream*/) {
  return cudaSuccess;
}
struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  cudaUUID_t uuid;
};
/// The devices that this process sees, each a letter that its UUID begins with; and the current one.
inline std::string fake_devices = "A";
inline int fake_current_device = 0;

inline cudaError_t cudaGetDevice(int* device) {
  *device = fake_current_device;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(fake_devices.size());
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  properties->uuid.bytes[0] = fake_devices.at(static_cast<std::size_t>(device));
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  fake_current_device = device;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetPCIBusId(char* name, int length, int device) {
  std::snprintf(name, static_cast<std::size_t>(length), "bus %c",
                fake_devices.at(static_cast<std::size_t>(device)));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream);
