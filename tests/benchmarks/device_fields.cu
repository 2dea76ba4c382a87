#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device_fields.h"
#include "storage.h"

namespace bench {
namespace {

constexpr unsigned block_threads = 256;

template <class Element>
__device__ Element rounded(float value);
template <>
__device__ __half rounded(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __nv_bfloat16 rounded(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ float rounded(float value) {
  return value;
}

__global__ void fill_random_doubles(double* to, std::int64_t count, std::uint64_t seed) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = random_double(seed, static_cast<std::uint64_t>(i));
}

template <class Element>
__global__ void fill_random(Element* to, std::int64_t count, std::uint64_t seed, float limit) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    to[i] = rounded<Element>(random_value(seed, static_cast<std::uint64_t>(i), limit));
  }
}

/// Bit patterns of elements of 2, 4 or 8 bytes, widened.
template <class Bits>
__global__ void gather(const Bits* from, const std::int64_t* indices, std::uint64_t* to, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] = from[indices[i]];
}

template <class Element>
void fill(void* memory, std::int64_t count, std::uint64_t seed, float limit) {
  fill_random<<<4096, block_threads>>>(static_cast<Element*>(memory), count, seed, limit);
  require(cudaGetLastError(), "filling a field");
}

void fill_storage(int storage, void* memory, std::int64_t count, std::uint64_t seed) {
  if (storage == SPIDER_F64) {
    fill_random_doubles<<<4096, block_threads>>>(static_cast<double*>(memory), count, seed);
    return require(cudaGetLastError(), "filling a field");
  }
  const auto limit = static_cast<float>(largest_below_one(storage));
  if (storage == SPIDER_F16) return fill<__half>(memory, count, seed, limit);
  if (storage == SPIDER_BF16) return fill<__nv_bfloat16>(memory, count, seed, limit);
  fill<float>(memory, count, seed, limit);
}

}  // namespace

DeviceFields::DeviceFields(const FieldLayout& layout, int storage, int pairs, std::uint64_t seed)
    : layout_(layout), storage_(storage), seed_(scramble(seed)) {
  for (int pair = 0; pair < pairs; ++pair) {
    inputs_.push_back(allocate_device(bytes()));
    outputs_.push_back(allocate_device(bytes()));
    input_views_.push_back(view(inputs_.back().get()));
    output_views_.push_back(view(outputs_.back().get()));
    fill_storage(storage, inputs_.back().get(), layout.elements, this->seed(pair));
    poison_output(pair, nullptr);
  }
  require(cudaDeviceSynchronize(), "filling the fields");
}

std::int64_t DeviceFields::bytes_needed(const FieldLayout& layout, int storage, int pairs) {
  return 2 * pairs * layout.elements * element_bytes(storage);
}

std::int64_t DeviceFields::bytes() const {
  return layout_.elements * element_bytes(storage_);
}

spider_field DeviceFields::view(void* memory) const {
  const Extents& extents = layout_.extents;
  return {static_cast<char*>(memory) + layout_.origin * element_bytes(storage_),
          {extents[0], extents[1], extents[2]},
          {layout_.plane_stride, layout_.row_stride}};
}

void DeviceFields::poison_output(int pair, cudaStream_t stream) const {
  require(cudaMemsetAsync(output_memory(pair), 0xFF, static_cast<std::size_t>(bytes()), stream),
          "poisoning an output");
}

std::vector<double> DeviceFields::read_output(int pair, const std::vector<std::int64_t>& indices,
                                              cudaStream_t stream) const {
  const auto count = static_cast<int>(indices.size());
  const DeviceMemory device_indices =
      allocate_device(count * static_cast<std::int64_t>(sizeof(std::int64_t)));
  const DeviceMemory device_bits = allocate_device(count * static_cast<std::int64_t>(sizeof(std::uint64_t)));
  require(cudaMemcpyAsync(device_indices.get(), indices.data(), indices.size() * sizeof(std::int64_t),
                          cudaMemcpyHostToDevice, stream),
          "sending the points to check");
  const auto* where = static_cast<const std::int64_t*>(device_indices.get());
  auto* to = static_cast<std::uint64_t*>(device_bits.get());
  const unsigned blocks = (static_cast<unsigned>(count) + block_threads - 1) / block_threads;
  if (element_bytes(storage_) == 2) {
    gather<<<blocks, block_threads, 0, stream>>>(static_cast<const std::uint16_t*>(output_memory(pair)),
                                                 where, to, count);
  } else if (element_bytes(storage_) == 8) {
    gather<<<blocks, block_threads, 0, stream>>>(static_cast<const std::uint64_t*>(output_memory(pair)),
                                                 where, to, count);
  } else {
    gather<<<blocks, block_threads, 0, stream>>>(static_cast<const std::uint32_t*>(output_memory(pair)),
                                                 where, to, count);
  }
  require(cudaGetLastError(), "reading the points to check");
  std::vector<std::uint64_t> bits(indices.size());
  require(
      cudaMemcpyAsync(bits.data(), to, bits.size() * sizeof(std::uint64_t), cudaMemcpyDeviceToHost, stream),
      "fetching the points to check");
  require(cudaStreamSynchronize(stream), "the kernel that is checked");
  std::vector<double> values;
  for (const std::uint64_t pattern : bits) values.push_back(decode(storage_, pattern));
  return values;
}

}  // namespace bench
