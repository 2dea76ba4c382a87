/// Where the cells of a field lie in memory, with and without the halo of a sweep. Independent of kernels.
#pragma once

#include <spider/kernel.h>

#include <array>
#include <cstdint>
#include <string>

#include "backend.h"

namespace spider {

inline constexpr int axis_z = 0;
inline constexpr int axis_y = 1;
inline constexpr int axis_x = 2;

// Kernels index axes that are not streamed in one run with 32 bits, and look a strip and the reach further.
inline constexpr std::int64_t largest_extent = std::int64_t{0x7fffffff} - 65536;
// Keeps addresses, and values computed from them, within 64 bits.
inline constexpr std::int64_t largest_stride = std::int64_t{1} << 40;
inline constexpr std::int64_t largest_span_bytes = std::int64_t{1} << 60;

[[nodiscard]] backend::Outcome refuse(spider_status status, std::string reason);

/// " on axis z", ...
[[nodiscard]] std::string on_axis(int axis);

/// How far a kernel reads outside an axis's faces: cells that the caller stores, so only at faces whose rule
/// is halo.
struct HaloWidth {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// An axis of a field that is a part of a whole.
struct PlacedAxis {
  FaceRule low, high;   ///< of the whole
  std::int64_t extent;  ///< of the field
  std::int64_t origin;  ///< of the field, in the whole
  std::int64_t whole;
};

/// True if a periodic axis is cut, so that its other end is in other memory.
[[nodiscard]] bool is_cut_ring(const PlacedAxis& axis);

/// The cells outside the field that taps of this reach read.
[[nodiscard]] HaloWidth halo_of_reach(const PlacedAxis& axis, const HaloWidth& reach);

/// Cells along an axis with the halo that matters, from `first` (at most 0) relative to the first interior
/// one.
struct Cells {
  std::int64_t first = 0;
  std::int64_t count = 1;
};

using CellBox = std::array<Cells, 3>;

/// The cells of a field without halo.
[[nodiscard]] CellBox interior_of(const spider_field& field);

/// A stride matters if there is a second row or plane, in the interior or in the halo; else it is 0 here.
struct Strides {
  std::int64_t plane = 0;
  std::int64_t row = 0;
};

[[nodiscard]] Strides strides_of(const spider_field& field, const CellBox& cells);

/// Whether rows are disjoint, and planes: one nested in the other, either way.
[[nodiscard]] backend::Outcome check_strides(const spider_field& field, const CellBox& cells,
                                             std::int64_t bytes, const std::string& name);

/// Addresses of the whole's cells, as the part's strides place them, are computed though not used: refuses a
/// whole whose span overflows them.
[[nodiscard]] backend::Outcome check_whole_span(const Strides& strides, std::int64_t bytes,
                                                const spider_part& part, const std::string& name);

[[nodiscard]] backend::Outcome check_alignment(const spider_field& field, std::int64_t bytes,
                                               const std::string& name);

/// Rows of bytes, all of one length, in ascending order: the cells of a field, with or without halo.
struct ByteRows {
  std::intptr_t first = 0;
  std::int64_t bytes = 0;
  std::int64_t inner_pitch = 0;
  std::int64_t inner_count = 1;
  std::int64_t outer_pitch = 0;
  std::int64_t outer_count = 1;

  [[nodiscard]] std::int64_t count() const { return inner_count * outer_count; }
  [[nodiscard]] std::intptr_t begin(std::int64_t row) const {
    return first + row / inner_count * outer_pitch + row % inner_count * inner_pitch;
  }
  [[nodiscard]] std::intptr_t end(std::int64_t row) const { return begin(row) + bytes; }
};

[[nodiscard]] ByteRows rows_of(const spider_field& field, const CellBox& cells, std::int64_t bytes);

/// True if they have a byte in common. Two sub-fields of one array may interleave without sharing a cell.
[[nodiscard]] bool overlap(const ByteRows& a, const ByteRows& b);

/// Moves a field's begin to `origin` cells earlier, in integers: that address is seldom in memory.
void move_to_first(spider_field& field, const Strides& strides, const std::int64_t (&origin)[3],
                   std::int64_t bytes);

}  // namespace spider
