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

}  // namespace spider::distributed
