/// Rows of cells of 16 bits or 8 that do not begin with a vector of 16 bytes of memory.
#pragma once

#include <spider/machine/instructions.h>
#include <spider/values/spans.h>
#include <spider/values/vectors.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// The distance of rows from the last multiple of 16 bytes: for row i (first + i step) % 16.
struct Leads {
  int first, step;
};

SPIDER_DEVICE int lead_of(const Leads& leads, int row) {
  return (leads.first + row * leads.step) % 16;
}

/// For rows that are `stride` cells apart, from the one that begins with `cell` on.
template <class Element>
SPIDER_DEVICE Leads find_leads(const Element* cell, std::int64_t stride) {
  constexpr int cell_bytes = static_cast<int>(sizeof(Element));
  return {static_cast<int>(reinterpret_cast<std::uintptr_t>(cell) % 16),
          static_cast<int>(stride % (16 / cell_bytes)) * cell_bytes};
}

/// Moves `words` words of shared memory, which begin `lead` bytes after `row`, to `row`, a multiple of 4. The
/// lead is whole cells and below 16. Reads one word past the last. All lanes of a warp take part, with a warp
/// barrier between reading and writing.
template <int words, int cell_bytes>
SPIDER_DEVICE void shift_row(device::Shared row, int lead) {
  if (lead == 0) return;
  constexpr int word_bytes = 4;
  const bool between_words = lead % word_bytes != 0;
  constexpr int words_of_lane = (words + 31) / 32;
  const device::Shared first = row + static_cast<device::Shared>(lead / word_bytes * word_bytes);
  std::uint32_t shifted[words_of_lane];
  SPIDER_UNROLL
  for (int i = 0; i < words_of_lane; ++i) {
    const int word = 32 * i + device::lane_index();
    const device::Shared low =
        first + static_cast<device::Shared>((word < words ? word : words - 1) * word_bytes);
    shifted[i] = device::load_shared_word(low);
    if (between_words) {
      shifted[i] = device::funnel_shift_right(shifted[i], device::load_shared_word(low + word_bytes),
                                              cell_bytes == 2 ? 16 : lead % word_bytes * 8);
    }
  }
  device::sync_warp();
  SPIDER_UNROLL
  for (int i = 0; i < words_of_lane; ++i) {
    const int word = 32 * i + device::lane_index();
    device::store_shared_if(word < words, row + static_cast<device::Shared>(word * word_bytes), shifted[i]);
  }
}

/// Stores `cells` neighbouring cells, a multiple of 64, from `to` on, which may be any cell: they are in
/// shared memory from `from` on, a multiple of 4. Lanes store neighbouring words of memory; one lane stores
/// the cell before the first whole word and one the cell after the last. All lanes of a warp take part.
template <int cells>
SPIDER_DEVICE void store_row(std::uint16_t* to, device::Shared from) {
  constexpr int word_cells = 2;
  constexpr int words = cells / word_cells;
  const int lane = device::lane_index();
  const int before = is_misaligned(to) ? 1 : 0;
  SPIDER_UNROLL
  for (int first = 0; first < words; first += 32) {
    const int word = first + lane;
    const bool is_last = word == words - 1;
    const device::Shared low = from + static_cast<device::Shared>(word * 4);
    const device::Shared high = is_last ? low : low + 4;
    const std::uint32_t value = device::funnel_shift_right(device::load_shared_word(low),
                                                           device::load_shared_word(high), before * 16);
    device::store_field_word_if(before == 0 || !is_last, to + (word * word_cells + before), value);
  }
  const int beside = lane == 0 ? 0 : cells - 1;
  device::store_field_if(before != 0 && (lane == 0 || lane == 31), to + beside,
                         device::load_shared_half(from + static_cast<device::Shared>(beside * 2)));
}

/// Stores a row of cells: each lane has neighbouring ones, two in each word, after those of the lane before;
/// the first is stored at `to`, which may be any cell. `wanted`: the cells to store, counted from the lane's
/// first. If the row begins within a word, lanes pass on a cell. All lanes of a warp take part.
template <int words>
SPIDER_DEVICE void store_lanes(bool is_row, const Span& wanted, std::uint16_t* to,
                               const std::uint32_t (&own)[words]) {
  const int lane = device::lane_index();
  const int split = is_misaligned(to) ? 1 : 0;
  const std::uint32_t next = device::shuffle(own[0], (lane + 1) % 32);
  SPIDER_UNROLL
  for (int k = 0; k < words; ++k) {
    const std::uint32_t value =
        device::funnel_shift_right(own[k], k + 1 < words ? own[k + 1 < words ? k + 1 : k] : next, 16 * split);
    const int cell = 2 * k + split;
    const bool is_own = cell + 1 < 2 * words;  // the second one
    const bool whole = wanted.holds(Span{cell, cell + 2}) && (is_own || lane < 31);
    device::store_field_word_if(is_row && whole, to + cell, value);
    device::store_field_if(is_row && !whole && wanted.holds(cell), to + cell,
                           static_cast<std::uint16_t>(value));
    device::store_field_if(is_row && !whole && is_own && wanted.holds(cell + 1), to + (cell + 1),
                           static_cast<std::uint16_t>(value >> 16));
  }
  const bool is_handed_on = lane > 0 && wanted.holds(-1);
  device::store_field_if(is_row && split != 0 && wanted.holds(0) && !is_handed_on, to,
                         static_cast<std::uint16_t>(own[0]));
}

/// A lane and the lanes with its neighbours in a row, each with four cells.
struct RowOfLanes {
  int next;  ///< the lane that has the next four
  bool is_first, is_last;
};

/// Stores a row of bytes from `to` on, which may be any byte; each lane has four that follow those of the
/// lane before. Stores words of memory, which begin with a lane's `split`-th byte and end with the next
/// lane's, and single bytes before the first and after the last. All lanes of a warp take part.
SPIDER_DEVICE void store_bytes(std::uint8_t* to, std::uint32_t own, const RowOfLanes& lanes) {
  constexpr int word_bytes = 4;
  const int split =
      static_cast<int>((word_bytes - reinterpret_cast<std::uintptr_t>(to) % word_bytes) % word_bytes);
  const std::uint32_t next = device::shuffle(own, lanes.next);
  const bool whole = split == 0 || !lanes.is_last;
  device::store_field_word_if(whole, to + split, device::funnel_shift_right(own, next, 8 * split));
  SPIDER_UNROLL
  for (int i = 0; i < word_bytes; ++i) {
    const bool single = split != 0 && ((lanes.is_first && i < split) || (lanes.is_last && i >= split));
    device::store_field_if(single, to + i, static_cast<std::uint8_t>(own >> (8 * i)));
  }
}

/// Stores four neighbouring cells, two in each word, from `to` on: as words if it is the first cell of one,
/// otherwise as a word between two cells. Passing cells between lanes to store only words or pairs of words
/// takes more time than it saves.
SPIDER_DEVICE void store_anywhere(std::uint16_t* to, std::uint32_t low, std::uint32_t high) {
  if (!is_misaligned(to)) {
    device::store_field_word(to, low);
    device::store_field_word(to + 2, high);
  } else {
    device::store_field(to, static_cast<std::uint16_t>(low));
    device::store_field_word(to + 1, device::funnel_shift_right(low, high, 16));
    device::store_field(to + 3, static_cast<std::uint16_t>(high >> 16));
  }
}

}  // namespace device_4
}  // namespace spider
