/// Vectors of 16 bytes in registers.
#pragma once

#include <spider/machine/instructions.h>
#include <spider/values/words.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// A vector with one word repeated.
SPIDER_DEVICE device::Vector repeat_word(std::uint32_t word) {
  return {{word, word, word, word}};
}
SPIDER_DEVICE device::Vector repeat_word(std::uint64_t word) {
  const auto low = static_cast<std::uint32_t>(word);
  const auto high = static_cast<std::uint32_t>(word >> 32);
  return {{low, high, low, high}};
}

/// Starts the asynchronous copy of 4 or 8 bytes, aligned to their number, if `wanted`.
template <int bytes>
SPIDER_DEVICE void copy_piece_async_if(bool wanted, device::Shared to, const void* from) {
  static_assert(bytes == 4 || bytes == 8, "a word or a pair");
  if constexpr (bytes == 4) {
    device::copy_word_async_if(wanted, to, from);
  } else {
    device::copy_pair_async_if(wanted, to, from);
  }
}
/// The same for a cell.
template <class Element>
SPIDER_DEVICE void copy_cell_async_if(bool wanted, device::Shared to, const Element* from) {
  copy_piece_async_if<static_cast<int>(sizeof(Element))>(wanted, to, from);
}

/// True if a row of memory that begins with `cell` begins within a word. Cells of 4 bytes or more never do.
template <class Element>
SPIDER_DEVICE bool is_misaligned(const Element* cell) {
  constexpr int word_bytes = 4;
  return sizeof(Element) < word_bytes && reinterpret_cast<std::uintptr_t>(cell) % word_bytes != 0;
}

/// The 16 bytes from byte `begin`, below 16, of two consecutive vectors.
SPIDER_DEVICE device::Vector take_vector(const device::Vector& first, const device::Vector& second,
                                         int begin) {
  std::uint32_t words[8];
  SPIDER_UNROLL
  for (int i = 0; i < 8; ++i) words[i] = i < 4 ? first.word[i] : second.word[i - 4];
  SPIDER_UNROLL
  for (int i = 0; i < 6; ++i) words[i] = (begin & 8) != 0 ? words[i + 2] : words[i];
  SPIDER_UNROLL
  for (int i = 0; i < 5; ++i) words[i] = (begin & 4) != 0 ? words[i + 1] : words[i];
  device::Vector taken;
  SPIDER_UNROLL
  for (int i = 0; i < 4; ++i)
    taken.word[i] = device::funnel_shift_right(words[i], words[i + 1], begin % 4 * 8);
  return taken;
}

/// The 16 bytes from `cells` on, from the two vectors of memory that they span, if `wanted`; otherwise zeros.
template <class Element>
SPIDER_DEVICE device::Vector load_unaligned(bool wanted, const Element* cells) {
  constexpr int vector_bytes = 16;
  constexpr int element_bytes = static_cast<int>(sizeof(Element));
  const int lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(cells) % vector_bytes);
  const Element* from = cells - lead / element_bytes;
  device::Vector low{};
  device::Vector high{};
  device::load_field_vector_if(wanted, from, low);
  device::load_field_vector_if(wanted && lead > 0, from + (lead > 0 ? vector_bytes / element_bytes : 0),
                               high);
  return take_vector(low, high, lead);
}

/// Changes the signs of a vector's cells, by the word of one (sign_word).
SPIDER_DEVICE void change_signs(device::Vector& cells, std::uint32_t sign) {
  SPIDER_UNROLL
  for (int i = 0; i < 4; ++i) cells.word[i] ^= sign;
}
SPIDER_DEVICE void change_signs(device::Vector& cells, std::uint64_t sign) {
  SPIDER_UNROLL
  for (int i = 0; i < 2; ++i) put_word(cells, i, word_of<std::uint64_t>(cells, i) ^ sign);
}

}  // namespace device_4
}  // namespace spider
