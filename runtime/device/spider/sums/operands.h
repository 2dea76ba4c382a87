/// Operands of kernels on tensor cores, from the tables of a generated file. A `Stencil` here has, as static
/// members:
/// - operand_count, operand(i, lane): kernel matrices, compressed 2:4 or dense, and the vector of a lane;
/// - metadata_count, metadata(i, lane): the two of each four columns that compressed matrices store, and the
///   word of a lane.
#pragma once

#include <spider/machine/instructions.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

constexpr int operand_bytes = 512;  ///< in shared memory

/// A table as a function result: a static one would put sums of unrolled loops in memory.
template <class Entry, int count>
struct TableOf {
  Entry entry[count];
};

/// Inputs of a row times an operand, for one of the output rows in flight: the one for which the input row is
/// number `row`. `fragment` selects the row's inputs; `selector` the metadata, or the half of the fragment if
/// operands are dense. If inputs and weights have several terms, `part` selects the terms. `sum` is the index
/// of the product's sum.
struct RowProduct {
  int row, fragment, operand, metadata, selector, part;
  int sum = 0;
};

/// True if two consecutive products multiply the same inputs, for the same output row.
SPIDER_DEVICE constexpr bool have_one_window(const RowProduct& a, const RowProduct& b) {
  return a.row == b.row && a.fragment == b.fragment && a.sum == b.sum;
}

/// The group of a lane with the pair swap, among the four groups of eight inputs of its column c of a
/// product, from group 2 c on.
SPIDER_DEVICE constexpr int pair_swap_group(int lane) {
  return 2 * (lane / 4) + lane % 4 / 2 + 2 * (lane % 2);
}

/// Storage::multiply for a selector that is known once loops are unrolled.
template <class Storage>
SPIDER_DEVICE void multiply_selected(int selector, typename Storage::Partial& partial,
                                     device::Accumulator& sum, const device::Vector& matrix,
                                     const typename Storage::Fragment& fragment, std::uint32_t metadata,
                                     int part) {
  if (selector == 0) {
    Storage::template multiply<0>(partial, sum, matrix, fragment, metadata, part);
  } else {
    Storage::template multiply<1>(partial, sum, matrix, fragment, metadata, part);
  }
}

/// The operands of a lane, and the columns that they store.
template <class Stencil>
struct OperandTable {
  std::uint32_t metadata[Stencil::metadata_count];
  device::Vector matrices[Stencil::operand_count];

  SPIDER_DEVICE void load() {
    const int lane = device::lane_index();
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::metadata_count; ++i)
      metadata[i] = device::load_table(Stencil::metadata(i, lane));
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::operand_count; ++i)
      matrices[i] = device::load_table(Stencil::operand(i, lane));
  }
};

/// Stores the operands to shared memory, from `begin` on; all warps of the block take part.
template <class Stencil>
SPIDER_DEVICE void place_operands(device::Shared begin) {
  const int lane = device::lane_index();
  SPIDER_NO_UNROLL
  for (int i = device::warp_index(); i < Stencil::operand_count; i += Stencil::warps_per_block) {
    device::store_shared(begin + i * operand_bytes + lane * 16,
                         device::load_table(Stencil::operand(i, lane)));
  }
  device::sync_block();
}

/// The operands and metadata of a lane: in registers if `in_registers`, or loaded for each use from the
/// memory of place_operands, which saves registers.
template <class Stencil, bool in_registers>
class Operands {
 public:
  SPIDER_DEVICE explicit Operands(device::Shared begin) : begin_(begin + device::lane_index() * 16) {
    const int lane = device::lane_index();
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::metadata_count; ++i)
      metadata_[i] = device::load_table(Stencil::metadata(i, lane));
    if constexpr (in_registers) {
      SPIDER_UNROLL
      for (int i = 0; i < Stencil::operand_count; ++i)
        matrices_[i] = device::load_table(Stencil::operand(i, lane));
    }
  }

  /// Forces the loads to complete here (device::pin_in_register).
  SPIDER_DEVICE void settle() {
    SPIDER_UNROLL
    for (std::uint32_t& word : metadata_) word = device::pin_in_register(word);
    if constexpr (in_registers) {
      SPIDER_UNROLL
      for (device::Vector& matrix : matrices_) {
        SPIDER_UNROLL
        for (std::uint32_t& word : matrix.word) word = device::pin_in_register(word);
      }
    }
  }

  SPIDER_DEVICE device::Vector matrix(int i) const {
    if constexpr (in_registers) {
      return matrices_[i];
    } else {
      return device::load_shared(begin_ + i * operand_bytes);
    }
  }
  SPIDER_DEVICE std::uint32_t metadata(int i) const { return metadata_[i]; }

 private:
  device::Shared begin_;
  device::Vector matrices_[in_registers ? Stencil::operand_count : 1];
  std::uint32_t metadata_[Stencil::metadata_count > 0 ? Stencil::metadata_count : 1];
};

}  // namespace device_4
}  // namespace spider
