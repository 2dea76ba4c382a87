/// The time that a sweep cannot beat.
#pragma once

#include <cstdint>
#include <optional>

namespace bench {

/// What bounds the sweep of a kernel on a device. Times are in microseconds.
struct Prediction {
  double memory_us;                 ///< every point read and written once at the rate of the copy of this run
  std::optional<double> tensor_us;  ///< none where the rate of the device's MMAs was not measured
  double floor_us;                  ///< the larger
};

/// Nanoseconds that one MMA of an engine keeps a quarter of a multiprocessor busy. Measured for compute
/// capability 9.0 with f32 sums: mma.sp.m16n8k32 4.60 ("sparse"), mma.sync.m16n8k16 3.47 ("dense"); what
/// follows a `_` in the name is a variant. Nothing for other devices and other engines.
[[nodiscard]] std::optional<double> mma_nanoseconds(int compute_capability, const char* engine);

/// points / 128 * products * nanoseconds / (4 * multiprocessors), as one product makes 128 outputs and a
/// multiprocessor has four quarters; and copy_us.
[[nodiscard]] Prediction predict(double copy_us, std::int64_t points, int products, int multiprocessors,
                                 std::optional<double> nanoseconds);

}  // namespace bench
