/// Numbers of neighbouring points, computed together, and the operations of expressions on them or on one.
#pragma once

#include <spider/machine/instructions.h>

namespace spider {
inline namespace device_4 {

/// A value for each of `count` points.
template <class Value, int count>
struct Pack {
  Value of[count];
};

/// The result of a function of values for one value, or for those of each point.
template <class Value, class Function>
SPIDER_DEVICE auto each(Value a, Function function) {
  return function(a);
}
template <class Value, class Function>
SPIDER_DEVICE auto each(Value a, Value b, Function function) {
  return function(a, b);
}
template <class Value, int count, class Function>
SPIDER_DEVICE auto each(const Pack<Value, count>& a, Function function) {
  Pack<decltype(function(a.of[0])), count> result;
  SPIDER_UNROLL
  for (int i = 0; i < count; ++i) result.of[i] = function(a.of[i]);
  return result;
}
template <class Value, int count, class Function>
SPIDER_DEVICE auto each(const Pack<Value, count>& a, const Pack<Value, count>& b, Function function) {
  Pack<decltype(function(a.of[0], b.of[0])), count> result;
  SPIDER_UNROLL
  for (int i = 0; i < count; ++i) result.of[i] = function(a.of[i], b.of[i]);
  return result;
}

template <class A, class B, class C, int count, class Function>
SPIDER_DEVICE auto each(const Pack<A, count>& a, const Pack<B, count>& b, const Pack<C, count>& c,
                        Function function) {
  Pack<decltype(function(a.of[0], b.of[0], c.of[0])), count> result;
  SPIDER_UNROLL
  for (int i = 0; i < count; ++i) result.of[i] = function(a.of[i], b.of[i], c.of[i]);
  return result;
}

/// `a` where the condition is true, else `b`.
template <class Value>
SPIDER_DEVICE Value choose(bool condition, Value a, Value b) {
  return condition ? a : b;
}
template <class Value, int count>
SPIDER_DEVICE Pack<Value, count> choose(const Pack<bool, count>& condition, const Pack<Value, count>& a,
                                        const Pack<Value, count>& b) {
  return each(condition, a, b, [](bool holds, Value v, Value w) { return holds ? v : w; });
}

template <class Value, int count>
SPIDER_DEVICE Pack<Value, count> operator-(const Pack<Value, count>& a) {
  return each(a, [](Value v) { return -v; });
}

// The operations of expressions, point by point.
namespace device {

template <class Value, int count>
SPIDER_DEVICE Pack<Value, count> add(const Pack<Value, count>& a, const Pack<Value, count>& b) {
  return each(a, b, [](Value v, Value w) { return add(v, w); });
}
template <class Value, int count>
SPIDER_DEVICE Pack<Value, count> subtract(const Pack<Value, count>& a, const Pack<Value, count>& b) {
  return each(a, b, [](Value v, Value w) { return subtract(v, w); });
}
template <class Value, int count>
SPIDER_DEVICE Pack<Value, count> multiply(const Pack<Value, count>& a, const Pack<Value, count>& b) {
  return each(a, b, [](Value v, Value w) { return multiply(v, w); });
}
template <class Value, int count>
SPIDER_DEVICE Pack<Value, count> multiply_add(const Pack<Value, count>& a, const Pack<Value, count>& b,
                                              const Pack<Value, count>& c) {
  return each(a, b, c, [](Value u, Value v, Value w) { return multiply_add(u, v, w); });
}
template <class Value, int count>
SPIDER_DEVICE Pack<Value, count> divide(const Pack<Value, count>& a, const Pack<Value, count>& b) {
  return each(a, b, [](Value v, Value w) { return divide(v, w); });
}
template <class Value, int count>
SPIDER_DEVICE Pack<Value, count> square_root(const Pack<Value, count>& a) {
  return each(a, [](Value v) { return square_root(v); });
}
template <class Value, int count>
SPIDER_DEVICE Pack<Value, count> smaller(const Pack<Value, count>& a, const Pack<Value, count>& b) {
  return each(a, b, [](Value v, Value w) { return smaller(v, w); });
}
template <class Value, int count>
SPIDER_DEVICE Pack<Value, count> larger(const Pack<Value, count>& a, const Pack<Value, count>& b) {
  return each(a, b, [](Value v, Value w) { return larger(v, w); });
}

}  // namespace device
}  // namespace device_4
}  // namespace spider
