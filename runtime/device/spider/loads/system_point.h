/// Systems of equations: what an expression sees of a lane's points, and how their cells are loaded.
///
/// A `Sweep`, one of a generated file's, has as static members
/// - Number: float, or double where any field is f64;
/// - fields: a SystemField for each field; dimensions;
/// - rows, row_count: ReadRow, ascending in (field, dz, dy); written, written_count: WrittenField;
/// - reduced, reduced_count: ReducedNumber, ascending, whose values follow the fields' in compute();
/// - bounded_low, bounded_high: how far bounded() takes values, z, y, x;
/// - columns: neighbouring points of a lane, 1, 2 or 4; lines: neighbouring rows of them, 1 but in 2D;
/// blocks_per_multiprocessor: for the launch;
/// - compute(point, results): results[i] is what written[i] becomes. A point has read<row, dx>(), number(v),
///   scalar(i), index(axis), extent(axis), bounded<field, dz, dy, dx>(value) and stored<field>(value), the
///   value as a cell of the field holds it: numbers of all points of a lane, which each operation takes
///   together, so that cells need registers only until they are used;
/// - folded_reach, only where a point has also folded<field, reach z, y, x>(function of a point), the sum
/// over
///   the point and the ghost cells that take its value, and inside<dz, dy, dx>(function).
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/values/cell_numbers.h>
#include <spider/values/each.h>

#include <math.h>  // the functions of expressions, as C names them

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

/// Has a sweep points that are folded?
template <class Sweep, class = void>
struct Folds : std::false_type {};
template <class Sweep>
struct Folds<Sweep, std::void_t<decltype(Sweep::folded_reach)>> : std::true_type {};

/// A face of a field; side 0 is low. By value: code of a device has no address of the table.
template <class Sweep, int field, int axis, int side>
SPIDER_DEVICE constexpr Face face_of() {
  return Sweep::fields[field].faces[axis][side];
}

/// Where the points of a warp are, and how it reads.
enum class Surroundings {
  interior,          ///< all vectors that it reads lie inside the field
  interior_cells,    ///< the same, where rows do not consist of whole, aligned vectors: cell by cell
  columns_at_faces,  ///< all rows lie inside, some columns do not
  at_faces,          ///< some rows are those that the faces' rules have in their place
  cells_at_faces,    ///< the same, cell by cell
  small,             ///< the field has so few columns that they may cross faces again and again
  moved,             ///< the point is a ghost cell's own place, or a point that is folded
};

/// Does a rule take a vector of columns outside from one place, as whole as it is?
SPIDER_DEVICE constexpr bool takes_vectors(FaceRule rule) {
  return rule == FaceRule::constant || rule == FaceRule::periodic;
}

/// The vectors of `columns` cells that a row reads, counted from that of the lane's own points.
template <class Sweep, int columns>
struct RowVectors {
  SPIDER_DEVICE static constexpr int floor_vector(int column) {
    return column / columns - (column % columns < 0 ? 1 : 0);
  }
  /// The hull of all rows' vectors and of the points at which values of fused stages are taken, in columns
  /// from the lane's first point.
  SPIDER_DEVICE static constexpr int lowest_column() {
    int lowest = floor_vector(-Sweep::bounded_low[2]) * columns;
    for (int i = 0; i < Sweep::row_count; ++i) {
      const int low = floor_vector(Sweep::rows[i].low) * columns;
      lowest = low < lowest ? low : lowest;
    }
    return lowest;
  }
  SPIDER_DEVICE static constexpr int end_column() {
    int end = (floor_vector(columns - 1 + Sweep::bounded_high[2]) + 1) * columns;
    for (int i = 0; i < Sweep::row_count; ++i) {
      const int own = (floor_vector(columns - 1 + Sweep::rows[i].high) + 1) * columns;
      end = own > end ? own : end;
    }
    return end;
  }
};

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

/// A lane's points: `columns` of a row from x on, of which those from `begin` to before `end` lie in the box.
struct LanePlace {
  std::int32_t z, y, x;
  std::int32_t begin, end;
};

