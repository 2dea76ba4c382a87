/// A sweep of a system of equations, on CUDA cores: any fields, storages, faces and expressions. A lane has
/// some neighbouring points of a row; in 3D a warp walks up z, so that rows of planes above come from the L1
/// cache. Prefetches bring the first rows of the next plane to L2. Lanes need nothing of each other.
///
/// In 2D a lane may have some neighbouring rows: it loads all that they read before it computes, and each row
/// once, so that more bytes are under way and less is read and computed again.
///
/// Warps in the interior load vectors. Near faces a warp reads the rows that the rules of each field put in
/// the place of those outside. A vector outside in x comes from one place where the rule is constant or
/// periodic, else cell by cell. spider/loads/system_point.h describes the `Sweep`, spider/sums/reductions.h
/// the numbers that it makes of all points.
#pragma once

#include <spider/kernel.h>
#include <spider/loads/system_point.h>
#include <spider/machine/instructions.h>
#include <spider/sums/reductions.h>
#include <spider/values/cell_numbers.h>
#include <spider/values/each.h>
#include <spider/values/spans.h>

#include <cstdint>
#include <utility>

namespace spider {
inline namespace device_4 {

template <class Sweep>
struct SystemKernel {
  using Number = typename Sweep::Number;
  using Vectors = RowVectors<Sweep, Sweep::columns>;
  using Rows = std::make_integer_sequence<int, Sweep::row_count>;
  using Written = std::make_integer_sequence<int, Sweep::written_count>;
  static constexpr int columns = Sweep::columns;
  // A warp has 32 columns of some rows, so that few warps are at faces in x; in 1D it has one row.
  static constexpr int lanes_across = Sweep::dimensions == 1 ? 32 : 32 / columns;
  static constexpr int warp_columns = lanes_across * columns;
  static constexpr int lines = Sweep::lines;
  static constexpr int warp_rows = 32 / lanes_across * lines;
  static constexpr int warps = 8;
  // In 3D blocks are compact and walks short: blocks drift apart, and halos that they share leave L2.
  static constexpr int warps_across = Sweep::dimensions == 1 ? warps : Sweep::dimensions == 2 ? 4 : 2;
  static constexpr int block_rows = warps / warps_across * warp_rows;
  static constexpr int block_planes = Sweep::dimensions == 3 ? 4 : 1;
  using Reductions = BlockReductions<Sweep, warps>;
  static constexpr bool reduces = Sweep::reduced_count > 0;
  static constexpr int stored = Sweep::written_count + Sweep::reduced_count;

  /// With reductions a block has many tiles, in the order of those of other blocks, and reduces once.
  SPIDER_DEVICE static void run(const SystemArguments& sweep) {
    if constexpr (reduces) {
      if (sweep.reductions != nullptr) Reductions::begin();
      SPIDER_NO_UNROLL
      for (int tile = device::block_index(); tile < sweep.grid.volume.whole_tiles;
           tile += sweep.grid.volume.whole_blocks)
        sweep_tile(sweep, tile);
      if (sweep.reductions != nullptr) Reductions::finish(sweep.reductions);
    } else {
      sweep_tile(sweep, device::block_index());
    }
  }

  SPIDER_DEVICE static void sweep_tile(const SystemArguments& sweep, int tile) {
    const VolumeGrid& grid = sweep.grid.volume;
    const int across = tile % grid.across;
    const int down = tile / grid.across % grid.down;
    const int up = tile / grid.across / grid.down;
    const int warp = device::warp_index();
    const int lane = device::lane_index();
    const std::int32_t warp_x =
        grid.first_column + (across * warps_across + warp % warps_across) * warp_columns;
    const std::int32_t warp_y =
        static_cast<std::int32_t>(sweep.box.offset[1]) + down * block_rows + warp / warps_across * warp_rows;
    const std::int32_t x = warp_x + lane % lanes_across * columns;
    const Span in_box = clip({x, x + columns}, axis_of(sweep.box, 2));
    LanePlace place{0, warp_y + lane / lanes_across * lines, x, in_box.begin, in_box.end};
    const std::int32_t end_y = axis_of(sweep.box, 1).end;
    if (place.y >= end_y || in_box.begin >= in_box.end) return;
    const bool rows_inside =
        warp_y >= reach_low(1) && warp_y + warp_rows - 1 + reach_high(1) < sweep.extent[1];
    const bool columns_inside = warp_x >= sweep.box.offset[2] &&
                                warp_x + warp_columns <= sweep.box.offset[2] + sweep.box.extent[2] &&
                                warp_x + Vectors::lowest_column() >= 0 &&
                                warp_x + warp_columns - columns + Vectors::end_column() <= sweep.extent[2];
    const bool by_cells = rows_inside && columns_inside && warp_y + warp_rows <= end_y &&
                          !sweep.aligned_input && !is_small(sweep);
    const Span planes = axis_of(sweep.box, 0);
    const Span walk =
        clip({planes.begin + up * block_planes, planes.begin + (up + 1) * block_planes}, planes);
    SPIDER_NO_UNROLL
    for (place.z = walk.begin; place.z < walk.end; ++place.z) {
      const bool plane_inside = place.z >= reach_low(0) && place.z + reach_high(0) < sweep.extent[0];
      if constexpr (Sweep::dimensions == 3) {
        const bool is_next_inside = place.z + 1 < walk.end && place.z + 1 + reach_high(0) < sweep.extent[0];
        if (rows_inside && columns_inside && is_next_inside && lane % lanes_across == 0)
          request_next(sweep, place, Rows{});
      }
      if (by_cells && plane_inside) {
        compute_cells(sweep, {place.z, warp_y, warp_x, 0, 0},
                      std::make_integer_sequence<int, cells_together>{});
      } else {
        sweep_lines(sweep, place, end_y, rows_inside && plane_inside, columns_inside);
      }
    }
  }

  /// Prefetches into L2 the row of each field that the next plane reads first.
  template <int... row>
  SPIDER_DEVICE static void request_next(const SystemArguments& sweep, const LanePlace& place,
                                         std::integer_sequence<int, row...> /*rows*/) {
    (request_row<row>(sweep, place), ...);
  }
  /// One row a field, the last in the table: its plane is the highest. The caller checks that it lies inside.
  template <int row>
  SPIDER_DEVICE static void request_row(const SystemArguments& sweep, const LanePlace& place) {
    constexpr ReadRow own = Sweep::rows[row];
    constexpr SystemField facts = Sweep::fields[own.field];
    if constexpr (is_last_of_field(row) && own.dz >= -1 && facts.axes[0] && facts.axes[2]) {
      using Cells = typename CellsOfStorage<facts.storage>::Type;
      const SystemFieldPlace& field = sweep.fields[own.field];
      device::prefetch_point(static_cast<const typename Cells::Element*>(field.data) +
                             (place.z + 1 + own.dz) * field.stride[0] + place.y * field.stride[1] + place.x);
    }
  }
  SPIDER_DEVICE static constexpr bool is_last_of_field(int row) {
    return row + 1 == Sweep::row_count || Sweep::rows[row + 1].field != Sweep::rows[row].field;
  }

  /// The lane's rows of a plane, of which those before `end_y` lie in the box.
  SPIDER_DEVICE static void sweep_lines(const SystemArguments& sweep, const LanePlace& place,
                                        std::int32_t end_y, bool rows_inside, bool columns_inside) {
    if constexpr (lines > 1) {
      const bool is_whole = rows_inside && columns_inside && place.y + lines <= end_y;
      if (is_whole && sweep.aligned_input && !is_small(sweep)) {
        compute_lines(sweep, place, std::make_integer_sequence<int, lines>{});
        return;
      }
    }
    SPIDER_NO_UNROLL
    for (int line = 0; line < lines; ++line) {
      const LanePlace own{place.z, place.y + line, place.x, place.begin, place.end};
      if (own.y < end_y) sweep_line(sweep, own, rows_inside, columns_inside);
    }
  }

  /// Are there so few columns that points may cross faces again and again?
  SPIDER_DEVICE static bool is_small(const SystemArguments& sweep) {
    return sweep.extent[2] < 2 * (Vectors::end_column() - Vectors::lowest_column());
  }

  SPIDER_DEVICE static void sweep_line(const SystemArguments& sweep, const LanePlace& place, bool rows_inside,
                                       bool columns_inside) {
    // Beyond a face there are whole vectors only where the field has whole ones.
    const bool has_vectors = sweep.aligned_input && sweep.extent[2] % columns == 0;
    if (is_small(sweep)) {
      compute_apart<Surroundings::small>(sweep, place);
    } else if (rows_inside && columns_inside && sweep.aligned_input) {
      if constexpr (lines == 1) {
        compute<Surroundings::interior>(sweep, place);
      } else {  // rows that the box cuts
        compute_apart<Surroundings::interior>(sweep, place);
      }
    } else if (rows_inside && columns_inside) {
      compute_apart<Surroundings::interior_cells>(sweep, place);
    } else if (!has_vectors) {
      compute_apart<Surroundings::cells_at_faces>(sweep, place);
    } else if (rows_inside && !Folds<Sweep>::value) {
      compute<Surroundings::columns_at_faces>(sweep, place);
    } else {
      compute_apart<Surroundings::at_faces>(sweep, place);
    }
  }

  SPIDER_DEVICE static Span axis_of(const Box& box, int axis) {
    return {static_cast<std::int32_t>(box.offset[axis]),
            static_cast<std::int32_t>(box.offset[axis] + box.extent[axis])};
  }
  SPIDER_DEVICE static Span clip(const Span& span, const Span& to) {
    return {span.begin > to.begin ? span.begin : to.begin, span.end < to.end ? span.end : to.end};
  }

  SPIDER_DEVICE static constexpr int reach_low(int axis) {
    int reach = Sweep::bounded_low[axis];
    for (int i = 0; i < Sweep::row_count; ++i) {
      const int low = axis == 0 ? -Sweep::rows[i].dz : -Sweep::rows[i].dy;
      reach = low > reach ? low : reach;
    }
    return reach;
  }
  SPIDER_DEVICE static constexpr int reach_high(int axis) {
    int reach = Sweep::bounded_high[axis];
    for (int i = 0; i < Sweep::row_count; ++i) {
      const int high = axis == 0 ? Sweep::rows[i].dz : Sweep::rows[i].dy;
      reach = high > reach ? high : reach;
    }
    return reach;
  }

  /// compute() in a function of its own, whose registers the interior does not pay for.
  template <Surroundings around>
  SPIDER_DEVICE_NOINLINE void compute_apart(const SystemArguments& sweep, const LanePlace place) {
    compute<around>(sweep, place);
  }

  /// All rows of the lane together, in the interior: all its points lie in the box.
  template <int... line>
  SPIDER_DEVICE static void compute_lines(const SystemArguments& sweep, const LanePlace& place,
                                          std::integer_sequence<int, line...> /*lines*/) {
    using Points = LanePoints<Sweep, Surroundings::interior>;
    const LanePlace places[lines] = {{place.z, place.y + line, place.x, place.x, place.x + columns}...};
    typename Points::Numbers results[lines][stored];
    (Sweep::compute(Points{sweep, places[line]}, results[line]), ...);
    (store(sweep, places[line], results[line], Written{}), ...);
    reduce<lines>(sweep, places[0], results[0]);
  }

  /// All points of the warp from `corner` on, in the interior, where rows do not consist of aligned vectors:
  /// neighbouring lanes have neighbouring cells, and a lane some below each other (in 1D 32 apart), which it
  /// loads, where few rows are read, before it computes.
  static constexpr int cells_together = Sweep::row_count <= 8 ? columns : 1;
  template <int... cell>
  SPIDER_DEVICE_NOINLINE void compute_cells(const SystemArguments& sweep, const LanePlace corner,
                                            std::integer_sequence<int, cell...> /*together*/) {
    using Points = LanePoints<Sweep, Surroundings::interior_cells>;
    constexpr int down = Sweep::dimensions == 1 ? 0 : 1;
    constexpr int on = Sweep::dimensions == 1 ? 32 : 0;
    SPIDER_NO_UNROLL
    for (int first = 0; first < columns * lines; first += cells_together) {
      const std::int32_t x = corner.x + device::lane_index() + first * on;
      const std::int32_t y = corner.y + first * down;
      const LanePlace places[cells_together] = {
          {corner.z, y + cell * down, x + cell * on, x + cell * on, x + cell * on + 1}...};
      typename Points::Numbers results[cells_together][stored];
      (Sweep::compute(Points{sweep, places[cell]}, results[cell]), ...);
      (store(sweep, places[cell], results[cell], Written{}), ...);
      reduce<cells_together>(sweep, places[0], results[0]);
    }
  }

  /// Adds the numbers of a lane's lines to the reductions.
  template <int count_of_lines, int count>
  SPIDER_DEVICE static void reduce(const SystemArguments& sweep, const LanePlace& place,
                                   const Pack<Number, count>* results) {
    if constexpr (reduces) {
      if (sweep.reductions != nullptr) {
        Reductions::template add<count_of_lines, stored>(sweep.reductions, results + Sweep::written_count,
                                                         static_cast<int>(place.begin - place.x),
                                                         static_cast<int>(place.end - place.x));
      }
    }
  }

  /// As many points of the lane at a time as LanePoints takes there.
  template <Surroundings around>
  SPIDER_DEVICE static void compute(const SystemArguments& sweep, const LanePlace& place) {
    using Points = LanePoints<Sweep, around>;
    SPIDER_NO_UNROLL
    for (std::int32_t x = place.x; x < place.x + columns; x += Points::columns) {
      const Span in_box = clip({x, x + Points::columns}, {place.begin, place.end});
      if (in_box.begin >= in_box.end) continue;
      const LanePlace part{place.z, place.y, x, in_box.begin, in_box.end};
      typename Points::Numbers results[stored];
      Sweep::compute(Points{sweep, part}, results);
      store(sweep, part, results, Written{});
      reduce<1>(sweep, part, results);
    }
  }

  template <int count, int... i>
  SPIDER_DEVICE static void store(const SystemArguments& sweep, const LanePlace& place,
                                  const Pack<Number, count>* results,
                                  std::integer_sequence<int, i...> /*written*/) {
    (store_field<i>(sweep, place, results[i]), ...);
  }
  template <int i, int count>
  SPIDER_DEVICE static void store_field(const SystemArguments& sweep, const LanePlace& place,
                                        const Pack<Number, count>& results) {
    constexpr int field = Sweep::written[i].field;
    constexpr SystemField facts = Sweep::fields[field];
    using Cells = typename CellsOfStorage<facts.storage>::Type;
    const SystemFieldPlace& own = sweep.fields[field];
    auto* cells = static_cast<typename Cells::Element*>(own.target) + place.z * own.target_stride[0] +
                  place.y * own.target_stride[1] + place.x;
    if (sweep.aligned_output && place.end - place.begin == count) {
      store_cells<Cells, count>(cells, results.of);
      return;
    }
    SPIDER_UNROLL
    for (int c = 0; c < count; ++c) {
      if (place.x + c >= place.begin && place.x + c < place.end)
        store_cells<Cells, 1>(cells + c, results.of + c);
    }
  }
};

template <class Sweep>
SPIDER_GLOBAL(SystemKernel<Sweep>::warps * 32, Sweep::blocks_per_multiprocessor)
sweep_system(SPIDER_GRID_CONSTANT const SystemArguments sweep) {
  SPIDER_ENTRY;
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
  form.tiling.shared_bytes = Kernel::Reductions::shared_bytes;
  form.tiling.walks_tiles = Kernel::reduces;
  form.tiling.anchor = Kernel::columns;
  return form;
}

}  // namespace device_4
}  // namespace spider
