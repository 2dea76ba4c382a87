/// Many time steps of a 3D stencil of at most seven points, on CUDA cores: every warp takes all steps.
///
/// A block has a tile of 128 columns by some rows and walks along z; its warps have some rows each, one below
/// the other, and four columns a lane. Level k is the field after k steps. Per level a thread keeps two
/// registers a point: the newest plane (`cells`) and its partial sum (`sums`). Taps along z stay in the
/// thread, so one input plane advances all levels without communication (advance_levels); after one barrier
/// each level adds the x and y neighbours of its newest plane (add_xy_neighbours). Shuffles bring columns;
/// only the first and last row of each warp go through shared memory.
///
/// Faces. Ghost cells of `halo` and `periodic` faces are stepped like interior cells. So are those of
/// mirrored faces if all neighbours have one weight (`cross`), from mirrored input (MirrorAxis). Others are
/// set in registers before the addition: a column and a row of the tile at every step, and along z the newest
/// plane and the one before it. Lanes that lie wholly in the ghost region of a constant face along x keep the
/// constant (`constant_lanes`): they ignore the interior neighbour, and their centre weight makes the weights
/// sum to 1.
///
/// Further fields of an update are staged in shared memory: one plane for each level in flight, and those
/// prefetched. A lane copies the cells of its own points. At mirrored faces they are mirrored as well.
///
/// A `Stencil` has, as static members:
/// - Cells: of spider/values/cells.h;
/// - rows of a warp, at least 2; warps_down, steps; ahead: planes requested ahead;
/// - blocks_per_multiprocessor;
/// - plane_low, plane_high, row_low, row_high, column_low, column_high: lowest and highest offset of a tap,
///   from -1 to 0 and from 0 to 1;
/// - form; center, z_low, z_high, y_low, y_high, x_low, x_high: the weights over `unit`, of the cell itself
///   and of its neighbours, which are 1 if the form is `cross`;
/// - unit, last: after k steps cells are the field's over unit^k; results are multiplied by `last`,
///   unit^steps or near it, so that the weights have the right sum;
/// - back: the factor of the sums of a stencil with an update (spider/sums/update.h), whose cells have no
///   unit;
/// - plane_rules(), row_rules(), column_rules(): the boundary; values are f32 numbers whatever the cells are.
///   None is `antisymmetric`, which is the constant 0 to such taps;
/// - constant_lanes, ghost_center: do lanes keep constants, and the centre weight there that preserves them:
///   with the neighbours' weights the sum is 1 over `unit`.
#pragma once

#include <spider/field/boundary.h>
#include <spider/field/rims_first.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/steps/stepped_points.h>
#include <spider/steps/stepped_tile.h>
#include <spider/steps/stepping.h>
#include <spider/sums/point_inputs.h>
#include <spider/sums/point_queue.h>
#include <spider/sums/update.h>
#include <spider/values/cells.h>

#include <cstdint>
#include <cstring>

namespace spider {
inline namespace device_4 {

/// Which cells of a tile are set at every step.
enum class GhostFill {
  none,
  rows,  ///< outside constant faces along y
  any,
};

/// How a cell's neighbours are added.
enum class LevelForm {
  taps,   ///< a product for each
  cross,  ///< of weight 1: sums of a right and a lower neighbour serve two cells
};

template <class Stencil>
struct Levels3d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_down * 32, Stencil::blocks_per_multiprocessor)
sweep_levels3d(SPIDER_GRID_CONSTANT const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  const TellRimsAtExit tells(field);
  using Kernel = Levels3d<Stencil>;
  typename Kernel::TileSweep walk;
  if (!Kernel::find_tile(field, walk)) return;
  if constexpr (Kernel::sets_cells) {
    const GhostFill found = Kernel::ghost_fill_of(walk);
    if constexpr (Kernel::takes_any) {
      if (found == GhostFill::any) {
        if constexpr (Kernel::boundary_path_is_rare) {
          Kernel::run_boundary_noinline(field);
        } else {
          Kernel::template run<GhostFill::any>(field, walk);
        }
        return;
      }
    }
    if constexpr (Kernel::takes_rows) {
      if (found == GhostFill::rows) {
        Kernel::template run<GhostFill::rows>(field, walk);
        return;
      }
    }
  }
  Kernel::template run<GhostFill::none>(field, walk);
}

/// Shared memory of a plane of all update inputs at points.
template <class Stencil, int rows, int columns>
constexpr int bytes_of_points() {
  if constexpr (UpdateReads<Stencil>::fields > 0)
    return PointQueue<Stencil, StepShape<Stencil>::columns, rows, columns>::plane_bytes;
  return 0;
}

template <class Stencil>
using LevelShape = StepShape<Stencil, Stencil::form == LevelForm::cross>;

template <class Stencil>
struct Levels3dLayout : LevelShape<Stencil> {
  using Shape = LevelShape<Stencil>;
  static constexpr int warps = Shape::warps_down;
  static constexpr int margin_rows = 0;
  /// Two slots more than are prefetched: level 0 rereads the plane before the newest, and neighbouring warps
  /// read its rows until the next barrier.
  static constexpr int input_slots = Shape::ahead + 2;
  static constexpr int edges = input_slots * Shape::height * Shape::input_row_bytes;
  static constexpr int edge_bytes =
      (Shape::steps - 1) * warps * 2 * Shape::row_bytes;  ///< for a plane of each step
  static constexpr int sources = edges + 2 * edge_bytes;
  static constexpr int first_plane = 0;
  static constexpr bool streams_faces = false;
  static constexpr bool prefills_constants = false;
  static constexpr bool has_single_cells = false;
  // If cells outside faces along x are filled or set, tiles there take longer than tiles at other faces.
  SPIDER_DEVICE static constexpr bool acts(FaceRule rule) {
    return !is_open(rule) && !(Stencil::constant_lanes && rule == FaceRule::constant);
  }
  static constexpr bool columns_last = acts(Shape::x_rules.low) || acts(Shape::x_rules.high);
};

template <class Stencil>
struct Levels3d : StepTile<Stencil, Levels3dLayout<Stencil>, Stencil::form == LevelForm::cross> {
  using Layout = Levels3dLayout<Stencil>;
  using Shape = LevelShape<Stencil>;
  using Tile = StepTile<Stencil, Layout, Stencil::form == LevelForm::cross>;
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Arguments = ArgumentsOf<Stencil>;
  using Shared = device::Shared;
  using Tile::ahead, Tile::columns, Tile::rows, Tile::steps, Tile::warps, Tile::width;
  using Tile::back_acts, Tile::front_acts, Tile::input_bytes, Tile::input_row_bytes, Tile::input_slots;
  using Tile::x_rules, Tile::y_rules, Tile::z_rules;
  using typename Tile::CopyPlan, typename Tile::Row, typename Tile::TileSweep, typename Tile::Wanted;
  static constexpr bool is_cross = Stencil::form == LevelForm::cross;
  static constexpr int warp_edges = 2 * Tile::row_bytes;  ///< first row, last row
  static constexpr int level_edges = warps * warp_edges;
  static constexpr int origin =
      (Layout::sources + 4 * Tile::height + 15) / 16 * 16;  ///< column and row of the tile's first cell
  static constexpr int input_columns = origin + 8;          ///< as pack_columns has them; 0 if all is vectors
  static constexpr int ranges = origin + 16;                ///< as find_state says
  static constexpr int walk = ranges + 16;
  static constexpr int walk_vectors = (sizeof(TileSweep) + 15) / 16;
  static constexpr int ghost_lanes = walk + 16 * walk_vectors;
  static constexpr int end_of_walk = ghost_lanes + 4 * 32;
  // For further fields: where the tile's rows and lanes find their cells in a plane, which planes need no
  // mapping, which points a lane fills outside faces; and planes.
  static constexpr int point_fields = UpdateReads<Stencil>::fields;
  static constexpr int point_slots = steps + ahead;
  static constexpr int point_rows = end_of_walk;
  static constexpr int point_columns = point_rows + 4 * Tile::height;
  static constexpr int point_planes = point_columns + 4 * 32;
  static constexpr int mirror_points = point_planes + 16;
  static constexpr int points = point_fields == 0 ? end_of_walk : mirror_points + 8 * 32 * warps;
  static constexpr int shared_bytes = points + point_slots * bytes_of_points<Stencil, Tile::height, width>();
  /// True if mirrored ghost columns are loaded before the level pipeline and stored after it: two-byte ones
  /// took longer so.
  static constexpr bool splits_ghost_copy = Cells::element_bytes == 4;
  static_assert(rows >= 2, "a row beyond a face is set from one of the warp or next to it");
  /// True if ghost lanes of a face along x preserve its constant.
  static constexpr bool low_ghost_lanes_constant =
      Stencil::constant_lanes && Tile::x_rules.low == FaceRule::constant;
  static constexpr bool high_ghost_lanes_constant =
      Stencil::constant_lanes && Tile::x_rules.high == FaceRule::constant;
  /// True if a constant is not 0. (Any weights preserve 0.)
  static constexpr bool ghost_lanes_have_weights =
      steps > 1 && ((low_ghost_lanes_constant && Tile::x_rules.low_value != 0) ||
                    (high_ghost_lanes_constant && Tile::x_rules.high_value != 0));
  /// Faces along x where ghost columns are set at every step; includes a constant at the high face, if that
  /// face splits a lane's four columns.
  static constexpr bool sets_low = Shape::x_axis.is_closed_low() && !low_ghost_lanes_constant;
  static constexpr bool sets_high = Shape::x_axis.is_closed_high();
  /// True if a face along x mirrors the constant of the opposite one, in small fields.
  static constexpr bool mirrors_constant = Shape::x_axis.mirrors() && Shape::columns_end;
  static constexpr bool sets_columns = sets_low || sets_high || mirrors_constant;
  /// Constant ghost rows are set once they are complete, so that the code after the barrier has no branch.
  /// Others are set there, from rows of the same plane.
  static constexpr bool has_constant_rows =
      Shape::rows_end && (!Shape::y_axis.is_closed_low() || Tile::y_rules.low == FaceRule::constant) &&
      (!Shape::y_axis.is_closed_high() || Tile::y_rules.high == FaceRule::constant);
  static constexpr bool sets_rows = Shape::rows_end && !has_constant_rows;
  /// Boundary tiles run their own instantiation; branches around this code cost interior tiles up to 5 %.
  static constexpr bool sets_cells = sets_columns || Shape::rows_end;
  /// True if only lanes split by the high face, or fields narrower than a tile, write ghost columns.
  static constexpr bool boundary_path_is_rare =
      sets_columns && !sets_low && (high_ghost_lanes_constant || !sets_high);
  /// True if tiles that set only rows have a third code. Sharing the code that sets columns cost them 3 %.
  static constexpr bool takes_rows = has_constant_rows && (boundary_path_is_rare || !sets_columns);
  static constexpr bool takes_any = sets_columns || sets_rows;