/// Where a column is, of an axis with so many cells that it crosses a face at most once.
template <class Sweep, int field>
SPIDER_DEVICE AxisPlace place_near_field(std::int32_t i, std::int32_t extent) {
  constexpr FaceRule low = face_of<Sweep, field, 2, 0>().rule;
  constexpr FaceRule high = face_of<Sweep, field, 2, 1>().rule;
  const auto fold = [&](FaceRule rule, std::int32_t distance, std::int32_t edge, std::int32_t inwards) {
    switch (rule) {  // distance: 1 for the first cell outside
      case FaceRule::nearest:
        return edge;
      case FaceRule::periodic:
        return edge + inwards * (extent - distance);
      case FaceRule::reflect:
      case FaceRule::antireflect:
        return edge + inwards * (distance - 1);
      case FaceRule::mirror:
      case FaceRule::antimirror:
        return edge + inwards * distance;
      case FaceRule::antisymmetric:
        return edge + inwards * (distance - 2);
      default:
        return edge - inwards * distance;
    }
  };
  const auto constant = [](FaceRule rule, int side, std::int32_t distance) {
    const bool is_zero = rule == FaceRule::antisymmetric && distance == 1;
    return static_cast<std::int8_t>(is_zero ? 3 : rule == FaceRule::constant ? side : 0);
  };
  if (i < 0) return {fold(low, -i, 0, 1), constant(low, 1, -i), negates(low)};
  if (i >= extent) {
    const std::int32_t distance = i - (extent - 1);
    return {fold(high, distance, extent - 1, -1), constant(high, 2, distance), negates(high)};
  }
  return {i, 0, false};
}

/// What an expression sees of a lane's points.
template <class Sweep, Surroundings around>
struct LanePoints {
  static constexpr bool in_vectors =
      around == Surroundings::columns_at_faces || around == Surroundings::at_faces;
  static constexpr bool is_interior =
      around == Surroundings::interior || around == Surroundings::interior_cells;
  // Near faces fewer points together: what faces take must not cost the interior registers.
  static constexpr int columns = around == Surroundings::interior ? Sweep::columns
                                 : in_vectors                     ? (Sweep::columns + 1) / 2
                                                                  : 1;
  using Vectors = RowVectors<Sweep, columns>;
  using Number = typename Sweep::Number;
  using Numbers = Pack<Number, columns>;

  const SystemArguments& sweep;
  const LanePlace& place;

  template <int row, int dx>
  SPIDER_DEVICE Numbers read() const {
    constexpr ReadRow taps = Sweep::rows[row];
    constexpr SystemField field = Sweep::fields[taps.field];
    using Cells = typename CellsOfStorage<field.storage>::Type;
    const SystemFieldPlace& own = sweep.fields[taps.field];
    const auto* cells = static_cast<const typename Cells::Element*>(own.data);
    constexpr bool maps_rows = !is_interior && around != Surroundings::columns_at_faces;
    constexpr bool moved = around == Surroundings::moved;
    if constexpr (!maps_rows || (taps.dz == 0 && taps.dy == 0 && !moved)) {
      cells += (place.z + taps.dz) * own.stride[0] + (place.y + taps.dy) * own.stride[1];
      return read_row<Cells, taps.field, dx>(cells, {});
    } else {
      AxisPlace plane{place.z, 0, false};
      AxisPlace line{place.y, 0, false};
      if constexpr ((taps.dz != 0 || moved) && field.axes[0])
        plane = place_along<Sweep, taps.field, 0>(place.z + taps.dz, sweep.extent[0]);
      if constexpr ((taps.dy != 0 || moved) && field.axes[1])
        line = place_along<Sweep, taps.field, 1>(place.y + taps.dy, sweep.extent[1]);
      RowSign row_sign{plane.constant != 0 || line.constant != 0, plane.negated != line.negated, 0};
      const Number of_plane = constant_along<Sweep, taps.field, 0>(plane);
      row_sign.constant = line.constant != 0 ? constant_along<Sweep, taps.field, 1>(line)
                          : line.negated     ? -of_plane
                                             : of_plane;
      if (!row_sign.is_constant) cells += plane.index * own.stride[0] + line.index * own.stride[1];
      return read_row<Cells, taps.field, dx>(cells, row_sign);
    }
  }

