/// Loads and stores of a lane's rows of a system's fields.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/sums/system_rows.h>
#include <spider/values/cells.h>
#include <spider/values/words.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// `count` neighbouring cells as numbers, in vectors of at most 16 bytes; they begin on such a vector.
template <class Cells, int count, class Number>
SPIDER_DEVICE void load_cells(const typename Cells::Element* from, Number* to) {
  constexpr int bytes = count * Cells::element_bytes;
  if constexpr (bytes > 16) {
    load_cells<Cells, count / 2>(from, to);
    load_cells<Cells, count / 2>(from + count / 2, to + count / 2);
  } else if constexpr (count == 1) {
    to[0] = static_cast<Number>(Cells::number(device::load_cell(from), 0));
  } else {
    constexpr int words = bytes / 4;
    std::uint32_t word[words];
    if constexpr (words == 1) word[0] = device::load_cell(reinterpret_cast<const std::uint32_t*>(from));
    if constexpr (words == 2) device::load_cell_pair(from, word);
    if constexpr (words == 4) device::load_cell_vector(from, word);
    SPIDER_UNROLL
    for (int i = 0; i < count; ++i) {
      if constexpr (Cells::element_bytes == 8) {
        to[i] = static_cast<Number>(
            Cells::number(static_cast<std::uint64_t>(word[2 * i + 1]) << 32 | word[2 * i], 0));
      } else {
        to[i] = static_cast<Number>(Cells::number(word[i / Cells::per_word], i % Cells::per_word));
      }
    }
  }
}

/// A number as a cell, rounded to nearest.
template <class Cells, class Number>
SPIDER_DEVICE typename Cells::Element cell_of_number(Number number) {
  return Cells::cell(static_cast<typename Cells::Number>(number));
}

/// The same of stores.
template <class Cells, int count, class Number>
SPIDER_DEVICE void store_cells(typename Cells::Element* to, const Number* from) {
  constexpr int bytes = count * Cells::element_bytes;
  if constexpr (bytes > 16) {
    store_cells<Cells, count / 2>(to, from);
    store_cells<Cells, count / 2>(to + count / 2, from + count / 2);
  } else if constexpr (count == 1) {
    device::store_field(to, cell_of_number<Cells>(from[0]));
  } else {
    constexpr int words = bytes / 4;
    std::uint32_t word[words] = {};
    SPIDER_UNROLL
    for (int i = 0; i < count; ++i) {
      const auto cell = cell_of_number<Cells>(from[i]);
      if constexpr (Cells::element_bytes == 8) {
        word[2 * i] = static_cast<std::uint32_t>(cell);
        word[2 * i + 1] = static_cast<std::uint32_t>(cell >> 32);
      } else {
        word[i / Cells::per_word] |= static_cast<std::uint32_t>(cell) << (i % Cells::per_word * 16);
      }
    }
    if constexpr (words == 1) device::store_field_word(to, word[0]);
    if constexpr (words == 2) device::store_field_pair(to, {{word[0], word[1]}});
    if constexpr (words == 4) device::store_field_vector(to, {{word[0], word[1], word[2], word[3]}});
  }
}

/// Where a cell of a field is along an axis: at `index`, or nowhere.
struct AxisPlace {
  std::int32_t index;
  std::int8_t constant;  ///< 0: at index; 1, 2: the constant of the low or the high face; 3: 0
  bool negated;
};

/// What the rules of a field's axis make of index `i`.
template <class Sweep, int field, int axis>
SPIDER_DEVICE AxisPlace place_along(std::int32_t i, std::int64_t extent) {
  constexpr AxisRules rules{face_of<Sweep, field, axis, 0>().rule, face_of<Sweep, field, axis, 1>().rule, 1,
                            2};  // an antisymmetric face gives 0
  if (i >= 0 && i < extent) return {i, 0, false};
  if constexpr (negates(rules)) {
    const SignedIndex mapped = map_signed_index(rules, i, static_cast<std::int32_t>(extent));
    const int constant = mapped.value == 0 ? 3 : static_cast<int>(mapped.value);
    return {mapped.index, static_cast<std::int8_t>(mapped.constant ? constant : 0), mapped.negated};
  } else {
    const MappedIndex mapped = map_index(rules, i, static_cast<std::int32_t>(extent));
    return {mapped.index, static_cast<std::int8_t>(mapped.constant ? mapped.value : 0), false};
  }
}

/// The number of a constant of an axis, with the sign of its place.
template <class Sweep, int field, int axis>
SPIDER_DEVICE typename Sweep::Number constant_along(const AxisPlace& place) {
  using Number = typename Sweep::Number;
  constexpr auto low = static_cast<Number>(face_of<Sweep, field, axis, 0>().value);
  constexpr auto high = static_cast<Number>(face_of<Sweep, field, axis, 1>().value);
  const Number value = place.constant == 3 ? Number{0} : place.constant == 1 ? low : high;
  return place.negated ? -value : value;
}

/// The columns near faces in x. Fields whose faces there have the same rules share them.
template <class Sweep>
struct ColumnPlaces {
  static constexpr int lowest = RowLayout<Sweep>::lowest_column();
  static constexpr int count = RowLayout<Sweep>::end_column() - lowest;
  static constexpr int field_count = static_cast<int>(sizeof(Sweep::fields) / sizeof(SystemField));

