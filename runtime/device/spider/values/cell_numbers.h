/// Neighbouring cells of a field as numbers and back.
#pragma once

#include <spider/machine/instructions.h>
#include <spider/values/cells.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// The cells of a storage, SPIDER_F16 and so on.
template <std::int32_t storage>
struct CellsOfStorage {
  using Type = F32Cells;
};
template <>
struct CellsOfStorage<SPIDER_F16> {
  using Type = F16Cells;
};
template <>
struct CellsOfStorage<SPIDER_BF16> {
  using Type = Bf16Cells;
};
template <>
struct CellsOfStorage<SPIDER_F64> {
  using Type = F64Cells;
};

/// The numbers of `count` cells in words.
template <class Cells, int count, class Number>
SPIDER_DEVICE void numbers_of_words(const std::uint32_t* word, Number* to) {
  SPIDER_UNROLL
  for (int i = 0; i < count; ++i) {
    if constexpr (Cells::element_bytes == 8) {
      to[i] = static_cast<Number>(
          Cells::number(static_cast<std::uint64_t>(word[2 * i + 1]) << 32 | word[2 * i], 0));
    } else {
      to[i] = static_cast<Number>(Cells::number(word[i / Cells::per_word], i % Cells::per_word));
    }
  }
}

/// `count` neighbouring cells as numbers, in vectors of at most 16 bytes; they begin on such a vector.
template <class Cells, int count, class Number>
SPIDER_DEVICE void load_cells(const typename Cells::Element* from, Number* to) {
  constexpr int bytes = count * Cells::element_bytes;
  if constexpr (bytes > 16) {
    load_cells<Cells, count / 2>(from, to);
    load_cells<Cells, count / 2>(from + count / 2, to + count / 2);
  } else if constexpr (count == 1) {
    to[0] = static_cast<Number>(Cells::number(device::load_cell(from), 0));
  } else {
    constexpr int words = bytes / 4;
    std::uint32_t word[words];
    if constexpr (words == 1) word[0] = device::load_cell(reinterpret_cast<const std::uint32_t*>(from));
    if constexpr (words == 2) device::load_cell_pair(from, word);
    if constexpr (words == 4) device::load_cell_vector(from, word);
    numbers_of_words<Cells, count>(word, to);
  }
}

/// The same if `wanted`, without a branch around the loads; otherwise an arbitrary number.
template <class Cells, int count, class Number>
SPIDER_DEVICE void load_cells_if(bool wanted, const typename Cells::Element* from, Number* to) {
  constexpr int bytes = count * Cells::element_bytes;
  using Element = typename Cells::Element;
  if constexpr (bytes > 16) {
    load_cells_if<Cells, count / 2>(wanted, from, to);
    load_cells_if<Cells, count / 2>(wanted, from + count / 2, to + count / 2);
  } else if constexpr (count == 1) {
    to[0] = static_cast<Number>(Cells::number(device::load_cell_if(wanted, from, Element{0}), 0));
  } else {
    constexpr int words = bytes / 4;
    std::uint32_t word[words] = {};
    if constexpr (words == 1)
      word[0] = device::load_cell_if(wanted, reinterpret_cast<const std::uint32_t*>(from), 0U);
    if constexpr (words == 2) device::load_cell_pair_if(wanted, from, word);
    if constexpr (words == 4) device::load_cell_vector_if(wanted, from, word);
    numbers_of_words<Cells, count>(word, to);
  }
}

/// A double as the f32 that rounds to the same 16 bits: inexact ones have an odd last bit.
SPIDER_DEVICE float round_to_odd(double number) {
  const auto nearest = static_cast<float>(number);
  const auto back = static_cast<double>(nearest);
  const std::uint32_t bits = device::bits_of(nearest);
  const bool is_finite = (bits & 0x7f800000U) != 0x7f800000U;
  if (back == number || !is_finite) return nearest;
  const bool is_farther = number < 0 ? back < number : back > number;
  return device::float_of((is_farther ? bits - 1 : bits) | 1U);
}

/// A number as a cell, rounded to nearest, once.
template <class Cells, class Number>
SPIDER_DEVICE typename Cells::Element cell_of_number(Number number) {
  if constexpr (sizeof(Number) == 8 && Cells::element_bytes < 4) {
    return Cells::cell(round_to_odd(number));
  } else {
    return Cells::cell(static_cast<typename Cells::Number>(number));
  }
}

/// The same for stores.
template <class Cells, int count, class Number>
SPIDER_DEVICE void store_cells(typename Cells::Element* to, const Number* from) {
  constexpr int bytes = count * Cells::element_bytes;
  if constexpr (bytes > 16) {
    store_cells<Cells, count / 2>(to, from);
    store_cells<Cells, count / 2>(to + count / 2, from + count / 2);
  } else if constexpr (count == 1) {
    device::store_field(to, cell_of_number<Cells>(from[0]));
  } else {
    constexpr int words = bytes / 4;
    std::uint32_t word[words] = {};
    SPIDER_UNROLL
    for (int i = 0; i < count; ++i) {
      const auto cell = cell_of_number<Cells>(from[i]);
      if constexpr (Cells::element_bytes == 8) {
        word[2 * i] = static_cast<std::uint32_t>(cell);
        word[2 * i + 1] = static_cast<std::uint32_t>(cell >> 32);
      } else {
        word[i / Cells::per_word] |= static_cast<std::uint32_t>(cell) << (i % Cells::per_word * 16);
      }
    }
    if constexpr (words == 1) device::store_field_word(to, word[0]);
    if constexpr (words == 2) device::store_field_pair(to, {{word[0], word[1]}});
    if constexpr (words == 4) device::store_field_vector(to, {{word[0], word[1], word[2], word[3]}});
  }
}

}  // namespace device_4
}  // namespace spider