  /// For each step's input: the cells of its newest plane, and its partial results there.
  using Planes = float[steps][rows][columns];

  /// Skips zero weights: the value may be NaN.
  SPIDER_DEVICE static float add_product(float weight, float value, float sum) {
    return weight != 0.0F ? device::multiply_add(weight, value, sum) : sum;
  }

  // Registers are few: loop invariants that are rarely needed lie in shared memory; extents are read from the
  // arguments.

  SPIDER_DEVICE static std::int32_t extent_of(const SweepArguments& f, int axis) {
    return static_cast<std::int32_t>(f.extent[axis]);
  }

  /// Where taps find the cell at an index of an axis.
  SPIDER_DEVICE static MappedIndex beyond_planes(std::int32_t i, std::int32_t extent) {
    constexpr AxisRules rules = Stencil::plane_rules();
    return find_index(rules, i, extent);
  }
  SPIDER_DEVICE static MappedIndex beyond_rows(std::int32_t i, std::int32_t extent) {
    constexpr AxisRules rules = Stencil::row_rules();
    return find_index(rules, i, extent);
  }
  SPIDER_DEVICE static MappedIndex beyond_columns(std::int32_t i, std::int32_t extent) {
    constexpr AxisRules rules = Stencil::column_rules();
    return find_index(rules, i, extent);
  }

  SPIDER_DEVICE static std::int32_t load_invariant(int place) {
    return static_cast<std::int32_t>(device::load_shared_word(static_cast<Shared>(place)));
  }

  /// A constant outside a face, at step `level`.
  template <int level>
  SPIDER_DEVICE static float constant_of(float value) {
    double power = 1;
    for (int i = 0; i < level; ++i) power *= Stencil::unit;
    return Stencil::unit == 1 ? value : value * static_cast<float>(1 / power);
  }

  /// The constant of a face; in a ghost lane of a face along x, that face's.
  SPIDER_DEVICE static float constant_of_lane(std::uint32_t value) {
    constexpr AxisRules rules = Stencil::column_rules();
    if constexpr (low_ghost_lanes_constant || high_ghost_lanes_constant) {
      const std::uint32_t lane =
          device::load_shared_word(static_cast<Shared>(ghost_lanes + 4 * device::lane_index()));
      if (low_ghost_lanes_constant && (lane & beyond_low) != 0) value = rules.low_value;
      if (high_ghost_lanes_constant && (lane & beyond_high) != 0) value = rules.high_value;
    }
    return device::float_of(value);
  }

  /// A lane's centre weights, by column. Ghost lanes have their own weights, which compensate for the
  /// interior neighbours that they ignore.
  struct CenterWeights {
    float first, inner, last;
  };
  SPIDER_DEVICE static CenterWeights find_center_weights(std::uint32_t lane) {
    constexpr float below = is_cross ? Stencil::y_high : 0.0F;
    constexpr float above = is_cross ? Stencil::y_low : 0.0F;
    CenterWeights centers{Stencil::center, Stencil::center, Stencil::center};
    if constexpr (ghost_lanes_have_weights) {
      if ((lane & (beyond_low | beyond_high)) != 0)
        centers = {Stencil::ghost_center, Stencil::ghost_center, Stencil::ghost_center};
      if ((lane & beside_low) != 0) centers.last += Stencil::x_high + below;
      if ((lane & beside_high) != 0) centers.first += Stencil::x_low + above;
    }
    return centers;
  }
  SPIDER_DEVICE static float multiply_by_center(const CenterWeights& centers, int c, float value, float sum) {
    if constexpr (ghost_lanes_have_weights) {
      const float weight = c == 0 ? centers.first : (c + 1 == columns ? centers.last : centers.inner);
      return device::multiply_add(weight, value, sum);
    } else {
      return add_product(Stencil::center, value, sum);
    }
  }

  /// Loop-invariant state of a lane, except `output`.
  struct WarpState {
    CenterWeights centers;
    std::int32_t stream;        ///< planes of the input
    std::int32_t start;         ///< the first of them
    std::uint32_t stored_rows;  ///< of the warp, bits
    std::uint32_t cells;        ///< what the lane stores and reads, bits
    std::uint32_t flags;        ///< of the warp
    typename Tile::MirrorGhosts mirrors;
    std::int32_t offset[rows];  ///< of its cells in the rows that the warp requests, from a plane's first
    Shared lane_row;            ///< the lane's cells of the warp's first row in a plane of the input
    Shared lane_edges;          ///< and among the rows passed to other warps
    Element* output;            ///< place of the lane's first cell of the next plane
  };