  SPIDER_DEVICE static constexpr bool are_alike(int a, int b) {
    const auto& one = Sweep::fields[a].faces[2];
    const auto& other = Sweep::fields[b].faces[2];
    return one[0].rule == other[0].rule && one[1].rule == other[1].rule;
  }
  /// The first field with the same rules.
  SPIDER_DEVICE static constexpr int first_alike(int field) {
    int first = 0;
    while (!are_alike(first, field)) ++first;
    return first;
  }
  /// Which of the places are a field's.
  SPIDER_DEVICE static constexpr int set_of(int field) {
    int sets = 0;
    for (int i = 0; i < first_alike(field); ++i) sets += first_alike(i) == i ? 1 : 0;
    return sets;
  }
  static constexpr int sets = [] {
    int last = 0;
    for (int i = 0; i < field_count; ++i) last = set_of(i) > last ? set_of(i) : last;
    return last + 1;
  }();

  AxisPlace place[sets][count];
};

/// A lane near a face of the field or of the box: which columns its points need.
struct NeededColumns {
  std::int32_t x;           ///< the lane's first point
  std::int32_t begin, end;  ///< its points in the box
};

/// Loads row `row` cell by cell, each as the faces' rules have it.
template <class Sweep, int row>
SPIDER_DEVICE void load_row_at_faces(const SystemArguments& sweep, std::int32_t z, std::int32_t y,
                                     const NeededColumns& needed, const ColumnPlaces<Sweep>& columns,
                                     LaneRows<Sweep>& to) {
  using Layout = RowLayout<Sweep>;
  using Number = typename Sweep::Number;
  constexpr ReadRow taps = Sweep::rows[row];
  constexpr int field = taps.field;
  constexpr int set = ColumnPlaces<Sweep>::set_of(field);
  using Cells = typename CellsOfStorage<Sweep::fields[field].storage>::Type;
  const SystemFieldPlace& own = sweep.fields[field];
  AxisPlace plane{z, 0, false};
  AxisPlace line{y, 0, false};
  if constexpr (taps.dz != 0) plane = place_along<Sweep, field, 0>(z + taps.dz, sweep.extent[0]);
  if constexpr (taps.dy != 0) line = place_along<Sweep, field, 1>(y + taps.dy, sweep.extent[1]);
  const Number constant = line.constant != 0 ? constant_along<Sweep, field, 1>(line)
                          : line.negated     ? -constant_along<Sweep, field, 0>(plane)
                                             : constant_along<Sweep, field, 0>(plane);
  const bool is_constant = plane.constant != 0 || line.constant != 0;
  const bool negated = plane.negated != line.negated;
  const auto* cells = static_cast<const typename Cells::Element*>(own.data);
  if (!is_constant) cells += plane.index * own.stride[0] + line.index * own.stride[1];
  SPIDER_UNROLL
  for (int i = 0; i < Layout::cells(row); ++i) {
    const int from_lane = Layout::has_columns(row) ? i + Layout::first_vector(row) * Sweep::columns : 0;
    const std::int32_t x = needed.x + from_lane;
    AxisPlace place{0, 0, false};
    if (Layout::has_columns(row)) {
      if (x < needed.begin + taps.low || x >= needed.end + taps.high) {
        to.number[Layout::begin(row) + i] = 0;
        continue;
      }
      place = columns.place[set][from_lane - ColumnPlaces<Sweep>::lowest];
    }
    Number number = constant;
    if (place.constant != 0) {
      number = constant_along<Sweep, field, 2>(place);
    } else {
      if (!is_constant) {
        number = static_cast<Number>(Cells::number(device::load_cell(cells + place.index), 0));
        if (negated) number = -number;
      }
      if (place.negated) number = -number;
    }
    to.number[Layout::begin(row) + i] = number;
  }
}

/// Loads row `row` where all of it lies inside the field: in vectors, or cell by cell where they are not
/// aligned.
template <class Sweep, int row, bool aligned>
SPIDER_DEVICE void load_row_inside(const SystemArguments& sweep, std::int32_t z, std::int32_t y,
                                   std::int32_t x, LaneRows<Sweep>& to) {
  using Layout = RowLayout<Sweep>;
  constexpr ReadRow taps = Sweep::rows[row];
  using Cells = typename CellsOfStorage<Sweep::fields[taps.field].storage>::Type;
  const SystemFieldPlace& own = sweep.fields[taps.field];
  const auto* cells = static_cast<const typename Cells::Element*>(own.data) + (z + taps.dz) * own.stride[0] +
                      (y + taps.dy) * own.stride[1];
  if constexpr (!Layout::has_columns(row)) {
    load_cells<Cells, 1>(cells, &to.number[Layout::begin(row)]);
  } else {
    cells += x + Layout::first_vector(row) * Sweep::columns;
    constexpr int vectors = Layout::cells(row) / Sweep::columns;
    SPIDER_UNROLL
    for (int i = 0; i < vectors; ++i) {
      auto* numbers = &to.number[Layout::begin(row) + i * Sweep::columns];
      if constexpr (aligned) {
        load_cells<Cells, Sweep::columns>(cells + i * Sweep::columns, numbers);
      } else {
        SPIDER_UNROLL
        for (int c = 0; c < Sweep::columns; ++c)
          load_cells<Cells, 1>(cells + i * Sweep::columns + c, numbers + c);
      }
    }
  }
}

}  // namespace device_4
}  // namespace spider