  SPIDER_DEVICE static Numbers number(Number value) {
    Numbers numbers;
    SPIDER_UNROLL
    for (int i = 0; i < columns; ++i) numbers.of[i] = value;
    return numbers;
  }
  SPIDER_DEVICE Numbers scalar(int i) const {
    if constexpr (std::is_same_v<Number, double>) {
      return number(sweep.wide_scalars[i]);
    } else {
      return number(sweep.scalars[i]);
    }
  }
  SPIDER_DEVICE Numbers index(int axis) const {
    Numbers numbers;
    SPIDER_UNROLL
    for (int i = 0; i < columns; ++i) {
      const std::int64_t at = axis == 0 ? place.z : axis == 1 ? place.y : place.x + i;
      numbers.of[i] = static_cast<Number>(at - sweep.first[axis]);
    }
    return numbers;
  }
  SPIDER_DEVICE Numbers extent(int axis) const { return number(static_cast<Number>(sweep.whole[axis])); }

  /// Where faces meet, the faster axis counts.
  template <int field, int dz, int dy, int dx>
  SPIDER_DEVICE Numbers bounded(Numbers value) const {
    if constexpr (!is_interior) {
      SPIDER_UNROLL
      for (int i = 0; i < columns; ++i) {
        if constexpr (dz != 0) value.of[i] = bounded_along<field, 0>(place.z + dz, value.of[i]);
        if constexpr (dy != 0) value.of[i] = bounded_along<field, 1>(place.y + dy, value.of[i]);
        if constexpr (dx != 0) value.of[i] = bounded_along<field, 2>(place.x + i + dx, value.of[i]);
      }
    }
    return value;
  }

  template <int field>
  SPIDER_DEVICE static Numbers stored(Numbers value) {
    using Cells = typename CellsOfStorage<Sweep::fields[field].storage>::Type;
    return each(value,
                [](Number v) { return static_cast<Number>(Cells::number(cell_of_number<Cells>(v), 0)); });
  }

  /// Of the reach of ghost cells beyond faces, and what is added up of points.
  template <int field, int reach_z, int reach_y, int reach_x, class Value>
  SPIDER_DEVICE Numbers folded(const Value& value) const {
    if constexpr (is_interior) {
      return value(*this);
    } else {
      Numbers numbers;
      SPIDER_UNROLL
      for (int i = 0; i < columns; ++i) {
        const std::int32_t x = place.x + i;
        const bool is_wanted = x >= place.begin && x < place.end;
        numbers.of[i] = is_wanted ? folded_at<field, reach_z, reach_y, reach_x>(x, value) : Number{0};
      }
      return numbers;
    }
  }

  /// The value where the point at the offset lies inside, else 0.
  template <int dz, int dy, int dx, class Value>
  SPIDER_DEVICE Numbers inside(const Value& value) const {
    if constexpr (around == Surroundings::moved) {
      const bool is_inside = place.z + dz >= 0 && place.z + dz < sweep.extent[0] && place.y + dy >= 0 &&
                             place.y + dy < sweep.extent[1] && place.x + dx >= 0 &&
                             place.x + dx < sweep.extent[2];
      if (!is_inside) return number(0);
    }
    return value();
  }

