/// Systems of equations: the cells that a lane has in registers, and what an expression sees of a point.
///
/// A `Sweep`, one of a generated file's, has as static members
/// - Number: float, or double where any field is f64;
/// - fields: a SystemField for each field; dimensions;
/// - rows, row_count: ReadRow, ascending in (field, dz, dy); written, written_count: WrittenField;
/// - columns: neighbouring points of a lane, 1, 2 or 4; blocks_per_multiprocessor: for the launch;
/// - compute(point, results): results[i] is what written[i] becomes. A point has read<row, dx>(), scalar(i),
///   index(axis), extent(axis) and bounded<field, dz, dy, dx>(value), all of them Numbers.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/values/cells.h>

#include <math.h>  // the functions of expressions, as C names them

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

/// The cells of a storage, SPIDER_F16 and so on.
template <std::int32_t storage>
struct CellsOfStorage {
  using Type = F32Cells;
};
template <>
struct CellsOfStorage<SPIDER_F16> {
  using Type = F16Cells;
};
template <>
struct CellsOfStorage<SPIDER_BF16> {
  using Type = Bf16Cells;
};
template <>
struct CellsOfStorage<SPIDER_F64> {
  using Type = F64Cells;
};

/// A face of a field; side 0 is low. By value: code of a device has no address of the table.
template <class Sweep, int field, int axis, int side>
SPIDER_DEVICE constexpr Face face_of() {
  return Sweep::fields[field].faces[axis][side];
}

/// Where the cells of each row are among a lane's: whole vectors of `columns` cells, counted from that of the
/// lane's own points. A field without cells along x has one cell a row.
template <class Sweep>
struct RowLayout {
  static constexpr int columns = Sweep::columns;

  SPIDER_DEVICE static constexpr int floor_vector(int column) {
    return column / columns - (column % columns < 0 ? 1 : 0);
  }
  SPIDER_DEVICE static constexpr bool has_columns(int row) {
    return Sweep::fields[Sweep::rows[row].field].axes[2];
  }
  SPIDER_DEVICE static constexpr int first_vector(int row) {
    return has_columns(row) ? floor_vector(Sweep::rows[row].low) : 0;
  }
  SPIDER_DEVICE static constexpr int last_vector(int row) {
    return has_columns(row) ? floor_vector(columns - 1 + Sweep::rows[row].high) : 0;
  }
  SPIDER_DEVICE static constexpr int cells(int row) {
    return has_columns(row) ? (last_vector(row) - first_vector(row) + 1) * columns : 1;
  }
  /// The place of a row's first cell.
  SPIDER_DEVICE static constexpr int begin(int row) {
    int begin = 0;
    for (int i = 0; i < row; ++i) begin += cells(i);
    return begin;
  }
  /// The place of the cell at column `column` from the lane's first point.
  SPIDER_DEVICE static constexpr int place(int row, int column) {
    return has_columns(row) ? begin(row) + column - first_vector(row) * columns : begin(row);
  }
  static constexpr int count = begin(Sweep::row_count);

  /// The hull of all rows' vectors, in columns from the lane's first point.
  SPIDER_DEVICE static constexpr int lowest_column() {
    int lowest = 0;
    for (int i = 0; i < Sweep::row_count; ++i) {
      if (has_columns(i) && first_vector(i) < lowest) lowest = first_vector(i);
    }
    return lowest * columns;
  }
  SPIDER_DEVICE static constexpr int end_column() {
    int last = 0;
    for (int i = 0; i < Sweep::row_count; ++i) {
      if (has_columns(i) && last_vector(i) > last) last = last_vector(i);
    }
    return (last + 1) * columns;
  }
};

/// The cells of all rows as numbers; at least one, for there may be no row.
template <class Sweep>
struct LaneRows {
  typename Sweep::Number number[RowLayout<Sweep>::count > 0 ? RowLayout<Sweep>::count : 1];
};

/// What an expression sees of point `column` of a lane. `at_faces`: it may lie near faces.
template <class Sweep, int column, bool at_faces>
struct LanePoint {
  using Number = typename Sweep::Number;

  const SystemArguments& sweep;
  const LaneRows<Sweep>& rows;
  std::int32_t z, y, x;  ///< of the lane's first point

  template <int row, int dx>
  SPIDER_DEVICE Number read() const {
    return rows.number[RowLayout<Sweep>::place(row, column + dx)];
  }
  SPIDER_DEVICE Number scalar(int i) const {
    if constexpr (std::is_same_v<Number, double>) {
      return sweep.wide_scalars[i];
    } else {
      return sweep.scalars[i];
    }
  }
  SPIDER_DEVICE Number index(int axis) const {
    const std::int64_t place = axis == 0 ? z : axis == 1 ? y : x + column;
    return static_cast<Number>(place - sweep.first[axis]);
  }
  SPIDER_DEVICE Number extent(int axis) const { return static_cast<Number>(sweep.whole[axis]); }

  template <int field, int dz, int dy, int dx>
  SPIDER_DEVICE Number bounded(Number value) const {
    if constexpr (at_faces) {
      if constexpr (dz != 0) value = bounded_along<field, 0>(z + dz, value);
      if constexpr (dy != 0) value = bounded_along<field, 1>(y + dy, value);
      if constexpr (dx != 0) value = bounded_along<field, 2>(x + column + dx, value);
    }
    return value;
  }

 private:
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
