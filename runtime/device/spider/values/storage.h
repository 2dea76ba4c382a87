/// A kernel's storage: conversion of inputs to operands of an MMA, summation of products, conversion of
/// results to cells. One struct per storage with the same members; the epilogue handles the sums
/// (epilogue.h).
#pragma once

#include <spider/machine/instructions.h>
#include <spider/values/cells.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// f16: fields are operands without conversion.
struct F16Format {
  using Cells = F16Cells;

  template <int selector>
  SPIDER_DEVICE static void multiply(device::Accumulator& sum, const device::Vector& matrix,
                                     const device::Vector& inputs, std::uint32_t metadata) {
    device::multiply_sparse<selector>(sum, matrix, inputs, metadata);
  }
  SPIDER_DEVICE static void multiply_whole(device::Accumulator& sum, const device::Vector& matrix,
                                           const device::Pair& inputs) {
    device::multiply_dense(sum, matrix, inputs);
  }
  SPIDER_DEVICE static std::uint32_t pack(float low, float high) { return device::pack_f16(low, high); }
};

/// bf16: the same with other digits.
struct Bf16Format {
  using Cells = Bf16Cells;

  template <int selector>
  SPIDER_DEVICE static void multiply(device::Accumulator& sum, const device::Vector& matrix,
                                     const device::Vector& inputs, std::uint32_t metadata) {
    device::multiply_sparse_bf16<selector>(sum, matrix, inputs, metadata);
  }
  SPIDER_DEVICE static void multiply_whole(device::Accumulator& sum, const device::Vector& matrix,
                                           const device::Pair& inputs) {
    device::multiply_dense_bf16(sum, matrix, inputs);
  }
  SPIDER_DEVICE static std::uint32_t pack(float low, float high) { return device::pack_bf16(low, high); }
};

/// Fields of 16 bits. A lane's eight neighbouring inputs are one vector, and all products of an output are
/// chained into one sum.
template <class Format>
struct HalfStorage {
  using Cells = typename Format::Cells;
  using Element = std::uint16_t;  ///< the bits of a cell
  using OutElement = Element;     ///< and of a result
  static constexpr int element_bytes = 2;
  static constexpr int vector_elements = 8;   ///< in 16 bytes
  static constexpr int fragment_vectors = 1;  ///< of eight neighbouring inputs

  /// A lane's inputs of one tile and shift.
  struct Fragment {
    device::Vector inputs;
  };
  /// Products that are not in the sum yet: none.
  struct Partial {};
  /// A lane's four outputs of a tile.
  struct Outputs {
    std::uint32_t word[2];
  };
  static constexpr int outputs_per_store = 4;  ///< neighbours: 8 bytes

  /// Column in its tile of a lane's first output; output i is output_offset(i) columns further.
  SPIDER_DEVICE static int first_output(int lane) { return 16 * (lane / 4) + 4 * (lane % 4); }
  SPIDER_DEVICE static constexpr int output_offset(int i) { return i; }

  /// A word whose cells are all `value`.
  SPIDER_DEVICE static std::uint32_t repeat(Element value) { return value * 0x10001U; }

  /// Loads eight neighbouring inputs; every lane of the warp takes part.
  SPIDER_DEVICE static Fragment load_fragment(device::Shared from, float /*product_unit*/) {
    return {device::load_shared(from)};
  }
  /// The same from `source`: eight neighbours, or four, which are half of a fragment.
  template <class Source>
  SPIDER_DEVICE static device::Vector load_inputs(const Source& source, int row, int column) {
    return source.load_vector(row, column);
  }
  template <class Source>
  SPIDER_DEVICE static device::Pair load_half_inputs(const Source& source, int row, int column) {
    return source.load_pair(row, column);
  }
  /// Whether the fragment left inputs out; then the next fragment of these inputs: never here.
  SPIDER_DEVICE static constexpr bool has_rest(const Fragment& /*fragment*/) { return false; }
  SPIDER_DEVICE static Fragment load_rest(device::Shared /*from*/, float /*product_unit*/,
                                          const Fragment& last) {
    return last;
  }

