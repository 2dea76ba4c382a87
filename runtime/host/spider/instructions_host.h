/// The names of a machine that generated files and shared headers use, for the host back end, which has no
/// lanes.
#pragma once

#include <spider/spider.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#define SPIDER_DEVICE inline
#define SPIDER_CONSTANTS static constexpr
#define SPIDER_UNROLL
#define SPIDER_NO_UNROLL

namespace spider {
inline namespace device_4 {
namespace device {

/// The machine that this header implements.
inline constexpr int backend = SPIDER_BACKEND_HOST;

/// a * b + c, rounded once where the processor can; the same in every loop, however it is compiled, so that a
/// result does not depend on where a row is cut.
template <class Number>
inline Number multiply_add(Number a, Number b, Number c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

inline std::uint64_t bits_of(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// One operation of an update each, rounded once. In an update's loops the compiler may fuse operations,
// within the error bound.
template <class Number>
inline Number add(Number a, Number b) {
  return a + b;
}
template <class Number>
inline Number subtract(Number a, Number b) {
  return a - b;
}
template <class Number>
inline Number multiply(Number a, Number b) {
  return a * b;
}
template <class Number>
inline Number divide(Number a, Number b) {
  return a / b;
}
template <class Number>
inline Number square_root(Number a) {
  return std::sqrt(a);
}
/// Subnormal numbers count as 0.
inline float square_root_of_normal(float a) {
  return std::sqrt(std::fabs(a) < 0x1p-126F ? 0 * a : a);
}
template <class Number>
inline Number larger(Number a, Number b) {
  return std::fmax(a, b);
}
template <class Number>
inline Number smaller(Number a, Number b) {
  return std::fmin(a, b);
}

}  // namespace device
}  // namespace device_4
}  // namespace spider
