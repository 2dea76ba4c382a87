/// Words of registers that hold cells.
#pragma once

#include <spider/machine/instructions.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

/// A register word for computing with cells: two of 2 bytes, or one of 4 or 8. `Element` is a cell's bits.
template <class Element>
using WordOf = std::conditional_t<sizeof(Element) == 8, std::uint64_t, std::uint32_t>;

/// Word `i` of a Vector or a Pair; and a word put there.
template <class Word, class Words>
SPIDER_DEVICE Word word_of(const Words& words, int i) {
  if constexpr (sizeof(Word) == 8) {
    return std::uint64_t{words.word[2 * i + 1]} << 32 | words.word[2 * i];
  } else {
    return words.word[i];
  }
}
template <class Words>
SPIDER_DEVICE void put_word(Words& words, int i, std::uint32_t word) {
  words.word[i] = word;
}
template <class Words>
SPIDER_DEVICE void put_word(Words& words, int i, std::uint64_t word) {
  words.word[2 * i] = static_cast<std::uint32_t>(word);
  words.word[2 * i + 1] = static_cast<std::uint32_t>(word >> 32);
}

}  // namespace device_4
}  // namespace spider
