#include <algorithm>

#include "baselines.h"
#include "storage.h"

namespace bench {
namespace {

constexpr unsigned copy_threads = 512;
constexpr std::int64_t blocks_per_multiprocessor = 16;

__global__ void copy_vectors(const uint4* __restrict__ from, uint4* __restrict__ to, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = from[i];
}

Contestant copy_baseline(const DeviceFields& fields, const char* name) {
  Contestant copy;
  copy.label = "baseline";
  copy.name = name;
  copy.fields = &fields;
  copy.layout = dense_layout({1, 1, point_count(fields.layout().extents)});
  copy.stencil = identity_stencil();
  copy.arithmetic = {fields.storage(), 0, true};
  copy.is_copy = true;
  return copy;
}

}  // namespace

std::vector<Contestant> copy_baselines(const DeviceFields& fields, int multiprocessors) {
  constexpr auto vector_bytes = static_cast<std::int64_t>(sizeof(uint4));
  const std::int64_t vectors =
      (point_count(fields.layout().extents) * element_bytes(fields.storage()) + vector_bytes - 1) /
      vector_bytes;
  Contestant engine = copy_baseline(fields, "copy_engine");
  engine.launch = [&fields, vectors](int pair, cudaStream_t stream) {
    require(
        cudaMemcpyAsync(fields.output_memory(pair), fields.input_memory(pair),
                        static_cast<std::size_t>(vectors * vector_bytes), cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
  };
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(
      blocks_per_multiprocessor * multiprocessors, (vectors + copy_threads - 1) / copy_threads));
  Contestant kernel = copy_baseline(fields, "copy_kernel");
  kernel.launch = [&fields, vectors, blocks](int pair, cudaStream_t stream) {
    copy_vectors<<<blocks, copy_threads, 0, stream>>>(static_cast<const uint4*>(fields.input_memory(pair)),
                                                      static_cast<uint4*>(fields.output_memory(pair)),
                                                      vectors);
    require(cudaGetLastError(), "the copy kernel");
  };
  return {std::move(engine), std::move(kernel)};
}

}  // namespace bench
