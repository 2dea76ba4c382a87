/// Conversion of a field's cells to the numbers of computations, and back. One struct per storage with the
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
  using OutElement = Element;
  using Word = WordOf<Element>;
  using Number = float;  ///< for computations
  static constexpr int element_bytes = 2;
  static constexpr int per_word = 2;

  /// A word with one cell repeated.
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

/// f32 numbers of whole numbers below 2^23, and back. The last digits of 2^23 + n are those of n.
SPIDER_DEVICE float number_of_digits(std::uint32_t digits) {
  constexpr std::uint32_t bits_of_two_to_23 = 0x4b000000U;
  return device::subtract(device::float_of(bits_of_two_to_23 | digits), 0x1p23F);
}
/// The nearest whole number, ties to even, to a number that is first clamped between two whole ones, in two's
/// complement; NaN becomes the least.
SPIDER_DEVICE std::uint32_t whole_number(float number, float least, float most) {
  const float within = device::smaller(device::larger(number, least), most);
  return device::bits_of(device::add(within, 0x1.8p23F));
}

/// u16: whole numbers, rounded to nearest, from 0 to 65535.
struct U16Cells : HalfWordCells {
  SPIDER_DEVICE static float number(std::uint32_t word, int i) {
    return number_of_digits(i == 0 ? word & 0xffffU : word >> 16);
  }
  SPIDER_DEVICE static Element cell(float number) {
    return static_cast<Element>(whole_number(number, 0, 65535));
  }
  SPIDER_DEVICE static std::uint32_t word(const float* numbers) {
    return cell(numbers[0]) | static_cast<std::uint32_t>(cell(numbers[1])) << 16;
  }
};

/// i16: the same from -32768 to 32767.
struct I16Cells : HalfWordCells {
  SPIDER_DEVICE static float number(std::uint32_t word, int i) {
    constexpr std::uint32_t half_of_range = 0x8000U;
    return device::subtract(U16Cells::number(word ^ half_of_range * 0x00010001U, i), 32768);
  }
  SPIDER_DEVICE static Element cell(float number) {
    return static_cast<Element>(whole_number(number, -32768, 32767));
  }
  SPIDER_DEVICE static std::uint32_t word(const float* numbers) {
    return cell(numbers[0]) | static_cast<std::uint32_t>(cell(numbers[1])) << 16;
  }
};

/// u8: the same from 0 to 255, four cells to a word.
struct U8Cells {
  using Element = std::uint8_t;
  using OutElement = Element;
  using Word = std::uint32_t;
  using Number = float;
  static constexpr int element_bytes = 1;
  static constexpr int per_word = 4;

  SPIDER_DEVICE static std::uint32_t repeat(Element cell) { return cell * 0x01010101U; }
  SPIDER_DEVICE static Element cell_of(std::uint32_t word, int i) {
    return static_cast<Element>(word >> (8 * i));
  }
  SPIDER_DEVICE static float number(std::uint32_t word, int i) {
    return number_of_digits(word >> (8 * i) & 0xffU);
  }
  SPIDER_DEVICE static Element cell(float number) {
    return static_cast<Element>(whole_number(number, 0, 255));
  }
  SPIDER_DEVICE static std::uint32_t word(const float* numbers) {
    std::uint32_t word = 0;
    SPIDER_UNROLL
    for (int i = 0; i < per_word; ++i) word |= static_cast<std::uint32_t>(cell(numbers[i])) << (8 * i);
    return word;
  }
};

/// A cell is a word.
template <class Bits>
struct WholeWordCells {
  using Element = Bits;
  using OutElement = Element;
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
