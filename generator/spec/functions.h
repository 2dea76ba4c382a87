#pragma once

/// The functions of expressions that are no single operation of IEEE 754, computed in software and rounded
/// once to the nearest double: the same on every machine, whatever its mathematical library. They raise the
/// floating-point exceptions that IEEE 754 defines for them (FE_INVALID, FE_DIVBYZERO, FE_OVERFLOW) and no
/// others; a finite argument outside their domain gives NaN, and one that is not finite comes back.
namespace spidergen::spec::rounded {

[[nodiscard]] double cbrt(double value);
[[nodiscard]] double exp(double value);
[[nodiscard]] double log(double value);
[[nodiscard]] double log2(double value);
[[nodiscard]] double log10(double value);
[[nodiscard]] double sin(double radians);
[[nodiscard]] double cos(double radians);
[[nodiscard]] double tan(double radians);
[[nodiscard]] double asin(double value);
[[nodiscard]] double acos(double value);
[[nodiscard]] double atan(double value);
[[nodiscard]] double sinh(double value);
[[nodiscard]] double cosh(double value);
[[nodiscard]] double tanh(double value);
[[nodiscard]] double erf(double value);
/// A negative base takes an integer exponent; 0^0 is 1.
[[nodiscard]] double pow(double base, double exponent);

}  // namespace spidergen::spec::rounded
