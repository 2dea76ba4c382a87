/// As much of CUDA's runtime as halos on GPUs take, made up: memory is the host's, and a stream's work is
/// done when it is asked for.
#pragma once

#define CUDART_VERSION 13000

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

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
/// Memory has a name, under which another process opens it; filled with NaN.
struct FakeMemory {
  void* address;
  std::size_t bytes;
  std::string name;
};
inline std::vector<FakeMemory> fake_memories;
inline constexpr int fake_rights = PROT_READ | PROT_WRITE;

inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  static int count = 0;
  const std::string name = "/spider_fake_" + std::to_string(getpid()) + "_" + std::to_string(count++);
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return cudaErrorMemoryAllocation;
  *memory = mmap(nullptr, bytes, fake_rights, MAP_SHARED, file, 0);
  close(file);
  if (*memory == MAP_FAILED) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xFF, bytes);
  fake_memories.push_back({*memory, bytes, name});
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  for (FakeMemory& known : fake_memories) {
    if (known.address != memory || memory == nullptr) continue;
    shm_unlink(known.name.c_str());
    munmap(memory, known.bytes);
    known.address = nullptr;
  }
  return cudaSuccess;
}

struct cudaIpcMemHandle_t {
  char name[48];
  std::size_t bytes;
  int rank;
};
inline constexpr unsigned cudaIpcMemLazyEnablePeerAccess = 1;

inline int fake_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
inline cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  for (const FakeMemory& known : fake_memories) {
    if (known.address != memory) continue;
    *handle = {{}, known.bytes, fake_rank()};
    known.name.copy(handle->name, sizeof handle->name - 1);
    return cudaSuccess;
  }
  return cudaErrorMemoryAllocation;
}
/// Ranks whose sum is a multiple of FAKE_STRANGERS do not reach each other.
inline cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned /*flags*/) {
  const char* const strangers = std::getenv("FAKE_STRANGERS");
  if (strangers != nullptr && (fake_rank() + handle.rank) % std::stoi(strangers) == 0)
    return cudaErrorMemoryAllocation;
  const int file = shm_open(handle.name, O_RDWR, 0600);
  if (file < 0) return cudaErrorMemoryAllocation;
  *memory = mmap(nullptr, handle.bytes, fake_rights, MAP_SHARED, file, 0);
  close(file);
  return *memory == MAP_FAILED ? cudaErrorMemoryAllocation : cudaSuccess;
}
/// Processes are short.
inline cudaError_t cudaIpcCloseMemHandle(void* /*memory*/) {
  return cudaSuccess;
}

enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDefault };
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t /*stream*/) {
  return cudaMemcpy(to, from, bytes, kind);
}
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone };
inline cudaError_t cudaStreamIsCapturing(cudaStream_t /*stream*/, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
enum cudaMemcpySrcAccessOrder { cudaMemcpySrcAccessOrderStream = 1 };
inline constexpr unsigned cudaMemcpyFlagPreferOverlapWithCompute = 1;
struct cudaMemcpyAttributes {
  cudaMemcpySrcAccessOrder srcAccessOrder;
  unsigned flags;
};
inline cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const std::size_t* bytes,
                                        std::size_t count, cudaMemcpyAttributes* /*attributes*/,
                                        std::size_t* /*firsts*/, std::size_t /*attribute_count*/,
                                        cudaStream_t /*stream*/) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to[i], from[i], bytes[i]);
  return cudaSuccess;
}
struct cudaPitchedPtr {
  void* ptr;
  std::size_t pitch;
  std::size_t xsize;
  std::size_t ysize;
};
struct cudaExtent {
  std::size_t width;
  std::size_t height;
  std::size_t depth;
};
struct cudaMemcpy3DParms {
  cudaPitchedPtr srcPtr;
  cudaPitchedPtr dstPtr;
  cudaExtent extent;
  cudaMemcpyKind kind;
};
inline cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* copy, cudaStream_t /*stream*/) {
  const auto row_of = [](const cudaPitchedPtr& of, std::size_t z, std::size_t y) {
    return static_cast<char*>(of.ptr) + (z * of.ysize + y) * of.pitch;
  };
  for (std::size_t z = 0; z < copy->extent.depth; ++z) {
    for (std::size_t y = 0; y < copy->extent.height; ++y)
      std::memcpy(row_of(copy->dstPtr, z, y), row_of(copy->srcPtr, z, y), copy->extent.width);
  }
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t /*stream*/) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* /*stream*/, unsigned /*flags*/) {
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

inline constexpr unsigned long long cudaEnableDefault = 0;
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* found);
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream);