 private:
  template <int field, int reach_z, int reach_y, int reach_x, class Value>
  SPIDER_DEVICE Number folded_at(std::int32_t x, const Value& value) const {
    Number sum = 0;
    SPIDER_NO_UNROLL
    for (int i = -reach_z; i <= reach_z; ++i) {
      const AxisPlace z = fold_along<field, 0>(place.z, i);
      if (z.constant != 0) continue;
      SPIDER_NO_UNROLL
      for (int j = -reach_y; j <= reach_y; ++j) {
        const AxisPlace y = fold_along<field, 1>(place.y, j);
        if (y.constant != 0) continue;
        SPIDER_NO_UNROLL
        for (int k = -reach_x; k <= reach_x; ++k) {
          const AxisPlace column = fold_along<field, 2>(x, k);
          if (column.constant != 0) continue;
          const LanePlace at{z.index, y.index, column.index, column.index, column.index + 1};
          const Number one = value(LanePoints<Sweep, Surroundings::moved>{sweep, at}).of[0];
          const bool negated = (z.negated != y.negated) != column.negated;
          sum = device::add(sum, negated ? -one : one);
        }
      }
    }
    return sum;
  }

  /// The place of ghost cell `i` of an axis, < 0 before it, > 0 behind it, or of the point itself; `constant`
  /// where it does not take the value of the point.
  template <int field, int axis>
  SPIDER_DEVICE AxisPlace fold_along(std::int32_t point, int i) const {
    if (i == 0) return {point, 0, false};
    const std::int32_t at = i < 0 ? i : static_cast<std::int32_t>(sweep.extent[axis]) - 1 + i;
    const AxisPlace taken = place_along<Sweep, field, axis>(at, sweep.extent[axis]);
    const bool is_taken = taken.constant == 0 && taken.index == point;
    return {at, static_cast<std::int8_t>(is_taken ? 0 : 3), taken.negated};
  }

  /// What becomes of a row that the rules of faces have: its constant, or its cells, perhaps their negatives.
  struct RowSign {
    bool is_constant = false;
    bool negated = false;
    Number constant = 0;
  };

  template <class Cells, int field, int dx>
  SPIDER_DEVICE Numbers read_row(const typename Cells::Element* cells, const RowSign& row) const {
    constexpr SystemField facts = Sweep::fields[field];
    if constexpr (!facts.axes[2]) {
      Number one = row.constant;
      if (!row.is_constant) load_cells<Cells, 1>(cells, &one);
      return number(row.negated && !row.is_constant ? -one : one);
    } else if constexpr (around == Surroundings::interior) {
      return read_vectors<Cells, dx>(cells + place.x);
    } else if constexpr (in_vectors) {
      return read_mapped_vectors<Cells, field, dx>(cells, row);
    } else {
      return read_cells<Cells, field, dx>(cells, row);
    }
  }

  /// From the vectors that columns dx .. dx + columns - 1 lie in. The compiler loads each vector of a row
  /// once.
  template <class Cells, int dx>
  SPIDER_DEVICE static Numbers read_vectors(const typename Cells::Element* cells) {
    constexpr int first = Vectors::floor_vector(dx) * columns;
    constexpr int shift = dx - first;
    Number loaded[2 * columns];
    load_cells<Cells, columns>(cells + first, loaded);
    if constexpr (shift > 0) load_cells<Cells, columns>(cells + first + columns, loaded + columns);
    Numbers numbers;
    SPIDER_UNROLL
    for (int i = 0; i < columns; ++i) numbers.of[i] = loaded[shift + i];
    return numbers;
  }

  /// The same where these may lie outside: rows consist of whole vectors.
  template <class Cells, int field, int dx>
  SPIDER_DEVICE Numbers read_mapped_vectors(const typename Cells::Element* cells, const RowSign& row) const {
    constexpr int first = Vectors::floor_vector(dx) * columns;
    constexpr int shift = dx - first;
    Number loaded[2 * columns];
    load_mapped<Cells, field, first, shift, columns>(cells, row, loaded);
    if constexpr (shift > 0)
      load_mapped<Cells, field, first + columns, 0, shift>(cells, row, loaded + columns);
    Numbers numbers;
    SPIDER_UNROLL
    for (int i = 0; i < columns; ++i) numbers.of[i] = loaded[shift + i];
    return numbers;
  }

