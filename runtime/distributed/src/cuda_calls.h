/// Errors of CUDA's calls as the project's statuses.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "layout.h"

namespace spider::distributed {

/// A CUDA call's outcome; an error of this call does not stay behind for the caller to find.
inline Outcome of_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());
  return {error == cudaErrorMemoryAllocation ? SPIDER_ERROR_MEMORY : SPIDER_ERROR_LAUNCH,
          std::string(what) + " failed: " + cudaGetErrorString(error)};
}

inline cudaStream_t to_stream(void* stream) {
  return stream == nullptr ? cudaStreamLegacy : static_cast<cudaStream_t>(stream);
}

/// A function of the driver; null where it has none.
inline void* find_driver_function(const char* name) {
  void* function = nullptr;
#if CUDART_VERSION >= 12050
  constexpr unsigned version = 12000;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault);
#endif
  return of_cuda(error, "finding a function of the driver").status == SPIDER_OK ? function : nullptr;
}

}  // namespace spider::distributed