  /// One product; `part` selects the terms of the inputs and of the weights.
  template <int selector>
  SPIDER_DEVICE static void multiply(Partial& /*partial*/, device::Accumulator& sum,
                                     const device::Vector& matrix, const Fragment& fragment,
                                     std::uint32_t metadata, int /*part*/) {
    Format::template multiply<selector>(sum, matrix, fragment.inputs, metadata);
  }

  /// One dense product of 16 rows by 16 columns of inputs, as A, and a matrix of them by 8 outputs.
  SPIDER_DEVICE static void multiply_inputs(device::Accumulator& sum, const device::Vector& inputs,
                                            const device::Pair& matrix) {
    Format::multiply_whole(sum, inputs, matrix);
  }

  /// After the last product of a window: adds `partial` to the sum.
  SPIDER_DEVICE static void finish(const Partial& /*partial*/, device::Accumulator& /*sum*/,
                                   const Fragment& /*fragment*/) {}

  /// Two results that are neighbours, rounded.
  SPIDER_DEVICE static std::uint32_t pack_pair(float low, float high) { return Format::pack(low, high); }

  /// A lane's results of a tile, rounded and transposed, so that they are neighbours.
  SPIDER_DEVICE static Outputs pack(const device::Accumulator& results) {
    return {{device::transpose_8x8(Format::pack(results.value[0], results.value[1])),
             device::transpose_8x8(Format::pack(results.value[2], results.value[3]))}};
  }

  /// The same without rounding, and then the outputs of its results.
  SPIDER_DEVICE static void order(const device::Accumulator& results, float (&numbers)[4]) {
    SPIDER_UNROLL
    for (int i = 0; i < 4; i += 2) {
      const std::uint32_t first = device::bits_of(results.value[i]);
      const std::uint32_t second = device::bits_of(results.value[i + 1]);
      const std::uint32_t low = device::transpose_8x8(device::join_low_halves(first, second));
      const std::uint32_t high = device::transpose_8x8(device::join_high_halves(first, second));
      numbers[i] = device::float_of(device::join_low_halves(low, high));
      numbers[i + 1] = device::float_of(device::join_high_halves(low, high));
    }
  }
  SPIDER_DEVICE static Outputs pack_ordered(const float (&numbers)[4]) {
    return {{Format::pack(numbers[0], numbers[1]), Format::pack(numbers[2], numbers[3])}};
  }

  SPIDER_DEVICE static Element output(const Outputs& outputs, int i) {
    return static_cast<Element>(outputs.word[i / 2] >> (16 * (i % 2)));
  }
};

using F16Storage = HalfStorage<F16Format>;
using Bf16Storage = HalfStorage<Bf16Format>;

/// u8 fields, which f16 operands represent exactly: cells become f16 on their way to registers, results
/// become cells of `OutCells`, of spider/values/cells.h, 4 bytes at most.
template <class OutCells>
struct ByteStorage : F16Storage {
  using Cells = U8Cells;
  using Element = Cells::Element;
  using OutElement = typename OutCells::Element;
  static constexpr int element_bytes = 1;
  static constexpr int vector_elements = 16;
  static constexpr int out_bytes = OutCells::element_bytes;
  static_assert(out_bytes <= 4, "a lane stores 16 bytes at most");

  struct Outputs {
    std::uint32_t word[out_bytes];
  };

  SPIDER_DEVICE static std::uint32_t repeat(Element value) { return Cells::repeat(value); }

