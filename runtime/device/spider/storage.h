/// What a kernel's storage decides: how inputs become operands of an MMA, how products are summed, how sums
/// become results. One struct per storage with the same members; a template names its own `Storage`.
#pragma once

#include <spider/instructions.h>

#include <cstdint>

namespace spider {

/// f16: fields are operands as they lie.
struct F16Format {
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

/// What a dense product takes of a lane's fragment: half 0 the first two registers, half 1 the others.
SPIDER_DEVICE device::Pair half_of(const device::Vector& inputs, int half) {
  return {{inputs.word[2 * half], inputs.word[2 * half + 1]}};
}

/// Inputs that are operands as they are: there is nothing to scale, and all digits of all inputs are in their
/// fragments. F32Storage says what these are for.
struct Unscaled {
  struct Partial {};
  struct Scale {};
  struct Exponents {};
  struct Left {};

  SPIDER_DEVICE static constexpr Scale first_scale() { return {}; }
  SPIDER_DEVICE static constexpr float unit_of(const Scale& /*scale*/) { return 1; }
  SPIDER_DEVICE static constexpr bool fit_in_warp(std::uint32_t /*misfits*/) { return true; }
  SPIDER_DEVICE static constexpr Exponents no_exponents() { return {}; }
  SPIDER_DEVICE static constexpr void measure(device::Shared /*from*/, const Left& /*left*/,
                                              Exponents& /*exponents*/) {}
  SPIDER_DEVICE static constexpr Left all_inputs() { return {}; }
  SPIDER_DEVICE static constexpr Left none() { return {}; }
  SPIDER_DEVICE static constexpr bool any(const Left& /*left*/) { return false; }
  SPIDER_DEVICE static constexpr Left choose_scale(const Exponents& /*exponents*/, Scale& /*scale*/) {
    return {};
  }
  SPIDER_DEVICE static constexpr void finish(const Partial& /*partial*/, device::Accumulator& /*sum*/,
                                             float /*unit*/) {}
};

/// Fields of 16 bits. A lane's eight neighbouring inputs are one vector, and all products of an output are
/// chained into one sum.
template <class Format>
struct HalfStorage : Unscaled {
  using Element = std::uint16_t;  ///< the bits of a cell
  static constexpr int element_bytes = 2;
  static constexpr int vector_elements = 8;   ///< in 16 bytes
  static constexpr int fragment_vectors = 1;  ///< of eight neighbouring inputs

  /// A lane's inputs of one tile and shift.
  struct Fragment {
    device::Vector inputs;
  };
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

  /// Loads eight neighbouring inputs.
  SPIDER_DEVICE static Fragment load_fragment(device::Shared from, const Scale& /*scale*/ = {}) {
    return {device::load_shared(from)};
  }
  SPIDER_DEVICE static Fragment load_part(device::Shared from, const Scale& /*scale*/, const Left& /*before*/,
                                          const Left& /*left*/) {
    return load_fragment(from);
  }
  SPIDER_DEVICE static constexpr std::uint32_t misfit(const Fragment& /*fragment*/) { return 0; }

  /// One product; `part` says which terms of the inputs and of the weights.
  template <int selector>
  SPIDER_DEVICE static void multiply(Partial& /*partial*/, device::Accumulator& sum,
                                     const device::Vector& matrix, const Fragment& fragment,
                                     std::uint32_t metadata, int /*part*/) {
    Format::template multiply<selector>(sum, matrix, fragment.inputs, metadata);
  }

  /// One product of a matrix that is not compressed and of half of the fragment.
  SPIDER_DEVICE static void multiply_whole(Partial& /*partial*/, device::Accumulator& sum,
                                           const device::Vector& matrix, const Fragment& fragment, int half,
                                           int /*part*/) {
    Format::multiply_whole(sum, matrix, half_of(fragment.inputs, half));
  }

  /// The results of a tile: sums times `scale`, rounded and transposed, so that a lane's are neighbours.
  /// `inputs` is where the output row's own inputs lie, from the tile's first column on; kernels that add
  /// them read them.
  SPIDER_DEVICE static Outputs round(const device::Accumulator& sum, float scale, device::Shared /*inputs*/) {
    return {{device::transpose_8x8(Format::pack(sum.value[0] * scale, sum.value[1] * scale)),
             device::transpose_8x8(Format::pack(sum.value[2] * scale, sum.value[3] * scale))}};
  }