  /// The vector `from` columns behind the lane's first point, of which cells from `begin` to before `end` are
  /// wanted.
  template <class Cells, int field, int from, int begin, int end>
  SPIDER_DEVICE void load_mapped(const typename Cells::Element* cells, const RowSign& row, Number* to) const {
    constexpr FaceRule low = face_of<Sweep, field, 2, 0>().rule;
    constexpr FaceRule high = face_of<Sweep, field, 2, 1>().rule;
    const auto extent = static_cast<std::int32_t>(sweep.extent[2]);
    const std::int32_t x = place.x + from;
    const bool below = from < 0 && x < 0;
    const bool above = from > 0 && x >= extent;
    std::int32_t column = x;
    if (low == FaceRule::periodic && below) column += extent;
    if (high == FaceRule::periodic && above) column -= extent;
    const bool inside = !(below && low != FaceRule::periodic) && !(above && high != FaceRule::periodic);
    load_cells_if<Cells, columns>(inside && !row.is_constant, cells + column, to);
    SPIDER_UNROLL
    for (int i = begin; i < end; ++i) {
      if (row.negated) to[i] = -to[i];
      if (row.is_constant) to[i] = row.constant;
      if constexpr (low == FaceRule::constant) {
        if (below) to[i] = static_cast<Number>(face_of<Sweep, field, 2, 0>().value);
      }
      if constexpr (high == FaceRule::constant) {
        if (above) to[i] = static_cast<Number>(face_of<Sweep, field, 2, 1>().value);
      }
      if constexpr (from != 0 && !(takes_vectors(low) && takes_vectors(high))) {
        if (!inside) to[i] = read_cell<Cells, field, true>(cells, row, x + i, true);
      }
    }
  }

  /// Cell by cell, of points in the box.
  template <class Cells, int field, int dx>
  SPIDER_DEVICE Numbers read_cells(const typename Cells::Element* cells, const RowSign& row) const {
    Numbers numbers;
    SPIDER_UNROLL
    for (int i = 0; i < columns; ++i) {
      const std::int32_t x = place.x + i;
      const bool is_wanted = around == Surroundings::interior_cells || (x >= place.begin && x < place.end);
      numbers.of[i] = read_cell < Cells, field,
      dx != 0 || around == Surroundings::moved > (cells, row, x + dx, is_wanted);
    }
    return numbers;
  }

  /// The number of column x, which may be `outside`.
  template <class Cells, int field, bool outside>
  SPIDER_DEVICE Number read_cell(const typename Cells::Element* cells, const RowSign& row, std::int32_t x,
                                 bool is_wanted) const {
    Number value;
    if constexpr (is_interior) {
      load_cells<Cells, 1>(cells + x, &value);
      return value;
    } else {
      AxisPlace column{x, 0, false};
      if constexpr (outside && (around == Surroundings::small || around == Surroundings::moved)) {
        column = place_along<Sweep, field, 2>(x, sweep.extent[2]);
      } else if constexpr (outside) {
        column = place_near_field<Sweep, field>(x, static_cast<std::int32_t>(sweep.extent[2]));
      }
      load_cells_if<Cells, 1>(is_wanted && !row.is_constant && column.constant == 0, cells + column.index,
                              &value);
      if (row.negated) value = -value;
      if (row.is_constant) value = row.constant;
      if (column.negated) value = -value;
      return column.constant != 0 ? constant_along<Sweep, field, 2>(column) : value;
    }
  }

  /// Along a periodic axis the value is that of the point which the reads behind it were mapped to.
  template <int field, int axis>
  SPIDER_DEVICE Number bounded_along(std::int32_t i, Number value) const {
    constexpr Face low = face_of<Sweep, field, axis, 0>();
    constexpr Face high = face_of<Sweep, field, axis, 1>();
    if constexpr (low.rule == FaceRule::constant) {
      if (i < 0) value = static_cast<Number>(low.value);
    }
    if constexpr (high.rule == FaceRule::constant) {
      if (i >= sweep.extent[axis]) value = static_cast<Number>(high.value);
    }
    return value;
  }
};

}  // namespace device_4
}  // namespace spider