  template <class Source>
  SPIDER_DEVICE static device::Vector load_inputs(const Source& source, int row, int column) {
    const device::Pair cells = source.load_pair(row, column);
    return {{device::f16_of_low_bytes(cells.word[0]), device::f16_of_high_bytes(cells.word[0]),
             device::f16_of_low_bytes(cells.word[1]), device::f16_of_high_bytes(cells.word[1])}};
  }
  template <class Source>
  SPIDER_DEVICE static device::Pair load_half_inputs(const Source& source, int row, int column) {
    const std::uint32_t cells = source.load_word(row, column);
    return {{device::f16_of_low_bytes(cells), device::f16_of_high_bytes(cells)}};
  }

  SPIDER_DEVICE static Outputs pack(const device::Accumulator& results) {
    Outputs outputs;
    if constexpr (out_bytes == 4) {
      float numbers[4];
      order(results, numbers);
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) outputs.word[i] = OutCells::cell(numbers[i]);
    } else {
      const std::uint32_t low = device::transpose_8x8(pack_halves(results.value[0], results.value[1]));
      const std::uint32_t high = device::transpose_8x8(pack_halves(results.value[2], results.value[3]));
      if constexpr (out_bytes == 1) {
        outputs.word[0] = device::join_even_bytes(low, high);
      } else {
        outputs.word[0] = low;
        outputs.word[1] = high;
      }
    }
    return outputs;
  }

  SPIDER_DEVICE static OutElement output(const Outputs& outputs, int i) {
    constexpr int per_word = 4 / out_bytes;
    return static_cast<OutElement>(outputs.word[i / per_word] >> (8 * out_bytes * (i % per_word)));
  }

  /// Stores a lane's four neighbouring outputs; `to` is aligned to their bytes.
  SPIDER_DEVICE static void store(OutElement* to, const Outputs& outputs) {
    if constexpr (out_bytes == 1) device::store_field_word(to, outputs.word[0]);
    if constexpr (out_bytes == 2) device::store_field_pair(to, {{outputs.word[0], outputs.word[1]}});
    if constexpr (out_bytes == 4) {
      device::store_field_vector(to, {{outputs.word[0], outputs.word[1], outputs.word[2], outputs.word[3]}});
    }
  }

 private:
  /// Two results as cells in the halves of a word.
  SPIDER_DEVICE static std::uint32_t pack_halves(float low, float high) {
    if constexpr (out_bytes == 1) {
      return device::join_low_halves(whole_number(low, 0, 255), whole_number(high, 0, 255));
    } else {
      const float numbers[2] = {low, high};
      return OutCells::word(numbers);
    }
  }
};

/// f32 fields, multiplied as f16 terms (generator/accuracy.md).
///
/// `scaled`: a tile's inputs of a row are first multiplied by the power of two that brings the largest of
/// them into [2^14, 2^15), so that any finite field fits f16. A window's products begin at zero, and are then
/// added to the sum in f32, to nearest, divided by that power. `terms` = 2: an input is high + low / 2^11,
/// and so is a weight; the product of both remainders is left out.
template <int term_count, bool has_scale>
struct F32Storage {
  static constexpr int terms = term_count;
  static constexpr bool scaled = has_scale;
  static_assert(scaled || terms == 1, "remainders need a scale");

  using Cells = F32Cells;
  using Element = std::uint32_t;
  using OutElement = Element;
  static constexpr int element_bytes = 4;
  static constexpr int vector_elements = 4;
  static constexpr int fragment_vectors = 2;

  struct Fragment {
    device::Vector term[terms];
    float unit;  ///< the value of 1 in the products
    std::uint32_t
        ceiling;  ///< biased exponent below which inputs are left to the next fragment; 0: none are left
  };
  struct Partial {
    device::Accumulator high;
    device::Accumulator low;  ///< times 2^11
  };
  struct Outputs {
    std::uint32_t word[4];
  };
  static constexpr int outputs_per_store = 2;

  // Rows of the kernel matrices are ordered so that a lane's rows g and g + 8 are neighbouring outputs: two
  // 8-byte stores, and no transposition.
  SPIDER_DEVICE static int first_output(int lane) { return 32 * (lane % 4) + 2 * (lane / 4); }
  SPIDER_DEVICE static constexpr int output_offset(int i) { return i / 2 * 16 + i % 2; }

