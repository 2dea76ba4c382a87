#include "plan/machine.h"

#include <algorithm>
#include <array>

namespace spidergen::plan {
namespace {

constexpr int quarters_per_multiprocessor = 4;
constexpr double dense_mma_flops = 2.0 * 16 * 8 * 16;
constexpr double sparse_mma_flops = 2.0 * 16 * 8 * 32;  // data sheets count the zeros, too
constexpr double outputs_per_mma = 128;

/// Rates from a data sheet: peak dense f16 with f32 sums in TFLOP/s, twice that with sparsity; peak bandwidth
/// in GB/s; peak f32 on CUDA cores in TFLOP/s. Kernels reach less of each, so that predicted times are lower
/// bounds.
constexpr DeviceRates from_data_sheet(std::string_view architecture, std::string_view device,
                                      int multiprocessors, double dense_teraflops, double gigabytes,
                                      double core_teraflops) {
  const double quarters = quarters_per_multiprocessor * multiprocessors;
  const double flops_per_ns = dense_teraflops * 1e3 / quarters;
  return {architecture,
          device,
          multiprocessors,
          sparse_mma_flops / (2 * flops_per_ns),
          dense_mma_flops / flops_per_ns,
          gigabytes * 1e9,
          core_teraflops * 1e12 / 2,
          false};
}

// sm_90: tests/benchmarks/README.md, "What bounds a sweep". Others: NVIDIA's data sheets of the A100 (80 GB,
// SXM), A40, L40S and B200 (and of the H200 for its CUDA cores) and the RTX Blackwell architecture paper. The
// B200's peak is that of tcgen05; mma.sp may be far below it.
constexpr std::array<DeviceRates, 6> known{
    from_data_sheet("sm_80", "A100 SXM 80 GB", 108, 312, 2039, 19.5),
    from_data_sheet("sm_86", "A40", 84, 149.7, 696, 37.4),
    from_data_sheet("sm_89", "L40S", 142, 362.05, 864, 91.6),
    DeviceRates{"sm_90", "H200", 132, 4.60, 3.47, 4.1e12, 67e12 / 2, true},
    from_data_sheet("sm_100", "B200", 148, 2250, 8000, 75),
    from_data_sheet("sm_120", "RTX 5090", 170, 209.5, 1792, 104.8),
};

}  // namespace

std::span<const DeviceRates> device_rates() {
  return known;
}

const DeviceRates* find_device_rates(std::string_view architecture) {
  if (architecture.ends_with('a') || architecture.ends_with('f')) architecture.remove_suffix(1);
  const auto found = std::find_if(known.begin(), known.end(), [&](const DeviceRates& rates) {
    return rates.architecture == architecture;
  });
  return found == known.end() ? nullptr : &*found;
}

SweepBound bound_sweep(const DeviceRates& rates, const SweepWork& work) {
  const double mmas = work.points / outputs_per_mma * work.mmas_per_128_points;
  return {work.points * work.bytes_per_point / rates.copy_bytes_per_second * 1e6,
          mmas * (work.dense ? rates.dense_mma_ns : rates.sparse_mma_ns) * 1e-3 /
              (quarters_per_multiprocessor * rates.multiprocessors),
          work.points * work.core_products_per_point / rates.core_products_per_second * 1e6};
}

std::array<std::int64_t, 3> reference_extent(int dimensions) {
  if (dimensions == 1) return {1, 1, std::int64_t{10240} * 10240};
  if (dimensions == 3) return {768, 768, 768};
  return {1, 10240, 10240};
}

double reference_points(int dimensions) {
  double points = 1;
  for (const std::int64_t extent : reference_extent(dimensions)) points *= static_cast<double>(extent);
  return points;
}

SweepBound bound_reference(int dimensions, SweepWork work) {
  work.points = reference_points(dimensions);
  return bound_sweep(*find_device_rates("sm_90"), work);
}

}  // namespace spidergen::plan
