/// What generated files and headers that they share name of a machine, for the host back end, which has no
/// lanes.
#pragma once

#include <spider/spider.h>

#include <cmath>
#include <cstdint>

#define SPIDER_DEVICE inline
#define SPIDER_CONSTANTS static constexpr

namespace spider {
inline namespace device_1 {
namespace device {

/// Which machine this header is of.
inline constexpr int backend = SPIDER_BACKEND_HOST;

/// a * b + c, rounded once where the processor can; the same in every loop, whatever the compiler makes of
/// it, so that a result does not depend on where a row is cut.
template <class Number>
inline Number multiply_add(Number a, Number b, Number c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// One operation of an update each, rounded once: in its loops the compiler joins what it likes, within the
// bound.
inline float add(float a, float b) {
  return a + b;
}
inline float subtract(float a, float b) {
  return a - b;
}
inline float multiply(float a, float b) {
  return a * b;
}
inline float divide(float a, float b) {
  return a / b;
}
inline float square_root(float a) {
  return std::sqrt(a);
}
inline float larger(float a, float b) {
  return std::fmax(a, b);
}
inline float smaller(float a, float b) {
  return std::fmin(a, b);
}

}  // namespace device
}  // namespace device_1
}  // namespace spider
