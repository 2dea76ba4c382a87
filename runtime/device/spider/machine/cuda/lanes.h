/// Lanes, warps and blocks: indices, barriers and exchanges; and the words of this machine.
#pragma once

#include <cstdint>

#define SPIDER_DEVICE __device__ __forceinline__
#define SPIDER_DEVICE_NOINLINE static __device__ __noinline__
#define SPIDER_GLOBAL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
/// For a kernel's argument: out-of-line functions may take references to it without a copy.
#define SPIDER_GRID_CONSTANT __grid_constant__
#define SPIDER_TABLE static __device__ const
/// A function's own table, which unrolled loops eliminate. Otherwise the compiler would build it for every
/// use, and take up to five times as long.
#define SPIDER_CONSTANTS static constexpr
#define SPIDER_UNROLL _Pragma("unroll")
#define SPIDER_NO_UNROLL _Pragma("unroll 1")
/// After a lambda's parameters: inlines each of its calls.
#define SPIDER_INLINED __attribute__((always_inline))
/// Begins a kernel. In a file that NVRTC compiles function by function (spider_gen/_nvrtc.py), only the one
/// with this number has its code; the others leave their numbers in the PTX.
#if defined(SPIDER_ONLY_ENTRY)
#define SPIDER_ENTRY                                                                            \
  constexpr std::uint32_t spider_entry = ::spider::device::number_of_name(__PRETTY_FUNCTION__); \
  if constexpr (spider_entry != SPIDER_ONLY_ENTRY) {                                            \
    asm volatile("// entry %0" ::"n"(spider_entry));                                            \
    return;                                                                                     \
  }                                                                                             \
  static_cast<void>(0)
#else
#define SPIDER_ENTRY static_cast<void>(0)
#endif

namespace spider {
inline namespace device_4 {
namespace device {

/// The machine that this header implements.
inline constexpr int backend = SPIDER_BACKEND_CUDA;

/// FNV-1a, and never 0.
constexpr std::uint32_t number_of_name(const char* name) {
  std::uint32_t number = 2166136261U;
  for (; *name != 0; ++name) number = (number ^ static_cast<unsigned char>(*name)) * 16777619U;
  return number | 1U;
}

/// Four 32-bit registers; 16 bytes in memory, on a multiple of 16.
struct alignas(16) Vector {
  std::uint32_t word[4];
};

/// Two 32-bit registers; 8 bytes in memory, on a multiple of 8.
struct alignas(8) Pair {
  std::uint32_t word[2];
};

/// A byte offset in the block's shared memory.
using Shared = std::uint32_t;

SPIDER_DEVICE int lane_index() {
  return static_cast<int>(threadIdx.x % 32);
}
SPIDER_DEVICE int warp_index() {
  return static_cast<int>(threadIdx.x / 32);
}
SPIDER_DEVICE int block_index() {
  return static_cast<int>(blockIdx.x);
}
/// Index of the block's image in the launch.
SPIDER_DEVICE int image_index() {
  return static_cast<int>(blockIdx.y);
}

SPIDER_DEVICE void sync_warp() {
  __syncwarp();
}
SPIDER_DEVICE void sync_block() {
  __syncthreads();
}
/// The largest number of the warp's lanes: redux.sync.max.u32 (9.7.13.6), exchanges before sm_80.
SPIDER_DEVICE std::uint32_t warp_max(std::uint32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  for (int apart = 16; apart > 0; apart /= 2) {
    value = max(value, __shfl_xor_sync(0xffffffffU, value, apart));
  }
  return value;
#else
  return __reduce_max_sync(0xffffffffU, value);
#endif
}
/// The smallest: redux.sync.min.u32.
SPIDER_DEVICE std::uint32_t smallest_in_warp(std::uint32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return ~warp_max(~value);
#else
  return __reduce_min_sync(0xffffffffU, value);
#endif
}

/// shfl.sync.idx.b32 (9.7.9.6): the word of lane `source` % 32.
SPIDER_DEVICE std::uint32_t shuffle(std::uint32_t value, int source) {
  return __shfl_sync(0xffffffffU, value, source);
}
/// The same for 64 bits, by two of them.
SPIDER_DEVICE std::uint64_t shuffle(std::uint64_t value, int source) {
  return __shfl_sync(0xffffffffU, value, source);
}

}  // namespace device
}  // namespace device_4
}  // namespace spider
