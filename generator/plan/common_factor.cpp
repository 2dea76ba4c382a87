#include "plan/common_factor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace spidergen::plan {
namespace {

// Weights that are tried as the anchor. One of the first usually fits a factor; the limit bounds the search
// for stencils with thousands of weights.
constexpr std::size_t most_anchors = 64;

// Below this a factor's rounding is negligible, and smaller integers are preferred.
constexpr double negligible_rounding = 0x1p-31;

/// A power of two times numerator / denominator, both odd.
struct OddFraction {
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
};

std::int64_t odd_part(std::int64_t value) {
  while (value % 2 == 0) value /= 2;
  return value;
}

/// |value| times the power of two that brings it into [1, 2).
double mantissa_of(double value) {
  int exponent = 0;
  return 2 * std::frexp(std::fabs(value), &exponent);
}

/// The fraction of odd numbers of at most `digits` bits that equals `ratio` > 0 up to a power of two. It is a
/// convergent of the continued fraction, by Legendre's theorem, since the tolerance is less than half of one
/// over the denominator's square.
std::optional<OddFraction> find_fraction(double ratio, int digits) {
  const double target = mantissa_of(ratio);
  // One of the two numbers in [1, 2) may have gained a power of two.
  const std::int64_t most = std::int64_t{2} << digits;
  std::int64_t numerator = 1;
  std::int64_t denominator = 0;
  std::int64_t last_numerator = 0;
  std::int64_t last_denominator = 1;
  double rest = target;
  while (true) {
    const auto whole = static_cast<std::int64_t>(std::floor(rest));
    last_numerator += whole * numerator;
    last_denominator += whole * denominator;
    std::swap(numerator, last_numerator);
    std::swap(denominator, last_denominator);
    if (numerator > most) return std::nullopt;
    const double found = static_cast<double>(numerator) / static_cast<double>(denominator);
    if (std::fabs(found - target) <= weight_tolerance * target) break;
    rest = 1 / (rest - static_cast<double>(whole));
    if (!(rest < static_cast<double>(most))) return std::nullopt;
  }
  const OddFraction fraction{odd_part(numerator), odd_part(denominator)};
  if (std::max(fraction.numerator, fraction.denominator) >> digits != 0) return std::nullopt;
  return fraction;
}

/// The condition on the anchor's integer for a group to fit: a multiple of `multiple`, at which the group's
/// largest integer is `largest`.
struct GroupFit {
  std::int64_t multiple = 1;
  std::int64_t largest = 1;
};

std::optional<GroupFit> fit_group(const std::vector<double>& group, double anchor, int digits) {
  GroupFit fit;
  for (const double weight : group) {
    const auto fraction = find_fraction(std::fabs(weight / anchor), digits);
    if (!fraction) return std::nullopt;
    const std::int64_t common = std::lcm(fit.multiple, fraction->denominator);
    const std::int64_t own = fraction->numerator * (common / fraction->denominator);
    fit.largest = std::max(fit.largest * (common / fit.multiple), own);
    fit.multiple = common;
    if (std::max(fit.largest, fit.multiple) >> digits != 0) return std::nullopt;
  }
  return fit;
}

/// The anchor, its integer, the largest integer of all weights that fit, and the number of groups that fit.
struct Choice {
  double anchor = 1;
  std::int64_t integer = 1;
  std::int64_t largest = 1;
  std::size_t groups = 0;
};

/// The smallest integer of the anchor at which most groups fit.
Choice choose_integer(const std::vector<GroupFit>& fits, double anchor, int digits) {
  Choice best;
  for (std::int64_t integer = 1; integer >> digits == 0; integer += 2) {
    Choice choice{anchor, integer, 1, 0};
    for (const GroupFit& fit : fits) {
      const std::int64_t largest = fit.largest * (integer / fit.multiple);
      if (integer % fit.multiple != 0 || largest >> digits != 0) continue;
      choice.largest = std::max(choice.largest, largest);
      ++choice.groups;
    }
    if (choice.groups > best.groups) best = choice;
    if (best.groups == fits.size()) break;
  }
  return best;
}

Choice choose_unit(const std::vector<std::vector<double>>& groups, int digits) {
  std::vector<double> anchors;
  for (const std::vector<double>& group : groups) {
    for (const double weight : group) {
      const double mantissa = mantissa_of(weight);
      const bool known = std::find(anchors.begin(), anchors.end(), mantissa) != anchors.end();
      if (!known && anchors.size() < most_anchors) anchors.push_back(mantissa);
    }
  }
  Choice best;
  for (const double anchor : anchors) {
    std::vector<GroupFit> fits;
    for (const std::vector<double>& group : groups) {
      if (const auto fit = fit_group(group, anchor, digits)) fits.push_back(*fit);
    }
    if (fits.size() <= best.groups) continue;
    const Choice choice = choose_integer(fits, anchor, digits);
    if (choice.groups > best.groups) best = choice;
    if (best.groups == groups.size()) break;
  }
  return best;
}

/// All weights may also be odd multiples of the integers: their factor is another f32 number, which may be
/// closer to the intended one.
CommonFactor round_factor(const Choice& choice, int digits) {
  CommonFactor best;
  double least = 1;
  for (std::int64_t multiple = 1; choice.largest * multiple >> digits == 0; multiple += 2) {
    CommonFactor factor;
    factor.divisor = mantissa_of(choice.anchor / static_cast<double>(choice.integer * multiple));
    factor.multiplier = static_cast<double>(static_cast<float>(factor.divisor));
    const double rounding = std::fabs(factor.multiplier / factor.divisor - 1);
    if (rounding >= least) continue;
    best = factor;
    least = rounding;
    if (least <= negligible_rounding) break;
  }
  return best;
}

}  // namespace

std::optional<CommonFactor> find_common_factor(const std::vector<std::vector<double>>& groups, int digits) {
  const Choice choice = choose_unit(groups, digits);
  if (choice.groups == 0) return std::nullopt;
  const CommonFactor factor = round_factor(choice, digits);
  if (factor.multiplier == 1 || factor.multiplier == 2) return std::nullopt;
  return factor;
}

double snap_to_digits(double value, int digits) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  const double snapped = std::ldexp(std::nearbyint(std::ldexp(mantissa, digits)), exponent - digits);
  return std::fabs(snapped - value) <= weight_tolerance * std::fabs(value) ? snapped : value;
}

}  // namespace spidergen::plan
