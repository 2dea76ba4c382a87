/// Cells of a field that a launch may read, as ranges of offsets.
#pragma once

#include <spider/kernel.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "violation.h"

namespace spider::emulator {

/// From first to last, inclusive.
struct CellRange {
  std::int64_t first, last;
};

/// Ascending, disjoint and not adjacent once merged.
using CellRanges = std::vector<CellRange>;

/// The index inside that index `i` of an axis maps to; nothing if it is a constant. Applies the definition
/// step by step and shares nothing with the kernels' index maps.
[[nodiscard]] inline std::optional<std::int64_t> map_index(const Face (&faces)[2], std::int64_t i,
                                                           std::int64_t extent) {
  while (i < 0 || i >= extent) {
    switch (faces[i < 0 ? 0 : 1].rule) {
      case FaceRule::halo:
        return i;
      case FaceRule::constant:
        return std::nullopt;
      case FaceRule::nearest:
        return i < 0 ? 0 : extent - 1;
      case FaceRule::periodic:
        i += i < 0 ? extent : -extent;
        break;
      case FaceRule::reflect:
      case FaceRule::antireflect:
        i = i < 0 ? -1 - i : 2 * extent - 1 - i;
        break;
      case FaceRule::antisymmetric:
        if (i == -1 || i == extent) return std::nullopt;
        i = i < 0 ? -2 - i : 2 * extent - i;
        break;
      case FaceRule::mirror:
      case FaceRule::antimirror:
        if (extent == 1) return 0;
        i = i < 0 ? -i : 2 * extent - 2 - i;
        break;
    }
  }
  return i;
}

/// Sorts ranges, and joins those that overlap or touch.
inline void merge(CellRanges& ranges) {
  if (ranges.empty()) return;
  std::sort(ranges.begin(), ranges.end(),
            [](const CellRange& a, const CellRange& b) { return a.first < b.first; });
  std::size_t last = 0;
  for (const CellRange& range : ranges) {
    if (range.first <= ranges[last].last + 1) {
      ranges[last].last = std::max(ranges[last].last, range.last);
    } else {
      ranges[++last] = range;
    }
  }
  ranges.resize(last + 1);
}

/// The columns that taps from `low` to `high` reach from columns `first` to `last` of an axis, mapped by the
/// rules of its faces.
[[nodiscard]] inline CellRanges mapped_columns(const Face (&faces)[2], std::int64_t first, std::int64_t last,
                                               std::int64_t extent) {
  CellRanges columns;
  if (std::max<std::int64_t>(first, 0) <= std::min(last, extent - 1))
    columns.push_back({std::max<std::int64_t>(first, 0), std::min(last, extent - 1)});
  const auto add_mapped = [&](std::int64_t x) {
    if (const auto mapped = map_index(faces, x, extent)) columns.push_back({*mapped, *mapped});
  };
  for (std::int64_t x = first; x <= std::min<std::int64_t>(last, -1); ++x) add_mapped(x);
  for (std::int64_t x = std::max(first, extent); x <= last; ++x) add_mapped(x);
  merge(columns);
  return columns;
}

/// The last index that is readable in one range with `first`; `first` - 1 if none is.
[[nodiscard]] inline std::int64_t last_readable(const CellRanges& readable, std::int64_t first) {
  const auto after =
      std::upper_bound(readable.begin(), readable.end(), first,
                       [](std::int64_t value, const CellRange& range) { return value < range.first; });
  return after == readable.begin() ? first - 1 : std::prev(after)->last;
}

/// Throws unless the address is a multiple of `bytes`; `verb` begins the message ("reads").
inline void check_alignment(const void* cell, int bytes, const char* verb) {
  if (reinterpret_cast<std::uintptr_t>(cell) % static_cast<std::uintptr_t>(bytes) != 0) {
    throw Violation(std::string(verb) + " " + std::to_string(bytes) +
                    " bytes of a field at an address that is no multiple of " + std::to_string(bytes));
  }
}

/// Offset of a cell in elements, computed in integers: the address may lie outside the field.
[[nodiscard]] inline std::int64_t offset_of(const void* cell, const void* origin, int element_bytes) {
  const auto bytes = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(cell) -
                                               reinterpret_cast<std::uintptr_t>(origin));
  return bytes / element_bytes - (bytes % element_bytes < 0 ? 1 : 0);
}

}  // namespace spider::emulator
