/// A sweep of a system of equations for the host: a loop over a row of points, its expressions and offsets
/// known to the compiler. Faces, boxes and storages are the same for all systems:
/// runtime/host/system_sweep.cpp.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/make_kernel.h>
#include <spider/values/each.h>

#include <math.h>  // the functions of expressions, as C names them

#include <cstdint>
#include <type_traits>

#if defined(__clang__)
// Loops that are not vectorised are slower, and correct.
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

// Tells the compiler that no iteration of the next loop reads what another one writes.
#if defined(__clang__)
#define SPIDER_ROUNDS_APART _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define SPIDER_ROUNDS_APART _Pragma("GCC ivdep")
#else
#define SPIDER_ROUNDS_APART
#endif

namespace spider {
inline namespace device_4 {
namespace loops {

/// A row of points along x. Rows and results are Numbers of the sweep.
struct SystemRow {
  const SystemArguments& sweep;
  std::int64_t z, y, x;  ///< of the first point
  std::int64_t count;
  /// For each of SystemSweep::rows, the cell at dx = 0 of the first point; the one cell of a field without
  /// cells along x.
  const void* const* rows;
  /// For each of SystemSweep::written, `count` results. One may be a row that is read, if only at its points.
  /// If `reduces`, those of SystemSweep::reduced follow.
  void* const* results;
  bool reduces;
};

/// A generated file's sweep, the argument of sweep_system().
struct SystemLoop {
  std::int32_t number;        ///< SPIDER_F32 or SPIDER_F64
  const SystemField* fields;  ///< of the system
  SystemSweep sweep;
  void (*compute)(const SystemRow&);
};

/// A number rounded to a storage.
float as_stored(std::int32_t storage, float number);
double as_stored(std::int32_t storage, double number);

/// Sweeps the box of the arguments.
void sweep_system(const SystemLoop& loop, const SystemArguments& arguments);

/// The number in a cell, which may be a ghost cell, at z, y, x.
double find_cell(const SystemField& field, const SystemFieldPlace& memory, const std::int64_t (&extent)[3],
                 const std::int64_t (&at)[3]);

/// The factor by which the cell at index `at` of an axis takes the value at `point`: 1, -1 for its negative,
/// or 0.
int takes_value(const SystemField& field, int axis, std::int64_t extent, std::int64_t at, std::int64_t point);

/// Values that all points of a row share. compute_row() copies them, so that the compiler knows that no
/// result overwrites them.
template <class System>
struct RowValues {
  using Number = typename System::Number;

  const SystemArguments& sweep;
  const Number* cells[System::row_count + 1];
  Number single[System::row_count + 1];  ///< of fields without cells along x
  Number scalars[most_scalars];
  std::int64_t place[3];  ///< of the first point
  std::int64_t first[3];
  std::int64_t extent_of_fields[3];
  Number whole[3];

  explicit RowValues(const SystemRow& row) : sweep(row.sweep), place{row.z, row.y, row.x} {
    for (int k = 0; k < System::row_count; ++k) {
      cells[k] = static_cast<const Number*>(row.rows[k]);
      single[k] = System::fields[System::rows[k].field].axes[2] ? Number{0} : cells[k][0];
    }
    for (int k = 0; k < most_scalars; ++k) {
      if constexpr (std::is_same_v<Number, double>) {
        scalars[k] = row.sweep.wide_scalars[k];
      } else {
        scalars[k] = row.sweep.scalars[k];
      }
    }
    for (int axis = 0; axis < 3; ++axis) {
      first[axis] = row.sweep.first[axis];
      extent_of_fields[axis] = row.sweep.extent[axis];
      whole[axis] = static_cast<Number>(row.sweep.whole[axis]);
    }
  }
};

/// A point that may lie at a ghost cell, where folded() computes.
template <class System>
struct MovedPoint {
  using Number = typename System::Number;
  const SystemArguments& sweep;
  std::int64_t place[3];

  template <int which, int dx>
  Number read() const {
    constexpr ReadRow row = System::rows[which];
    return static_cast<Number>(find_cell(System::fields[row.field], sweep.fields[row.field], sweep.extent,
                                         {place[0] + row.dz, place[1] + row.dy, place[2] + dx}));
  }

  static Number number(Number value) { return value; }
  Number scalar(int which) const {
    if constexpr (std::is_same_v<Number, double>) {
      return sweep.wide_scalars[which];
    } else {
      return sweep.scalars[which];
    }
  }
  Number index(int axis) const { return static_cast<Number>(place[axis] - sweep.first[axis]); }
  Number extent(int axis) const { return static_cast<Number>(sweep.whole[axis]); }

  /// The value where the point at the offset lies inside, else 0.
  template <int dz, int dy, int dx, class Value>
  Number inside(const Value& value) const {
    constexpr int offset[3] = {dz, dy, dx};
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t at = place[axis] + offset[axis];
      if (at < 0 || at >= sweep.extent[axis]) return 0;
    }
    return value();
  }
};

/// A point of a row. Unless `at_faces`, all points that bounded() asks for are inside.
template <class System, bool at_faces>
struct SystemPoint {
  using Number = typename System::Number;
  const RowValues<System>& row;
  std::int64_t i;  ///< of the point in the row

  template <int which, int dx>
  Number read() const {
    if constexpr (System::fields[System::rows[which].field].axes[2]) {
      return row.cells[which][i + dx];
    } else {
      return row.single[which];
    }
  }

  static Number number(Number value) { return value; }
  Number scalar(int which) const { return row.scalars[which]; }

  /// Extents have at most 31 bits: vectors convert such integers.
  Number index(int axis) const {
    const std::int64_t place = axis == 2 ? row.place[2] + i : row.place[axis];
    return static_cast<Number>(static_cast<std::int32_t>(place - row.first[axis]));
  }
  Number extent(int axis) const { return row.whole[axis]; }

  /// Where faces meet, the faster axis has precedence.
  template <int field, int dz, int dy, int dx>
  Number bounded(Number value) const {
    value = bounded_along<field, 0, dz>(value, row.place[0]);
    value = bounded_along<field, 1, dy>(value, row.place[1]);
    return bounded_along<field, 2, dx>(value, row.place[2] + i);
  }

  template <int field>
  static Number stored(Number value) {
    return static_cast<Number>(as_stored(System::fields[field].storage, value));
  }

  /// The sum over the point and the ghost cells, within the reach outside faces, that take its value.
  template <int field, int reach_z, int reach_y, int reach_x, class Value>
  Number folded(const Value& value) const {
    if constexpr (!at_faces) {
      return value(*this);
    } else {
      Number sum = 0;
      for (int z = -reach_z; z <= reach_z; ++z) {
        for (int y = -reach_y; y <= reach_y; ++y) {
          for (int x = -reach_x; x <= reach_x; ++x) {
            const std::int64_t at[3] = {beyond<0>(z), beyond<1>(y), beyond<2>(x)};
            const int sign = sign_of<field, 0>(z, at) * sign_of<field, 1>(y, at) * sign_of<field, 2>(x, at);
            if (sign == 0) continue;
            const Number one = value(MovedPoint<System>{row.sweep, {at[0], at[1], at[2]}});
            sum += sign < 0 ? -one : one;
          }
        }
      }
      return sum;
    }
  }

  /// Only points that are not at faces have it: all cells that they ask for are inside.
  template <int dz, int dy, int dx, class Value>
  Number inside(const Value& value) const {
    return value();
  }

 private:
  /// The index along an axis.
  template <int axis>
  std::int64_t own() const {
    return axis == 2 ? row.place[2] + i : row.place[axis];
  }
  /// The index of a ghost cell, `distance` < 0 below the low face, > 0 above the high one; 0 is the point.
  template <int axis>
  std::int64_t beyond(int distance) const {
    return distance == 0 ? own<axis>() : distance < 0 ? distance : row.extent_of_fields[axis] - 1 + distance;
  }
  template <int field, int axis>
  int sign_of(int distance, const std::int64_t (&at)[3]) const {
    if (distance == 0) return 1;
    return takes_value(System::fields[field], axis, row.extent_of_fields[axis], at[axis], own<axis>());
  }

  /// Along a periodic axis the value is already right: reads outside the face were mapped to the point
  /// inside.
  template <int field, int axis, int offset>
  Number bounded_along(Number value, std::int64_t place) const {
    constexpr Face face = System::fields[field].faces[axis][offset < 0 ? 0 : 1];
    if constexpr (!at_faces || offset == 0 || face.rule != FaceRule::constant ||
                  !System::fields[field].axes[axis]) {
      return value;
    } else {
      const auto at = static_cast<std::int32_t>(place + offset);
      const auto end = static_cast<std::int32_t>(row.extent_of_fields[axis]);
      const bool inside = offset < 0 ? at >= 0 : at < end;
      return inside ? value : static_cast<Number>(face.value);
    }
  }
};

/// Columns begin, begin + 1, ... of a row. All that it calls is inlined, or it would not be vectorised.
template <class System, bool at_faces, bool reduces>
[[gnu::flatten]] void compute_columns(const RowValues<System>& values, typename System::Number* const* to,
                                      std::int64_t begin, std::int64_t end) {
  using Number = typename System::Number;
  constexpr int stored = System::written_count + (reduces ? System::reduced_count : 0);
  Number* results[stored + 1];
  for (int k = 0; k < stored; ++k) results[k] = to[k];
  SPIDER_ROUNDS_APART
  for (std::int64_t i = begin; i < end; ++i) {
    Number computed[System::written_count + System::reduced_count + 1];
    System::compute(SystemPoint<System, at_faces>{values, i}, computed);
    for (int k = 0; k < stored; ++k) results[k][i] = computed[k];
  }
}

/// Loops over the parts of a row. Points near faces have their own loops, which some compilers do not
/// vectorise.
template <class System, bool reduces>
void compute_parts(const SystemRow& row) {
  using Number = typename System::Number;
  const RowValues<System> values(row);
  constexpr int stored = System::written_count + (reduces ? System::reduced_count : 0);
  Number* results[stored + 1];
  for (int k = 0; k < stored; ++k) results[k] = static_cast<Number*>(row.results[k]);
  const auto clear = [&](int axis, std::int64_t place) {
    return place >= System::bounded_low[axis] && place < row.sweep.extent[axis] - System::bounded_high[axis];
  };
  std::int64_t begin = 0;
  std::int64_t end = 0;
  if (clear(0, row.z) && clear(1, row.y)) {
    const auto within = [&](std::int64_t i) { return i < 0 ? 0 : (i < row.count ? i : row.count); };
    begin = within(System::bounded_low[2] - row.x);
    end = within(row.sweep.extent[2] - System::bounded_high[2] - row.x);
    if (end < begin) end = begin;
  }
  compute_columns<System, true, reduces>(values, results, 0, begin);
  compute_columns<System, false, reduces>(values, results, begin, end);
  compute_columns<System, true, reduces>(values, results, end, row.count);
}

template <class System>
void compute_row(const SystemRow& row) {
  if constexpr (System::reduced_count > 0) {
    if (row.reduces) return compute_parts<System, true>(row);
  }
  compute_parts<System, false>(row);
}

template <class System>
struct SystemMeaning {
  static constexpr SystemLoop loop = {
      std::is_same_v<typename System::Number, double> ? SPIDER_F64 : SPIDER_F32, System::fields,
      system_sweep<System>(1), compute_row<System>};
  static void sweep(SystemArguments arguments) { sweep_system(loop, arguments); }
};

}  // namespace loops

/// The only form of a sweep of a system. It has no block grid: the sweep divides its box itself.
template <class System>
constexpr SweepForm system_form() {
  SweepForm form{};
  form.sweep = loops::SystemMeaning<System>::sweep;
  form.tiling.kind = TilingKind::blocks;
  form.tiling.warps_per_block = 1;
  form.tiling.input_alignment = 1;
  form.tiling.output_alignment = 1;
  form.tiling.anchor = 1;
  for (std::int32_t& extent : form.tiling.tile_extent) extent = 1 << 30;
  return form;
}

}  // namespace device_4
}  // namespace spider