  SPIDER_DEVICE static Element output(const Outputs& outputs, int i) {
    return static_cast<Element>(outputs.word[i / 2] >> (16 * (i % 2)));
  }
};

/// The same with the SPIDER paper's element swap: B's row k is input k of the lane's column where k is even,
/// and input (k + 16) mod 32 where it is odd. `from` is where input 2 q of lane q of four is; a lane's eight
/// lie apart, and are loaded one by one.
template <class Vectors>
struct ByElements : Vectors {
  using Fragment = typename Vectors::Fragment;
  using Scale = typename Vectors::Scale;

  SPIDER_DEVICE static Fragment load_fragment(device::Shared from, const Scale& /*scale*/ = {}) {
    constexpr int columns = 32;
    Fragment fragment;
    SPIDER_UNROLL
    for (int word = 0; word < 4; ++word) {
      const int low = 8 * word;
      const int high = 1 + (8 * word + columns / 2) % columns;
      fragment.inputs.word[word] = load(from, low) | load(from, high) << 16;
    }
    return fragment;
  }

 private:
  SPIDER_DEVICE static std::uint32_t load(device::Shared from, int input) {
    return device::load_shared_half(from + static_cast<device::Shared>(input * Vectors::element_bytes));
  }
};

using F16Storage = HalfStorage<F16Format>;
using Bf16Storage = HalfStorage<Bf16Format>;

/// f32 fields, multiplied as f16 terms (generator/README.md, "f32 fields").
///
/// `scaled`: inputs are first multiplied by a power of two, which a walk keeps as long as all inputs have all
/// their digits in f16 terms then. The products of a step begin at zero, and are then added to the sum in
/// f32, to nearest, with that power taken back. `terms` = 2: an input is high + low, and a weight high + low
/// / 2^remainder_exponent; the product of both remainders is left out. `adds_input`: the taps hold the
/// stencil less the identity; results are the row's own inputs plus the sums.
template <int terms, int remainder_exponent, bool scaled, bool adds_input>
struct F32Storage {
  static_assert(scaled || terms == 1, "remainders need a scale");

  using Element = std::uint32_t;
  static constexpr int element_bytes = 4;
  static constexpr int vector_elements = 4;
  static constexpr int fragment_vectors = 2;

  struct Fragment {
    device::Vector term[terms];
  };
  struct Partial {
    device::Accumulator products;  ///< of a step, for one output row
  };
  /// A power of two that inputs are multiplied with.
  struct Scale {
    float factor;
  };
  /// Biased exponents among a lane's inputs that are numbers other than 0.
  struct Exponents {
    std::uint32_t largest, smallest;
  };
  /// Inputs whose biased exponents are less than this are not in the fragments yet.
  struct Left {
    std::uint32_t below;
  };
  struct Outputs {
    std::uint32_t word[4];
  };
  static constexpr int outputs_per_store = 2;

  // Rows of the kernel matrices are in such an order that a lane's rows g and g + 8 are neighbouring outputs:
  // two 8-byte stores, and nothing to transpose.
  SPIDER_DEVICE static int first_output(int lane) { return 32 * (lane % 4) + 2 * (lane / 4); }
  SPIDER_DEVICE static constexpr int output_offset(int i) { return i / 2 * 16 + i % 2; }

  SPIDER_DEVICE static std::uint32_t repeat(Element value) { return value; }

  /// The scale to begin a walk with: inputs as they are.
  SPIDER_DEVICE static Scale first_scale() { return {1}; }
  /// What 1 stands for in products.
  SPIDER_DEVICE static float unit_of(const Scale& scale) {
    return scaled ? device::float_of(((bias + bias) << 23) - device::bits_of(scale.factor)) : 1;
  }

  SPIDER_DEVICE static Fragment load_fragment(device::Shared from, const Scale& scale) {
    float inputs[8];
    load_inputs(from, inputs);
    return split(inputs, scale);
  }

