#pragma once

/// The functions of expressions that are not a single IEEE 754 operation, computed in software and rounded
/// once to the nearest double: the same on every machine and with every mathematical library. They raise
/// exactly the floating-point exceptions that IEEE 754 defines (FE_INVALID, FE_DIVBYZERO, FE_OVERFLOW). A
/// finite argument outside the domain gives NaN; an argument that is not finite is returned.
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
