/// Inputs of updates at points besides the input field, in shared memory: planes of a block's points that a
/// lane copies ahead, and reads when its sums are complete.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/sums/point_inputs.h>
#include <spider/sums/update.h>
#include <spider/values/words.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// Copies neighbouring cells of `bytes` bytes to shared memory: 4, 8 or 16; both addresses are multiples of
/// that.
template <int bytes>
SPIDER_DEVICE void copy_neighbours_async_if(bool wanted, device::Shared to, const void* from) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "copies are of these");
  if constexpr (bytes == 16) {
    device::copy_point_vector_async_if(wanted, to, from);
  } else if constexpr (bytes == 8) {
    device::copy_point_pair_async_if(wanted, to, from);
  } else {
    device::copy_point_word_async_if(wanted, to, from);
  }
}

/// The cells from there on, as words.
template <class Cells, int outputs, class Word, int words>
SPIDER_DEVICE void load_shared_neighbours(device::Shared from, Word (&cells)[words]) {
  using Own = typename Cells::Word;
  constexpr int bytes = outputs * Cells::element_bytes;
  constexpr int own_words = bytes / static_cast<int>(sizeof(Own));
  if constexpr (bytes == 16) {
    const device::Vector v = device::load_shared(from);
    SPIDER_UNROLL
    for (int i = 0; i < own_words; ++i) cells[i] = word_of<Own>(v, i);
  } else if constexpr (bytes == 8) {
    const device::Pair v = device::load_shared_pair(from);
    SPIDER_UNROLL
    for (int i = 0; i < own_words; ++i) cells[i] = word_of<Own>(v, i);
  } else {
    cells[0] = device::load_shared_word(from);
  }
}

/// A block has `rows` x `columns` points of a plane, a lane `outputs` neighbouring ones in some rows. A lane
/// reads what it has copied itself: its own wait is enough.
template <class Stencil, int outputs, int rows, int columns>
struct PointQueue {
  using Shared = device::Shared;
  using Inputs = PointInputs<Stencil, outputs>;
  using Fields = typename Stencil::FurtherFields;

  template <class... Each>
  SPIDER_DEVICE static constexpr int bytes_of_point(FurtherFields<Each...> /*fields*/) {
    return (Each::element_bytes + ... + 0);
  }
  static constexpr int plane_bytes = rows * columns * bytes_of_point(Fields{});

  /// Starts the copies of a row of a lane's points, from `place` on, to the plane of the queue at `plane`,
  /// where it is at (row, column).
  SPIDER_DEVICE static void start(const UpdateArguments& sweep, const PointPlace& place, bool wanted,
                                  Shared plane, int row, int column) {
    start_fields(sweep, place, wanted, plane, row * columns + column, Fields{});
  }

  /// The same for only the point at `place`, which is at (row, column).
  SPIDER_DEVICE static void start_point(const UpdateArguments& sweep, const PointPlace& place, bool wanted,
                                        Shared plane, int row, int column) {
    start_cells(sweep, place, wanted, plane, row * columns + column, Fields{});
  }

  /// Copies point `from` of a plane of the queue to point `to`, as row * columns + column, on its arrival.
  SPIDER_DEVICE static void copy_point(bool wanted, Shared plane, int from, int to) {
    copy_cells(wanted, plane, from, to, Fields{});
  }

  /// Reads them.
  SPIDER_DEVICE static void load(Shared plane, int row, int column, Inputs& inputs) {
    load_fields(plane, row * columns + column, inputs, Fields{});
  }

 private:
  template <class... Each>
  SPIDER_DEVICE static void start_fields([[maybe_unused]] const UpdateArguments& sweep,
                                         [[maybe_unused]] const PointPlace& place,
                                         [[maybe_unused]] bool wanted, [[maybe_unused]] Shared plane,
                                         [[maybe_unused]] int point, FurtherFields<Each...> /*fields*/) {
    [[maybe_unused]] int i = 0;
    ((start_field<Each>(sweep.further[i++], place, wanted, plane + point * Each::element_bytes),
      plane += rows * columns * Each::element_bytes),
     ...);
  }
  template <class Each>
  SPIDER_DEVICE static void start_field(const FurtherField& from, const PointPlace& place, bool wanted,
                                        Shared to) {
    copy_neighbours_async_if<outputs * Each::element_bytes>(
        wanted, to,
        static_cast<const typename Each::Element*>(from.data) +
            (place.z * from.stride[0] + place.y * from.stride[1] + place.x));
  }

  template <class... Each>
  SPIDER_DEVICE static void start_cells(const UpdateArguments& sweep, const PointPlace& place, bool wanted,
                                        Shared plane, int point, FurtherFields<Each...> /*fields*/) {
    int i = 0;
    ((start_cell<Each>(sweep.further[i++], place, wanted, plane + point * Each::element_bytes),
      plane += rows * columns * Each::element_bytes),
     ...);
  }
  template <class Each>
  SPIDER_DEVICE static void start_cell(const FurtherField& from, const PointPlace& place, bool wanted,
                                       Shared to) {
    using Element = typename Each::Element;
    const auto* cell = static_cast<const Element*>(from.data) +
                       (place.z * from.stride[0] + place.y * from.stride[1] + place.x);
    if constexpr (Each::element_bytes == 4) {
      device::copy_point_word_async_if(wanted, to, cell);
    } else {
      if (wanted) device::store_shared(to, device::load_point(cell));
    }
  }

  template <class... Each>
  SPIDER_DEVICE static void copy_cells(bool wanted, Shared plane, int from, int to,
                                       FurtherFields<Each...> /*fields*/) {
    ((copy_cell<Each>(wanted, plane, from, to), plane += rows * columns * Each::element_bytes), ...);
  }
  template <class Each>
  SPIDER_DEVICE static void copy_cell(bool wanted, Shared plane, int from, int to) {
    const auto cell = plane + static_cast<Shared>(from * Each::element_bytes);
    const auto place = plane + static_cast<Shared>(to * Each::element_bytes);
    // NOLINTNEXTLINE(bugprone-branch-clone): loads of several widths
    if constexpr (Each::element_bytes == 4) {
      device::store_shared_if(wanted, place, device::load_shared_word(cell));
    } else {
      device::store_shared_if(wanted, place, device::load_shared_half(cell));
    }
  }

  template <class... Each>
  SPIDER_DEVICE static void load_fields([[maybe_unused]] Shared plane, [[maybe_unused]] int point,
                                        [[maybe_unused]] Inputs& inputs, FurtherFields<Each...> /*fields*/) {
    [[maybe_unused]] int i = 0;
    ((load_shared_neighbours<Each, outputs>(plane + point * Each::element_bytes, inputs.field[i++]),
      plane += rows * columns * Each::element_bytes),
     ...);
  }
};

}  // namespace device_4
}  // namespace spider