  /// Has a bit of `misfit_bits` where one of a lane's inputs does not have all its digits in the terms, or is
  /// 0. NaNs do not count beside numbers.
  SPIDER_DEVICE static std::uint32_t misfit(const Fragment& fragment) {
    const device::Vector& high = fragment.term[0];
    const std::uint32_t largest =
        device::larger_magnitudes_f16(device::larger_magnitudes_f16(high.word[0], high.word[1]),
                                      device::larger_magnitudes_f16(high.word[2], high.word[3]));
    const std::uint32_t smallest =
        device::smaller_magnitudes_f16(device::smaller_magnitudes_f16(high.word[0], high.word[1]),
                                       device::smaller_magnitudes_f16(high.word[2], high.word[3]));
    // Both halves at once: a difference below 0 sets the sign of its half.
    return (smallest - least_half) | (largest_half - largest);
  }
  SPIDER_DEVICE static bool fit_in_warp(std::uint32_t misfits) {
    return !scaled || device::all_in_warp((misfits & misfit_bits) == 0);
  }

  SPIDER_DEVICE static constexpr Left all_inputs() { return {of_infinity + 1}; }
  SPIDER_DEVICE static constexpr Left none() { return {0}; }
  SPIDER_DEVICE static constexpr bool any(const Left& left) { return left.below != 0; }
  SPIDER_DEVICE static constexpr Exponents no_exponents() { return {0, of_infinity}; }

  /// Looks at eight inputs more, those that are left.
  SPIDER_DEVICE static void measure(device::Shared from, const Left& left, Exponents& exponents) {
    float inputs[8];
    load_inputs(from, inputs);
    SPIDER_UNROLL
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t exponent = exponent_of(inputs[i]);
      if (inputs[i] == 0 || exponent == of_infinity || exponent >= left.below) continue;
      if (exponent > exponents.largest) exponents.largest = exponent;
      if (exponent < exponents.smallest) exponents.smallest = exponent;
    }
  }

  /// Finds the scale of the warp's largest input, where the present one does not serve; says which inputs are
  /// too small for it.
  SPIDER_DEVICE static Left choose_scale(const Exponents& exponents, Scale& scale) {
    const std::uint32_t largest = device::largest_in_warp(exponents.largest);
    const std::uint32_t smallest = device::smallest_in_warp(exponents.smallest);
    const std::uint32_t top = top_exponent + bias + bias - exponent_of(scale.factor);
    if (largest <= top && smallest + span >= top) return {0};
    const std::uint32_t exponent = largest < least ? least : largest;
    scale.factor = device::float_of((top_exponent + bias + bias - exponent) << 23);
    return {exponent > least && smallest + span < exponent ? exponent - span : 0};
  }

  /// Loads the inputs that were left before, and are not left now; zeros for others.
  SPIDER_DEVICE static Fragment load_part(device::Shared from, const Scale& scale, const Left& before,
                                          const Left& left) {
    float inputs[8];
    load_inputs(from, inputs);
    SPIDER_UNROLL
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t exponent = exponent_of(inputs[i]);
      if (exponent >= before.below || exponent < left.below) inputs[i] = 0;
    }
    return split(inputs, scale);
  }

  /// Parts: 0 leading terms of both; 1 the weights' remainders; 2 the inputs' remainders.
  template <int selector>
  SPIDER_DEVICE static void multiply(Partial& partial, device::Accumulator& sum, const device::Vector& matrix,
                                     const Fragment& fragment, std::uint32_t metadata, int part) {
    device::multiply_sparse<selector>(scaled ? partial.products : sum, matrix, inputs_of(fragment, part),
                                      metadata);
  }

  SPIDER_DEVICE static void multiply_whole(Partial& partial, device::Accumulator& sum,
                                           const device::Vector& matrix, const Fragment& fragment, int half,
                                           int part) {
    device::multiply_dense(scaled ? partial.products : sum, matrix, half_of(inputs_of(fragment, part), half));
  }

