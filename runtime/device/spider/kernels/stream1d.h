/// 1D stencils, and 2D ones without taps along y: a warp has a strip of tiles side by side in one row and
/// does not walk. Inputs go from memory to registers, or through a window in shared memory, where warps at an
/// edge or in an unaligned row gather them.
///
/// A `Stencil` has, besides the members that spider/sums/operands.h requires, as static members:
/// - Storage: of spider/values/storage.h;
/// - dimensions: 1 where there is one row;
/// - lowest_tap, highest_tap: lowest and highest dx;
/// - tiles: of a strip; warps_per_block, blocks_per_multiprocessor;
/// - first_column, window_vectors: the inputs of a strip, in vectors from column first_column of the strip
///   on;
/// - always_gathers: all warps gather, which is less memory traffic if there are many fragments;
/// - shift_count, shift_group(i): the windows of a row, in groups of eight inputs from the first;
/// - product_count, product(i): RowProducts; fragments are shifts;
/// - result_scale: of sums;
/// - column_rules(): the boundary;
/// - if constants outside faces add to sums, Constants: low_columns, high_columns, how many are near a face;
///   number(i), with the one far from both faces after the low ones.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/sums/added_by_constants.h>
#include <spider/sums/epilogue.h>
#include <spider/sums/operands.h>
#include <spider/values/spans.h>
#include <spider/values/storage.h>
#include <spider/values/vectors.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

template <class Stencil>
struct Stream1d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_stream1d(const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  using Kernel = Stream1d<Stencil>;
  typename Kernel::Strip strip;
  if (!Kernel::find_strip(field, strip)) return;
  if (!Stencil::always_gathers && Kernel::is_interior(strip)) {
    Kernel::template sweep_strip<false>(strip);
  } else {
    Kernel::template sweep_strip<true>(strip);
  }
}

/// Dividend and divisor are not negative. They nearly always fit 32 bits, which divide much faster.
SPIDER_DEVICE std::int64_t divide_far(std::int64_t dividend, std::int64_t divisor) {
  constexpr std::int64_t largest = 0xffffffff;
  if (dividend <= largest && divisor <= largest) {
    return static_cast<std::uint32_t>(dividend) / static_cast<std::uint32_t>(divisor);
  }
  return dividend / divisor;
}

template <class Stencil>
struct Stream1d {
  using Shared = device::Shared;
  using Vector = device::Vector;
  using Storage = typename Stencil::Storage;
  using Element = typename Storage::Element;
  using Fragment = typename Storage::Fragment;
  using Outputs = typename Storage::Outputs;

  static constexpr bool takes_images = !HasUpdate<Stencil>::value;
  static constexpr int element_bytes = Storage::element_bytes;
  static constexpr int vector_elements = Storage::vector_elements;
  static constexpr int vector_bytes = 16;

  // A tile is one product: 16 outputs along x in each of 8 columns.
  static constexpr int tile_outputs = 128;
  static constexpr int tiles = Stencil::tiles;
  static constexpr int strip_outputs = tiles * tile_outputs;
  /// Columns: strips of a box begin where a sum does, and outputs on a line of memory.
  static constexpr int strip_anchor = 128;

  static constexpr int first_column = Stencil::first_column;
  static constexpr int window_vectors = Stencil::window_vectors;
  static constexpr int window_elements = window_vectors * vector_elements;
  static constexpr int lane_vectors = (window_vectors + 31) / 32;
  static constexpr int warp_bytes = lane_vectors * 32 * vector_bytes;
  static constexpr int shifts_at_once = 4;  // whose loads are in flight together

  /// The row of a warp, and the warp's strip in it.
  struct Strip : UpdateSource<Stencil> {
    const Element* input;  ///< the row's first interior element
    Element* output;
    std::int64_t row;      ///< of the field
    std::int64_t columns;  ///< of the row's interior
    std::int64_t first;    ///< column of the strip's first output
    Span wanted;           ///< the outputs of the sweep, from `first`; clipped far away
    int lead;              ///< elements before the row's first in its vector of memory
    bool aligned_output;   ///< rows of results start where four are stored together
  };

