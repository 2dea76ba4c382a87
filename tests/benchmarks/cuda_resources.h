/// Owners of what the CUDA runtime hands out, and its errors as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace bench {

/// Throws std::runtime_error with CUDA's words.
inline void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

struct DeviceFree {
  void operator()(void* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<void, DeviceFree>;

[[nodiscard]] inline DeviceMemory allocate_device(std::int64_t bytes) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "allocating device memory");
  return DeviceMemory(memory);
}

struct StreamDestroy {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDestroy>;

[[nodiscard]] inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return Stream(stream);
}

struct EventDestroy {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDestroy>;

[[nodiscard]] inline Event make_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreate(&event), "making an event");
  return Event(event);
}

/// Waits for `stop`; microseconds.
[[nodiscard]] inline double microseconds_between(const Event& start, const Event& stop) {
  require(cudaEventSynchronize(stop.get()), "waiting for a launch");
  float milliseconds = 0;
  require(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()), "reading an event");
  return static_cast<double>(milliseconds) * 1e3;
}

struct GraphDestroy {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, GraphDestroy>;

struct GraphExecDestroy {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, GraphExecDestroy>;

}  // namespace bench
