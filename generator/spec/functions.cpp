#include "spec/functions.h"

#include <boost/math/constants/constants.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cfenv>
#include <cmath>
#include <limits>

namespace spidergen::spec::rounded {
namespace {

namespace mp = boost::multiprecision;

template <unsigned digits>
using Binary = mp::number<mp::cpp_bin_float<digits, mp::digit_base_2>, mp::et_off>;

/// Enough digits that a result, off by a few units in the last place, falls on the right side of every
/// midpoint between two doubles. Only powers can equal a midpoint; power() computes such powers exactly.
using Wide = Binary<256>;

/// Enough digits that the distance of any double from a multiple of pi / 2 has as many as Wide: 1024 before
/// the point, at most 62 zeros after it.
using Angle = Binary<1408>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Hides the floating-point exceptions of the computation inside.
class QuietFlags {
 public:
  QuietFlags() { std::fegetexceptflag(&before_, FE_ALL_EXCEPT); }
  ~QuietFlags() { std::fesetexceptflag(&before_, FE_ALL_EXCEPT); }
  QuietFlags(const QuietFlags&) = delete;
  QuietFlags& operator=(const QuietFlags&) = delete;

 private:
  std::fexcept_t before_{};
};

double raise(int exception, double result) {
  std::feraiseexcept(exception);
  return result;
}

/// The double nearest to the result of `compute` for finite arguments.
template <typename Compute>
double round_once(const Compute& compute) {
  double result = 0;
  {
    const QuietFlags quiet;
    result = static_cast<double>(compute());
  }
  return std::isinf(result) ? raise(FE_OVERFLOW, result) : result;
}

const Wide& pi() {
  static const Wide value = boost::math::constants::pi<Wide>();
  return value;
}

const Wide& log_of_2() {
  static const Wide value = boost::math::constants::ln_two<Wide>();
  return value;
}

const Wide& log_of_10() {
  static const Wide value = boost::math::constants::ln_ten<Wide>();
  return value;
}

template <typename Function>
double of_logarithm(double value, const Function& function) {
  if (!std::isfinite(value)) return value;
  if (value == 0) return raise(FE_DIVBYZERO, -infinity);
  if (value < 0) return raise(FE_INVALID, not_a_number);
  return round_once([&] { return function(mp::log(Wide(value))); });
}

/// An angle as `quarters` right angles, modulo 4, and a remainder within 45 degrees.
struct Reduced {
  int quarters = 0;
  Wide rest;
};

Reduced reduce(double radians) {
  static const Angle right_angle = boost::math::constants::half_pi<Angle>();
  const Angle angle(radians);
  const Angle count = mp::floor(angle / right_angle + 0.5);
  const Angle turns = mp::floor(count / 4);
  return {static_cast<int>(count - 4 * turns), Wide(angle - count * right_angle)};
}

/// The sine of a reduced angle plus that many quarter turns.
Wide sine(const Reduced& angle, int more_quarters) {
  const int quarters = (angle.quarters + more_quarters) % 4;
  const Wide magnitude = quarters % 2 == 0 ? Wide(mp::sin(angle.rest)) : Wide(mp::cos(angle.rest));
  return quarters < 2 ? magnitude : Wide(-magnitude);
}

/// exp, sinh and cosh overflow from here on.
constexpr double beyond_exp = 711;

bool is_odd(double integer) {
  return std::fmod(integer, 2) != 0;
}

/// The power of a positive base. A midpoint between doubles has 54 digits and is computed exactly: a small
/// power of an integer, times one of 2, or of the root of a square, like 2.25^1.5 = 1.5^3.
Wide power(double base, double exponent) {
  constexpr double most_multiplied = 64;
  while (exponent != std::floor(exponent)) {
    const double root = std::sqrt(base);
    if (Wide(root) * root != base) break;
    base = root;
    exponent *= 2;
  }
  if (exponent == std::floor(exponent) && std::fabs(exponent) <= most_multiplied) {
    const Wide result = mp::pow(Wide(base), static_cast<int>(std::fabs(exponent)));
    return exponent < 0 ? Wide(1 / result) : result;
  }
  constexpr double beyond_double = 1100;
  const Wide digits = mp::log(Wide(base)) / log_of_2() * exponent;
  if (digits > beyond_double) return Wide(infinity);
  if (digits < -beyond_double) return Wide(0);
  return mp::exp(Wide(digits * log_of_2()));
}

/// The sum of (2 x^2)^n / (1 3 5 ... (2 n + 1)) from 0 on: all terms are positive.
Wide error_function(const Wide& value) {
  const Wide twice_square = 2 * value * value;
  Wide term = 1;
  Wide sum = 1;
  for (int odd = 3; term > sum * std::numeric_limits<Wide>::epsilon(); odd += 2) {
    term *= twice_square / odd;
    sum += term;
  }
  return 2 * value * sum * mp::exp(Wide(-value * value)) / mp::sqrt(pi());
}

}  // namespace

double cbrt(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  return round_once([&] {
    const Wide root = mp::exp(Wide(mp::log(Wide(std::fabs(value))) / 3));
    return value < 0 ? Wide(-root) : root;
  });
}

double exp(double value) {
  if (!std::isfinite(value)) return value;
  if (std::fabs(value) > beyond_exp + 64) return value < 0 ? 0 : raise(FE_OVERFLOW, infinity);
  return round_once([&] { return mp::exp(Wide(value)); });
}

double log(double value) {
  return of_logarithm(value, [](const Wide& logarithm) { return logarithm; });
}

double log2(double value) {
  return of_logarithm(value, [](const Wide& logarithm) { return Wide(logarithm / log_of_2()); });
}

double log10(double value) {
  return of_logarithm(value, [](const Wide& logarithm) { return Wide(logarithm / log_of_10()); });
}

double sin(double radians) {
  if (!std::isfinite(radians) || radians == 0) return radians;
  return round_once([&] { return sine(reduce(radians), 0); });
}

double cos(double radians) {
  if (!std::isfinite(radians)) return radians;
  return round_once([&] { return sine(reduce(radians), 1); });
}

double tan(double radians) {
  if (!std::isfinite(radians) || radians == 0) return radians;
  return round_once([&] {
    const Reduced angle = reduce(radians);
    return Wide(sine(angle, 0) / sine(angle, 1));
  });
}

double asin(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  if (std::fabs(value) > 1) return raise(FE_INVALID, not_a_number);
  return round_once([&] { return mp::asin(Wide(value)); });
}

double acos(double value) {
  if (!std::isfinite(value)) return value;
  if (std::fabs(value) > 1) return raise(FE_INVALID, not_a_number);
  return round_once([&] { return mp::acos(Wide(value)); });
}

double atan(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  return round_once([&] { return mp::atan(Wide(value)); });
}

double sinh(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  if (std::fabs(value) > beyond_exp) return raise(FE_OVERFLOW, std::copysign(infinity, value));
  return round_once([&] { return mp::sinh(Wide(value)); });
}

double cosh(double value) {
  if (!std::isfinite(value)) return value;
  if (std::fabs(value) > beyond_exp) return raise(FE_OVERFLOW, infinity);
  return round_once([&] { return mp::cosh(Wide(value)); });
}

double tanh(double value) {
  constexpr double nearly_1 = 22;  // differs from 1 by less than a quarter of its last digit
  if (!std::isfinite(value) || value == 0) return value;
  if (std::fabs(value) > nearly_1) return std::copysign(1.0, value);
  return round_once([&] { return mp::tanh(Wide(value)); });
}

double erf(double value) {
  constexpr double nearly_1 = 6;
  if (!std::isfinite(value) || value == 0) return value;
  if (std::fabs(value) > nearly_1) return std::copysign(1.0, value);
  return round_once([&] { return error_function(Wide(value)); });
}

double pow(double base, double exponent) {
  if (exponent == 0 || base == 1) return 1;
  if (!std::isfinite(base)) return base;
  if (!std::isfinite(exponent)) return exponent;
  const bool integer = exponent == std::floor(exponent);
  const double sign = integer && is_odd(exponent) && std::signbit(base) ? -1.0 : 1.0;
  if (base == 0) return exponent > 0 ? sign * 0.0 : raise(FE_DIVBYZERO, sign * infinity);
  if (base < 0 && !integer) return raise(FE_INVALID, not_a_number);
  return sign * round_once([&] { return power(std::fabs(base), exponent); });
}

}  // namespace spidergen::spec::rounded