  /// Finds the strip of this warp; a surplus warp has none.
  SPIDER_DEVICE static bool find_strip(const ArgumentsOf<Stencil>& field, Strip& strip) {
    constexpr std::int64_t far_away = 1 << 20;  // from any input of the strip
    const Box& box = field.box;
    const std::int64_t anchor_column = box.offset[2] / strip_anchor * strip_anchor;
    const std::int64_t columns = box.offset[2] + box.extent[2] - anchor_column;
    const std::int64_t strips = (columns + strip_outputs - 1) / strip_outputs;
    const std::int64_t index =
        std::int64_t{device::block_index()} * Stencil::warps_per_block + device::warp_index();
    const std::int64_t line = Stencil::dimensions == 1 ? (index < strips ? 0 : 1) : divide_far(index, strips);
    if (line >= box.extent[1]) return false;
    static_cast<UpdateSource<Stencil>&>(strip) = UpdateSource<Stencil>(field);
    const std::int64_t row = box.offset[1] + line;
    strip.row = row;
    strip.input = static_cast<const Element*>(field.input) + row * field.input_stride[1];
    strip.output = static_cast<Element*>(field.output) + row * field.output_stride[1];
    if constexpr (takes_images) {
      strip.input += device::image_index() * field.input_stride[0];
      strip.output += device::image_index() * field.output_stride[0];
    }
    strip.columns = field.extent[2];
    strip.first = anchor_column + (index - line * strips) * strip_outputs;
    const std::int64_t begin = box.offset[2] - strip.first;
    const std::int64_t end = begin + box.extent[2];
    strip.wanted = {static_cast<std::int32_t>(begin < -far_away ? -far_away : begin),
                    static_cast<std::int32_t>(end > far_away ? far_away : end)};
    strip.lead =
        static_cast<int>(reinterpret_cast<std::uintptr_t>(strip.input) % vector_bytes) / element_bytes;
    strip.aligned_output = field.aligned_output;
    return true;
  }

  /// True if all inputs of the strip are in memory, in place and aligned, and all outputs are stored.
  SPIDER_DEVICE static bool is_interior(const Strip& strip) {
    constexpr int window_end = first_column + window_elements;
    constexpr int first = first_column < 0 ? first_column : 0;
    constexpr int end = window_end > strip_outputs ? window_end : strip_outputs;
    return strip.lead == 0 && strip.wanted.begin <= first && strip.wanted.end >= end;
  }

