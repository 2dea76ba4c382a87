#pragma once

#include <optional>
#include <vector>

namespace spidergen::plan {

/// Weights are divided by a common factor before they become operands, and sums multiplied by it afterwards.
struct CommonFactor {
  double divisor = 1;     ///< of the weights, in [1, 2)
  double multiplier = 1;  ///< of the sums: the f32 number nearest to the divisor

  bool operator==(const CommonFactor&) const = default;
};

/// The factor that makes most groups of weights exact: each weight over the divisor is then, within
/// `weight_tolerance` of itself, a power of two times an integer of at most `digits` bits. None where no
/// group fits, or where the factor is 1 in f32. Weights are finite and not zero.
///
/// Two weights fit one factor where their ratio is a fraction of small odd numbers, times a power of two;
/// continued fractions find it. A group fits where the smallest common multiple of its fractions'
/// denominators leaves all numerators small. The search takes negligible time where weights have nothing in
/// common.
[[nodiscard]] std::optional<CommonFactor> find_common_factor(const std::vector<std::vector<double>>& groups,
                                                             int digits);

/// The number of at most `digits` bits, times a power of two, that is within `weight_tolerance` of `value`;
/// `value` itself where none is.
[[nodiscard]] double snap_to_digits(double value, int digits);

/// Relative: the error of a fraction computed by a spec's own arithmetic, or written with ten decimal digits.
/// It is a sixty-fourth of the error of rounding the factor to f32, which changes all weights alike, and too
/// small to mistake one fraction of numbers below 2^12 for another: they differ by at least 2^-24.
inline constexpr double weight_tolerance = 0x1p-30;

}  // namespace spidergen::plan
