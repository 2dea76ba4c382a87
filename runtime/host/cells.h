/// Rows of cells as rows of numbers and back, for each storage.
#pragma once

#include <spider/half.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace spider::host {

/// f32 and f64: a cell is a number.
template <class Cell>
struct WholeCells {
  using Element = Cell;
  using Number = Cell;

  template <class Wider>
  static void load(const Element* from, Wider* to, std::int64_t count) {
    std::copy_n(from, count, to);
  }
  static void store(const Number* from, Element* to, std::int64_t count) { std::copy_n(from, count, to); }
};
using F32Cells = WholeCells<float>;
using F64Cells = WholeCells<double>;

/// f16, rounded to nearest, ties to even.
struct F16Cells {
  using Element = std::uint16_t;
  using Number = float;

  static void load(const Element* from, Number* to, std::int64_t count) {
    std::int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
    for (; i < count; ++i) to[i] = half::from_bits(from[i]);
  }
  static void load(const Element* from, double* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = half::from_bits(from[i]);
  }
  static void store(const Number* from, Element* to, std::int64_t count) {
    std::int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    for (; i < count; ++i) to[i] = half(from[i]).bits();
  }
};

/// bf16: the upper half of an f32; rounded to nearest, ties to even.
struct Bf16Cells {
  using Element = std::uint16_t;
  using Number = float;

  template <class Wider>
  static void load(const Element* from, Wider* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
  }
  static void store(const Number* from, Element* to, std::int64_t count) {
    constexpr std::uint32_t infinity = 0x7f800000;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(from[i]);
      const bool is_nan = (bits & 0x7fffffffU) > infinity;
      const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
      to[i] = static_cast<std::uint16_t>(is_nan ? 0x7fff : rounded);
    }
  }
};

}  // namespace spider::host
