/// Rows of cells as rows of numbers and back, for each storage.
#pragma once

#include <spider/spider.h>
#include <spider/half.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

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

/// Whole numbers, rounded to nearest, ties to even, and clamped to the least and the largest; NaN becomes the
/// least.
template <class Cell>
struct IntegerCells {
  using Element = Cell;
  using Number = float;

  template <class Wider>
  static void load(const Element* from, Wider* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Wider>(from[i]);
  }
  template <class Wider>
  static void store(const Wider* from, Element* to, std::int64_t count) {
    constexpr auto least = static_cast<Wider>(std::numeric_limits<Cell>::lowest());
    constexpr auto most = static_cast<Wider>(std::numeric_limits<Cell>::max());
    // Adding this leaves no fractional digits.
    constexpr Wider rounds = sizeof(Wider) == 8 ? static_cast<Wider>(0x1.8p52) : static_cast<Wider>(0x1.8p23);
    for (std::int64_t i = 0; i < count; ++i) {
      const Wider above = from[i] > least ? from[i] : least;
      const Wider within = above < most ? above : most;
      to[i] = static_cast<Element>(static_cast<std::int32_t>(within + rounds - rounds));
    }
  }
};
using U8Cells = IntegerCells<std::uint8_t>;
using U16Cells = IntegerCells<std::uint16_t>;
using I16Cells = IntegerCells<std::int16_t>;

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

/// The f32 that bf16 rounds as it would the double: inexact ones have an odd last bit.
inline float round_to_odd(double number) {
  const auto nearest = static_cast<float>(number);
  if (static_cast<double>(nearest) == number || !std::isfinite(nearest)) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(number)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

/// Numbers as cells of f16 and bf16, rounded once.
inline void store_halves(std::int32_t storage, const float* from, std::uint16_t* to, std::int64_t count) {
  return storage == SPIDER_F16 ? F16Cells::store(from, to, count) : Bf16Cells::store(from, to, count);
}
inline void store_halves(std::int32_t storage, const double* from, std::uint16_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float number = round_to_odd(from[i]);
    if (storage == SPIDER_F16) {
      to[i] = half(from[i]).bits();
    } else {
      Bf16Cells::store(&number, to + i, 1);
    }
  }
}

/// Numbers as cells of any storage, rounded once.
template <class Number>
void store_cells(std::int32_t storage, const Number* from, std::byte* to, std::int64_t count) {
  const auto convert = [&](auto* cells) {
    for (std::int64_t i = 0; i < count; ++i)
      cells[i] = static_cast<std::remove_pointer_t<decltype(cells)>>(from[i]);
  };
  switch (storage) {
    case SPIDER_F16:
    case SPIDER_BF16:
      return store_halves(storage, from, reinterpret_cast<std::uint16_t*>(to), count);
    case SPIDER_U8:
      return U8Cells::store(from, reinterpret_cast<std::uint8_t*>(to), count);
    case SPIDER_U16:
      return U16Cells::store(from, reinterpret_cast<std::uint16_t*>(to), count);
    case SPIDER_I16:
      return I16Cells::store(from, reinterpret_cast<std::int16_t*>(to), count);
    case SPIDER_F64:
      return convert(reinterpret_cast<double*>(to));
    default:
      return convert(reinterpret_cast<float*>(to));
  }
}

}  // namespace spider::host
