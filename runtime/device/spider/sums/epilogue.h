/// From sums to fields: scales a lane's four sums of a tile, adds old values, updates, rounds, clips and
/// stores, at the offsets Storage::output_offset (spider/values/storage.h) from `to`.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/sums/point_inputs.h>
#include <spider/sums/update.h>
#include <spider/values/spans.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// A lane's sums of a tile: four for each sum of the stencil.
template <class Stencil>
struct TileSums {
  device::Accumulator of[SumsOf<Stencil>::count];
};

/// A sum as a result; of several sums, `which` is the index.
template <class Stencil>
SPIDER_DEVICE float scale_sum(float sum, [[maybe_unused]] int which = 0) {
  if constexpr (SumsOf<Stencil>::count == 1) {
    return sum * Stencil::result_scale;
  } else {
    return sum * Stencil::result_scale_of(which);
  }
}

/// A lane's sums of a tile as results.
template <class Stencil>
SPIDER_DEVICE device::Accumulator scale_sums(const device::Accumulator& sum) {
  device::Accumulator results;
  SPIDER_UNROLL
  for (int i = 0; i < 4; ++i) results.value[i] = scale_sum<Stencil>(sum.value[i]);
  return results;
}
template <class Stencil>
SPIDER_DEVICE TileSums<Stencil> scale_sums(const TileSums<Stencil>& sums) {
  TileSums<Stencil> results;
  SPIDER_UNROLL
  for (int sum = 0; sum < SumsOf<Stencil>::count; ++sum) {
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) results.of[sum].value[i] = scale_sum<Stencil>(sums.of[sum].value[i], sum);
  }
  return results;
}

/// The same if Stencil::adds_input says that the taps are the stencil less the identity: then results are the
/// sums plus the row's own inputs; the input of the tile's first column is at `inputs`.
template <class Stencil>
SPIDER_DEVICE device::Accumulator scale_sums(const device::Accumulator& sum, device::Shared inputs) {
  if constexpr (Stencil::adds_input) {
    device::Accumulator results = Stencil::Storage::load_values(inputs);
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i)
      results.value[i] = device::multiply_add(sum.value[i], Stencil::result_scale, results.value[i]);
    return results;
  } else {
    return scale_sums<Stencil>(sum);
  }
}
template <class Stencil>
SPIDER_DEVICE TileSums<Stencil> scale_sums(const TileSums<Stencil>& sums, device::Shared inputs) {
  if constexpr (SumsOf<Stencil>::count == 1) {
    return {{scale_sums<Stencil>(sums.of[0], inputs)}};
  } else {
    return scale_sums<Stencil>(sums);
  }
}

/// The outputs of a lane's sum of a tile, without an update.
template <class Stencil>
SPIDER_DEVICE typename Stencil::Storage::Outputs finish_outputs(const TileSums<Stencil>& sums) {
  return Stencil::Storage::pack(scale_sums<Stencil>(sums.of[0]));
}
template <class Stencil>
SPIDER_DEVICE typename Stencil::Storage::Outputs finish_outputs(const TileSums<Stencil>& sums,
                                                                device::Shared inputs) {
  return Stencil::Storage::pack(scale_sums<Stencil>(sums.of[0], inputs));
}

/// A stencil on tensor cores with the cells of its storage, as point_inputs.h requires it.
template <class Stencil, class Storage>
struct WithCells : Stencil {
  using Cells = typename Storage::Cells;
};

/// True if taps reach the point itself, so that the kernel's inputs include the input there.
template <class Stencil>
SPIDER_DEVICE bool reaches_itself() {
  bool reached = false;
  SPIDER_UNROLL
  for (int i = 0; i < Stencil::band_count; ++i) {
    const TapBand band = Stencil::band(i);
    reached |= band.dy_low <= 0 && band.dy_high >= 0 && band.low <= 0 && band.high >= 0;
  }
  return reached;
}

/// The places of a lane's four outputs of a tile, and those that the sweep covers.
struct OutputPlace {
  PointPlace first;  ///< of output 0
  unsigned wanted;   ///< bit i: output i
  bool aligned;      ///< neighbours lie in memory as vectors
};

/// The update of a lane's four outputs of a tile, on tensor cores; between load() and apply() other work may
/// hide the loads. Outputs that are stored together are neighbours; the others lie at Storage::output_offset,
/// or, in pairs of rows, below two neighbours. The lanes of a warp call apply() together; load() may make
/// them diverge if not all outputs are stored.
template <class Stencil, class Storage, bool pairs_rows = false, bool exists = HasUpdate<Stencil>::value>
struct OutputUpdate {};
template <class Stencil, class Storage, bool pairs_rows>
struct OutputUpdate<Stencil, Storage, pairs_rows, true> {
  using Points = WithCells<Stencil, Storage>;
  static constexpr int together = pairs_rows ? 2 : Storage::outputs_per_store;
  static constexpr unsigned all = (1U << together) - 1;

  PointInputs<Points, together> inputs[4 / together];

  SPIDER_DEVICE static PointPlace place_of(const PointPlace& first, int output) {
    if (pairs_rows) return {first.z, first.y + output / 2, first.x};
    return {first.z, first.y, first.x + Storage::output_offset(output)};
  }

