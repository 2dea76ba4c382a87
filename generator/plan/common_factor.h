#pragma once

#include <optional>
#include <vector>

namespace spidergen::plan {

/// What weights are divided by before they become operands, and sums are multiplied by afterwards.
struct CommonFactor {
  double divisor = 1;     ///< of the weights, in [1, 2)
  double multiplier = 1;  ///< of the sums: the divisor's nearest f32 number

  bool operator==(const CommonFactor&) const = default;
};

/// The factor that makes most groups of weights exact: each weight over the divisor is then, within
/// `weight_tolerance` of itself, a power of two times an integer of at most `digits` bits. None where no
/// group can be so, or where the factor is 1 in f32. Weights are finite and not zero.
///
/// Two weights fit one factor where their ratio is a fraction of small odd numbers, times a power of two;
/// continued fractions find it. A group fits where the smallest common multiple of its fractions'
/// denominators leaves all numerators small. So the search takes no time to speak of where weights have
/// nothing in common.
[[nodiscard]] std::optional<CommonFactor> find_common_factor(const std::vector<std::vector<double>>& groups,
                                                             int digits);

/// The number of at most `digits` bits, times a power of two, that is within `weight_tolerance` of `value`;
/// `value` itself where none is.
[[nodiscard]] double snap_to_digits(double value, int digits);

/// Relative: what a spec's own arithmetic, or ten decimal digits, leave of a fraction. That is a sixty-fourth
/// of what rounding the factor to f32 does to all weights alike, and too little to mistake one fraction of
/// numbers below 2^12 for another, which are 2^-24 apart.
inline constexpr double weight_tolerance = 0x1p-30;

}  // namespace spidergen::plan