  // Bits of a lane. The lowest: columns that are stored.
  static constexpr std::uint32_t stored_cells = (1U << columns) - 1, reads_columns = 0x100U;
  /// The lane is a ghost lane; and its last, or first, column is next to the face.
  static constexpr std::uint32_t beyond_low = 0x200U, beyond_high = 0x400U;
  static constexpr std::uint32_t beside_low = 0x800U, beside_high = 0x1000U;
  static constexpr std::uint32_t reads_points = 0x2000U;
  // Flags of a warp.
  static constexpr std::uint32_t stores_vectors = 1U;
  static constexpr std::uint32_t at_columns = 2U;     ///< the tile has cells outside a face where x ends
  static constexpr std::uint32_t at_rows = 4U;        ///< the warp has a row at a face where y ends
  static constexpr std::uint32_t fills_columns = 8U;  ///< it has cells in WarpState::mirrors
  static constexpr std::uint32_t points_in_vectors = 16U, fills_points = 32U;  ///< for further fields
  /// The warp has the row outside a constant face where y ends; multiples of these select its row.
  static constexpr std::uint32_t at_low_row = 64U, at_high_row = 128U, low_row = 256U, high_row = 2048U;
  static constexpr std::uint32_t moves_input = 16384U;  ///< its rows may arrive a cell after their places

  // Rows.

  SPIDER_DEVICE static void load_input(Shared from, Row& u) {
    if constexpr (Cells::element_bytes == 4) {
      load_row(from, u);
    } else {
      const device::Pair v = device::load_shared_pair(from);
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) u[c] = Cells::number(v.word[c / 2], c % 2);
    }
  }

