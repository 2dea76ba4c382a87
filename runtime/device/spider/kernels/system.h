/// A sweep of a system of equations, on CUDA cores: any fields, storages, faces and expressions. A lane has
/// some neighbouring points of a row, and loads the rows that they read into registers; in 3D a warp walks up
/// z, so that rows of planes above come from the L1 cache when it gets there. Lanes need nothing of each
/// other.
///
/// Warps whose rows lie inside the field and the box load vectors. At faces, and at the edges of boxes, they
/// load cell by cell, each from where the rules of its field have it. The `Sweep` is described in
/// spider/sums/system_rows.h.
#pragma once

#include <spider/kernel.h>
#include <spider/loads/system_loads.h>
#include <spider/machine/instructions.h>
#include <spider/sums/system_rows.h>

#include <cstdint>
#include <utility>

namespace spider {
inline namespace device_4 {

template <class Sweep>
struct SystemKernel {
  using Number = typename Sweep::Number;
  using Layout = RowLayout<Sweep>;
  using Rows = std::make_integer_sequence<int, Sweep::row_count>;
  using Columns = std::make_integer_sequence<int, Sweep::columns>;
  using Written = std::make_integer_sequence<int, Sweep::written_count>;
  static constexpr int columns = Sweep::columns;
  static constexpr int warp_columns = 32 * columns;
  static constexpr int warps = 8;
  // In 1D the warps of a block follow each other, else each has a row.
  static constexpr int warps_across = Sweep::dimensions == 1 ? warps : 1;
  static constexpr int block_rows = warps / warps_across;
  static constexpr int block_planes = Sweep::dimensions == 3 ? 16 : 1;

  /// A lane's first point, the same for its planes, and how the cells that its points need can be loaded.
  struct Place {
    std::int32_t y, x;
    NeededColumns needed;
    bool inside;  ///< in x and y all that the warp loads lies inside the field, and nothing outside the box
                  ///< is computed
  };

  SPIDER_DEVICE static void run(const SystemArguments& sweep) {
    const VolumeGrid& grid = sweep.grid.volume;
    const int block = device::block_index();
    const int across = block % grid.across;
    const int down = block / grid.across % grid.down;
    const int up = block / grid.across / grid.down;
    const int warp = device::warp_index();
    const Place place = find_place(sweep, across * warps_across + warp % warps_across,
                                   down * block_rows + warp / warps_across);
    if (place.needed.begin >= place.needed.end) return;
    const auto box_end = static_cast<std::int32_t>(sweep.box.offset[0] + sweep.box.extent[0]);
    const std::int32_t first = static_cast<std::int32_t>(sweep.box.offset[0]) + up * block_planes;
    const std::int32_t end = first + block_planes < box_end ? first + block_planes : box_end;
    SPIDER_NO_UNROLL
    for (std::int32_t z = first; z < end; ++z) sweep_plane(sweep, place, z);
  }

  /// `strip`, `row`: the warp's in the box.
  SPIDER_DEVICE static Place find_place(const SystemArguments& sweep, std::int32_t strip, std::int32_t row) {
    const auto box_begin = static_cast<std::int32_t>(sweep.box.offset[2]);
    const auto box_end = static_cast<std::int32_t>(box_begin + sweep.box.extent[2]);
    const std::int32_t warp_x = sweep.grid.volume.first_column + strip * warp_columns;
    Place place{};
    place.y = static_cast<std::int32_t>(sweep.box.offset[1]) + row;
    place.x = warp_x + device::lane_index() * columns;
    const bool has_row = row < sweep.box.extent[1];
    place.needed = {place.x, place.x > box_begin ? place.x : box_begin,
                    has_row && place.x + columns < box_end ? place.x + columns
                    : has_row                              ? box_end
                                                           : 0};
    place.inside = warp_x >= box_begin && warp_x + warp_columns <= box_end &&
                   warp_x + Layout::lowest_column() >= 0 &&
                   warp_x + warp_columns - columns + Layout::end_column() <= sweep.extent[2] &&
                   place.y >= reach_low(1) && place.y + reach_high(1) < sweep.extent[1];
    return place;
  }

  SPIDER_DEVICE static void sweep_plane(const SystemArguments& sweep, const Place& place, std::int32_t z) {
    const bool inside = place.inside && z >= reach_low(0) && z + reach_high(0) < sweep.extent[0];
    LaneRows<Sweep> rows;
    Number results[Sweep::written_count][columns];
    if (inside && sweep.aligned_input) {
      load_inside<true>(sweep, place, z, rows, Rows{});
      compute<false>(sweep, place, z, rows, results, Columns{});
    } else if (inside) {
      load_inside<false>(sweep, place, z, rows, Rows{});
      compute<false>(sweep, place, z, rows, results, Columns{});
    } else {
      load_at_faces(sweep, place, z, rows, Rows{});
      compute<true>(sweep, place, z, rows, results, Columns{});
    }
    store(sweep, place, z, inside && sweep.aligned_output, results, Written{});
  }

  SPIDER_DEVICE static constexpr int reach_low(int axis) {
    int reach = 0;
    for (int i = 0; i < Sweep::row_count; ++i) {
      const int low = axis == 0 ? -Sweep::rows[i].dz : -Sweep::rows[i].dy;
      reach = low > reach ? low : reach;
    }
    return reach;
  }
  SPIDER_DEVICE static constexpr int reach_high(int axis) {
    int reach = 0;
    for (int i = 0; i < Sweep::row_count; ++i) {
      const int high = axis == 0 ? Sweep::rows[i].dz : Sweep::rows[i].dy;
      reach = high > reach ? high : reach;
    }
    return reach;
  }

  template <bool aligned, int... row>
  SPIDER_DEVICE static void load_inside(const SystemArguments& sweep, const Place& place, std::int32_t z,
                                        LaneRows<Sweep>& rows, std::integer_sequence<int, row...> /*rows*/) {
    (load_row_inside<Sweep, row, aligned>(sweep, z, place.y, place.x, rows), ...);
  }

  template <int... row>
  SPIDER_DEVICE static void load_at_faces(const SystemArguments& sweep, const Place& place, std::int32_t z,
                                          LaneRows<Sweep>& rows,
                                          std::integer_sequence<int, row...> /*rows*/) {
    const ColumnPlaces<Sweep> columns_at_faces = find_columns(sweep, place);
    (load_row_at_faces<Sweep, row>(sweep, z, place.y, place.needed, columns_at_faces, rows), ...);
  }

  SPIDER_DEVICE static ColumnPlaces<Sweep> find_columns(const SystemArguments& sweep, const Place& place) {
    ColumnPlaces<Sweep> found;
    find_columns_of(sweep, place, found, std::make_integer_sequence<int, ColumnPlaces<Sweep>::field_count>{});
    return found;
  }
  template <int... field>
  SPIDER_DEVICE static void find_columns_of(const SystemArguments& sweep, const Place& place,
                                            ColumnPlaces<Sweep>& found,
                                            std::integer_sequence<int, field...> /*fields*/) {
    (find_columns_of_field<field>(sweep, place, found), ...);
  }
  template <int field>
  SPIDER_DEVICE static void find_columns_of_field(const SystemArguments& sweep, const Place& place,
                                                  ColumnPlaces<Sweep>& found) {
    using Places = ColumnPlaces<Sweep>;
    if constexpr (Places::first_alike(field) == field) {
      constexpr int set = Places::set_of(field);
      SPIDER_UNROLL
      for (int i = 0; i < Places::count; ++i)
        found.place[set][i] = place_along<Sweep, field, 2>(place.x + Places::lowest + i, sweep.extent[2]);
    }
  }

  template <bool at_faces, int... column>
  SPIDER_DEVICE static void compute(const SystemArguments& sweep, const Place& place, std::int32_t z,
                                    const LaneRows<Sweep>& rows,
                                    Number (&results)[Sweep::written_count][columns],
                                    std::integer_sequence<int, column...> /*columns*/) {
    (compute_column<at_faces, column>(sweep, place, z, rows, results), ...);
  }
  template <bool at_faces, int column>
  SPIDER_DEVICE static void compute_column(const SystemArguments& sweep, const Place& place, std::int32_t z,
                                           const LaneRows<Sweep>& rows,
                                           Number (&results)[Sweep::written_count][columns]) {
    Number own[Sweep::written_count];
    Sweep::compute(LanePoint<Sweep, column, at_faces>{sweep, rows, z, place.y, place.x}, own);
    SPIDER_UNROLL
    for (int i = 0; i < Sweep::written_count; ++i) results[i][column] = own[i];
  }

  template <int... i>
  SPIDER_DEVICE static void store(const SystemArguments& sweep, const Place& place, std::int32_t z,
                                  bool in_vectors, const Number (&results)[Sweep::written_count][columns],
                                  std::integer_sequence<int, i...> /*written*/) {
    (store_field<i>(sweep, place, z, in_vectors, results[i]), ...);
  }
  template <int i>
  SPIDER_DEVICE static void store_field(const SystemArguments& sweep, const Place& place, std::int32_t z,
                                        bool in_vectors, const Number (&results)[columns]) {
    constexpr int field = Sweep::written[i].field;
    using Cells = typename CellsOfStorage<Sweep::fields[field].storage>::Type;
    const SystemFieldPlace& own = sweep.fields[field];
    auto* cells = static_cast<typename Cells::Element*>(own.target) + z * own.target_stride[0] +
                  place.y * own.target_stride[1] + place.x;
    if (in_vectors) {
      store_cells<Cells, columns>(cells, results);
      return;
    }
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      if (place.x + c >= place.needed.begin && place.x + c < place.needed.end)
        device::store_field(cells + c, cell_of_number<Cells>(results[c]));
    }
  }
};

template <class Sweep>
SPIDER_GLOBAL(SystemKernel<Sweep>::warps * 32, Sweep::blocks_per_multiprocessor)
sweep_system(const SystemArguments sweep) {
  SystemKernel<Sweep>::run(sweep);
}

/// The only form of a sweep: blocks of rows of columns, which walk up z.
template <class Sweep>
constexpr SweepForm system_form() {
  using Kernel = SystemKernel<Sweep>;
  SweepForm form{};
  form.sweep = SystemFunction{sweep_system<Sweep>};
  form.tiling.kind = TilingKind::blocks;
  form.tiling.warps_per_block = Kernel::warps;
  form.tiling.tile_extent[0] = Kernel::block_planes;
  form.tiling.tile_extent[1] = Kernel::block_rows;
  form.tiling.tile_extent[2] = Kernel::warps_across * Kernel::warp_columns;
  form.tiling.anchor = Kernel::columns;
  return form;
}

}  // namespace device_4
}  // namespace spider
