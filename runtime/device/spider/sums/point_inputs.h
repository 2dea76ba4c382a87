/// Inputs of updates at points, and the results of a lane's neighbouring points.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/sums/update.h>
#include <spider/values/cells.h>
#include <spider/values/words.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// How a field is read: the input; another one, each cell once; or repeatedly, by many steps.
enum class PointReads { input, once, again };

/// Neighbouring cells as words (Cells::Word) in memory, by the widest loads: their size in bytes is a
/// multiple of 16, 8, 4 or a cell's. `Word` has room for each.
template <class Cells, PointReads reads, int outputs, class Word, int words>
SPIDER_DEVICE void load_neighbours(const typename Cells::Element* from, Word (&cells)[words]) {
  using Own = typename Cells::Word;
  constexpr int bytes = outputs * Cells::element_bytes;
  constexpr int vector_words = 16 / static_cast<int>(sizeof(Own));
  if constexpr (bytes >= 16) {
    SPIDER_UNROLL
    for (int first = 0; first < bytes / 16 * vector_words; first += vector_words) {
      const auto* place = from + first * Cells::per_word;
      const device::Vector v = reads == PointReads::input   ? device::load_field_vector(place)
                               : reads == PointReads::again ? device::load_kept_vector(place)
                                                            : device::load_point_vector(place);
      SPIDER_UNROLL
      for (int i = 0; i < vector_words; ++i) cells[first + i] = word_of<Own>(v, i);
    }
  } else if constexpr (bytes == 8) {
    const device::Pair v = reads == PointReads::input   ? device::load_field_pair(from)
                           : reads == PointReads::again ? device::load_kept_pair(from)
                                                        : device::load_point_pair(from);
    SPIDER_UNROLL
    for (int i = 0; i < vector_words / 2; ++i) cells[i] = word_of<Own>(v, i);
  } else if constexpr (bytes == 4) {
    cells[0] = reads == PointReads::input   ? device::load_field_word(from)
               : reads == PointReads::again ? device::load_kept_word(from)
                                            : device::load_point_word(from);
  } else {
    cells[0] = reads == PointReads::input ? device::load_field(from) : device::load_point(from);
  }
}

/// The neighbouring cells in `bits`, one by one; the others are 0.
template <class Cells, PointReads reads, int outputs, class Word, int words>
SPIDER_DEVICE void load_singles(const typename Cells::Element* from, std::uint32_t bits,
                                Word (&cells)[words]) {
  SPIDER_UNROLL
  for (int i = 0; i < outputs; ++i) {
    if (i % Cells::per_word == 0) cells[i / Cells::per_word] = 0;
    if ((bits >> i & 1U) == 0) continue;
    auto word = static_cast<typename Cells::Word>(cells[i / Cells::per_word]);
    Cells::put(word, i % Cells::per_word,
               reads == PointReads::input ? device::load_field(from + i) : device::load_point(from + i));
    cells[i / Cells::per_word] = word;
  }
}

/// A lane's neighbouring points along x, from (z, y, x) on.
struct PointPlace {
  std::int64_t z, y, x;
};

/// Inputs of an update for a lane's neighbouring points, as in memory: between the loads and update() other
/// work may hide them.
template <class Stencil, int outputs, PointReads of_fields = PointReads::once>
struct PointInputs {
  using Cells = typename Stencil::Cells;
  using Fields = typename Stencil::FurtherFields;
  using Word = typename Cells::Word;  // no field has wider cells than the input
  using Number = typename Cells::Number;
  static constexpr int count = Fields::count;

  Word input[outputs];
  Word field[count > 0 ? count : 1][outputs];

  /// Loads them. `whole`: the sweep covers all points, in aligned rows; otherwise those in `bits`.
  SPIDER_DEVICE void load(const UpdateArguments& sweep, const PointPlace& place, bool whole,
                          std::uint32_t bits) {
    if constexpr (Stencil::reads_input) {
      load_row<Cells, PointReads::input>(sweep.input, sweep.input_stride, place, whole && sweep.aligned_input,
                                         whole ? all : bits, input);
    }
    load_fields(sweep, place, whole, bits, Fields{});
  }

  /// All but the input.
  template <class... Each>
  SPIDER_DEVICE void load_fields([[maybe_unused]] const UpdateArguments& sweep,
                                 [[maybe_unused]] const PointPlace& place, [[maybe_unused]] bool whole,
                                 [[maybe_unused]] std::uint32_t bits, FurtherFields<Each...> /*fields*/) {
    [[maybe_unused]] int i = 0;
    (load_field<Each>(sweep, i++, place, whole, bits), ...);
  }

