/// What kernels on tensor cores multiply, as the tables of a generated file say it. A `Stencil` here has, as
/// static members:
/// - operand_count, operand(i, lane): kernel matrices, compressed 2:4 or whole; where the vector of a lane
/// is;
/// - metadata_count, metadata(i, lane): which two of each four columns compressed matrices keep; the word of
///   a lane.
#pragma once

#include <spider/machine/instructions.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

constexpr int operand_bytes = 512;  ///< in shared memory

/// A table as a function returns it: a static one would leave sums of unrolled loops in memory.
template <class Entry, int count>
struct TableOf {
  Entry entry[count];
};

/// Inputs of a row times an operand, for one of the output rows whose sums are in flight: that of which the
/// input row is number `row`. `fragment` says which of the row's inputs; `selector` what of the metadata is
/// meant, or which half of the fragment, where operands are whole. Where inputs and weights have several
/// terms, `part` says which are multiplied. `sum` is whose product it is, of several sums.
struct RowProduct {
  int row, fragment, operand, metadata, selector, part;
  int sum = 0;
};

/// Do two products that follow each other multiply the same inputs, for the same output row?
SPIDER_DEVICE constexpr bool have_one_window(const RowProduct& a, const RowProduct& b) {
  return a.row == b.row && a.fragment == b.fragment && a.sum == b.sum;
}

/// Of the four groups of eight inputs that each column of a product has, those of column c from group 2 c on,
/// the one that is a lane's with the pair swap.
SPIDER_DEVICE constexpr int pair_swap_group(int lane) {
  return 2 * (lane / 4) + lane % 4 / 2 + 2 * (lane % 2);
}

/// Storage::multiply of a selector that is known once loops are unrolled.
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

/// The operands of a lane, and which columns they keep.
template <class Stencil>
struct OperandTable {
  std::uint32_t metadata[Stencil::metadata_count];
  device::Vector matrices[Stencil::operand_count];

  /// `now`: the compiler may not put it off until operands are used.
  template <bool now = false>
  SPIDER_DEVICE void load() {
    const int lane = device::lane_index();
    const auto take = [](const auto* from) {
      return now ? device::load_table_now(from) : device::load_table(from);
    };
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::metadata_count; ++i) metadata[i] = take(Stencil::metadata(i, lane));
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::operand_count; ++i) matrices[i] = take(Stencil::operand(i, lane));
  }
};

/// Puts the operands into shared memory, from `begin` on; all warps of the block take part.
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

/// The operands and metadata of a lane: held in registers, or loaded for each use from where place_operands
/// has put them, which leaves registers for other work.
template <class Stencil, bool held>
class Operands {
 public:
  SPIDER_DEVICE explicit Operands(device::Shared begin) : begin_(begin + device::lane_index() * 16) {
    const int lane = device::lane_index();
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::metadata_count; ++i)
      metadata_[i] = device::load_table(Stencil::metadata(i, lane));
    if constexpr (held) {
      SPIDER_UNROLL
      for (int i = 0; i < Stencil::operand_count; ++i)
        matrices_[i] = device::load_table(Stencil::operand(i, lane));
    }
  }

  /// Has them here from now on (device::pin_in_register).
  SPIDER_DEVICE void settle() {
    SPIDER_UNROLL
    for (std::uint32_t& word : metadata_) word = device::pin_in_register(word);
    if constexpr (held) {
      SPIDER_UNROLL
      for (device::Vector& matrix : matrices_) {
        SPIDER_UNROLL
        for (std::uint32_t& word : matrix.word) word = device::pin_in_register(word);
      }
    }
  }

  SPIDER_DEVICE device::Vector matrix(int i) const {
    if constexpr (held) {
      return matrices_[i];
    } else {
      return device::load_shared(begin_ + i * operand_bytes);
    }
  }
  SPIDER_DEVICE std::uint32_t metadata(int i) const { return metadata_[i]; }

 private:
  device::Shared begin_;
  device::Vector matrices_[held ? Stencil::operand_count : 1];
  std::uint32_t metadata_[Stencil::metadata_count > 0 ? Stencil::metadata_count : 1];
};

}  // namespace device_4
}  // namespace spider
