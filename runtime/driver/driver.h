/// The functions of the CUDA driver that cudart_by_driver.cpp calls, loaded from the machine's libcuda.so.1.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace spider::driver {

using Context = struct CUctx_st*;
using Function = struct CUfunc_st*;
using Library = struct CUlib_st*;
using Kernel = struct CUkern_st*;
// CUdeviceptr is an integer the size of a pointer; here it is a pointer.

/// CUDA_MEMCPY2D of cuda.h.
struct Copy2d {
  std::size_t from_column, from_row;
  std::int32_t from_type;
  const void* from_host;
  const void* from_device;
  void* from_array;
  std::size_t from_pitch;
  std::size_t to_column, to_row;
  std::int32_t to_type;
  void* to_host;
  void* to_device;
  void* to_array;
  std::size_t to_pitch;
  std::size_t row_bytes, rows;
};

/// CUlaunchConfig of cuda.h.
struct LaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attributes;
  unsigned attribute_count;
};

// Functions of the driver by member name, with their arguments. All return CUresult, whose values are those
// of cudaError_t.
#define SPIDER_DRIVER_FUNCTIONS(X)                                                            \
  X(cuInit, unsigned)                                                                         \
  X(cuDriverGetVersion, int*)                                                                 \
  X(cuGetErrorString, cudaError_t, const char**)                                              \
  X(cuCtxGetCurrent, Context*)                                                                \
  X(cuCtxSetCurrent, Context)                                                                 \
  X(cuCtxGetDevice, int*)                                                                     \
  X(cuDeviceGet, int*, int)                                                                   \
  X(cuDeviceGetAttribute, int*, int, int)                                                     \
  X(cuDevicePrimaryCtxRetain, Context*, int)                                                  \
  X(cuLibraryLoadData, Library*, const void*, void*, void*, unsigned, void*, void*, unsigned) \
  X(cuLibraryGetKernel, Kernel*, Library, const char*)                                        \
  X(cuLibraryUnload, Library)                                                                 \
  X(cuKernelGetFunction, Function*, Kernel)                                                   \
  X(cuFuncGetAttribute, int*, int, Function)                                                  \
  X(cuFuncSetAttribute, Function, int, int)                                                   \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, int*, Function, int, std::size_t)            \
  X(cuLaunchKernelEx, const LaunchConfig*, Function, void**, void**)                          \
  X(cuPointerGetAttributes, unsigned, const int*, void**, const void*)                        \
  X(cuMemAlloc_v2, void**, std::size_t)                                                       \
  X(cuMemFree_v2, void*)                                                                      \
  X(cuMemsetD8_v2, void*, unsigned char, std::size_t)                                         \
  X(cuMemcpyHtoD_v2, void*, const void*, std::size_t)                                         \
  X(cuMemcpyDtoH_v2, void*, const void*, std::size_t)                                         \
  X(cuMemcpy2DUnaligned_v2, const Copy2d*)                                                    \
  X(cuMemPoolCreate, cudaMemPool_t*, const cudaMemPoolProps*)                                 \
  X(cuMemPoolSetAttribute, cudaMemPool_t, int, void*)                                         \
  X(cuMemAllocFromPoolAsync, void**, std::size_t, cudaMemPool_t, cudaStream_t)                \
  X(cuMemFreeAsync, void*, cudaStream_t)                                                      \
  X(cuStreamSynchronize, cudaStream_t)                                                        \
  X(cuStreamIsCapturing, cudaStream_t, cudaStreamCaptureStatus*)

/// The machine's driver. All pointers are null where one is missing.
struct Driver {
#define SPIDER_MEMBER(name, ...) cudaError_t (*name)(__VA_ARGS__) = nullptr;
  SPIDER_DRIVER_FUNCTIONS(SPIDER_MEMBER)
#undef SPIDER_MEMBER
};

/// Loads libcuda.so.1 at the first call.
[[nodiscard]] const Driver& driver();

/// Ensures that the thread has a current context: that of the first device if it has none, as CUDA's runtime
/// does. Returns cudaErrorInsufficientDriver if the driver is missing or older than CUDA 12.
[[nodiscard]] cudaError_t enter();

}  // namespace spider::driver