  /// For one point, the i-th, all but the input.
  template <class... Each>
  SPIDER_DEVICE void put_fields([[maybe_unused]] const UpdateArguments& sweep,
                                [[maybe_unused]] const PointPlace& place, [[maybe_unused]] int i,
                                FurtherFields<Each...> /*fields*/) {
    [[maybe_unused]] int k = 0;
    ((put_field<Each>(sweep.further[k], place, i, field[k]), ++k), ...);
  }

  /// The i-th point's fields.
  template <class... Each>
  SPIDER_DEVICE void find_numbers([[maybe_unused]] int i,
                                  [[maybe_unused]] Number (&numbers)[most_further_fields],
                                  FurtherFields<Each...> /*fields*/) const {
    [[maybe_unused]] int k = 0;
    ((numbers[k] = number<Each>(field[k], i), ++k), ...);
  }

  /// Prefetches the lines of all but the input to L2.
  SPIDER_DEVICE static void prefetch(const UpdateArguments& sweep, const PointPlace& place) {
    prefetch_fields(sweep, place, Fields{});
  }

  /// Replaces the first sums by the results of the points.
  SPIDER_DEVICE void update(const UpdateArguments& sweep, const PointPlace& place,
                            OutputSums<Stencil, outputs>& sums) const {
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) {
      UpdatePointOf<Number> point{sweep, {place.z, place.y, place.x + i}, 0, {}, {}};
      SPIDER_UNROLL
      for (int sum = 0; sum < SumsOf<Stencil>::count; ++sum) point.sums[sum] = sums[sum][i];
      if constexpr (Stencil::reads_input) point.u = number<Cells>(input, i);
      find_numbers(i, point.field, Fields{});
      sums[0][i] = Stencil::update(point);
    }
  }

 private:
  template <class... Each>
  SPIDER_DEVICE static void prefetch_fields([[maybe_unused]] const UpdateArguments& sweep,
                                            [[maybe_unused]] const PointPlace& place,
                                            FurtherFields<Each...> /*fields*/) {
    [[maybe_unused]] int i = 0;
    (prefetch_field<Each>(sweep.further[i++], place), ...);
  }
  template <class Each>
  SPIDER_DEVICE static void prefetch_field(const FurtherField& from, const PointPlace& place) {
    constexpr int lanes_per_line = 128 / (outputs * Each::element_bytes);
    if (device::lane_index() % lanes_per_line == 0) {
      device::prefetch_point(static_cast<const typename Each::Element*>(from.data) +
                             (place.z * from.stride[0] + place.y * from.stride[1] + place.x));
    }
  }

  static constexpr std::uint32_t all = 0xffffffffU >> (32 - outputs);

  template <class Each>
  SPIDER_DEVICE static Number number(const Word (&cells)[outputs], int i) {
    return Each::number(static_cast<typename Each::Word>(cells[i / Each::per_word]), i % Each::per_word);
  }

  template <class Each>
  SPIDER_DEVICE static void put_field(const FurtherField& from, const PointPlace& place, int i,
                                      Word (&cells)[outputs]) {
    const auto* row = static_cast<const typename Each::Element*>(from.data) +
                      (place.z * from.stride[0] + place.y * from.stride[1]);
    auto word = static_cast<typename Each::Word>(cells[i / Each::per_word]);
    Each::put(word, i % Each::per_word, device::load_point(row + place.x));
    cells[i / Each::per_word] = word;
  }

  template <class Each>
  SPIDER_DEVICE void load_field(const UpdateArguments& sweep, int i, const PointPlace& place, bool whole,
                                std::uint32_t bits) {
    const FurtherField& from = sweep.further[i];
    load_row<Each, of_fields>(from.data, from.stride, place, whole, bits, field[i]);
  }

  template <class Each, PointReads reads>
  SPIDER_DEVICE static void load_row(const void* data, const std::int64_t (&stride)[2],
                                     const PointPlace& place, bool whole, std::uint32_t bits,
                                     Word (&cells)[outputs]) {
    const auto* from = static_cast<const typename Each::Element*>(data) +
                       (place.z * stride[0] + place.y * stride[1] + place.x);
    if (whole) {
      load_neighbours<Each, reads, outputs>(from, cells);
    } else {
      load_singles<Each, reads, outputs>(from, bits, cells);
    }
  }
};

}  // namespace device_4
}  // namespace spider