  SPIDER_DEVICE static std::uint32_t repeat(Element value) { return value; }

  SPIDER_DEVICE static Fragment load_fragment(device::Shared from, float product_unit) {
    float inputs[8];
    load_inputs(from, inputs);
    return make_fragment(inputs, product_unit);
  }

  SPIDER_DEVICE static bool has_rest(const Fragment& fragment) { return fragment.ceiling != 0; }
  SPIDER_DEVICE static Fragment load_rest(device::Shared from, float product_unit, const Fragment& last) {
    float inputs[8];
    load_inputs(from, inputs);
    SPIDER_UNROLL
    for (int i = 0; i < 8; ++i) inputs[i] = exponent_of(inputs[i]) < last.ceiling ? inputs[i] : 0;
    return make_fragment(inputs, product_unit);
  }

  /// Parts: 0 leading terms of both; 1 the weights' remainders; 2 the inputs' remainders.
  template <int selector>
  SPIDER_DEVICE static void multiply(Partial& partial, device::Accumulator& sum, const device::Vector& matrix,
                                     const Fragment& fragment, std::uint32_t metadata, int part) {
    device::Accumulator& to = !scaled ? sum : (part == 0 ? partial.high : partial.low);
    device::multiply_sparse<selector>(to, matrix, fragment.term[part == 2 ? terms - 1 : 0], metadata);
  }