  SPIDER_DEVICE static void load_row(Shared from, Row& u) {
    const device::Vector v = device::load_shared(from);
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) u[c] = device::float_of(v.word[c]);
  }

  SPIDER_DEVICE static void store_input(Shared to, const Row& u) {
    if constexpr (Cells::element_bytes == 4) {
      store_edge(to, u);
    } else {
      device::store_shared(to, device::Pair{{Cells::word(u), Cells::word(u + 2)}});
    }
  }

  SPIDER_DEVICE static void store_edge(Shared to, const Row& u) {
    device::Vector v;
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) v.word[c] = device::bits_of(u[c]);
    device::store_shared(to, v);
  }

  SPIDER_DEVICE static void fill_row(float value, Row& u) {
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) u[c] = value;
  }

  SPIDER_DEVICE static float take(float v, int source) {
    return device::float_of(device::shuffle(device::bits_of(v), source));
  }

  /// A value that all lanes share; tells the compiler that they do not diverge.
  SPIDER_DEVICE static std::int32_t warp_uniform(std::int32_t value) {
    return static_cast<std::int32_t>(device::warp_max(static_cast<std::uint32_t>(value)));
  }

  // Along z.

  /// Where a warp is.
  struct PlaneCursor {
    std::int32_t z;      ///< the newest plane of the first step's input
    Shared now;          ///< the lane's cells of the warp's first row in that plane
    Shared before;       ///< and in the plane before
    Shared edges;        ///< the lane's cells of the warp's first row among the rows passed on
    int points;          ///< the slot of further fields' plane that the first step completes
    std::uint32_t lane;  ///< WarpState::cells
    CenterWeights centers;
  };

  /// True if a plane of any step is at a face along z.
  SPIDER_DEVICE static bool is_at_face(const SweepArguments& f, std::int32_t z) {
    constexpr auto along = Shape::planes();
    const std::int32_t end = extent_of(f, 0);
    return ((front_acts || along.has_constant_before()) && z < along.begin(end) + steps + 1) ||
           ((back_acts || along.has_constant_behind()) && z >= along.end(end) - 1);
  }

  /// Sets the newest plane, and the one before, if they are ghost planes; adds to the sum the part that was
  /// not known in time.
  template <int level>
  SPIDER_DEVICE static void fill_ghost_planes(const SweepArguments& f, std::int32_t z, Row& now, Row& before,
                                              Row& sum) {
    const std::int32_t end = extent_of(f, 0);
    constexpr auto along = Shape::planes();
    if constexpr (along.has_constant_before()) {
      if (z == along.begin(end)) fill_row(constant_of<level>(constant_of_lane(along.value_before())), before);
    } else if (front_acts && (z == 0 || z == 1)) {
      const bool is_next = beyond_planes(-1, end).index == 1;
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        if (z == 0) before[c] = is_next ? 0.0F : now[c];
        if (z == 1 && is_next) sum[c] = add_product(Stencil::z_low, now[c], sum[c]);
      }
    }
    if constexpr (along.has_constant_behind()) {
      if (z == along.end(end)) fill_row(constant_of<level>(constant_of_lane(along.value_behind())), now);
    } else if (back_acts && z == end) {
      const bool is_last = beyond_planes(end, end).index == end - 1;
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) now[c] = is_last ? before[c] : 0.0F;
    }
  }

  /// `mirror`: ghost plane n equals plane n - 2 and is added one plane early.
  SPIDER_DEVICE static void add_mirror_plane_early(const SweepArguments& f, std::int32_t z, const Row& before,
                                                   Row& sum) {
    if (!back_acts || Tile::z_rules.high == FaceRule::constant || z != extent_of(f, 0) - 1) return;
    if (beyond_planes(z + 1, extent_of(f, 0)).index != z - 1) return;
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) sum[c] = add_product(Stencil::z_high, before[c], sum[c]);
  }

  /// Turns the sums of row i of the plane that step `level` completes into results; `u` is the step's input
  /// there.
  template <int level, int i>
  SPIDER_DEVICE static void update_row(const Arguments& f, const PlaneCursor& at, const Row& u, Row& sums) {
    static_assert(!UpdateReads<Stencil>::before, "registers have no room for the step before");
    PointInputs<Stencil, columns> inputs;
    if constexpr (point_fields > 0) {
      const int slot = at.points < level ? at.points + point_slots - level : at.points - level;
      Queue::load(plane_of_points(slot), device::warp_index() * rows + i, columns * device::lane_index(),
                  inputs);
    }
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      UpdatePoint point{f, {}, 0, {}, {}};
      if constexpr (UpdateReads<Stencil>::input) point.u = u[c];
      inputs.find_numbers(c, point.field, typename Stencil::FurtherFields{});
      point.sums[0] = sums[c] * Stencil::back;
      sums[c] = Stencil::update(point);
    }
  }

  /// Row i of the next plane of level `level` + 1 and of all later levels. `before` is the plane of level
  /// `level` before its newest one, and becomes that of the next level: its registers are overwritten on the
  /// way. `out` becomes the result of all steps.
  template <int level, int i, bool near_face>
  SPIDER_DEVICE static void advance_levels(const Arguments& f, const PlaneCursor& at, Planes& cells,
                                           Planes& sums, Row& before, Row& out) {
    Row& now = cells[level][i];
    Row& sum = sums[level][i];
    if constexpr (near_face) fill_ghost_planes<level>(f, at.z - level, now, before, sum);
    Row next;
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      next[c] = is_cross ? sum[c] + now[c] : add_product(Stencil::z_high, now[c], sum[c]);
      sum[c] = multiply_by_center(at.centers, c, now[c],
                                  is_cross ? before[c] : add_product(Stencil::z_low, before[c], 0.0F));
    }
    if constexpr (near_face) add_mirror_plane_early(f, at.z - level, before, sum);
    if constexpr (HasUpdate<Stencil>::value) update_row<level, i>(f, at, before, next);
    if constexpr (level + 1 < steps) {
      if constexpr (i == 0) store_edge(at.edges + static_cast<Shared>(level * level_edges), next);
      if constexpr (i == rows - 1)
        store_edge(at.edges + static_cast<Shared>(level * level_edges + Tile::row_bytes), next);
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        before[c] = cells[level + 1][i][c];
        cells[level + 1][i][c] = next[c];
      }
      advance_levels<level + 1, i, near_face>(f, at, cells, sums, before, out);
    } else {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) out[c] = next[c];
    }
  }

  template <int i, bool near_face, class Finish>
  SPIDER_DEVICE static void complete_row(const Arguments& f, const PlaneCursor& at, Planes& cells,
                                         Planes& sums, const Finish& finish) {
    Row before;
    Row out;
    load_input(at.before + static_cast<Shared>(i * input_row_bytes), before);
    load_input(at.now + static_cast<Shared>(i * input_row_bytes), cells[0][i]);
    advance_levels<0, i, near_face>(f, at, cells, sums, before, out);
    finish(i, out);
  }

  /// First and last row first: other warps wait for them.
  template <int i, bool near_face, class Finish>
  SPIDER_DEVICE static void advance_rows(const Arguments& f, const PlaneCursor& at, Planes& cells,
                                         Planes& sums, const Finish& finish) {
    constexpr int row = i == 0 ? 0 : (i == 1 ? rows - 1 : i - 1);
    complete_row<row, near_face>(f, at, cells, sums, finish);
    if constexpr (i + 1 < rows) advance_rows<i + 1, near_face>(f, at, cells, sums, finish);
  }

  // In a plane.

  /// Sets the column before the low face, of all steps; lane `is_here` has it last.
  template <int level>
  SPIDER_DEVICE static void fill_low_ghost_column(const MappedIndex& from, bool is_here, Planes& cells) {
    SPIDER_UNROLL
    for (int i = 0; i < rows; ++i) {
      Row& u = cells[level][i];
      const float taken = take(from.index == 1 ? u[1] : u[0], device::lane_index() + 1);
      if (is_here) u[columns - 1] = from.constant ? constant_of<level>(device::float_of(from.value)) : taken;
    }
    if constexpr (level + 1 < steps) fill_low_ghost_column<level + 1>(from, is_here, cells);
  }

  /// Sets the column after the high face, of all steps; lane `is_here` has it as its column c.
  template <int level, int c>
  SPIDER_DEVICE static void fill_high_ghost_column(const MappedIndex& from, bool is_last, bool is_here,
                                                   Planes& cells) {
    SPIDER_UNROLL
    for (int i = 0; i < rows; ++i) {
      Row& u = cells[level][i];
      // The last column or the last but one, of this lane or the one before.
      float taken = 0;
      if constexpr (c < 2)
        taken = take(c == 0 && !is_last ? u[columns - 2] : u[columns - 1], device::lane_index() + 31);
      const float last = c == 0 ? taken : u[c > 0 ? c - 1 : 0];
      const float other = c < 2 ? taken : u[c > 1 ? c - 2 : 0];
      if (is_here)
        u[c] = from.constant ? constant_of<level>(device::float_of(from.value)) : (is_last ? last : other);
    }
    if constexpr (level + 1 < steps) fill_high_ghost_column<level + 1, c>(from, is_last, is_here, cells);
  }

  /// Sets the column after the high face; constant lanes may cover a face between two lanes.
  template <int c>
  SPIDER_DEVICE static void fill_high_ghost_columns(std::int32_t end, std::int32_t place, Planes& cells) {
    if (place % columns == c) {
      const MappedIndex from = beyond_columns(end, end);
      fill_high_ghost_column<0, c>(from, from.index == end - 1, device::lane_index() == place / columns,
                                   cells);
    } else if constexpr (c + 1 < columns) {
      fill_high_ghost_columns<c + 1>(end, place, cells);
    }
  }

  /// The column of the tile where a mirrored face shows the constant; outside the tile if there is none.
  SPIDER_DEVICE static std::int32_t find_mirrored_constant(std::int32_t end, std::int32_t x0) {
    constexpr auto along = Shape::across();
    return (along.mirrors_low ? along.begin(end) - 1 : along.end(end)) - x0;
  }

  /// Sets it, of all steps, if a lane has it as one of its columns.
  template <int level>
  SPIDER_DEVICE static void fill_mirrored_column(const bool (&is_here)[columns], Planes& cells) {
    constexpr auto along = Shape::across();
    const float value =
        constant_of<level>(device::float_of(along.mirrors_low ? along.value_before() : along.value_behind()));
    SPIDER_UNROLL
    for (int i = 0; i < rows; ++i) {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) cells[level][i][c] = is_here[c] ? value : cells[level][i][c];
    }
    if constexpr (level + 1 < steps) fill_mirrored_column<level + 1>(is_here, cells);
  }

  SPIDER_DEVICE static void set_columns(std::int32_t end, std::int32_t x0, Planes& cells) {
    if constexpr (mirrors_constant) {
      const std::int32_t place = find_mirrored_constant(end, x0);
      bool is_here[columns];
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) is_here[c] = columns * device::lane_index() + c == place;
      if (place >= 0 && place < width) fill_mirrored_column<0>(is_here, cells);
    }
    if constexpr (sets_low) {
      if (x0 < 0)
        fill_low_ghost_column<0>(beyond_columns(-1, end), device::lane_index() == (-x0 - 1) / columns, cells);
    }
    if constexpr (sets_high) {
      const std::int32_t place = end - x0;
      if (place >= 0 && place < width)
        fill_high_ghost_columns<high_ghost_lanes_constant ? 1 : 0>(end, place, cells);
    }
  }

  /// Row i among those from the one above the warp's, -1, to the one below.
  SPIDER_DEVICE static float row_at(const Row (&u)[rows], const Row& above, const Row& below, int i, int c) {
    return i < 0 ? above[c] : (i >= rows ? below[c] : u[i < 0 ? 0 : (i >= rows ? 0 : i)][c]);
  }

  /// Fills ghost row i from its nearest or second nearest interior row, or by a constant.
  template <int level>
  SPIDER_DEVICE static void set_row(Row (&u)[rows], Row& above, Row& below, int i, const MappedIndex& from,
                                    std::int32_t beyond, int towards) {
    const bool is_next = from.index == beyond + towards;
    const float constant = from.constant ? constant_of<level>(constant_of_lane(from.value)) : 0.0F;
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      const int second = i + 2 * towards;
      const float next = row_at(u, above, below, i + towards, c);
      // It is missing in this warp only if no stored output needs it.
      const float other = second < -1 || second > rows ? next : row_at(u, above, below, second, c);
      const float value = from.constant ? constant : (is_next ? next : other);
      (i < 0 ? above : (i >= rows ? below : u[i < 0 ? 0 : (i >= rows ? 0 : i)]))[c] = value;
    }
  }

  /// Sets row i of all steps, outside a face that has a constant, and its copy for other warps.
  template <int level, int i>
  SPIDER_DEVICE static void set_constant_row(float constant, const PlaneCursor& at, Planes& cells) {
    const float value = constant_of<level>(constant);
    Row& u = cells[level][i];
    fill_row(value, u);
    const Shared edges = at.edges + static_cast<Shared>((level - 1) * level_edges);
    if constexpr (level == 0) store_input(at.now + static_cast<Shared>(i * input_row_bytes), u);
    if constexpr (level > 0 && i == 0) store_edge(edges, u);
    if constexpr (level > 0 && i == rows - 1) store_edge(edges + static_cast<Shared>(Tile::row_bytes), u);
    if constexpr (level + 1 < steps) set_constant_row<level + 1, i>(constant, at, cells);
  }

  /// A switch, since this warp is on the critical path to the barrier.
  SPIDER_DEVICE static void find_constant_row(float constant, std::uint32_t row, const PlaneCursor& at,
                                              Planes& cells) {
    static_assert(rows <= 8, "cases of all rows");
    switch (row) {
      case 0:
        set_constant_row<0, 0>(constant, at, cells);
        break;
      case 1:
        set_constant_row<0, 1 < rows ? 1 : 0>(constant, at, cells);
        break;
      case 2:
        set_constant_row<0, 2 < rows ? 2 : 0>(constant, at, cells);
        break;
      case 3:
        set_constant_row<0, 3 < rows ? 3 : 0>(constant, at, cells);
        break;
      case 4:
        set_constant_row<0, 4 < rows ? 4 : 0>(constant, at, cells);
        break;
      case 5:
        set_constant_row<0, 5 < rows ? 5 : 0>(constant, at, cells);
        break;
      case 6:
        set_constant_row<0, 6 < rows ? 6 : 0>(constant, at, cells);
        break;
      default:
        set_constant_row<0, 7 < rows ? 7 : 0>(constant, at, cells);
        break;
    }
  }

  /// Sets the warp's rows outside faces with constants, and the rows that mirror those if requested.
  template <bool shown_too>
  SPIDER_DEVICE static void fill_constant_rows(std::uint32_t flags, const PlaneCursor& at, Planes& cells) {
    constexpr auto along = Shape::lines();
    if constexpr (along.has_constant_before() && (shown_too || along.is_closed_low())) {
      if ((flags & at_low_row) != 0)
        find_constant_row(constant_of_lane(along.value_before()), flags / low_row % 8, at, cells);
    }
    if constexpr (along.has_constant_behind() && (shown_too || along.is_closed_high())) {
      if ((flags & at_high_row) != 0)
        find_constant_row(constant_of_lane(along.value_behind()), flags / high_row % 8, at, cells);
    }
  }

  /// Sets the row outside a face, of a step.
  template <int level>
  SPIDER_DEVICE static void fill_ghost_rows(std::int32_t end, std::int32_t y, Row (&u)[rows], Row& above,
                                            Row& below) {
    if constexpr (Shape::y_axis.is_closed_low()) {
      if (y <= 0 && y > -rows - 1) {
        const MappedIndex from = beyond_rows(-1, end);
        SPIDER_UNROLL
        for (int i = -1; i < rows; ++i) {
          if (y + i == -1) set_row<level>(u, above, below, i, from, -1, 1);
        }
      }
    }
    if constexpr (Shape::y_axis.is_closed_high()) {
      if (y <= end && y + rows >= end) {
        const MappedIndex from = beyond_rows(end, end);
        SPIDER_UNROLL
        for (int i = 0; i <= rows; ++i) {
          if (y + i == end) set_row<level>(u, above, below, i, from, end, -1);
        }
      }
    }
  }

  /// Adds a step's newest plane to its own sum.
  SPIDER_DEVICE static void add_neighbours(std::uint32_t bits, const Row (&u)[rows], const Row& above,
                                           const Row& below, Row (&sum)[rows]) {
    const int lane = device::lane_index();
    // Constant ghost lanes add nothing from the interior.
    const bool takes_right = !low_ghost_lanes_constant || (bits & beside_low) == 0;
    const bool takes_left = !high_ghost_lanes_constant || (bits & beside_high) == 0;
    // Sums of a cell's right and lower neighbour, in the row above.
    Row corners;
    if constexpr (is_cross) {
      const float right = take(above[0], lane + 1);
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c)
        corners[c] = (c + 1 < columns ? above[c + 1 < columns ? c + 1 : c] : right) + u[0][c];
    }
    SPIDER_UNROLL
    for (int i = 0; i < rows; ++i) {
      const float right = take(u[i][0], lane + 1);
      const float left = take(is_cross ? corners[columns - 1] : u[i][columns - 1], lane + 31);
      Row next;
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        const float right_one = c + 1 < columns ? u[i][c + 1 < columns ? c + 1 : c] : right;
        const float lower = i + 1 < rows ? u[i + 1 < rows ? i + 1 : i][c] : below[c];
        if constexpr (is_cross) {
          next[c] = right_one + lower;
          if (c + 1 < columns || takes_right) sum[i][c] += next[c];
          if (c > 0 || takes_left) sum[i][c] += c > 0 ? corners[c > 0 ? c - 1 : 0] : left;
        } else {
          const float upper = i > 0 ? u[i > 0 ? i - 1 : 0][c] : above[c];
          if (c > 0 || takes_left)
            sum[i][c] = add_product(Stencil::x_low, c > 0 ? u[i][c > 0 ? c - 1 : 0] : left, sum[i][c]);
          if (c + 1 < columns || takes_right) sum[i][c] = add_product(Stencil::x_high, right_one, sum[i][c]);
          sum[i][c] = add_product(Stencil::y_low, upper, sum[i][c]);
          sum[i][c] = add_product(Stencil::y_high, lower, sum[i][c]);
        }
      }
      if constexpr (is_cross) {
        SPIDER_UNROLL
        for (int c = 0; c < columns; ++c) corners[c] = next[c];
      }
    }
  }

  template <int level, bool near_face>
  SPIDER_DEVICE static void add_xy_neighbours(const SweepArguments& f, const PlaneCursor& at, Planes& cells,
                                              Planes& sums) {
    const int warp = device::warp_index();
    Row above;
    Row below;
    // The first and the last warp read a row of their own there: the tile's outermost rows are not stored.
    if constexpr (level == 0) {
      load_input(at.now - static_cast<Shared>(warp > 0 ? input_row_bytes : 0), above);
      load_input(at.now + static_cast<Shared>((warp + 1 < warps ? rows : rows - 1) * input_row_bytes), below);
    } else {
      const Shared own = at.edges + static_cast<Shared>((level - 1) * level_edges);
      load_row(own - static_cast<Shared>(warp > 0 ? warp_edges - Tile::row_bytes : 0), above);
      load_row(own + static_cast<Shared>(warp + 1 < warps ? warp_edges : Tile::row_bytes), below);
    }
    if constexpr (near_face) {
      fill_ghost_rows<level>(extent_of(f, 1), load_invariant(origin + 4) + warp * rows, cells[level], above,
                             below);
    }
    add_neighbours(at.lane, cells[level], above, below, sums[level]);
    if constexpr (level + 1 < steps) add_xy_neighbours<level + 1, near_face>(f, at, cells, sums);
  }

  // Planes.

  SPIDER_DEVICE static TileSweep load_sweep() {
    device::Vector v[walk_vectors];
    SPIDER_UNROLL
    for (int i = 0; i < walk_vectors; ++i) v[i] = device::load_shared(static_cast<Shared>(walk + 16 * i));
    TileSweep w;
    std::memcpy(&w, &v, sizeof(TileSweep));
    return w;
  }

  SPIDER_DEVICE static typename Tile::Columns unpack(std::int32_t packed) {
    return Tile::unpack_columns(static_cast<std::uint32_t>(packed));
  }

  /// Requests plane b of the stream if not all of it comes in vectors: out of line, or the loop would be
  /// longer by a third.
  SPIDER_DEVICE_NOINLINE void prefetch_plane_slow(const SweepArguments& f, std::int32_t b) {
    const TileSweep w = load_sweep();
    const std::int32_t packed = load_invariant(input_columns);
    if (packed != 0) return Tile::load_by_words(f, w, unpack(packed), b);
    CopyPlan piece = Tile::plan_copies(f, w);
    Tile::find_offsets(f, piece);
    Tile::request_whole(f, w, piece, b);
  }

  /// Post-load fix-up for few tiles: realigns rows of plane b, which lies in a slot, and fills mirrored ghost
  /// columns.
  SPIDER_DEVICE_NOINLINE void finish_load(const SweepArguments& f, std::uint32_t flags,
                                          typename Tile::MirrorGhosts mirrors, std::int32_t b, int slot) {
    device::copy_async_wait<ahead - 1>();
    if (Tile::splits_words && (flags & moves_input) != 0)
      Tile::realign_rows(f, load_sweep(), unpack(load_invariant(input_columns)), b);
    device::sync_warp();
    if (!Shape::x_axis.mirrors() || (flags & fills_columns) == 0) return;
    const auto plane = static_cast<Shared>(slot * input_bytes);
    typename Tile::GhostCells cells{};
    Tile::load_mirror_ghosts(mirrors, plane, cells);
    Tile::store_mirror_ghosts(mirrors, plane, cells);
  }

  /// Requests plane b of the stream for a slot.
  SPIDER_DEVICE static void prefetch_plane(const SweepArguments& f, const WarpState& state, std::int32_t b,
                                           int slot, bool is_plain) {
    if (is_plain) {
      const Element* const plane =
          static_cast<const Element*>(f.input) + (state.start + b) * f.input_stride[0];
      const auto to = static_cast<Shared>(slot * input_bytes + device::warp_index() * input_row_bytes +
                                          columns * Cells::element_bytes * device::lane_index());
      const bool wanted = (state.cells & reads_columns) != 0;
      SPIDER_UNROLL
      for (int n = 0; n < rows; ++n) {
        const Shared row = to + static_cast<Shared>(n * warps * input_row_bytes);
        if constexpr (Cells::element_bytes == 4) {
          device::copy_async_if(wanted, row, plane + state.offset[n]);
        } else {
          device::copy_pair_async_if(wanted, row, plane + state.offset[n]);
        }
      }
    } else {
      prefetch_plane_slow(f, b);
    }
  }

  // Further fields.

  using Queue = PointQueue<Stencil, columns, Tile::height, width>;

  SPIDER_DEVICE static Shared plane_of_points(int slot) {
    return static_cast<Shared>(points + slot * Queue::plane_bytes);
  }

  /// The cells of an axis that all steps but the first reach from the box.
  template <class Axis>
  SPIDER_DEVICE static FarSpan find_span_of_points(const Axis& along, const SweepArguments& f, int axis,
                                                   int low, int high) {
    constexpr int later = steps - 1;
    const FarSpan box{f.box.offset[axis], f.box.offset[axis] + f.box.extent[axis]};
    const FarSpan reached{box.begin + later * low, box.end + later * high};
    if (!along.mirrors()) {
      return find_points(along.rules,
                         find_readable(along.rules, box, later * low, later * high, f.extent[axis]),
                         f.extent[axis]);
    }
    return {along.is_closed_low() && reached.begin < 0 ? 0 : reached.begin,
            along.is_closed_high() && reached.end > f.extent[axis] ? f.extent[axis] : reached.end};
  }

  /// The index in a field for points of index i; clamped if no stored output depends on it.
  template <class Axis>
  SPIDER_DEVICE static std::int32_t find_index_of_points(const Axis& along, const SweepArguments& f, int axis,
                                                         int low, int high, std::int32_t i) {
    const FarSpan span = find_span_of_points(along, f, axis, low, high);
    if (!along.mirrors()) return static_cast<std::int32_t>(find_point(along.rules, span, i, f.extent[axis]));
    const std::int64_t near = i < span.begin ? span.begin : (i >= span.end ? span.end - 1 : i);
    const std::int32_t end = extent_of(f, axis);
    const std::int32_t mirrored = mirror_index(along.rules, static_cast<std::int32_t>(near), end);
    // Where a face shows the constant of the opposite one, nothing is needed.
    return along.is_closed_low() && mirrored < 0
               ? 0
               : (along.is_closed_high() && mirrored >= end ? end - 1 : mirrored);
  }

  /// The columns of a lane's points that have fields in memory, as bits, and the first one's index; columns
  /// outside a mirrored face are filled.
  struct PointColumns {
    std::uint32_t wanted;
    std::int32_t from;
    bool is_vector;
  };
  SPIDER_DEVICE static PointColumns find_point_columns(const SweepArguments& f, const TileSweep& w) {
    constexpr auto along = Shape::across();
    FarSpan span = find_span_of_points(along, f, 2, Stencil::column_low, Stencil::column_high);
    if (along.mirrors_low && span.begin < 0) span.begin = 0;
    if (along.mirrors_high && span.end > f.extent[2]) span.end = f.extent[2];
    const std::int32_t x = w.x0 + columns * device::lane_index();
    PointColumns found{0, static_cast<std::int32_t>(wrap_index(along.rules, x, w.extent[2])), false};
    for (int c = 0; c < columns; ++c) {
      if (x + c >= span.begin && x + c < span.end) found.wanted |= 1U << c;
    }
    found.is_vector = f.aligned_output && found.wanted == stored_cells && found.from % columns == 0 &&
                      (along.rules.low != FaceRule::periodic || found.from + columns <= w.extent[2]);
    return found;
  }

  /// A point of the warp's rows outside each face along x that a lane fills, and in the lower half its source
  /// in the same row, counted as a queue counts points; 0 if there is none.
  SPIDER_DEVICE static std::uint32_t find_mirror_point(const TileSweep& w, std::int32_t first, int towards) {
    constexpr auto rules = Shape::across().rules;
    const int n = device::lane_index();
    const int row = device::warp_index() * rows + n % rows;
    const std::int32_t x = first - towards * (n / rows);
    const std::int32_t source = mirror_index(rules, x, w.extent[2]);
    const bool is_here =
        n < rows * steps && x >= w.x0 && x < w.x0 + width && source >= w.x0 && source < w.x0 + width;
    const auto place = [&](std::int32_t column) {
      return static_cast<std::uint32_t>(row * width + column - w.x0);
    };
    return is_here ? place(x) << 16U | place(source) : 0;
  }

  /// Lists all of these, and sets bits of WarpState::cells and WarpState::flags.
  SPIDER_DEVICE static void list_points(const SweepArguments& f, const TileSweep& w, WarpState& state) {
    if constexpr (point_fields > 0) {
      constexpr auto along = Shape::lines();
      const int lane = device::lane_index();
      for (int j = Tile::thread_index(); j < Tile::height; j += warps * 32) {
        const std::int32_t y =
            find_index_of_points(along, f, 1, Stencil::row_low, Stencil::row_high, w.y0 + j);
        device::store_shared(static_cast<Shared>(point_rows + 4 * j), static_cast<std::uint32_t>(y));
      }
      const PointColumns found = find_point_columns(f, w);
      if (Tile::thread_index() == 0) {
        constexpr auto planes = Shape::planes();
        const FarSpan span = find_span_of_points(planes, f, 0, Stencil::plane_low, Stencil::plane_high);
        device::store_shared(static_cast<Shared>(point_planes),
                             static_cast<std::uint32_t>(span.begin < 0 ? 0 : span.begin));
        device::store_shared(static_cast<Shared>(point_planes + 4),
                             static_cast<std::uint32_t>(span.end < f.extent[0] ? span.end : f.extent[0]));
      }
      if (device::warp_index() == 0) {
        device::store_shared(static_cast<Shared>(point_columns + 4 * lane),
                             static_cast<std::uint32_t>(found.from));
      }
      const bool is_broken = found.wanted != 0 && !found.is_vector;
      device::Pair points{};
      if constexpr (Shape::x_axis.mirrors()) {
        constexpr auto across = Shape::across();
        if (across.mirrors_low) points.word[0] = find_mirror_point(w, -1, 1);
        if (across.mirrors_high) points.word[1] = find_mirror_point(w, w.extent[2], -1);
        device::store_shared(static_cast<Shared>(mirror_points + 8 * Tile::thread_index()), points);
      }
      const bool fills = (points.word[0] | points.word[1]) != 0;
      state.cells |= found.wanted != 0 ? reads_points : 0U;
      state.flags |= device::warp_max(fills ? fills_points : 0U) |
                     (device::warp_max(is_broken ? 1U : 0U) != 0 ? 0U : points_in_vectors);
    }
  }

  /// Requests the points' fields of plane b of the stream for a slot.
  SPIDER_DEVICE static void prefetch_fields(const Arguments& f, const WarpState& state, std::int32_t b,
                                            int slot) {
    if constexpr (point_fields > 0) {
      std::int32_t z = state.start + b;
      if (z < load_invariant(point_planes) || z >= load_invariant(point_planes + 4)) {
        constexpr auto along = Shape::planes();
        z = find_index_of_points(along, f, 0, Stencil::plane_low, Stencil::plane_high, z);
      }
      const int first = device::warp_index() * rows;
      const int lane = device::lane_index();
      const Shared plane = plane_of_points(slot);
      if ((state.flags & points_in_vectors) != 0) {
        const std::int32_t x = load_invariant(point_columns + 4 * lane);
        SPIDER_UNROLL
        for (int i = 0; i < rows; ++i) {
          Queue::start(f, {z, load_invariant(point_rows + 4 * (first + i)), x},
                       (state.cells & reads_points) != 0, plane, first + i, columns * lane);
        }
      } else {
        const TileSweep w = load_sweep();
        constexpr auto along = Shape::across();
        const std::uint32_t wanted = find_point_columns(f, w).wanted;
        SPIDER_NO_UNROLL
        for (int i = 0; i < rows * columns; ++i) {
          const int column = columns * lane + i % columns;
          const std::int64_t x = wrap_index(along.rules, w.x0 + column, w.extent[2]);
          const bool is_wanted = (wanted >> i % columns & 1U) != 0;
          Queue::start_point(f,
                             {z, load_invariant(point_rows + 4 * (first + i / columns)), is_wanted ? x : 0},
                             is_wanted, plane, first + i / columns, column);
        }
      }
    }
  }

  /// Fills points outside faces along x of a plane that has arrived.
  SPIDER_DEVICE static void fill_ghost_points(const WarpState& state, int slot) {
    if constexpr (point_fields > 0 && Shape::x_axis.mirrors()) {
      if ((state.flags & fills_points) == 0) return;
      const device::Pair points =
          device::load_shared_pair(static_cast<Shared>(mirror_points + 8 * Tile::thread_index()));
      SPIDER_UNROLL
      for (const std::uint32_t pair : points.word) {
        Queue::copy_point(pair != 0, plane_of_points(slot), static_cast<int>(pair & 0xffffU),
                          static_cast<int>(pair >> 16U));
      }
      device::sync_warp();
    }
  }

  /// Plane b of the stream, which lies in a slot: completes planes of all steps and adds them. `sets`: the
  /// cells of the tile that are set at every step.
  template <int parity, GhostFill sets>
  SPIDER_DEVICE static void take_plane(const Arguments& f, WarpState& state, std::int32_t b, int& slot,
                                       int& point_slot, Planes& cells, Planes& sums) {
    const device::Vector range = device::load_shared(static_cast<Shared>(ranges));
    const auto word = [&](int i) { return static_cast<std::int32_t>(range.word[i]); };
    const int before = slot == 0 ? input_slots - 1 : slot - 1;
    if (b + ahead < state.stream) {
      const int next = slot + ahead < input_slots ? slot + ahead : slot + ahead - input_slots;
      prefetch_plane(f, state, b + ahead, next, b + ahead >= word(0) && b + ahead < word(1));
    }
    if (b + ahead - 1 < state.stream) {
      const int next = point_slot + ahead;
      prefetch_fields(f, state, b + ahead - 1, next < point_slots ? next : next - point_slots);
    }
    device::copy_async_commit();
    const int following = slot + 1 == input_slots ? 0 : slot + 1;
    // The code between load and store hides the latency of shared memory.
    typename Tile::GhostCells ghosts{};
    const bool fills = Shape::x_axis.mirrors() && (state.flags & fills_columns) != 0;
    if constexpr (!splits_ghost_copy) {
      if ((state.flags & (fills_columns | moves_input)) != 0 && b + 1 < state.stream)
        finish_load(f, state.flags, state.mirrors, b + 1, following);
    } else if (fills) {
      device::copy_async_wait<ahead - 1>();
      device::sync_warp();
      Tile::load_mirror_ghosts(state.mirrors, static_cast<Shared>(following * input_bytes), ghosts);
    }
    const PlaneCursor at{state.start + b,
                         static_cast<Shared>(slot * input_bytes) + state.lane_row,
                         static_cast<Shared>(before * input_bytes) + state.lane_row,
                         state.lane_edges + static_cast<Shared>(parity * Layout::edge_bytes),
                         point_slot,
                         state.cells,
                         state.centers};
    const std::uint32_t stored_rows = b >= word(2) && b < word(3) ? state.stored_rows : 0;
    const auto finish = [&](bool whole, int i, Row& u) {
      const bool is_stored = (stored_rows >> i & 1U) != 0;
      Tile::store_row(whole, is_stored ? state.cells & stored_cells : 0,
                      state.output + i * f.output_stride[1], u);
    };
    const bool whole = (state.flags & stores_vectors) != 0;
    // The rare path instantiates the level pipeline once, for code size.
    constexpr bool is_always_near = sets == GhostFill::any && boundary_path_is_rare;
    if (is_always_near || !whole || is_at_face(f, at.z)) {
      advance_rows<0, true>(f, at, cells, sums, [&](int i, Row& u) { finish(whole, i, u); });
    } else if constexpr (!is_always_near) {
      advance_rows<0, false>(f, at, cells, sums, [&](int i, Row& u) { finish(true, i, u); });
    }
    // nvcc 13.0 miscompiles a plain increment (stores to undefined addresses); hence an opaque one. It begins
    // `steps` planes before the first input plane; only planes of the box are stored.
    state.output = device::opaque_advance(state.output, f.output_stride[0]);
    constexpr bool columns_here = sets == GhostFill::any && sets_columns;
    constexpr bool rows_here = sets != GhostFill::none && has_constant_rows;
    constexpr std::uint32_t set_here = (columns_here ? at_columns : 0U) | (rows_here ? at_rows : 0U);
    if (set_here != 0 && (state.flags & set_here) != 0) {
      if (rows_here && (state.flags & at_rows) != 0)
        fill_constant_rows<sets == GhostFill::any || !sets_columns>(state.flags, at, cells);
      if (columns_here && (state.flags & at_columns) != 0)
        set_columns(extent_of(f, 2), load_invariant(origin), cells);
    }
    if (splits_ghost_copy && fills)
      Tile::store_mirror_ghosts(state.mirrors, static_cast<Shared>(following * input_bytes), ghosts);
    device::copy_async_wait<ahead - 1>();
    device::sync_block();
    point_slot = point_slot + 1 == point_slots ? 0 : point_slot + 1;
    fill_ghost_points(state, point_slot);
    if (sets != GhostFill::none && sets_rows && (state.flags & at_rows) != 0) {
      add_xy_neighbours<0, true>(f, at, cells, sums);
    } else {
      add_xy_neighbours<0, false>(f, at, cells, sums);
    }
    slot = slot + 1 == input_slots ? 0 : slot + 1;
  }

  /// The bits of WarpState::cells that tell where faces along x are.
  SPIDER_DEVICE static std::uint32_t find_ghost_lanes(const TileSweep& w) {
    const std::int32_t x = w.x0 + columns * device::lane_index();
    std::uint32_t found = 0;
    if (low_ghost_lanes_constant && x < 0) found |= x + columns == 0 ? beyond_low | beside_low : beyond_low;
    if (high_ghost_lanes_constant && x >= w.extent[2])
      found |= x == w.extent[2] ? beyond_high | beside_high : beyond_high;
    return found;
  }

  /// Fills cells of input planes that no lane requests: finite values that no output uses, and constants of
  /// ghost lanes.
  SPIDER_DEVICE static void fill_planes(const TileSweep& w) {
    constexpr int threads = warps * 32;
    static_assert(threads * Tile::vector_bytes % input_row_bytes == 0,
                  "a thread has the same columns of all rows");
    constexpr AxisRules rules = Tile::x_rules;
    const std::int32_t first =
        w.x0 + Tile::thread_index() * Tile::vector_bytes % input_row_bytes / Cells::element_bytes;
    device::Vector v{};
    SPIDER_UNROLL
    for (int i = 0; i < Tile::vector_elements; ++i) {
      const bool low = low_ghost_lanes_constant && first + i < 0;
      if (!low && !(high_ghost_lanes_constant && first + i >= w.extent[2])) continue;
      Cells::put(v.word[i / Cells::per_word], i % Cells::per_word,
                 Cells::cell(device::float_of(low ? rules.low_value : rules.high_value)));
    }
    for (int i = Tile::thread_index(); i < Layout::edges / 16; i += threads)
      device::store_shared(static_cast<Shared>(16 * i), v);
  }

  SPIDER_DEVICE static void store_sweep(const TileSweep& w) {
    device::Vector v[walk_vectors]{};
    std::memcpy(&v, &w, sizeof(TileSweep));
    SPIDER_UNROLL
    for (int i = 0; i < walk_vectors; ++i) device::store_shared(static_cast<Shared>(walk + 16 * i), v[i]);
  }

  /// True if columns of a tile are set at every step.
  SPIDER_DEVICE static bool has_set_columns(const TileSweep& w) {
    const std::int32_t mirrored = mirrors_constant ? find_mirrored_constant(w.extent[2], w.x0) : width;
    return (sets_low && w.x0 < 0) || (mirrored >= 0 && mirrored < width) ||
           (sets_high && w.x0 + width > w.extent[2] &&
            !(high_ghost_lanes_constant && (w.extent[2] - w.x0) % columns == 0));
  }

  /// True if a tile has a row where a mirrored face shows the constant of the opposite one.
  SPIDER_DEVICE static bool has_mirrored_row(const TileSweep& w) {
    constexpr auto along = Shape::lines();
    if (!along.mirrors() || !Shape::rows_end) return false;
    const std::int32_t row = along.mirrors_low ? along.begin(w.extent[1]) - 1 : along.end(w.extent[1]);
    return row >= w.y0 && row < w.y0 + Tile::height;
  }

  /// True if one of `count` rows from y on, or a neighbour, is set at every step.
  SPIDER_DEVICE static bool has_ghost_rows(const TileSweep& w, std::int32_t y, int count) {
    if constexpr (has_constant_rows) {
      constexpr auto along = Shape::lines();
      const std::int32_t low = along.begin(w.extent[1]) - 1;
      const std::int32_t high = along.end(w.extent[1]);
      return (along.has_constant_before() && y <= low && y + count > low) ||
             (along.has_constant_behind() && y <= high && y + count > high);
    }
    // A row outside a face that is set after the barrier may be the next warp's.
    return (Shape::y_axis.is_closed_low() && y < 1 && y + count > 0) ||
           (Shape::y_axis.is_closed_high() && y <= w.extent[1] - 1 && y + count > w.extent[1] - 1);
  }

  /// Bits of WarpState::flags.
  SPIDER_DEVICE static std::uint32_t find_constant_rows(const TileSweep& w, std::int32_t y) {
    std::uint32_t found = 0;
    if constexpr (has_constant_rows) {
      constexpr auto along = Shape::lines();
      const std::int32_t low = along.begin(w.extent[1]) - 1 - y;
      const std::int32_t high = along.end(w.extent[1]) - y;
      if (along.has_constant_before() && low >= 0 && low < rows)
        found |= at_low_row + static_cast<std::uint32_t>(low) * low_row;
      if (along.has_constant_behind() && high >= 0 && high < rows)
        found |= at_high_row + static_cast<std::uint32_t>(high) * high_row;
    }
    return found;
  }

  SPIDER_DEVICE static GhostFill ghost_fill_of(const TileSweep& w) {
    if (has_set_columns(w) || (takes_any && has_mirrored_row(w))) return GhostFill::any;
    if (!has_ghost_rows(w, w.y0, Tile::height)) return GhostFill::none;
    return takes_rows ? GhostFill::rows : GhostFill::any;
  }

  SPIDER_DEVICE static WarpState find_state(const SweepArguments& f, const TileSweep& w) {
    const int first = device::warp_index() * rows;
    const int lane = device::lane_index();
    CopyPlan piece = Tile::plan_copies(f, w);
    Tile::find_offsets(f, piece);
    const Wanted wanted = Tile::find_wanted(f, w, first);
    if (Tile::thread_index() == 0) {
      store_sweep(w);
      device::store_shared(static_cast<Shared>(origin), static_cast<std::uint32_t>(w.x0));
      device::store_shared(static_cast<Shared>(origin + 4), static_cast<std::uint32_t>(w.y0));
      // A tile without such cells does not request any either.
      device::store_shared(static_cast<Shared>(input_columns),
                           piece.whole ? 0U : Tile::pack_columns(Tile::find_columns(w)));
      // The planes of the stream that come in vectors, and the planes that complete stored ones: the first,
      // and the end.
      const std::int32_t plain = w.plain.begin - w.start;
      device::Vector range;
      range.word[0] = static_cast<std::uint32_t>(plain);
      range.word[1] = static_cast<std::uint32_t>(piece.whole ? w.plain.end - w.start : plain);
      range.word[2] = static_cast<std::uint32_t>(w.stored[0].begin + steps - w.start);
      range.word[3] = static_cast<std::uint32_t>(w.stored[0].end + steps - w.start);
      device::store_shared(static_cast<Shared>(ranges), range);
    }
    const std::int32_t y = w.y0 + first;
    WarpState state{};
    state.stream = warp_uniform(w.stored[0].end - w.start + steps);
    state.start = w.start;
    for (int n = 0; n < rows; ++n) state.offset[n] = piece.offset[n];
    state.stored_rows = wanted.rows;
    state.cells = wanted.cells | (piece.wanted != 0 ? reads_columns : 0U) | find_ghost_lanes(w);
    state.centers = find_center_weights(state.cells);
    if (device::warp_index() == 0) {  // the lanes of all warps have the same columns
      device::store_shared(static_cast<Shared>(ghost_lanes + 4 * lane), find_ghost_lanes(w));
    }
    if constexpr (Shape::x_axis.mirrors()) state.mirrors = Tile::find_mirror_ghosts(w);
    state.flags =
        device::warp_max((wanted.whole ? stores_vectors : 0U) | (has_set_columns(w) ? at_columns : 0U) |
                         (has_ghost_rows(w, y, rows) ? at_rows : 0U) | find_constant_rows(w, y) |
                         (state.mirrors.exist() ? fills_columns : 0U) |
                         (Tile::splits_words && !piece.whole ? moves_input : 0U));
    state.lane_row = static_cast<Shared>(first * input_row_bytes + columns * Cells::element_bytes * lane);
    state.lane_edges = static_cast<Shared>(Layout::edges + device::warp_index() * warp_edges + 16 * lane);
    state.output = static_cast<Element*>(f.output) + (w.x0 + lane * columns) + y * f.output_stride[1] +
                   (w.start - steps) * f.output_stride[0];
    return state;
  }

  /// Out of line where rare: inlined it slowed the common paths by up to 3 %.
  SPIDER_DEVICE_NOINLINE void run_boundary_noinline(const Arguments& f) {
    TileSweep w;
    if (Tile::find_tile(f, w)) run<GhostFill::any>(f, w);
  }

  /// `sets`: the result of ghost_fill_of.
  template <GhostFill sets>
  SPIDER_DEVICE static void run(const Arguments& f, const TileSweep& w) {
    fill_planes(w);
    if constexpr (point_fields > 0) {
      for (int i = points / 16 + Tile::thread_index(); i < shared_bytes / 16; i += warps * 32)
        device::store_shared(static_cast<Shared>(16 * i), device::Vector{});
    }
    Tile::list_sources(w);
    device::sync_block();
    WarpState state = find_state(f, w);
    list_points(f, w, state);
    device::sync_block();
    SPIDER_NO_UNROLL
    for (int b = 0; b < ahead; ++b) {
      const bool is_plain = b >= load_invariant(ranges) && b < load_invariant(ranges + 4);
      if (b < state.stream) prefetch_plane(f, state, b, b, is_plain);
      if (b > 0 && b <= state.stream) prefetch_fields(f, state, b - 1, b - 1);
      device::copy_async_commit();
    }
    device::copy_async_wait<ahead - 1>();
    if ((state.flags & (fills_columns | moves_input)) != 0) finish_load(f, state.flags, state.mirrors, 0, 0);
    device::sync_block();
    Planes cells = {};
    Planes sums = {};
    int slot = 0;
    int point_slot = point_slots - 1;
    // Two planes a round, so that the buffer of edge rows (`parity`) is a constant in the code. A plane after
    // the last one has no stored output.
    SPIDER_NO_UNROLL
    for (std::int32_t b = 0; b < state.stream; b += 2) {
      take_plane<0, sets>(f, state, b, slot, point_slot, cells, sums);
      take_plane<1, sets>(f, state, b + 1, slot, point_slot, cells, sums);
    }
  }
};

template <class Stencil>
constexpr SweepForm levels3d_form() {
  using Kernel = Levels3d<Stencil>;
  return stepped_form<Kernel>(sweep_levels3d<Stencil>, 2 * Kernel::overlap_planes);
}

}  // namespace device_4
}  // namespace spider