  /// After the last product of a step: adds them to the sum.
  SPIDER_DEVICE static void finish(const Partial& partial, device::Accumulator& sum, float unit) {
    if constexpr (scaled) {
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i)
        sum.value[i] = device::multiply_add(partial.products.value[i], unit, sum.value[i]);
    }
  }

  SPIDER_DEVICE static Outputs round(const device::Accumulator& sum, float scale, device::Shared inputs) {
    float results[4];
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) results[i] = sum.value[i % 2 * 2 + i / 2];
    Outputs outputs;
    if constexpr (adds_input) {
      const device::Shared first = inputs + first_output(device::lane_index()) * element_bytes;
      SPIDER_UNROLL
      for (int i = 0; i < 2; ++i) {
        const device::Pair old = device::load_shared_pair(first + output_offset(2 * i) * element_bytes);
        SPIDER_UNROLL
        for (int j = 0; j < 2; ++j) {
          const float value = device::multiply_add(results[2 * i + j], scale, device::float_of(old.word[j]));
          outputs.word[2 * i + j] = device::bits_of(value);
        }
      }
    } else {
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) outputs.word[i] = device::bits_of(results[i] * scale);
    }
    return outputs;
  }

  SPIDER_DEVICE static Element output(const Outputs& outputs, int i) { return outputs.word[i]; }

 private:
  // The largest input is brought into [2^14, 2^15). From there down to 2^-1, or of one term 2^-12, all digits
  // of an input are in its terms, and the same ones at any scale: f16's unit is 2^-24.
  static constexpr std::uint32_t top_exponent = 14;
  static constexpr std::uint32_t span = terms == 2 ? 15 : 26;
  // Above the smallest, to which a smaller input may be rounded; twice, as in a register.
  static constexpr std::uint32_t least_half = terms == 2 ? 0x38013801 : 0x0c010c01;
  static constexpr std::uint32_t largest_half = 0x7bff7bff;
  static constexpr std::uint32_t misfit_bits = 0x80008000;
  static constexpr std::uint32_t remainder_unit = 0x10001000;  // 2^-11, twice

  // Of f32. Exponents from `least` on have a factor, and a unit times any kernel's product_unit, that f32
  // holds.
  static constexpr std::uint32_t bias = 127;
  static constexpr std::uint32_t of_infinity = 255;
  static constexpr std::uint32_t least = 20;

  SPIDER_DEVICE static std::uint32_t exponent_of(float value) {
    return device::bits_of(value) >> 23 & of_infinity;
  }

  SPIDER_DEVICE static void load_inputs(device::Shared from, float (&inputs)[8]) {
    const device::Vector vectors[2] = {device::load_shared(from), device::load_shared(from + 16)};
    SPIDER_UNROLL
    for (int i = 0; i < 8; ++i) inputs[i] = device::float_of(vectors[i / 4].word[i % 4]);
  }

  SPIDER_DEVICE static Fragment split(const float (&inputs)[8], const Scale& scale) {
    Fragment fragment;
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float first = scaled ? inputs[2 * i] * scale.factor : inputs[2 * i];
      const float second = scaled ? inputs[2 * i + 1] * scale.factor : inputs[2 * i + 1];
      const std::uint32_t high = device::pack_f16(first, second);
      fragment.term[0].word[i] = high;
      if constexpr (terms == 2) {
        // Exact before it is rounded: what rounding to f16 takes away has 13 bits at most.
        fragment.term[1].word[i] =
            device::pack_f16(first - device::low_f16(high), second - device::high_f16(high));
      }
    }
    return fragment;
  }

  /// What a part multiplies. The weights' remainders are held times 2^remainder_exponent.
  SPIDER_DEVICE static device::Vector inputs_of(const Fragment& fragment, int part) {
    if (terms == 1 || part == 0) return fragment.term[0];
    if (part == 2) return fragment.term[terms - 1];
    if constexpr (remainder_exponent == 0) {
      return fragment.term[0];
    } else {
      static_assert(remainder_exponent == 11, "its unit is a constant");
      device::Vector inputs;
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i)
        inputs.word[i] = device::multiply_f16(fragment.term[0].word[i], remainder_unit);
      return inputs;
    }
  }
};

}  // namespace spider