  SPIDER_DEVICE void load(const UpdateArguments& sweep, const OutputPlace& place) {
    SPIDER_UNROLL
    for (int i = 0; i < 4; i += together) {
      const unsigned wanted = place.wanted >> i & all;
      inputs[i / together].load(sweep, place_of(place.first, i), place.aligned && wanted == all, wanted);
    }
  }

  /// The same in two parts: all but the input; then the input from shared memory, of output 0 at `first`.
  SPIDER_DEVICE void load_fields(const UpdateArguments& sweep, const OutputPlace& place) {
    SPIDER_UNROLL
    for (int i = 0; i < 4; i += together) {
      const unsigned wanted = place.wanted >> i & all;
      inputs[i / together].load_fields(sweep, place_of(place.first, i), place.aligned && wanted == all,
                                       wanted, typename Stencil::FurtherFields{});
    }
  }
  SPIDER_DEVICE void take_input(device::Shared first) {
    static_assert(!pairs_rows, "a lane's neighbours are 8 bytes");
    if constexpr (Stencil::reads_input) {
      SPIDER_UNROLL
      for (int i = 0; i < 4; i += together) {
        const device::Pair cells =
            device::load_shared_pair(first + Storage::output_offset(i) * Storage::element_bytes);
        SPIDER_UNROLL
        for (int k = 0; k < 2; ++k) inputs[i / together].input[k] = cells.word[k];
      }
    }
  }

  /// The outputs of a lane's results, which are scaled and include old values.
  SPIDER_DEVICE typename Storage::Outputs apply(const UpdateArguments& sweep, const OutputPlace& place,
                                                const TileSums<Stencil>& results) const {
    if constexpr (Stencil::of_sums_alone) {
      return Storage::pack(update_sums(sweep, results));
    } else {
      float numbers[sum_count][4];
      SPIDER_UNROLL
      for (int sum = 0; sum < sum_count; ++sum) Storage::order(results.of[sum], numbers[sum]);
      SPIDER_UNROLL
      for (int i = 0; i < 4; i += together) {
        OutputSums<Points, together> sums;
        SPIDER_UNROLL
        for (int sum = 0; sum < sum_count; ++sum) {
          SPIDER_UNROLL
          for (int k = 0; k < together; ++k) sums[sum][k] = numbers[sum][i + k];
        }
        inputs[i / together].update(sweep, place_of(place.first, i), sums);
        SPIDER_UNROLL
        for (int k = 0; k < together; ++k) numbers[0][i + k] = sums[0][k];
      }
      device::sync_warp();  // loads of single cells, and functions, may make the lanes diverge
      return Storage::pack_ordered(numbers[0]);
    }
  }

 private:
  static constexpr int sum_count = SumsOf<Stencil>::count;

  /// If all points have the same function, the sums stay in the order of the products.
  SPIDER_DEVICE static device::Accumulator update_sums(const UpdateArguments& sweep,
                                                       const TileSums<Stencil>& sums) {
    device::Accumulator results;
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) {
      UpdatePoint point{sweep, {}, 0, {}, {}};
      SPIDER_UNROLL
      for (int sum = 0; sum < sum_count; ++sum) point.sums[sum] = sums.of[sum].value[i];
      results.value[i] = Stencil::update(point);
    }
    device::sync_warp();  // functions may make the lanes diverge
    return results;
  }
};

/// The outputs of some tiles side by side that lie in a span of columns; the first is in column x: bit 4 t +
/// i stands for output i of tile t.
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
SPIDER_DEVICE void store_outputs(typename Storage::OutElement* to, const typename Storage::Outputs& outputs) {
  if constexpr (Storage::element_bytes == 1) {
    Storage::store(to, outputs);
  } else {
    constexpr int together = Storage::outputs_per_store;
    SPIDER_UNROLL
    for (int i = 0; i < 4 / together; ++i) {
      device::store_field(to + Storage::output_offset(i * together), outputs.word[2 * i],
                          outputs.word[2 * i + 1]);
    }
  }
}

/// The same if `wanted`, without a branch.
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

/// Stores the outputs in `bits`, one by one.
template <class Storage>
SPIDER_DEVICE void store_single_outputs(typename Storage::OutElement* to,
                                        const typename Storage::Outputs& outputs, unsigned bits) {
  SPIDER_UNROLL
  for (int i = 0; i < 4; ++i) {
    device::store_field_if((bits >> i & 1U) != 0, to + Storage::output_offset(i),
                           Storage::output(outputs, i));
  }
}

/// The same if `to` is aligned for storing neighbours together.
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

/// Stores outputs within a span of columns; the first one is in column x. Neighbours are stored together if
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

/// The same for cells of 16 bits or 8 by branches, after which lanes converge: predicates for all rows of a
/// tile would need too many registers.
template <class Storage>
SPIDER_DEVICE void store_by_branches(typename Storage::OutElement* to,
                                     const typename Storage::Outputs& outputs, unsigned bits, bool aligned) {
  if (bits == 15 && aligned) {
    store_outputs<Storage>(to, outputs);
  } else {
    store_single_outputs<Storage>(to, outputs, bits);
  }
  device::sync_warp();
}

}  // namespace device_4
}  // namespace spider
