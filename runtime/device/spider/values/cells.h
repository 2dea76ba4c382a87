/// How cells of a field become the numbers that are computed with, and back. One struct per storage with the
/// same members; a template names its own `Cells`.
#pragma once

#include <spider/machine/instructions.h>
#include <spider/values/words.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// Two cells to a word, whatever their digits mean.
struct HalfWordCells {
  using Element = std::uint16_t;  ///< the bits of a cell
  using Word = WordOf<Element>;
  using Number = float;  ///< what is computed with
  static constexpr int element_bytes = 2;
  static constexpr int per_word = 2;

  /// A word of one cell again and again.
  SPIDER_DEVICE static std::uint32_t repeat(Element cell) { return cell * 0x00010001U; }
  /// Cell `i` of a word; and `cell` put there.
  SPIDER_DEVICE static Element cell_of(std::uint32_t word, int i) {
    return static_cast<Element>(word >> (16 * i));
  }
  SPIDER_DEVICE static void put(std::uint32_t& word, int i, Element cell) {
    const std::uint32_t other = i == 0 ? word & 0xffff0000U : word & 0xffffU;
    word = other | static_cast<std::uint32_t>(cell) << (16 * i);
  }
};

/// f16.
struct F16Cells : HalfWordCells {
  /// The number in cell `i` of a word.
  SPIDER_DEVICE static float number(std::uint32_t word, int i) {
    return i == 0 ? device::low_f16(word) : device::high_f16(word);
  }
  /// A word of numbers, rounded to nearest; the lower half is the first.
  SPIDER_DEVICE static std::uint32_t word(const float* numbers) {
    return device::pack_f16(numbers[0], numbers[1]);
  }
  /// A number, rounded to nearest.
  SPIDER_DEVICE static Element cell(float number) {
    return static_cast<Element>(device::pack_f16(number, 0));
  }
};

/// bf16: the upper half of an f32 number.
struct Bf16Cells : HalfWordCells {
  SPIDER_DEVICE static float number(std::uint32_t word, int i) {
    return device::float_of(i == 0 ? word << 16 : word & 0xffff0000U);
  }
  SPIDER_DEVICE static std::uint32_t word(const float* numbers) {
    return device::pack_bf16(numbers[0], numbers[1]);
  }
  SPIDER_DEVICE static Element cell(float number) {
    return static_cast<Element>(device::pack_bf16(number, 0));
  }
};

/// A cell is a word.
template <class Bits>
struct WholeWordCells {
  using Element = Bits;
  using Word = WordOf<Element>;
  static constexpr int element_bytes = static_cast<int>(sizeof(Element));
  static constexpr int per_word = 1;

  SPIDER_DEVICE static Word repeat(Element cell) { return cell; }
  SPIDER_DEVICE static Element cell_of(Word word, int /*i*/) { return word; }
  SPIDER_DEVICE static void put(Word& word, int /*i*/, Element cell) { word = cell; }
};

/// f32.
struct F32Cells : WholeWordCells<std::uint32_t> {
  using Number = float;

  SPIDER_DEVICE static float number(Word word, int /*i*/) { return device::float_of(word); }
  SPIDER_DEVICE static Word word(const float* numbers) { return device::bits_of(numbers[0]); }
  SPIDER_DEVICE static Element cell(float number) { return device::bits_of(number); }
};

/// f64.
struct F64Cells : WholeWordCells<std::uint64_t> {
  using Number = double;

  SPIDER_DEVICE static double number(Word word, int /*i*/) { return device::double_of(word); }
  SPIDER_DEVICE static Word word(const double* numbers) { return device::bits_of(numbers[0]); }
  SPIDER_DEVICE static Element cell(double number) { return device::bits_of(number); }
};

}  // namespace device_4
}  // namespace spider
