/// From sums to fields: scales a lane's four sums of a tile, adds old values, rounds, clips and stores, to
/// where Storage::output_offset (spider/storage.h) says, from `to` on.
#pragma once

#include <spider/instructions.h>
#include <spider/spans.h>

#include <cstdint>

namespace spider {
inline namespace device_1 {

/// A sum as a result.
template <class Stencil>
SPIDER_DEVICE float scale_sum(float sum) {
  return sum * Stencil::result_scale;
}

/// The outputs of a lane's sums of a tile.
template <class Stencil>
SPIDER_DEVICE typename Stencil::Storage::Outputs finish_outputs(const device::Accumulator& sum) {
  device::Accumulator results;
  SPIDER_UNROLL
  for (int i = 0; i < 4; ++i) results.value[i] = scale_sum<Stencil>(sum.value[i]);
  return Stencil::Storage::pack(results);
}

/// The same where Stencil::adds_input says whether the taps are the stencil less the identity: then results
/// are the sums plus the row's own inputs, that of the tile's first column at `inputs`.
template <class Stencil>
SPIDER_DEVICE typename Stencil::Storage::Outputs finish_outputs(const device::Accumulator& sum,
                                                                device::Shared inputs) {
  if constexpr (Stencil::adds_input) {
    device::Accumulator results = Stencil::Storage::load_values(inputs);
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i)
      results.value[i] = device::multiply_add(sum.value[i], Stencil::result_scale, results.value[i]);
    return Stencil::Storage::pack(results);
  } else {
    return finish_outputs<Stencil>(sum);
  }
}

/// Which outputs of some tiles side by side are in a span of columns, where the first is in column x: bit 4 t
/// + i stands for output i of tile t.
template <class Storage, int tiles = 1>
SPIDER_DEVICE unsigned outputs_within(const Span& columns, std::int32_t x) {
  constexpr int tile_columns = 128;
  unsigned bits = 0;
  SPIDER_UNROLL
  for (int i = 0; i < 4 * tiles; ++i) {
    if (columns.holds(x + i / 4 * tile_columns + Storage::output_offset(i % 4))) bits |= 1U << i;
  }
  return bits;
}

/// Stores all of them; `to` is aligned for that.
template <class Storage>
SPIDER_DEVICE void store_outputs(typename Storage::Element* to, const typename Storage::Outputs& outputs) {
  constexpr int together = Storage::outputs_per_store;
  SPIDER_UNROLL
  for (int i = 0; i < 4 / together; ++i) {
    device::store_field(to + Storage::output_offset(i * together), outputs.word[2 * i],
                        outputs.word[2 * i + 1]);
  }
}

/// The same where they are `wanted`, without a branch.
template <class Storage>
SPIDER_DEVICE void store_outputs_if(bool wanted, typename Storage::Element* to,
                                    const typename Storage::Outputs& outputs) {
  constexpr int together = Storage::outputs_per_store;
  SPIDER_UNROLL
  for (int i = 0; i < 4 / together; ++i) {
    device::store_field_if(wanted, to + Storage::output_offset(i * together), outputs.word[2 * i],
                           outputs.word[2 * i + 1]);
  }
}

/// Stores those that `bits` names, one by one.
template <class Storage>
SPIDER_DEVICE void store_single_outputs(typename Storage::Element* to,
                                        const typename Storage::Outputs& outputs, unsigned bits) {
  SPIDER_UNROLL
  for (int i = 0; i < 4; ++i) {
    device::store_field_if((bits >> i & 1U) != 0, to + Storage::output_offset(i),
                           Storage::output(outputs, i));
  }
}

/// The same where `to` is aligned for stores of neighbours together.
template <class Storage>
SPIDER_DEVICE void store_clipped(typename Storage::Element* to, const typename Storage::Outputs& outputs,
                                 unsigned bits) {
  constexpr int together = Storage::outputs_per_store;
  constexpr unsigned mask = (1U << together) - 1;
  SPIDER_UNROLL
  for (int i = 0; i < 4 / together; ++i) {
    const int first = i * together;
    const bool all = (bits >> first & mask) == mask;
    device::store_field_if(all, to + Storage::output_offset(first), outputs.word[2 * i],
                           outputs.word[2 * i + 1]);
    if (all) bits &= ~(mask << first);
  }
  store_single_outputs<Storage>(to, outputs, bits);
}

/// Stores those within a span of columns, where the first output is in column x; neighbours together where
/// `to` is aligned for that.
template <class Storage>
SPIDER_DEVICE void store_clipped(typename Storage::Element* to, const typename Storage::Outputs& outputs,
                                 const Span& wanted, std::int32_t x, bool aligned) {
  constexpr int together = Storage::outputs_per_store;
  SPIDER_UNROLL
  for (int first = 0; first < 4; first += together) {
    const std::int32_t column = x + Storage::output_offset(first);
    const bool whole = aligned && wanted.holds(Span{column, column + together});
    device::store_field_if(whole, to + Storage::output_offset(first), outputs.word[first / together * 2],
                           outputs.word[first / together * 2 + 1]);
    SPIDER_UNROLL
    for (int i = first; i < first + together; ++i) {
      const bool single = !whole && wanted.holds(x + Storage::output_offset(i));
      device::store_field_if(single, to + Storage::output_offset(i), Storage::output(outputs, i));
    }
  }
}

/// The same of 16-bit cells by branches, behind which lanes converge: predicates of all rows of a tile
/// would take registers that there are not.
template <class Storage>
SPIDER_DEVICE void store_by_branches(typename Storage::Element* to, const typename Storage::Outputs& outputs,
                                     unsigned bits, bool aligned) {
  if (bits == 15 && aligned) {
    store_outputs<Storage>(to, outputs);
  } else {
    store_single_outputs<Storage>(to, outputs, bits);
  }
  device::sync_warp();
}

}  // namespace device_1
}  // namespace spider
