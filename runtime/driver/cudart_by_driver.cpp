/// CUDA's runtime API, as far as backend_cuda.cpp calls it, on the driver alone. Functions are KernelCode.
#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "driver.h"
#include "kernel_code.h"

namespace {

using spider::driver::driver;
using spider::driver::enter;
using spider::driver::KernelCode;

/// Loads the driver and makes a context current, then calls.
template <class Call>
cudaError_t entered(const Call& call) {
  const cudaError_t error = enter();
  return error == cudaSuccess ? call(driver()) : error;
}

/// Kernels loaded so far, one list for the process: the driver loads them into each context on demand.
struct Loaded {
  std::shared_mutex mutex;
  std::map<const void*, spider::driver::Kernel> kernels;
};

Loaded& loaded() {
  static Loaded all;
  return all;
}

const KernelCode& code_of(const void* function) {
  return *static_cast<const KernelCode*>(function);
}

/// Loads compiled code.
cudaError_t load_kernel(const KernelCode& code, spider::driver::Kernel& kernel) {
  spider::driver::Library library = nullptr;
  cudaError_t error =
      driver().cuLibraryLoadData(&library, code.cubin, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (error != cudaSuccess) return error;
  error = driver().cuLibraryGetKernel(&kernel, library, code.name);
  if (error != cudaSuccess) static_cast<void>(driver().cuLibraryUnload(library));
  return error;
}

cudaError_t find_kernel(const void* function, spider::driver::Kernel& kernel) {
  const auto is_known = [&] {
    const auto known = loaded().kernels.find(function);
    if (known != loaded().kernels.end()) kernel = known->second;
    return known != loaded().kernels.end();
  };
  {
    const std::shared_lock lock(loaded().mutex);
    if (is_known()) return cudaSuccess;
  }
  // Compiles outside the lock: it takes seconds.
  if (!spider::driver::has_code(function)) {
    if (const cudaError_t error = spider::driver::compile_code({function}); error != cudaSuccess)
      return error;
  }
  const std::unique_lock lock(loaded().mutex);
  if (is_known()) return cudaSuccess;  // another thread was faster
  const cudaError_t error = load_kernel(code_of(function), kernel);
  if (error == cudaSuccess) loaded().kernels.emplace(function, kernel);
  return error;
}

/// In the current context.
cudaError_t find_function(const void* function, spider::driver::Function& found) {
  spider::driver::Kernel kernel = nullptr;
  const cudaError_t error = find_kernel(function, kernel);
  return error == cudaSuccess ? driver().cuKernelGetFunction(&found, kernel) : error;
}

}  // namespace

bool spider::driver::has_code(const void* function) {
  return code_of(function).cubin != nullptr;
}

cudaError_t spider::driver::compile_code(const std::vector<const void*>& functions) {
  std::vector<const KernelCode*> codes;
  std::transform(functions.begin(), functions.end(), std::back_inserter(codes),
                 [](const void* function) { return &code_of(function); });
  // All kernels of a package have the same `compile`.
  const bool failed = !codes.empty() && codes.front()->compile(codes.data(), codes.size()) != 0;
  return failed ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

// The driver stores no last error.
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t cudaPeekAtLastError() {
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  if (driver().cuGetErrorString == nullptr)
    return "there is no NVIDIA driver here (libcuda.so.1), or it is older than that of CUDA 12";
  const char* words = nullptr;
  return driver().cuGetErrorString(error, &words) == cudaSuccess ? words : "an unknown error";
}

cudaError_t cudaDriverGetVersion(int* version) {
  return entered([&](const auto& cuda) { return cuda.cuDriverGetVersion(version); });
}

cudaError_t cudaGetDevice(int* device) {
  return entered([&](const auto& cuda) { return cuda.cuCtxGetDevice(device); });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return entered([&](const auto& cuda) { return cuda.cuDeviceGetAttribute(value, attribute, device); });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  constexpr int ptx_version = 5;  // CU_FUNC_ATTRIBUTE_PTX_VERSION
  return entered([&](const auto& cuda) {
    spider::driver::Function found = nullptr;
    const cudaError_t error = find_function(function, found);
    return error == cudaSuccess ? cuda.cuFuncGetAttribute(&attributes->ptxVersion, ptx_version, found)
                                : error;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return entered([&](const auto& cuda) {
    spider::driver::Function found = nullptr;
    const cudaError_t error = find_function(function, found);
    return error == cudaSuccess ? cuda.cuFuncSetAttribute(found, attribute, value) : error;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          std::size_t shared_bytes) {
  return entered([&](const auto& cuda) {
    spider::driver::Function found = nullptr;
    const cudaError_t error = find_function(function, found);
    return error == cudaSuccess
               ? cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, found, threads, shared_bytes)
               : error;
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return entered([&](const auto& cuda) {
    spider::driver::Function found = nullptr;
    if (const cudaError_t error = find_function(function, found); error != cudaSuccess) return error;
    const dim3& grid = config->gridDim;
    const dim3& block = config->blockDim;
    const spider::driver::LaunchConfig own{{grid.x, grid.y, grid.z},
                                           {block.x, block.y, block.z},
                                           static_cast<unsigned>(config->dynamicSmemBytes),
                                           config->stream,
                                           config->attrs,
                                           config->numAttrs};
    return cuda.cuLaunchKernelEx(&own, found, arguments, nullptr);
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _DEVICE_POINTER, _DEVICE_ORDINAL. All are 0 for memory that CUDA does
  // not know or the context cannot reach.
  constexpr int wanted[] = {2, 3, 9};
  return entered([&](const auto& cuda) {
    unsigned type = 0;
    void* address = nullptr;
    int device = 0;
    void* places[] = {&type, &address, &device};
    const cudaError_t error = cuda.cuPointerGetAttributes(3, wanted, places, pointer);
    *attributes = {static_cast<cudaMemoryType>(type), device, address};
    return error;
  });
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return entered([&](const auto& cuda) { return cuda.cuMemAlloc_v2(memory, bytes); });
}

cudaError_t cudaFree(void* memory) {
  return entered([&](const auto& cuda) { return cuda.cuMemFree_v2(memory); });
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return entered(
      [&](const auto& cuda) { return cuda.cuMemsetD8_v2(memory, static_cast<unsigned char>(value), bytes); });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return entered([&](const auto& cuda) {
    return kind == cudaMemcpyHostToDevice ? cuda.cuMemcpyHtoD_v2(to, from, bytes)
                                          : cuda.cuMemcpyDtoH_v2(to, from, bytes);
  });
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t row_bytes, std::size_t rows, cudaMemcpyKind kind) {
  constexpr int in_host = 1;  // CU_MEMORYTYPE_HOST, _DEVICE
  constexpr int in_device = 2;
  spider::driver::Copy2d copy{};
  copy.from_pitch = from_pitch;
  copy.to_pitch = to_pitch;
  copy.row_bytes = row_bytes;
  copy.rows = rows;
  if (kind == cudaMemcpyHostToDevice) {
    copy.from_type = in_host;
    copy.from_host = from;
    copy.to_type = in_device;
    copy.to_device = to;
  } else {
    copy.from_type = in_device;
    copy.from_device = from;
    copy.to_type = in_host;
    copy.to_host = to;
  }
  return entered([&](const auto& cuda) { return cuda.cuMemcpy2DUnaligned_v2(&copy); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* wanted) {
  return entered([&](const auto& cuda) { return cuda.cuMemPoolCreate(pool, wanted); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return entered([&](const auto& cuda) { return cuda.cuMemPoolSetAttribute(pool, attribute, value); });
}

cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return entered([&](const auto& cuda) { return cuda.cuMemAllocFromPoolAsync(memory, bytes, pool, stream); });
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return entered([&](const auto& cuda) { return cuda.cuMemFreeAsync(memory, stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return entered([&](const auto& cuda) { return cuda.cuStreamSynchronize(stream); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return entered([&](const auto& cuda) { return cuda.cuStreamIsCapturing(stream, status); });
}
