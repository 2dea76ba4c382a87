/// What updates read at points, and the results of a lane's neighbouring points.
#pragma once

#include <spider/cells.h>
#include <spider/instructions.h>
#include <spider/kernel.h>
#include <spider/update.h>

#include <cstdint>

namespace spider {
inline namespace device_1 {

/// The numbers of a lane's neighbouring points.
template <int outputs>
using PointNumbers = float[outputs];

/// Neighbouring cells, as numbers, by the widest loads: their number in bytes is a multiple of 16, or 8, 4 or
/// the cell's.
template <class Cells, bool of_input, int outputs>
SPIDER_DEVICE void load_neighbours(const typename Cells::Element* from, PointNumbers<outputs>& numbers) {
  constexpr int bytes = outputs * Cells::element_bytes;
  constexpr int per_word = Cells::per_word;
  if constexpr (bytes >= 16) {
    SPIDER_UNROLL
    for (int first = 0; first < outputs; first += 4 * per_word) {
      const device::Vector v =
          of_input ? device::load_field_vector(from + first) : device::load_point_vector(from + first);
      SPIDER_UNROLL
      for (int i = 0; i < 4 * per_word; ++i)
        numbers[first + i] = Cells::number(v.word[i / per_word], i % per_word);
    }
  } else if constexpr (bytes == 8) {
    const device::Pair v = of_input ? device::load_field_pair(from) : device::load_point_pair(from);
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) numbers[i] = Cells::number(v.word[i / per_word], i % per_word);
  } else if constexpr (bytes == 4) {
    const std::uint32_t v = of_input ? device::load_field_word(from) : device::load_point_word(from);
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) numbers[i] = Cells::number(v, i);
  } else {
    numbers[0] = Cells::number(of_input ? device::load_field(from) : device::load_point(from), 0);
  }
}

/// Of neighbouring cells those that `bits` names, one by one; the others are 0.
template <class Cells, bool of_input, int outputs>
SPIDER_DEVICE void load_singles(const typename Cells::Element* from, std::uint32_t bits,
                                PointNumbers<outputs>& numbers) {
  SPIDER_UNROLL
  for (int i = 0; i < outputs; ++i) {
    numbers[i] = 0;
    if ((bits >> i & 1U) != 0)
      numbers[i] = Cells::number(of_input ? device::load_field(from + i) : device::load_point(from + i), 0);
  }
}

/// A lane's neighbouring points along x, from (z, y, x) on.
struct PointPlace {
  std::int64_t z, y, x;
};

/// What an update reads of a lane's neighbouring points.
template <class Stencil, int outputs>
struct PointInputs {
  using Cells = typename Stencil::Cells;
  static constexpr int count = Stencil::FurtherFields::count;

  PointNumbers<outputs> input;
  PointNumbers<outputs> field[count > 0 ? count : 1];

  /// Loads it. `whole`: all points are the sweep's, and rows are aligned; else `bits` names those that are.
  SPIDER_DEVICE void load(const UpdateArguments& sweep, const PointPlace& place, bool whole,
                          std::uint32_t bits) {
    if constexpr (Stencil::reads_input) load_input(sweep, place, whole, bits);
    load_fields(sweep, place, whole, bits, typename Stencil::FurtherFields{});
  }

  /// The input alone.
  SPIDER_DEVICE void load_input(const UpdateArguments& sweep, const PointPlace& place, bool whole,
                                std::uint32_t bits) {
    load_row<Cells, true>(sweep.input, sweep.input_stride, place, whole && sweep.aligned_input,
                          whole ? all : bits, input);
  }

  template <class... Each>
  SPIDER_DEVICE void load_fields([[maybe_unused]] const UpdateArguments& sweep,
                                 [[maybe_unused]] const PointPlace& place, [[maybe_unused]] bool whole,
                                 [[maybe_unused]] std::uint32_t bits, FurtherFields<Each...> /*fields*/) {
    [[maybe_unused]] int i = 0;
    (load_field<Each>(sweep, i++, place, whole, bits), ...);
  }

  /// Point `i`, whose sum is there.
  SPIDER_DEVICE UpdatePoint point(const UpdateArguments& sweep, const PointPlace& place, int i,
                                  float sum) const {
    UpdatePoint at{sweep, {place.z, place.y, place.x + i}, input[i], sum, {}};
    SPIDER_UNROLL
    for (int k = 0; k < count; ++k) at.field[k] = field[k][i];
    return at;
  }

  /// The results of the points, from their sums.
  SPIDER_DEVICE void update(const UpdateArguments& sweep, const PointPlace& place,
                            PointNumbers<outputs>& sums) const {
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) sums[i] = Stencil::update(point(sweep, place, i, sums[i]));
  }

 private:
  static constexpr std::uint32_t all = 0xffffffffU >> (32 - outputs);

  template <class Each>
  SPIDER_DEVICE void load_field(const UpdateArguments& sweep, int i, const PointPlace& place, bool whole,
                                std::uint32_t bits) {
    const FurtherField& from = sweep.further[i];
    load_row<Each, false>(from.data, from.stride, place, whole, bits, field[i]);
  }

  template <class Each, bool of_input>
  SPIDER_DEVICE static void load_row(const void* data, const std::int64_t (&stride)[2],
                                     const PointPlace& place, bool whole, std::uint32_t bits,
                                     PointNumbers<outputs>& numbers) {
    const auto* from = static_cast<const typename Each::Element*>(data) +
                       (place.z * stride[0] + place.y * stride[1] + place.x);
    if (whole) {
      load_neighbours<Each, of_input, outputs>(from, numbers);
    } else {
      load_singles<Each, of_input, outputs>(from, bits, numbers);
    }
  }
};

}  // namespace device_1
}  // namespace spider
