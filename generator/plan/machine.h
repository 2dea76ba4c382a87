#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

/// Constants of all NVIDIA GPUs of compute capability 8.0 and later (CUDA C++ Programming Guide, "Compute
/// Capabilities", technical specifications), and of sm_90, for which plans are made.
namespace spidergen::plan {

inline constexpr int word_bytes = 4;     ///< a register; a bank of shared memory
inline constexpr int vector_bytes = 16;  ///< the largest load, store or copy of a lane
inline constexpr int sector_bytes = 32;  ///< transfer unit of the L2 cache
inline constexpr int line_bytes = 128;   ///< four sectors; all banks of shared memory

inline constexpr int threads_per_warp = 32;
inline constexpr int registers_per_multiprocessor = 65536;  ///< of 32 bits
inline constexpr int largest_register_count = 255;          ///< of a thread

/// Shared memory of a block on every architecture: the limit of 8.6, 8.9 and 12.0.
inline constexpr int least_block_shared_bytes = 99 * 1024;

/// Shared memory of a multiprocessor of sm_90; and the system's share in each of its blocks.
inline constexpr int shared_per_multiprocessor = 228 * 1024;
inline constexpr int reserved_per_block = 1024;

/// The best rates of an architecture's tensor cores and memory, on one representative device.
struct DeviceRates {
  std::string_view architecture;  ///< as nvcc names it, without a suffix: sm_90
  std::string_view device;
  int multiprocessors = 0;
  /// Nanoseconds for which one MMA with f32 sums occupies a quarter of a multiprocessor: mma.sp.m16n8k32 and
  /// mma.sync.m16n8k16 of f16 or bf16.
  double sparse_mma_ns = 0;
  double dense_mma_ns = 0;
  double copy_bytes_per_second = 0;     ///< counts read and written bytes
  double core_products_per_second = 0;  ///< f32 multiply-adds on CUDA cores: the data sheet's peak for all
  bool measured = false;                ///< otherwise predicted from a data sheet's peaks
};

/// All architectures with known rates, ascending.
[[nodiscard]] std::span<const DeviceRates> device_rates();

/// The rates of an architecture, with or without a suffix (sm_90a is sm_90); null where none are known.
[[nodiscard]] const DeviceRates* find_device_rates(std::string_view architecture);

/// The work of one sweep.
struct SweepWork {
  double points = 0;
  double bytes_per_point = 0;  ///< read once and written once
  double mmas_per_128_points = 0;
  bool dense = false;                  ///< the MMAs are mma.sync.m16n8k16; otherwise mma.sp.m16n8k32
  double core_products_per_point = 0;  ///< f32 multiply-adds on CUDA cores
};

/// Lower bounds for the time of a sweep, in microseconds.
struct SweepBound {
  double memory_us = 0;
  double tensor_us = 0;
  double cores_us = 0;

  [[nodiscard]] double floor_us() const { return std::max({memory_us, tensor_us, cores_us}); }
  /// The largest one: "memory", "tensor" or "cores".
  [[nodiscard]] std::string_view binding() const {
    if (memory_us >= floor_us()) return "memory";
    return tensor_us >= floor_us() ? "tensor" : "cores";
  }
};

/// memory_us = points * bytes_per_point / copy rate; tensor_us = points / 128 * MMAs * sparse_mma_ns (or
/// dense_mma_ns) / (4 * multiprocessors); cores_us = points * products_per_point / products a second.
[[nodiscard]] SweepBound bound_sweep(const DeviceRates& rates, const SweepWork& work);

/// The field for which times are estimated, z, y, x: 10240 x 10240 points, as many in 1D, 768 cubed in 3D.
[[nodiscard]] std::array<std::int64_t, 3> reference_extent(int dimensions);
[[nodiscard]] double reference_points(int dimensions);

/// Bounds of a sweep over it on an H200, to whose measured times estimates are fitted. `work.points` is
/// ignored.
[[nodiscard]] SweepBound bound_reference(int dimensions, SweepWork work);

}  // namespace spidergen::plan