  /// Computes a strip, from memory or from gathered inputs. All lanes of a warp make the same choice, so that
  /// they reach every product together.
  template <bool gathered>
  SPIDER_DEVICE static void sweep_strip(const Strip& strip) {
    const int lane = device::lane_index();
    std::uint32_t metadata[Stencil::metadata_count];
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::metadata_count; ++i)
      metadata[i] = device::load_table(Stencil::metadata(i, lane));
    if constexpr (gathered) gather(strip);
    [[maybe_unused]] const auto place_of = [&](int tile) {
      const int first = Storage::first_output(lane) + tile * tile_outputs;
      return OutputPlace{{0, strip.row, strip.first + first},
                         outputs_within<Storage>(strip.wanted, first),
                         strip.aligned_output};
    };
    [[maybe_unused]] OutputUpdate<Stencil, Storage> updates[tiles] = {};
    if constexpr (HasUpdate<Stencil>::value) {
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) updates[tile].load(*strip.sweep, place_of(tile));
      if constexpr (gathered) device::sync_warp();
    }

    TileSums<Stencil> sums[tiles] = {};
    SPIDER_UNROLL
    for (int shift = 0; shift < Stencil::shift_count; ++shift) {
      // Loads of all shifts together would need too many registers.
      if (shift > 0 && shift % shifts_at_once == 0) device::sync_warp();
      Fragment fragments[tiles];
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) {
        const int vector = pair_swap_group(lane) + Stencil::shift_group(shift);
        fragments[tile] = load_fragment<gathered>(strip, tile * tile_outputs + vector * vector_elements);
      }
      multiply(shift, metadata, fragments, sums);
    }

    [[maybe_unused]] bool near_face = false;
    if constexpr (HasConstants<Stencil>::value) {
      near_face = is_near_face(strip.first, strip_outputs, strip.columns, Stencil::Constants::low_columns,
                               Stencil::Constants::high_columns);
    }
    Outputs outputs[tiles];
    SPIDER_UNROLL
    for (int tile = 0; tile < tiles; ++tile) {
      if constexpr (HasUpdate<Stencil>::value) {
        outputs[tile] = updates[tile].apply(*strip.sweep, place_of(tile), scale_sums<Stencil>(sums[tile]));
      } else {
        outputs[tile] = finish_outputs<Stencil>(sums[tile]);
        if constexpr (HasConstants<Stencil>::value) {
          if (near_face) outputs[tile] = finish_near_face(strip, tile, sums[tile]);
        }
      }
    }
    const int column = Storage::first_output(lane);
    Element* to = strip.output + strip.first + column;
    if (strip.aligned_output && strip.wanted.begin <= 0 && strip.wanted.end >= strip_outputs) {
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile)  // the compiler splits some plain stores
        store_outputs_if<Storage>(true, to + tile * tile_outputs, outputs[tile]);
    } else {
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) {
        store_clipped<Storage>(to + tile * tile_outputs, outputs[tile], strip.wanted,
                               column + tile * tile_outputs, strip.aligned_output);
      }
    }
  }

  /// A lane's eight inputs from column `column` of the window on.
  template <bool gathered>
  SPIDER_DEVICE static Fragment load_fragment(const Strip& strip, int column) {
    if constexpr (gathered) {
      return Storage::load_fragment(window_begin() + column * element_bytes, 1);
    } else {
      return {device::load_vector(strip.input + strip.first + first_column + column)};
    }
  }

  /// Adds the products at a shift to the sums of all tiles.
  SPIDER_DEVICE static void multiply(int shift, const std::uint32_t (&metadata)[Stencil::metadata_count],
                                     const Fragment (&fragments)[tiles], TileSums<Stencil> (&sums)[tiles]) {
    typename Storage::Partial nothing_apart;
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::product_count; ++i) {
      const RowProduct product = Stencil::product(i);
      if (product.fragment != shift) continue;
      const Vector matrix = device::load_table(Stencil::operand(product.operand, device::lane_index()));
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) {
        multiply_selected<Storage>(product.selector, nothing_apart, sums[tile].of[product.sum], matrix,
                                   fragments[tile], metadata[product.metadata], product.part);
      }
    }
  }

  /// The outputs of a tile near a face; constants outside it add to their sums.
  SPIDER_DEVICE static Outputs finish_near_face(const Strip& strip, int tile, const TileSums<Stencil>& sums) {
    using Constants = typename Stencil::Constants;
    const std::int64_t first =
        strip.first + tile * tile_outputs + Storage::first_output(device::lane_index());
    float results[4];
    Storage::order(sums.of[0], results);
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int place = place_by_faces(first + Storage::output_offset(i), strip.columns,
                                       Constants::low_columns, Constants::high_columns);
      results[i] = scale_sum<Stencil>(results[i] + Constants::number(place));
    }
    return Storage::pack_ordered(results);
  }

  SPIDER_DEVICE static Shared window_begin() { return device::warp_index() * warp_bytes; }

  /// Fills the window in shared memory. All lanes leave together.
  SPIDER_DEVICE static void gather(const Strip& strip) {
    // In shifted rows a vector spans two vectors of memory.
    const int begin = strip.wanted.begin - first_column + strip.lead;
    const int end = strip.wanted.end - first_column + strip.lead - (strip.lead > 0 ? vector_elements : 0);
    const Span whole = vectors_within<vector_elements>({begin, end}, 0, window_vectors);
    gather_vectors(strip, whole);
    device::sync_warp();
    gather_elements(strip, {whole.begin * vector_elements, whole.end * vector_elements});
    device::sync_warp();
  }

  /// Copies whole vectors that are in memory at their own places to the window, and zeros elsewhere: an
  /// operand's zero times stale data could be NaN.
  SPIDER_DEVICE static void gather_vectors(const Strip& strip, const Span& whole) {
    SPIDER_UNROLL
    for (int i = 0; i < lane_vectors; ++i) {
      const int vector = device::lane_index() + 32 * i;
      const int column = vector * vector_elements;
      const bool wanted = whole.holds(vector);
      const Element* from = strip.input + (wanted ? strip.first + first_column + column - strip.lead : 0);
      const Vector low = device::load_vector_if(wanted, from);
      const Vector high =
          device::load_vector_if(wanted && strip.lead > 0, from + (wanted ? vector_elements : 0));
      device::store_shared(window_begin() + column * element_bytes,
                           take_vector(low, high, strip.lead * element_bytes));
    }
  }

  /// Fetches elements that taps reach outside columns `whole`, one a lane, by the rules of the boundary.
  SPIDER_DEVICE static void gather_elements(const Strip& strip, const Span& whole) {
    const Span reached = {strip.wanted.begin + Stencil::lowest_tap - first_column,
                          strip.wanted.end + Stencil::highest_tap - first_column};
    const CellColumns beside = columns_beside(whole, reached, window_elements);
    SPIDER_NO_UNROLL
    for (int first = 0; first < beside.count; first += 32) {
      const int i = first + device::lane_index();
      const int column = beside.column(i);
      const auto place =
          map_far_by<Stencil::column_rules>(strip.first + first_column + column, strip.columns);
      const bool wanted = i < beside.count;
      const bool in_memory = wanted && !place.constant;
      const Element value = device::load_field_if(in_memory, strip.input + (in_memory ? place.index : 0),
                                                  static_cast<Element>(place.value));
      device::store_shared_if(wanted, window_begin() + column * element_bytes,
                              static_cast<Element>(value ^ sign_of<Element>(place.negated)));
    }
  }
};

/// Boxes are cut into strips of single rows.
template <class Stencil>
constexpr SweepForm stream1d_form() {
  using Kernel = Stream1d<Stencil>;
  constexpr int shared_bytes = Stencil::warps_per_block * Kernel::warp_bytes;
  constexpr int output_bytes = 8;  // results that a lane stores together
  SweepForm form{sweep_stream1d<Stencil>,
                 {TilingKind::lines,
                  Stencil::warps_per_block,
                  shared_bytes,
                  Kernel::vector_bytes,
                  output_bytes,
                  {1, 1, Kernel::strip_outputs},
                  0,
                  0,
                  Kernel::strip_anchor,
                  0,
                  0}};
  form.takes_images = Kernel::takes_images;
  return form;
}

}  // namespace device_4
}  // namespace spider