  SPIDER_DEVICE static void finish(const Partial& partial, device::Accumulator& sum,
                                   const Fragment& fragment) {
    if constexpr (scaled) {
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float products =
            terms == 1 ? partial.high.value[i]
                       : device::multiply_add(partial.low.value[i], low_unit, partial.high.value[i]);
        sum.value[i] = device::multiply_add(products, fragment.unit, sum.value[i]);
      }
    }
  }

  SPIDER_DEVICE static Outputs pack(const device::Accumulator& results) {
    Outputs outputs;
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) outputs.word[i] = device::bits_of(results.value[i % 2 * 2 + i / 2]);
    return outputs;
  }

  /// A lane's results of a tile in the order of its outputs, and then the outputs of its results.
  SPIDER_DEVICE static void order(const device::Accumulator& results, float (&numbers)[4]) {
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) numbers[i] = results.value[i % 2 * 2 + i / 2];
  }
  SPIDER_DEVICE static Outputs pack_ordered(const float (&numbers)[4]) {
    Outputs outputs;
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) outputs.word[i] = device::bits_of(numbers[i]);
    return outputs;
  }

  /// The fields' values of a lane's outputs, in the order of its sums; the tile's first column is at `row`.
  SPIDER_DEVICE static device::Accumulator load_values(device::Shared row) {
    const device::Shared first = row + first_output(device::lane_index()) * element_bytes;
    device::Accumulator values;
    SPIDER_UNROLL
    for (int i = 0; i < 2; ++i) {
      const device::Pair pair = device::load_shared_pair(first + output_offset(2 * i) * element_bytes);
      values.value[i] = device::float_of(pair.word[0]);
      values.value[i + 2] = device::float_of(pair.word[1]);
    }
    return values;
  }

  SPIDER_DEVICE static Element output(const Outputs& outputs, int i) { return outputs.word[i]; }

 private:
  static constexpr float low_scale = 0x1p11F;
  static constexpr float low_unit = 0x1p-11F;

  // Exponents of f32 are biased by 127. From `least` on, scale and unit are normal numbers; down to `span`
  // below the largest, an input has all its digits in its terms.
  static constexpr std::uint32_t of_infinity = 255;
  static constexpr std::uint32_t least = 28;
  static constexpr std::uint32_t span = 26;

  SPIDER_DEVICE static std::uint32_t exponent_of(float value) {
    return device::bits_of(value) >> 23 & of_infinity;
  }

  SPIDER_DEVICE static void load_inputs(device::Shared from, float (&inputs)[8]) {
    const device::Vector vectors[2] = {device::load_shared(from), device::load_shared(from + 16)};
    SPIDER_UNROLL
    for (int i = 0; i < 8; ++i) inputs[i] = device::float_of(vectors[i / 4].word[i % 4]);
  }

  SPIDER_DEVICE static Fragment make_fragment(float (&inputs)[8], float product_unit) {
    Fragment fragment{};
    if constexpr (scaled) {
      const std::uint32_t exponent = find_exponent(inputs, fragment.ceiling);
      const float scale = device::float_of((127 + 14 + 127 - exponent) << 23);
      fragment.unit = device::float_of((exponent - 14) << 23) * product_unit;
      SPIDER_UNROLL
      for (int i = 0; i < 8; ++i) inputs[i] *= scale;
    }
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) split(inputs[2 * i], inputs[2 * i + 1], fragment, i);
    return fragment;
  }

  /// The exponent of the warp's largest finite input. Removes inputs `span` below it; they stay below
  /// `ceiling`.
  SPIDER_DEVICE static std::uint32_t find_exponent(float (&inputs)[8], std::uint32_t& ceiling) {
    std::uint32_t largest = largest_of(inputs) >> 23;
    std::uint32_t smallest = smallest_of(inputs) >> 23;
    // Infinities and zeros, which do not determine the scale, and wide rows are examined more closely.
    if (largest == of_infinity || smallest + span < largest) {
      float numbers[8];
      SPIDER_UNROLL
      for (int i = 0; i < 8; ++i) numbers[i] = exponent_of(inputs[i]) == of_infinity ? 0 : inputs[i];
      largest = largest_of(numbers) >> 23;
      ceiling = largest > least ? largest - span : 0;  // there is no smaller scale
      bool left = false;
      SPIDER_UNROLL
      for (int i = 0; i < 8; ++i) {
        const bool small = inputs[i] != 0 && exponent_of(inputs[i]) < ceiling;
        left |= small;
        if (small) inputs[i] = 0;
      }
      if (device::warp_max(left ? 1 : 0) == 0) ceiling = 0;
    }
    return largest < least ? least : largest;
  }

  /// The bits of the largest and the smallest magnitude among the warp's inputs; numbers have precedence over
  /// NaNs.
  SPIDER_DEVICE static std::uint32_t largest_of(const float (&inputs)[8]) {
    float largest[4];
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) largest[i] = device::larger_magnitude(inputs[i], inputs[i + 4]);
    const float first = device::larger_magnitude(largest[0], largest[1]);
    const float second = device::larger_magnitude(largest[2], largest[3]);
    return device::warp_max(device::bits_of(device::larger_magnitude(first, second)));
  }
  SPIDER_DEVICE static std::uint32_t smallest_of(const float (&inputs)[8]) {
    float smallest[4];
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) smallest[i] = device::smaller_magnitude(inputs[i], inputs[i + 4]);
    const float first = device::smaller_magnitude(smallest[0], smallest[1]);
    const float second = device::smaller_magnitude(smallest[2], smallest[3]);
    return device::smallest_in_warp(device::bits_of(device::smaller_magnitude(first, second)));
  }

  /// Two inputs as register `i` of each term.
  SPIDER_DEVICE static void split(float first, float second, Fragment& fragment, int i) {
    const std::uint32_t high = device::pack_f16(first, second);
    fragment.term[0].word[i] = high;
    if constexpr (terms == 2) {
      // Exact: rounding to f16 removes 13 bits at most.
      fragment.term[1].word[i] = device::pack_f16((first - device::low_f16(high)) * low_scale,
                                                  (second - device::high_f16(high)) * low_scale);
    }
  }
};

}  // namespace device_4
}  // namespace spider
