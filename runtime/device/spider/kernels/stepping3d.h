/// Many time steps of a 3D stencil in one sweep, on CUDA cores.
///
/// A block has a tile of 128 columns by some rows and walks along z. Its warps are `warps_down` one below the
/// other, with `rows` rows each, times `steps` chained in time: each takes one step. A warp adds each input
/// plane to the sums of the planes that it reaches, four columns a lane, in registers; a complete sum is a
/// plane of the next step, which it passes on through shared memory, as numbers. The warps of the next step
/// read it there, with the rows of their neighbours, after one barrier a plane. Tiles overlap by the columns
/// and rows that all steps reach on each side, walks by the planes: results there are not exact and are not
/// stored.
///
/// Faces. Outside `halo` and `periodic` faces the field continues: ghost cells are stepped like others. Ghost
/// cells of mirroring faces are stepped, too, where the stencil `is_even`: their input is the mirrored field.
/// Outside the other faces the field ends. Constants along x and y lie in all planes in shared memory from
/// the start, and nothing else stays written there. Other columns are filled in every plane that is passed
/// on, by the rule, and other rows are read from where the rule finds them. For radius 1 each step also
/// publishes the ghost plane, or adds the first plane twice where it equals its ghost. For other radii, and
/// for `mirror` at the low face, whose ghost plane would come too late, a plane near a face is added once,
/// with the summed weights of itself and its mirror images.
///
/// A `Stencil` has, as static members:
/// - Cells: of spider/values/cells.h;
/// - rows of a lane, warps_down, steps; blocks_per_multiprocessor;
/// - ahead: planes requested ahead, at least 2;
/// - plane_low, plane_high, row_low, row_high, column_low, column_high: lowest and highest offset of a tap,
///   at most and at least 0;
/// - is_even: are its weights even along all axes, reach one cell, and is there no update?
/// - has_diagonal_taps: is there a tap with dy != 0 and dx != 0?
/// - form, weight(dz, dy, dx), of several sums sum_count and weight(sum, dz, dy, dx); last: the factor of
///   results, so that the weights have the right sum;
/// - plane_rules(), row_rules(), column_rules(): the boundary; values are numbers, whatever the cells are.
///
/// Where it is Updated (spider/sums/update.h), the update replaces complete rows before they are passed on;
/// the planes of u that it replaces wait in registers. Then `last` is 1. Where it reads `previous`, the first
/// step finds it at the point, like a field. For the other steps planes stay in shared memory until the step
/// after the one that reads them has completed them, so u need not wait in registers. The last step stores
/// its u, too.
#pragma once

#include <spider/field/boundary.h>
#include <spider/field/rims_first.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/steps/stepped_points.h>
#include <spider/steps/stepped_tile.h>
#include <spider/steps/stepping.h>
#include <spider/sums/update.h>
#include <spider/values/cells.h>
#include <spider/values/words.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace spider {
inline namespace device_4 {

/// How a plane is added to the sums if no face is near along z.
enum class PlaneForm {
  taps,  ///< a product for each tap
  even,  ///< radius 1, weights even along all axes: pairs of cells and of rows share sums
};

template <class Stencil>
struct Stepping3d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_down* Stencil::steps * 32, Stencil::blocks_per_multiprocessor)
sweep_stepping3d(SPIDER_GRID_CONSTANT const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  const TellRimsAtExit tells(field);
  using Kernel = Stepping3d<Stencil>;
  typename Kernel::TileSweep walk;
  if (!Kernel::find_tile(field, walk)) return;
  Kernel::run(field, walk);
}

template <class Stencil>
struct Stepping3dLayout : StepShape<Stencil, Stencil::is_even> {
  using Shape = StepShape<Stencil, Stencil::is_even>;
  static constexpr int warps = Shape::warps_down * Shape::steps;
  // A plane in shared memory: the tile's rows between ry rows on each side, of which only constants of faces
  // are used.
  static constexpr int margin_rows = Shape::ry;
  static constexpr int plane_rows = Shape::height + 2 * margin_rows;
  static constexpr bool reads_before = UpdateReads<Stencil>::before;
  /// Planes of the input: those requested ahead, and those that wait for two steps to complete them, or for
  /// one.
  static constexpr int waiting = reads_before ? (Shape::steps > 1 ? 2 * Shape::rz + 1 : Shape::rz) : 0;
  static constexpr int input_slots = Shape::ahead + 1 + waiting;
  static constexpr int level_bytes = plane_rows * Shape::row_bytes;
  static constexpr int levels = input_slots * plane_rows * Shape::input_row_bytes;
  /// Planes between two steps: one is written, one read, and others wait. After the last step but one nothing
  /// waits for two steps.
  static constexpr int level_slots = reads_before ? 2 * Shape::rz + 3 : 2;
  static constexpr int last_level_slots = reads_before ? Shape::rz + 2 : 2;
  static constexpr int level_planes = Shape::steps > 1 ? (Shape::steps - 2) * level_slots + last_level_slots
                                                       : 0;
  /// On both sides: the cells that taps reach, and the others of lanes with some of the field's.
  static constexpr int most_beyond = 2 * Shape::larger(Shape::rx, Shape::columns - 1);
  /// Columns to fill: to, from; value.
  static constexpr int beyond = levels + level_planes * level_bytes;
  static constexpr int cells = beyond + 16 * most_beyond;
  static constexpr int sources = cells + 8 * 32 * warps;
  static constexpr int first_plane = -Shape::rz;
  static constexpr bool streams_faces =
      Shape::rz == 1 && (Shape::z_axis.mirrors_low || Shape::z_rules.low != FaceRule::mirror);
  static constexpr bool prefills_constants = true;
  static constexpr bool has_single_cells = true;
  static constexpr bool columns_last = false;
};

template <class Stencil>
struct Stepping3d : StepTile<Stencil, Stepping3dLayout<Stencil>, Stencil::is_even> {
  using Layout = Stepping3dLayout<Stencil>;
  using Tile = StepTile<Stencil, Layout, Stencil::is_even>;
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Arguments = ArgumentsOf<Stencil>;
  using Number = typename Cells::Number;
  using Numbers = NumberCells<Cells>;
  using Word = typename Numbers::Word;
  using Shared = device::Shared;
  using Tile::ahead, Tile::columns, Tile::rows, Tile::steps, Tile::warps, Tile::warps_down, Tile::width,
      Tile::height;
  using Tile::back_acts, Tile::columns_end, Tile::front_acts, Tile::streams_faces;
  using Tile::find_column, Tile::find_plane, Tile::find_row, Tile::holds_plane, Tile::thread_index;
  using Tile::input_bytes, Tile::input_row_bytes, Tile::input_slots, Tile::row_bytes, Tile::sources;
  using Tile::larger, Tile::overlap_planes, Tile::vector_bytes, Tile::rx, Tile::ry, Tile::rz, Tile::y_rules,
      Tile::z_rules;
  using typename Tile::CopyPlan, typename Tile::Range, typename Tile::Row, typename Tile::MirrorGhosts,
      typename Tile::TileSweep, typename Tile::Wanted;
  static constexpr PlaneForm form = Stencil::form;
  static constexpr int beyond = Layout::beyond, levels = Layout::levels, level_bytes = Layout::level_bytes;
  static constexpr int plane_rows = Layout::plane_rows;
  static_assert(rx <= columns, "taps lead to neighbouring lanes at most");
  static_assert(ahead >= 2, "a plane is complete before the round that takes it");
  /// True if rows outside a face are read at other places.
  static constexpr bool maps_rows = (Tile::y_axis.is_closed_low() && y_rules.low != FaceRule::constant) ||
                                    (Tile::y_axis.is_closed_high() && y_rules.high != FaceRule::constant);
  static constexpr bool prefills_constants = Tile::prefills_rows || Tile::prefills_columns;
  static constexpr bool adds_images = (front_acts || back_acts) && !streams_faces;

  static constexpr int places = sources + 4 * height;  ///< where rows are read in a plane
  static constexpr int dy_count = 2 * ry + 1, dx_count = 2 * rx + 1;
  static constexpr int sum_count = SumsOf<Stencil>::count;
  static constexpr int plane_weights = sum_count * (2 * rz + 1) * dy_count * dx_count;
  static constexpr int number_bytes = Numbers::element_bytes;
  static constexpr int vector_numbers = vector_bytes / number_bytes;
  static constexpr int lane_vectors = columns / vector_numbers;  ///< in numbers
  /// For planes near faces, a table per warp.
  static constexpr int face_weights =
      (places + 4 * plane_rows + number_bytes - 1) / number_bytes * number_bytes;
  static constexpr bool updates = HasUpdate<Stencil>::value;
  /// Whether rows that store vectors have their own code. With more weights, or an update, compilers would
  /// take minutes.
  static constexpr bool stores_apart = !updates && plane_weights <= 27;
  static constexpr int point_fields = UpdateReads<Stencil>::fields;
  static constexpr bool reads_before = UpdateReads<Stencil>::before;
  static constexpr bool reads_points = point_fields > 0 || reads_before;
  static constexpr bool waits_for_sums = UpdateReads<Stencil>::input && !reads_before;
  /// Places of the points' fields in a plane: the tile's columns, then its rows.
  static constexpr int point_table =
      (face_weights + (adds_images ? number_bytes * warps * plane_weights : 0) + 15) / 16 * 16;
  static constexpr int mirror_ghosts =
      point_table + (reads_points ? (4 * (width + height) + 15) / 16 * 16 : 0);
  static constexpr int tile_flags =
      (mirror_ghosts + (Tile::x_axis.mirrors() ? 8 * 32 * warps : 0) + 15) / 16 * 16;
  /// For a lane's piece in each of the rows that its warp requests.
  static constexpr int offset_vectors = (Tile::rows_of_warp + 3) / 4;
  static constexpr int copy_offsets = tile_flags + 16 * 32 * warps;
  static constexpr int ranges = copy_offsets + 16 * 32 * warps * offset_vectors;  ///< as in store_flags
  static constexpr int shared_bytes = ranges + 48;
  static constexpr std::uint32_t none = ~0U;
  static constexpr int value_at = number_bytes == 8 ? 1 : 2;  ///< word of the value in an entry of `beyond`

  /// Sums of planes z - rz .. z + rz - 1, where z is the next plane.
  using Sums = Number[sum_count][2 * rz][rows][columns];
  using Outputs =
      OutputSums<Stencil, columns>;  ///< the sums of a row; the results of that row replace the first
  static_assert(sum_count == 1 || form == PlaneForm::taps, "several sums share nothing");

  // Tables.

  /// True if the lane of a tile's column has one of the field's, so that it writes all of its columns.
  SPIDER_DEVICE static bool is_written(const TileSweep& w, std::int32_t column) {
    const std::int32_t x = w.x0 + column / columns * columns;
    return !Tile::is_constant_column(w, x) || !Tile::is_constant_column(w, x + columns - 1);
  }

  /// Lists the columns of the tile to fill, for all warps alike; returns their number.
  SPIDER_DEVICE static int list_columns_beyond(const TileSweep& w) {
    int count = 0;
    if constexpr (columns_end && rx > 0) {
      constexpr int most = Layout::most_beyond / 2;
      constexpr auto along = Tile::across();
      SPIDER_NO_UNROLL
      for (int d = 0; d < 2 * most; ++d) {
        const std::int32_t x = (d < most ? along.begin(w.extent[2]) : along.end(w.extent[2])) + d - most;
        const std::int32_t to = x - w.x0;
        const auto from = find_column(w, x);
        const bool is_kept = Tile::is_constant_column(w, x);
        const bool is_beyond = from.constant || from.index != x;
        const bool known = from.constant || (from.index >= w.x0 && from.index < w.x0 + width);
        if (to < 0 || to >= width || !is_beyond || !known) continue;
        if (is_kept ? !is_written(w, to) : (x < -rx || x >= w.extent[2] + rx)) continue;
        if (thread_index() == 0) {
          device::Vector entry;
          entry.word[0] = static_cast<std::uint32_t>(to);
          entry.word[1] = from.constant ? none : static_cast<std::uint32_t>(from.index - w.x0);
          entry.word[2] = entry.word[3] = 0;
          put_word(entry, value_at, from.value);
          device::store_shared(static_cast<Shared>(beyond + 16 * count), entry);
        }
        ++count;
      }
    }
    return count;
  }

  /// Clears all planes, and fills in constants and the tables.
  SPIDER_DEVICE static void prepare(const TileSweep& w) {
    for (int i = thread_index(); i < beyond / 16; i += warps * 32)
      device::store_shared(static_cast<Shared>(16 * i), device::Vector{});
    Tile::list_sources(w);
    for (int j = thread_index(); maps_rows && j < plane_rows; j += warps * 32) {
      const std::int32_t y = w.y0 - ry + j;
      const auto from = find_row(w, y);
      std::int32_t place = from.index - (w.y0 - ry);
      // Rows that no stored output depends on may hold anything.
      if (place < 0 || place >= plane_rows) place = j;
      if (from.constant && !Tile::is_constant_row(w, y)) {
        // A small field mirrors the constant of one face at the other.
        place = (y_rules.low == FaceRule::constant ? -1 : w.extent[1]) - (w.y0 - ry);
        if (place < 0 || place >= plane_rows) place = j;
      }
      device::store_shared(static_cast<Shared>(places + 4 * j), static_cast<std::uint32_t>(place));
    }
    device::sync_block();
    if constexpr (prefills_constants) prefill_constants(w);
  }

  /// Where constant faces meet, x has precedence over y.
  SPIDER_DEVICE static void prefill_constants(const TileSweep& w) {
    constexpr int planes = input_slots + Layout::level_planes;
    const bool inside =
        w.y0 >= ry && w.y0 + height + ry <= w.extent[1] && w.x0 >= 0 && w.x0 + width <= w.extent[2];
    if (inside) return;
    SPIDER_NO_UNROLL
    for (int i = thread_index(); i < plane_rows * width; i += warps * 32) {
      const int row = i / width;
      const int c = i % width;
      const std::int32_t y = w.y0 - ry + row;
      const bool beside = Tile::is_constant_column(w, w.x0 + c);
      if (!beside && !Tile::is_constant_row(w, y)) continue;
      const Word value = beside ? find_column(w, w.x0 + c).value : find_row(w, y).value;
      SPIDER_NO_UNROLL
      for (int plane = 0; plane < planes; ++plane) {
        if (plane < input_slots) {
          const auto to =
              static_cast<Shared>(plane * input_bytes + row * input_row_bytes + c * Cells::element_bytes);
          device::store_shared(to, Cells::cell(Numbers::number(value, 0)));
        } else {
          const auto to = static_cast<Shared>(levels + (plane - input_slots) * level_bytes + row * row_bytes +
                                              number_bytes * c);
          device::store_shared(to, value);
        }
      }
    }
  }

  /// Fills the columns outside faces in `count` rows of a plane, from `first` on, by some threads.
  template <class Plane>
  SPIDER_DEVICE static void fill_columns(Shared plane, int first, int count, int columns_beyond, int thread,
                                         int threads) {
    SPIDER_NO_UNROLL
    for (int j = thread; j < count; j += threads) {
      const Shared row = plane + static_cast<Shared>((ry + first + j) * width * Plane::element_bytes);
      const auto place = [&](std::uint32_t column) {
        return row + static_cast<Shared>(column * Plane::element_bytes);
      };
      SPIDER_NO_UNROLL
      for (int i = 0; i < columns_beyond; ++i) {
        const device::Vector entry = device::load_shared(static_cast<Shared>(beyond + 16 * i));
        if (entry.word[1] == none) {
          const Number value = Numbers::number(word_of<Word>(entry, value_at), 0);
          device::store_shared(place(entry.word[0]), Plane::cell(value));
          // NOLINTNEXTLINE(bugprone-branch-clone): loads of several widths
        } else if constexpr (Plane::element_bytes == 8) {
          device::store_shared(place(entry.word[0]), device::load_shared_pair(place(entry.word[1])));
        } else if constexpr (Plane::element_bytes == 4) {
          device::store_shared(place(entry.word[0]), device::load_shared_word(place(entry.word[1])));
        } else {
          device::store_shared(place(entry.word[0]), device::load_shared_half(place(entry.word[1])));
        }
      }
    }
  }

  /// Passes on a warp's rows of the plane outside a face: `to` is their place, `from` the rows that a rule
  /// other than a constant takes.
  SPIDER_DEVICE static void emit_ghost_plane(FaceRule rule, Word value, bool written, Shared to,
                                             Shared from) {
    if (!written) return;
    SPIDER_NO_UNROLL
    for (int i = 0; i < rows; ++i) {
      const auto row = static_cast<Shared>(i * row_bytes);
      if (rule == FaceRule::constant) {
        store_constant(to + row, value);
      } else {
        SPIDER_UNROLL
        for (int v = 0; v < lane_vectors; ++v) {
          const auto place = row + static_cast<Shared>(v * vector_bytes);
          device::store_shared(to + place, device::load_shared(from + place));
        }
      }
    }
  }

  /// Sets all columns of a lane in a row of numbers to a constant.
  SPIDER_DEVICE static void store_constant(Shared to, Word value) {
    device::Vector constants;
    SPIDER_UNROLL
    for (int c = 0; c < vector_numbers; ++c) put_word(constants, c, value);
    SPIDER_UNROLL
    for (int v = 0; v < lane_vectors; ++v)
      device::store_shared(to + static_cast<Shared>(v * vector_bytes), constants);
  }

  /// Restores constants in a warp's rows outside faces, which are passed on like others. Taps of the field
  /// reach only the nearest ones.
  SPIDER_DEVICE static void restore_constant_rows(const TileSweep& w, int first, bool written, Shared to) {
    if (!written) return;
    constexpr auto along = Tile::lines();
    SPIDER_UNROLL
    for (int i = 0; i < 2 * ry; ++i) {
      const std::int32_t y = (i < ry ? along.begin(w.extent[1]) : along.end(w.extent[1])) + i - ry;
      const std::int32_t row = y - w.y0 - first;
      if (Tile::is_constant_row(w, y) && row >= 0 && row < rows)
        store_constant(to + static_cast<Shared>(row * row_bytes), find_row(w, y).value);
    }
  }

  // Sums.

  struct Sides {
    Number left[rx > 0 ? rx : 1];   // left[d] is column -1 - d
    Number right[rx > 0 ? rx : 1];  // right[d] is column columns + d
  };

  SPIDER_DEVICE static Number take(Number v, int source) { return take_number<Numbers>(v, source); }

  SPIDER_DEVICE static void find_sides(const Row& u, Sides& s) {
    const int lane = device::lane_index();
    SPIDER_UNROLL
    for (int d = 0; d < rx; ++d) {
      s.left[d] = take(u[columns - 1 - d], lane + 31);
      s.right[d] = take(u[d], lane + 1);
    }
  }

  SPIDER_DEVICE static Number cell(const Row& u, const Sides& s, int c) {
    return c < 0
               ? s.left[c < 0 ? -1 - c : 0]
               : (c >= columns ? s.right[c >= columns ? c - columns : 0] : u[c >= 0 && c < columns ? c : 0]);
  }

  /// Where a warp finds the rows of a plane.
  template <class Plane, bool mapped>
  struct Rows {
    Shared plane;  ///< of this lane's first column
    int first;     ///< row of the warp's first

    SPIDER_DEVICE void load(int j, Row& u) const {
      constexpr int bytes = width * Plane::element_bytes;
      Shared from = plane + static_cast<Shared>((first + j + ry) * bytes);
      if constexpr (mapped) {
        const std::uint32_t place =
            device::load_shared_word(static_cast<Shared>(places + 4 * (first + j + ry)));
        from = plane + place * static_cast<Shared>(bytes);
      }
      if constexpr (Plane::element_bytes == number_bytes) {
        load_numbers(from, u);
      } else {
        const device::Pair v = device::load_shared_pair(from);
        SPIDER_UNROLL
        for (int c = 0; c < columns; ++c) u[c] = Plane::number(v.word[c / 2], c % 2);
      }
    }
  };

  SPIDER_DEVICE static void load_numbers(Shared from, Row& u) {
    SPIDER_UNROLL
    for (int i = 0; i < lane_vectors; ++i) {
      const device::Vector v = device::load_shared(from + static_cast<Shared>(vector_bytes * i));
      SPIDER_UNROLL
      for (int c = 0; c < vector_numbers; ++c)
        u[vector_numbers * i + c] = Numbers::number(word_of<Word>(v, c), 0);
    }
  }

  /// The slots that a round uses, of the input's planes and of those between steps. Counters, since their
  /// numbers are known at compile time, but not which ring a warp has.
  struct PipelineStage {
    std::int32_t number = 0;
    std::int32_t input = 0, level = 0, last_level = 0;

    SPIDER_DEVICE void advance() {
      ++number;
      if constexpr (reads_before) {
        input = input + 1 < input_slots ? input + 1 : 0;
        level = level + 1 < Layout::level_slots ? level + 1 : 0;
        last_level = last_level + 1 < Layout::last_level_slots ? last_level + 1 : 0;
      }
    }
  };

  /// The plane that step `step` passed on that many rounds ago.
  SPIDER_DEVICE static Shared level_of(int step, const PipelineStage& round, int ago) {
    if constexpr (!reads_before) {
      return static_cast<Shared>(levels + (2 * step + ((round.number + ago) & 1)) * level_bytes);
    } else {
      const bool is_last = step >= steps - 2;
      std::int32_t slot = (is_last ? round.last_level : round.level) - ago;
      if (slot < 0) slot += is_last ? Layout::last_level_slots : Layout::level_slots;
      return static_cast<Shared>(levels + (Layout::level_slots * step + slot) * level_bytes);
    }
  }

  /// The input plane of the first step.
  SPIDER_DEVICE static Shared input_of(const PipelineStage& round, int ago) {
    const std::int32_t slot = round.input - ago;
    return static_cast<Shared>((slot < 0 ? slot + input_slots : slot) * input_bytes);
  }

  // Loops as template arguments: the compiler would not unroll that many, and would look weights up.

  template <int... i>
  using Indices = std::integer_sequence<int, i...>;
  template <int count>
  using UpTo = std::make_integer_sequence<int, count>;

  template <int which, int dz, int dy, int dx>
  SPIDER_DEVICE static void add_tap(const Row& u, const Sides& s, Row& sum) {
    const Number weight = weight_of<Stencil>(which, dz, dy, dx);
    if (weight != Number{0}) {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) sum[c] = device::multiply_add(weight, cell(u, s, c + dx), sum[c]);
    }
  }

  template <int which, int dz, int dy, int... at>
  SPIDER_DEVICE static void add_taps(const Row& u, const Sides& s, Row& sum, Indices<at...> /*columns*/) {
    (add_tap<which, dz, dy, at - rx>(u, s, sum), ...);
  }

  /// Adds to the sums of planes other than the one that is complete.
  template <int which, int dy, int i, int... q>
  SPIDER_DEVICE static void add_to_planes(const Row& u, const Sides& s, Sums& sums,
                                          Indices<q...> /*planes*/) {
    (add_taps<which, rz - 1 - q, dy>(u, s, sums[which][q][i], UpTo<dx_count>{}), ...);
  }

  /// Adds to all sums.
  template <int dy, int i, int... which>
  SPIDER_DEVICE static void add_to_sums(const Row& u, const Sides& s, Sums& sums, Outputs& out,
                                        Indices<which...> /*sums*/) {
    (add_taps<which, rz, dy>(u, s, out[which], UpTo<dx_count>{}), ...);
    (add_to_planes<which, dy, i>(u, s, sums, UpTo<2 * rz>{}), ...);
  }

  /// Adds row j of a plane to row i of the outputs.
  template <int j, int i, class Finish>
  SPIDER_DEVICE static void add_to_row(const Row& u, const Sides& s, Sums& sums, Outputs (&out)[rows],
                                       const Finish& finish) {
    constexpr int dy = j - i;
    if constexpr (dy >= -ry && dy <= ry) {
      if constexpr (dy == -ry) shift_sums(sums, i, out[i]);
      add_to_sums<dy, i>(u, s, sums, out[i], UpTo<sum_count>{});
      if constexpr (dy == ry) finish(i, out[i]);
    }
  }

  template <int j, class Finish, int... i>
  SPIDER_DEVICE static void add_to_rows(const Row& u, const Sides& s, Sums& sums, Outputs (&out)[rows],
                                        const Finish& finish, Indices<i...> /*rows*/) {
    (add_to_row<j, i>(u, s, sums, out, finish), ...);
  }

  template <int j, class Source, class Finish>
  SPIDER_DEVICE static void add_row(const Source& source, Row& next, Sums& sums, Outputs (&out)[rows],
                                    const Finish& finish) {
    Row u;
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) u[c] = next[c];
    if constexpr (j + 1 < rows + ry) source.load(j + 1, next);
    Sides s{};
    if constexpr (Stencil::has_diagonal_taps || (j >= 0 && j < rows)) find_sides(u, s);
    add_to_rows<j>(u, s, sums, out, finish, UpTo<rows>{});
  }

  template <class Source, class Finish, int... j>
  SPIDER_DEVICE static void add_rows(const Source& source, Sums& sums, const Finish& finish,
                                     Indices<j...> /*rows*/) {
    Outputs out[rows];
    Row next;
    source.load(-ry, next);
    (add_row<j - ry>(source, next, sums, out, finish), ...);
  }

  /// Before the first row added to row i of the outputs: `out` becomes the sum of the plane to complete, and
  /// a new sum begins.
  SPIDER_DEVICE static void shift_sums(Sums& sums, int i, Outputs& out) {
    SPIDER_UNROLL
    for (int which = 0; which < sum_count; ++which) {
      Number(&planes)[2 * rz][rows][columns] = sums[which];
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        out[which][c] = planes[0][i][c];
        SPIDER_UNROLL
        for (int q = 0; q < 2 * rz; ++q)
          planes[q][i][c] = q + 1 < 2 * rz ? planes[q + 1 < 2 * rz ? q + 1 : q][i][c] : Number{0};
      }
    }
  }

  /// Adds a plane, no face near along z; `finish(i, outputs)` gets each row of the plane that is complete.
  template <class Source, class Finish>
  SPIDER_DEVICE static void add_plane(const Source& source, Sums& sums, const Finish& finish) {
    if constexpr (form == PlaneForm::even) {
      add_even_plane(source, sums, finish);
    } else {
      add_rows(source, sums, finish, UpTo<rows + 2 * ry>{});
    }
  }

  template <class Source, class Finish>
  SPIDER_DEVICE static void add_even_plane(const Source& source, Sums& sums, const Finish& finish) {
    // The last three rows, and for each cell the sum of its neighbours along x.
    Row lines[3];
    Row pairs[3];
    Row next;
    source.load(-1, next);
    SPIDER_UNROLL
    for (int j = -1; j <= rows; ++j) {
      Row& u = lines[(j + 1) % 3];
      Row& pair = pairs[(j + 1) % 3];
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) u[c] = next[c];
      if (j < rows) source.load(j + 1, next);
      Sides s{};
      find_sides(u, s);
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) pair[c] = cell(u, s, c - 1) + cell(u, s, c + 1);
      if (j < 1) continue;
      const int i = j - 1;
      const int above = (j - 1) % 3;
      const int own = j % 3;
      Outputs out;
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        const Number beside = lines[above][c] + u[c];
        const Number corners = pairs[above][c] + pair[c];
        // Contributions to the planes above and below, and to the cell's own; the operand known last comes
        // last.
        Number outer = device::multiply_add(Stencil::weight(1, 0, 0), lines[own][c], Number{0});
        outer = device::multiply_add(Stencil::weight(1, 0, 1), pairs[own][c], outer);
        outer = device::multiply_add(Stencil::weight(1, 1, 0), beside, outer);
        outer = device::multiply_add(Stencil::weight(1, 1, 1), corners, outer);
        Number inner = device::multiply_add(Stencil::weight(0, 0, 0), lines[own][c], sums[0][1][i][c]);
        inner = device::multiply_add(Stencil::weight(0, 0, 1), pairs[own][c], inner);
        inner = device::multiply_add(Stencil::weight(0, 1, 0), beside, inner);
        inner = device::multiply_add(Stencil::weight(0, 1, 1), corners, inner);
        out[0][c] = sums[0][0][i][c] + outer;
        sums[0][0][i][c] = inner;
        sums[0][1][i][c] = outer;
      }
      finish(i, out);
    }
  }

  /// The weights of each sum that plane z has in planes z - rz + q, for this warp: those of all cells that
  /// the rules take from it there.
  SPIDER_DEVICE static void sum_image_weights(const TileSweep& w, std::int32_t z, Shared table) {
    const bool here = holds_plane(w, z);
    const auto source = find_plane(w, z);
    constexpr int cells = dy_count * dx_count;
    SPIDER_NO_UNROLL
    for (int i = device::lane_index(); i < plane_weights; i += 32) {
      const int which = sum_count > 1 ? i / (plane_weights / sum_count) : 0;
      const int q = i / cells - which * (2 * rz + 1);
      const int dy = i % cells / dx_count - ry;
      const int dx = i % dx_count - rx;
      const std::int32_t to = z - rz + q;
      Number weight = Number{0};
      if (holds_plane(w, to)) {
        SPIDER_NO_UNROLL
        for (int dz = -rz; dz <= rz; ++dz) {
          const auto from = find_plane(w, to + dz);
          const bool reached = here ? !from.constant && from.index == z : source.constant && to + dz == z;
          if (reached) weight += weight_of<Stencil>(which, dz, dy, dx);
        }
      }
      device::store_shared(table + static_cast<Shared>(number_bytes * i), device::bits_of(weight));
    }
    device::sync_warp();
  }

  /// Adds a plane near a face along z.
  template <class Source, class Finish>
  SPIDER_DEVICE static void add_plane_with_images(const TileSweep& w, const Source& source, std::int32_t z,
                                                  Sums& sums, const Finish& finish) {
    const auto table =
        static_cast<Shared>(face_weights + number_bytes * device::warp_index() * plane_weights);
    const auto plane = find_plane(w, z);
    const bool here = holds_plane(w, z);
    sum_image_weights(w, z, table);
    Outputs out[rows];
    SPIDER_UNROLL
    for (int j = -ry; j < rows + ry; ++j) {
      Row u;
      source.load(j, u);
      if (!here) {
        // Where constant faces meet, x has precedence over y, and y over z.
        const auto along_y = find_row(w, w.y0 + source.first + j);
        SPIDER_UNROLL
        for (int c = 0; c < columns; ++c) {
          const auto along_x = find_column(w, w.x0 + device::lane_index() * columns + c);
          const Word value = along_x.constant   ? along_x.value
                             : along_y.constant ? along_y.value
                                                : plane.value;
          u[c] = plane.constant ? Numbers::number(value, 0) : Number{0};
        }
      }
      Sides s{};
      find_sides(u, s);
      SPIDER_UNROLL
      for (int i = 0; i < rows; ++i) {
        const int dy = j - i;
        if (dy < -ry || dy > ry) continue;
        if (dy == -ry) shift_sums(sums, i, out[i]);
        SPIDER_UNROLL
        for (int place = 0; place < sum_count * (2 * rz + 1); ++place) {
          const int which = place / (2 * rz + 1);
          const int q = place % (2 * rz + 1);
          SPIDER_UNROLL
          for (int dx = -rx; dx <= rx; ++dx) {
            const int at = (place * dy_count + dy + ry) * dx_count + dx + rx;
            const Number weight = load_number<Numbers>(table + static_cast<Shared>(number_bytes * at));
            if (weight != Number{0}) {
              SPIDER_UNROLL
              for (int c = 0; c < columns; ++c) {
                Number& sum = q == 0 ? out[i][which][c] : sums[which][q > 0 ? q - 1 : 0][i][c];
                sum = device::multiply_add(weight, cell(u, s, c + dx), sum);
              }
            }
          }
        }
        if (dy == ry) finish(i, out[i]);
      }
    }
    device::sync_warp();
  }

  // Updates.

  /// Planes of u that wait for their sums, the oldest first, and the plane being added.
  struct Planes {
    Row kept[rz][rows];
    Row newest[rows];
  };
  struct NoPlanes {};
  using Kept = std::conditional_t<waits_for_sums, Planes, NoPlanes>;

  /// A warp's rows of a plane; it retains its own.
  template <class Source>
  struct KeepingRows : Source {
    Kept& kept;

    SPIDER_DEVICE void load(int j, Row& u) const {
      Source::load(j, u);
      if constexpr (waits_for_sums) {
        if (j >= 0 && j < rows) {
          SPIDER_UNROLL
          for (int c = 0; c < columns; ++c) kept.newest[j >= 0 && j < rows ? j : 0][c] = u[c];
        }
      }
    }
  };
  template <class Source>
  SPIDER_DEVICE static auto keep_rows(const Source& source, [[maybe_unused]] Kept& kept) {
    if constexpr (waits_for_sums) {
      return KeepingRows<Source>{source, kept};
    } else {
      return source;
    }
  }

  /// After a plane is added.
  SPIDER_DEVICE static void shift_planes([[maybe_unused]] Kept& kept) {
    if constexpr (waits_for_sums) {
      SPIDER_UNROLL
      for (int i = 0; i < rows; ++i) {
        SPIDER_UNROLL
        for (int c = 0; c < columns; ++c) {
          SPIDER_UNROLL
          for (int p = 0; p < rz; ++p)
            kept.kept[p][i][c] = p + 1 < rz ? kept.kept[p + 1 < rz ? p + 1 : p][i][c] : kept.newest[i][c];
        }
      }
    }
  }

  /// Where further fields can be read along z, y, x, and whether a warp's rows lie there, in vectors.
  struct PointSpans {
    FarSpan axis[3];
    bool plain;
  };

  template <class Rules>
  SPIDER_DEVICE static FarSpan find_point_span(const Rules& rules, const SweepArguments& f, int axis, int low,
                                               int high) {
    constexpr int later = steps - 1;
    const FarSpan box{f.box.offset[axis], f.box.offset[axis] + f.box.extent[axis]};
    return find_points(rules, find_readable(rules, box, later * low, later * high, f.extent[axis]),
                       f.extent[axis]);
  }

  /// Lists where in a plane the tile's fields lie; all threads of the block take part.
  SPIDER_DEVICE static PointSpans list_points(const Arguments& f, const TileSweep& w, int first) {
    constexpr auto of_planes = Stencil::plane_rules();
    constexpr auto of_rows = Stencil::row_rules();
    constexpr auto of_columns = Stencil::column_rules();
    const PointSpans spans{{find_point_span(of_planes, f, 0, Stencil::plane_low, Stencil::plane_high),
                            find_point_span(of_rows, f, 1, Stencil::row_low, Stencil::row_high),
                            find_point_span(of_columns, f, 2, Stencil::column_low, Stencil::column_high)},
                           false};
    for (int i = thread_index(); i < width + height; i += warps * 32) {
      const std::int64_t place = i < width
                                     ? find_point(of_columns, spans.axis[2], w.x0 + i, w.extent[2])
                                     : find_point(of_rows, spans.axis[1], w.y0 + i - width, w.extent[1]);
      device::store_shared(static_cast<Shared>(point_table + 4 * i), static_cast<std::uint32_t>(place));
    }
    const auto holds = [&](const auto& rules, int axis, std::int32_t begin, std::int32_t end) {
      const FarSpan& span = spans.axis[axis];
      return begin >= span.begin && end <= span.end &&
             (rules.low != FaceRule::periodic || (begin >= 0 && end <= w.extent[axis]));
    };
    PointSpans found = spans;
    found.plain = f.aligned_output && holds(of_columns, 2, w.x0, w.x0 + width) &&
                  holds(of_rows, 1, w.y0 + first, w.y0 + first + rows);
    return found;
  }

  /// The update's inputs for a warp's rows of a plane, from fields and the step before: cells as in memory in
  /// the first step, numbers in others. Loaded before the barrier of the round before, without branches
  /// between rows, which would keep them from overlapping.
  struct FieldRows {
    PointInputs<Stencil, columns, PointReads::again> row[rows];
  };
  struct PreviousStepRows {
    Word word[rows][columns];
  };
  struct NoRows {};
  struct Points {
    std::conditional_t<(point_fields > 0), FieldRows, NoRows> fields;
    std::conditional_t<reads_before, PreviousStepRows, NoRows> before;
  };

  SPIDER_DEVICE static const Element* place_before(const Arguments& f, const PointPlace& at) {
    return static_cast<const Element*>(f.before) + at.z * f.before_stride[0] + at.y * f.before_stride[1] +
           at.x;
  }

  /// Loads those of all rows of plane z, which completes in the round after `round`.
  SPIDER_DEVICE static void load_points(const Arguments& f, const TileSweep& w, const PointSpans& spans,
                                        int step, int first, std::int32_t z, const PipelineStage& round,
                                        Points& points) {
    if (reads_before && step > 0) load_earlier(step, first, round, points);
    const bool is_first = reads_before && step == 0;
    if (!is_first && point_fields == 0) return;
    constexpr typename Stencil::FurtherFields fields{};
    constexpr auto of_planes = Stencil::plane_rules();
    // A single step may write the step before in place.
    constexpr PointReads reads = steps > 1 ? PointReads::again : PointReads::once;
    const std::int64_t plane = find_point(of_planes, spans.axis[0], z, w.extent[0]);
    const int lane = device::lane_index();
    if (spans.plain) {
      SPIDER_UNROLL
      for (int i = 0; i < rows; ++i) {
        const PointPlace at{plane, w.y0 + first + i, w.x0 + lane * columns};
        if constexpr (point_fields > 0) points.fields.row[i].load_fields(f, at, true, 0, fields);
        if constexpr (reads_before) {
          if (is_first) load_neighbours<Cells, reads, columns>(place_before(f, at), points.before.word[i]);
        }
      }
      return;
    }
    const auto table = static_cast<Shared>(point_table);
    const device::Vector x = device::load_shared(table + static_cast<Shared>(16 * lane));
    SPIDER_UNROLL
    for (int i = 0; i < rows; ++i) {
      const auto y = static_cast<std::int32_t>(
          device::load_shared_word(table + static_cast<Shared>(4 * (width + first + i))));
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        const PointPlace at{plane, y, static_cast<std::int32_t>(x.word[c])};
        if constexpr (point_fields > 0) points.fields.row[i].put_fields(f, at, c, fields);
        if constexpr (reads_before) {
          if (is_first) {
            Cells::put(points.before.word[i][c / Cells::per_word], c % Cells::per_word,
                       device::load_point(place_before(f, at)));
          }
        }
      }
    }
  }

  /// For the steps after the first: the planes that the step before read.
  SPIDER_DEVICE static void load_earlier(int step, int first, const PipelineStage& round, Points& points) {
    if constexpr (reads_before && steps > 1) {
      constexpr int ago = 2 * rz;
      const int lane = device::lane_index();
      const auto load = [&](const auto& source) SPIDER_INLINED {
        SPIDER_UNROLL
        for (int i = 0; i < rows; ++i) {
          Row u;
          source.load(i, u);
          SPIDER_UNROLL
          for (int c = 0; c < columns; ++c) points.before.word[i][c] = device::bits_of(u[c]);
        }
      };
      if (step == 1) {
        load(Rows<Cells, false>{
            input_of(round, ago) + static_cast<Shared>(columns * Cells::element_bytes * lane), first});
      } else {
        load(Rows<Numbers, false>{
            level_of(step - 2, round, ago + 1) + static_cast<Shared>(lane_vectors * vector_bytes * lane),
            first});
      }
    }
  }

  /// Replaces the sums of row i of a warp, in plane z, by its results.
  SPIDER_DEVICE static void update_row(const Arguments& f, const TileSweep& w, const Row& u,
                                       const Row& before, const Points& points, int first, std::int32_t z,
                                       int i, Outputs& sums) {
    constexpr auto of_planes = Stencil::plane_rules();
    constexpr auto of_rows = Stencil::row_rules();
    constexpr auto of_columns = Stencil::column_rules();
    const std::int64_t plane = place_in_whole(of_planes, f, 0, z);
    const std::int64_t row = place_in_whole(of_rows, f, 1, w.y0 + first + i);
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      const std::int64_t x = w.x0 + device::lane_index() * columns + c;
      UpdatePointOf<Number> point{f, {plane, row, place_in_whole(of_columns, f, 2, x)}, 0, {}, {}};
      if constexpr (UpdateReads<Stencil>::input) point.u = u[c];
      SPIDER_UNROLL
      for (int which = 0; which < sum_count; ++which) point.sums[which] = sums[which][c];
      if constexpr (point_fields > 0)
        points.fields.row[i].find_numbers(c, point.field, typename Stencil::FurtherFields{});
      if constexpr (reads_before) point.before = before[c];
      sums[0][c] = Stencil::update(point);
    }
  }

  SPIDER_DEVICE static Shared mirror_ghosts_place() {
    return static_cast<Shared>(mirror_ghosts + 8 * thread_index());
  }

  /// Fills cells outside mirrored faces along x, in a plane of the input.
  SPIDER_DEVICE static void fill_mirror_ghosts(Shared plane) {
    const device::Pair places = device::load_shared_pair(mirror_ghosts_place());
    const MirrorGhosts mirrors{{places.word[0], places.word[1]}};
    typename Tile::GhostCells cells{};
    Tile::load_mirror_ghosts(mirrors, plane, cells);
    Tile::store_mirror_ghosts(mirrors, plane, cells);
  }

  // TileFlags of a walk.
  static constexpr std::uint32_t all_rows = (1U << rows) - 1;  ///< of a warp: stored rows
  static constexpr std::uint32_t stores_vectors = 1U << rows, requests_pieces = 2U << rows;
  static constexpr std::uint32_t requests_cells = 4U << rows, has_mirror_ghosts = 8U << rows,
                                 reads_mapped = 16U << rows;
  static constexpr std::uint32_t all_cells = (1U << columns) - 1;  ///< of a lane: stored columns
  static constexpr std::uint32_t requests_vector = 1U << columns;
  static constexpr std::uint32_t writes = 2U << columns;  ///< it passes cells on
  static constexpr int first_row = columns + 2;           ///< from this bit on: the warp's rows that it reads
  static_assert(first_row + Tile::rows_of_warp <= 32, "a lane's flags are bits of a word");
  static constexpr std::uint32_t needs_ghost_fix =
      32U << rows;  ///< it sets rows or columns outside faces after steps
  static constexpr std::uint32_t fills_columns = 64U << rows;  ///< and columns of the input
  static constexpr std::uint32_t moves_input = 128U << rows;   ///< rows may arrive a cell after their places
  static_assert(rows + 8 <= 32, "a warp's flags are bits of a word");

  /// Packed into two words, one of them warp-uniform; nvcc would spend a register on each flag.
  struct TileFlags {
    std::uint32_t warp, lane;

    SPIDER_DEVICE Wanted wanted() const {
      return {lane & all_cells, warp & all_rows, (warp & stores_vectors) != 0};
    }
    SPIDER_DEVICE bool written() const { return !Tile::prefills_columns || (lane & writes) != 0; }
    SPIDER_DEVICE CopyPlan piece() const {
      CopyPlan piece;
      piece.rows = lane >> first_row;
      SPIDER_UNROLL
      for (int n = 0; n < Tile::rows_of_warp; n += 4) {
        const device::Vector kept = device::load_shared(offsets_place(n / 4));
        SPIDER_UNROLL
        for (int i = 0; i < 4 && n + i < Tile::rows_of_warp; ++i)
          piece.offset[n + i] = static_cast<std::int32_t>(kept.word[i]);
      }
      piece.is_vector = (lane & requests_vector) != 0;
      piece.has_cells = (warp & requests_cells) != 0;
      return piece;
    }
  };

  SPIDER_DEVICE static TileFlags find_flags(const TileSweep& w, int first, const CopyPlan& piece,
                                            const Wanted& stored, bool turns, bool mapped,
                                            int columns_beyond) {
    constexpr auto along = Tile::lines();
    bool keeps = false;
    for (int i = 0; i < rows; ++i) {
      const std::int32_t y = w.y0 + first + i;
      keeps = keeps || (Tile::is_constant_row(w, y) && y >= along.begin(w.extent[1]) - ry &&
                        y < along.end(w.extent[1]) + ry);
    }
    const std::uint32_t of_warp = stored.rows | (keeps || columns_beyond > 0 ? needs_ghost_fix : 0) |
                                  (columns_beyond > 0 ? fills_columns : 0) |
                                  (stored.whole ? stores_vectors : 0) | (piece.whole ? requests_pieces : 0) |
                                  (piece.has_cells ? requests_cells : 0) | (turns ? has_mirror_ghosts : 0) |
                                  (mapped ? reads_mapped : 0) |
                                  (Tile::splits_words && !piece.whole ? moves_input : 0);
    const std::uint32_t of_lane = (is_written(w, columns * device::lane_index()) ? writes : 0) |
                                  stored.cells | (piece.is_vector ? requests_vector : 0) |
                                  piece.rows << first_row;
    return {of_warp, of_lane};
  }

  // Loop invariants lie in shared memory and are reloaded each round, to save registers.

  /// The number of planes of a walk, and the first one, too: if rows end and columns do not, nvcc 13.0 has no
  /// registers for them.
  static constexpr bool stores_walk = Tile::rows_end && !columns_end;
  /// Places of a lane's flags, and of the distance of its first output from the field's first plane.
  SPIDER_DEVICE static Shared flags_place() { return static_cast<Shared>(tile_flags + 16 * thread_index()); }

  SPIDER_DEVICE static void store_flags(const TileSweep& w, const typename Tile::Columns& input,
                                        const TileFlags& flags, std::int64_t place, int columns_beyond) {
    device::Vector kept;
    kept.word[0] = flags.warp;
    kept.word[1] = flags.lane;
    kept.word[2] = static_cast<std::uint32_t>(place);
    kept.word[3] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(place) >> 32U);
    device::store_shared(flags_place(), kept);
    if (thread_index() == 0) {
      store_invariants(0, w.plain.begin - w.start, w.plain.end - w.start, w.stored[0].begin, w.stored[0].end);
      store_invariants(1, w.readable[0].begin, w.readable[0].end, w.y0, w.x0);
      store_invariants(2, columns_beyond, stores_walk ? w.stored[0].end - w.start + overlap_planes : 0,
                       stores_walk ? w.start : 0, static_cast<std::int32_t>(Tile::pack_columns(input)));
    }
  }
  SPIDER_DEVICE static Shared offsets_place(int i) {
    return static_cast<Shared>(copy_offsets + 16 * (thread_index() + i * 32 * warps));
  }
  SPIDER_DEVICE static void store_offsets(const CopyPlan& piece) {
    for (int n = 0; n < Tile::rows_of_warp; n += 4) {
      device::Vector kept{};
      for (int i = 0; i < 4 && n + i < Tile::rows_of_warp; ++i)
        kept.word[i] = static_cast<std::uint32_t>(piece.offset[n + i]);
      device::store_shared(offsets_place(n / 4), kept);
    }
  }

  SPIDER_DEVICE static void store_invariants(int i, std::int32_t a, std::int32_t b, std::int32_t c,
                                             std::int32_t d) {
    device::Vector kept;
    const std::int32_t numbers[] = {a, b, c, d};
    for (int n = 0; n < 4; ++n) kept.word[n] = static_cast<std::uint32_t>(numbers[n]);
    device::store_shared(static_cast<Shared>(ranges + 16 * i), kept);
  }

  /// Word i as stored by store_invariants().
  SPIDER_DEVICE static std::int32_t load_invariant(int i) {
    return static_cast<std::int32_t>(device::load_shared_word(static_cast<Shared>(ranges + 4 * i)));
  }
  SPIDER_DEVICE static int ghost_column_count() { return load_invariant(8); }
  SPIDER_DEVICE static typename Tile::Columns input_columns() {
    return Tile::unpack_columns(static_cast<std::uint32_t>(load_invariant(11)));
  }

  SPIDER_DEVICE static std::int32_t stream_of(std::int32_t stream) {
    return stores_walk ? load_invariant(9) : stream;
  }
  SPIDER_DEVICE static std::int32_t start_of(std::int32_t start) {
    return stores_walk ? load_invariant(10) : start;
  }

  /// Planes of the stream that are read in place, and planes of the field that are stored.
  SPIDER_DEVICE static Range plane_range(int i) {
    const device::Pair range = device::load_shared_pair(static_cast<Shared>(ranges + 8 * i));
    return {static_cast<std::int32_t>(range.word[0]), static_cast<std::int32_t>(range.word[1])};
  }

  /// The part of a walk's state that a plane which is not read in place needs.
  SPIDER_DEVICE static TileSweep load_sweep(const SweepArguments& f, std::int32_t start, const Range& plain) {
    const device::Vector tile = device::load_shared(static_cast<Shared>(ranges + 16));
    TileSweep w;
    for (int axis = 0; axis < 3; ++axis) w.extent[axis] = static_cast<std::int32_t>(f.extent[axis]);
    w.start = start;
    w.plain = {start + plain.begin, start + plain.end};
    w.readable[0] = {static_cast<std::int32_t>(tile.word[0]), static_cast<std::int32_t>(tile.word[1])};
    w.y0 = static_cast<std::int32_t>(tile.word[2]);
    w.x0 = static_cast<std::int32_t>(tile.word[3]);
    return w;
  }

  /// Requests plane b of the stream: in place and in pieces, or in any way.
  SPIDER_DEVICE static void request(const Arguments& f, std::int32_t start, const TileFlags& flags,
                                    std::int32_t b) {
    if ((flags.warp & requests_pieces) != 0 && plane_range(0).holds(b)) {
      Tile::request_pieces(static_cast<const Element*>(f.input) + (start + b) * f.input_stride[0],
                           flags.piece(), b);
    } else {
      request_noinline(f, start, b);
    }
  }

  /// Rare path, out of line: inlined it slows every round more than a call does.
  SPIDER_DEVICE_NOINLINE void request_noinline(const Arguments& f, std::int32_t start, std::int32_t b) {
    const device::Vector of_thread = device::load_shared(flags_place());
    const TileFlags flags{device::warp_max(of_thread.word[0]), of_thread.word[1]};
    const TileSweep w = load_sweep(f, start, plane_range(0));
    if ((flags.warp & requests_pieces) != 0) {
      Tile::request_whole(f, w, flags.piece(), b);
    } else {
      Tile::load_by_words(f, w, input_columns(), b);
    }
  }

  /// Work of few rounds, and few warps, after a step: passes plane z on outside a face along z, and sets rows
  /// and columns outside others. `to` is the place of the warp's rows, `from` where the rule of the high face
  /// takes them.
  SPIDER_DEVICE_NOINLINE void fix_ghosts(const Arguments& f, std::int32_t start, std::int32_t z, int first,
                                         std::uint32_t choices_of_lane, Shared plane, Shared own,
                                         Shared from) {
    const bool written = !Tile::prefills_columns || (choices_of_lane & writes) != 0;
    const auto extent = static_cast<std::int32_t>(f.extent[0]);
    constexpr auto along = Tile::planes();
    if (is_behind(extent, z)) {
      emit_ghost_plane(along.has_constant_behind() ? FaceRule::constant : z_rules.high, along.value_behind(),
                       written, plane + own, from);
    } else if (is_before(extent, z)) {
      emit_ghost_plane(FaceRule::constant, along.value_before(), written, plane + own, from);
    }
    if constexpr (Tile::prefills_rows)
      restore_constant_rows(load_sweep(f, start, plane_range(0)), first, written, plane + own);
    if constexpr (columns_end) {
      device::sync_warp();
      fill_columns<Numbers>(plane, warp_uniform(first), rows, ghost_column_count(), device::lane_index(), 32);
    }
  }
  SPIDER_DEVICE static bool is_behind(std::int32_t extent, std::int32_t z) {
    constexpr auto along = Tile::planes();
    return streams_faces && (back_acts || along.has_constant_behind()) && z == along.end(extent) + 1;
  }
  SPIDER_DEVICE static bool is_before(std::int32_t extent, std::int32_t z) {
    constexpr auto along = Tile::planes();
    return streams_faces && along.has_constant_before() && z == along.begin(extent);
  }

  /// Moves pieces of plane b that arrived a cell after their place, then fills columns outside faces.
  SPIDER_DEVICE_NOINLINE void finish_load(const Arguments& f, std::int32_t start, std::int32_t b) {
    Tile::realign_rows(f, load_sweep(f, start, plane_range(0)), input_columns(), b);
    if constexpr (columns_end) {
      device::sync_warp();
      const auto plane = static_cast<Shared>(b % input_slots * input_bytes);
      for (int row = device::warp_index(); row < height; row += warps) {
        fill_columns<Cells>(plane, row, 1, ghost_column_count(), device::lane_index(), 32);
      }
    }
    device::sync_warp();
  }

  SPIDER_DEVICE_NOINLINE void fill_input_columns(Shared plane) {
    fill_columns<Cells>(plane, 0, height, ghost_column_count(), thread_index(), warps * 32);
  }

  /// A value that all lanes share, in a uniform register: a lane has few.
  SPIDER_DEVICE static std::int32_t warp_uniform(std::int32_t value) {
    return static_cast<std::int32_t>(device::warp_max(static_cast<std::uint32_t>(value)));
  }
  SPIDER_DEVICE static TileSweep warp_uniform(TileSweep w) {
    const auto share = [](std::int32_t& value) { value = warp_uniform(value); };
    share(w.start);
    share(w.x0);
    share(w.y0);
    for (int axis = 0; axis < 3; ++axis) {
      share(w.stored[axis].begin);
      share(w.stored[axis].end);
      share(w.readable[axis].begin);
      share(w.readable[axis].end);
    }
    share(w.plain.begin);
    share(w.plain.end);
    return w;
  }

  SPIDER_DEVICE static void run(const Arguments& f, const TileSweep& found) {
    const TileSweep w = warp_uniform(found);
    const int step = warp_uniform(device::warp_index() / warps_down);
    const int first = warp_uniform(device::warp_index() % warps_down * rows);
    const bool is_last = step == steps - 1;
    const int lane = device::lane_index();
    const std::int32_t stream = w.stored[0].end - w.start + overlap_planes;
    CopyPlan piece = Tile::plan_copies(f, w);
    bool turns = false;
    if constexpr (Tile::x_axis.mirrors()) {
      const MirrorGhosts mirrors = Tile::find_mirror_ghosts(w);
      turns = device::warp_max(mirrors.exist() ? 1U : 0U) != 0;
      device::Pair places;
      for (int i = 0; i < 2; ++i) places.word[i] = mirrors.places[i];
      device::store_shared(mirror_ghosts_place(), places);
    }
    const Wanted stored = Tile::find_wanted(f, w, first);
    const int columns_beyond = columns_end ? warp_uniform(list_columns_beyond(w)) : 0;
    prepare(w);
    [[maybe_unused]] PointSpans spans{};
    if constexpr (reads_points) spans = list_points(f, w, first);
    Tile::find_offsets(f, piece);
    // True if any of the warp's rows lies outside a face, or next to one.
    const bool mapped = maps_rows && (w.y0 + first - ry < 0 || w.y0 + first + rows + ry > w.extent[1]);
    store_flags(w, Tile::find_columns(w), find_flags(w, first, piece, stored, turns, mapped, columns_beyond),
                w.x0 + lane * columns + (w.y0 + first) * f.output_stride[1], columns_beyond);
    store_offsets(piece);
    device::sync_block();
    SPIDER_NO_UNROLL
    for (int b = 0; b < ahead; ++b) {
      if (b < stream_of(stream)) {
        request_noinline(f, start_of(w.start), b);
      }
      device::copy_async_commit();
    }
    device::copy_async_wait<ahead - 2>();
    device::sync_block();
    if (Tile::splits_words && !piece.whole) {
      finish_load(f, start_of(w.start), 0);
      device::sync_block();
    } else if (columns_beyond > 0) {
      fill_columns<Cells>(0, 0, height, columns_beyond, thread_index(), warps * 32);
      device::sync_block();
    }
    if constexpr (Tile::x_axis.mirrors()) {
      if (turns) fill_mirror_ghosts(0);
      device::sync_block();
    }
    Sums sums = {};
    Kept kept{};
    const std::int32_t first_plane = w.start - step * rz;
    PipelineStage now;
    [[maybe_unused]] Points points{};
    if constexpr (reads_points) load_points(f, w, spans, step, first, first_plane - rz, now, points);
    bool again = false;  // is a plane added for the second time?
    SPIDER_NO_UNROLL
    while (now.number < stream_of(stream) + steps - 1) {
      const device::Vector of_thread = device::load_shared(flags_place());
      const TileFlags flags{device::warp_max(of_thread.word[0]), of_thread.word[1]};
      const std::int32_t round = now.number;
      const std::int32_t b = round - step;
      const auto next_input = static_cast<Shared>((round + 1) % input_slots * input_bytes);
      if (!again) {
        if (round + ahead < stream_of(stream)) request(f, start_of(w.start), flags, round + ahead);
        device::copy_async_commit();
        if constexpr (columns_end) {
          if ((flags.warp & fills_columns) != 0 && (flags.warp & moves_input) == 0 &&
              round + 1 < stream_of(stream))
            fill_input_columns(next_input);
        }
        if constexpr (Tile::splits_words) {
          if ((flags.warp & moves_input) != 0 && round + 1 < stream_of(stream))
            finish_load(f, start_of(w.start), round + 1);
        }
      }
      if constexpr (Tile::x_axis.mirrors()) {
        if ((flags.warp & has_mirror_ghosts) != 0) fill_mirror_ghosts(next_input);
      }
      if (b >= 0 && b < stream_of(stream)) {
        const std::int32_t z = (stores_walk ? start_of(0) - step * rz : first_plane) + b;
        const auto own = static_cast<Shared>((ry + first) * row_bytes + lane_vectors * vector_bytes * lane);
        const Shared to = level_of(step, now, 0);
        // Plane z - rz of the step's input, which its results replace.
        [[maybe_unused]] const Shared waiting =
            step == 0
                ? input_of(now, rz) + static_cast<Shared>(columns * Cells::element_bytes * lane)
                : level_of(step - 1, now, rz + 1) + static_cast<Shared>(lane_vectors * vector_bytes * lane);
        const auto update = [&]([[maybe_unused]] auto kind, [[maybe_unused]] int i,
                                [[maybe_unused]] Outputs& sums_of_row) SPIDER_INLINED {
          using Plane = decltype(kind);
          [[maybe_unused]] Row u{};
          [[maybe_unused]] Row earlier{};
          if constexpr (reads_before) {
            if constexpr (UpdateReads<Stencil>::input) Rows<Plane, false>{waiting, first}.load(i, u);
            SPIDER_UNROLL
            for (int c = 0; c < columns; ++c)
              earlier[c] = Plane::number(points.before.word[i][c / Plane::per_word], c % Plane::per_word);
          }
          if constexpr (waits_for_sums) {
            SPIDER_UNROLL
            for (int c = 0; c < columns; ++c) u[c] = kept.kept[0][i][c];
          }
          if constexpr (updates) update_row(f, w, u, earlier, points, first, z - rz, i, sums_of_row);
        };
        [[maybe_unused]] const bool written = flags.written();
        const auto publish_row = [&](auto kind, int i, Outputs& outputs) SPIDER_INLINED {
          update(kind, i, outputs);
          const Row& u = outputs[0];
          SPIDER_UNROLL
          for (int n = 0; n < lane_vectors; ++n) {
            device::Vector v;
            SPIDER_UNROLL
            for (int c = 0; c < vector_numbers; ++c)
              put_word(v, c, device::bits_of(u[vector_numbers * n + c]));
            const Shared place = to + own + static_cast<Shared>(i * row_bytes + n * vector_bytes);
            device::store_shared_if(written, place, v);
          }
        };
        const bool at_face =
            adds_images && ((front_acts && z < 2 * rz) || (back_acts && z >= w.extent[0] - 2 * rz));
        const auto add = [&](auto kind, Shared plane, const auto& finish_row) SPIDER_INLINED {
          using Plane = decltype(kind);
          const auto finish = [&](int i, Outputs& outputs) SPIDER_INLINED { finish_row(kind, i, outputs); };
          if (at_face) {
            if constexpr (adds_images) {
              add_plane_with_images(w, keep_rows(Rows<Plane, maps_rows>{plane, first}, kept), z, sums,
                                    finish);
            }
          } else if (maps_rows && (flags.warp & reads_mapped) != 0) {
            if constexpr (maps_rows)
              add_plane(keep_rows(Rows<Plane, true>{plane, first}, kept), sums, finish);
          } else {
            add_plane(keep_rows(Rows<Plane, false>{plane, first}, kept), sums, finish);
          }
          shift_planes(kept);
        };
        const auto input =
            static_cast<Shared>(b % input_slots * input_bytes + columns * Cells::element_bytes * lane);
        const Shared handed =
            level_of(step - 1, now, 1) + static_cast<Shared>(lane_vectors * vector_bytes * lane);
        const auto add_any = [&](const auto& finish) SPIDER_INLINED {
          if constexpr (Cells::element_bytes == number_bytes) {
            add(Numbers{}, step == 0 ? input : handed, finish);
          } else if (step == 0) {
            add(Cells{}, input, finish);
          } else if constexpr (steps > 1) {
            add(Numbers{}, handed, finish);
          }
        };
        if (is_last) {
          const Wanted wanted = flags.wanted();
          const std::uint32_t stored_rows = plane_range(1).holds(z - rz) ? wanted.rows : 0;
          const auto place = static_cast<std::int64_t>(static_cast<std::uint64_t>(of_thread.word[3]) << 32U |
                                                       of_thread.word[2]);
          Element* const done =
              device::opaque_advance(static_cast<Element*>(f.output), place + (z - rz) * f.output_stride[0]);
          const auto store = [&](bool whole, auto kind, int i, Outputs& outputs) SPIDER_INLINED {
            update(kind, i, outputs);
            const bool is_stored = (stored_rows >> i & 1U) != 0;
            Tile::store_row(whole, is_stored ? wanted.cells : 0, done + i * f.output_stride[1], outputs[0]);
            if constexpr (reads_before && steps > 1) {
              Row u;
              Rows<Numbers, false>{waiting, first}.load(i, u);
              Tile::store_row(whole, is_stored ? wanted.cells : 0,
                              static_cast<Element*>(f.output_before) + (w.x0 + lane * columns) +
                                  (z - rz) * f.output_before_stride[0] +
                                  (w.y0 + first + i) * f.output_before_stride[1],
                              u);
            }
          };
          // Without a branch per row, consecutive rows overlap.
          if (stores_apart && wanted.whole) {
            add_any([&](auto kind, int i, Outputs& outputs)
                        SPIDER_INLINED { store(true, kind, i, outputs); });
          } else {
            add_any([&](auto kind, int i, Outputs& outputs)
                        SPIDER_INLINED { store(wanted.whole, kind, i, outputs); });
          }
        } else if constexpr (steps > 1) {
          const bool behind = is_behind(w.extent[0], z);
          if (!behind) add_any(publish_row);
          if (behind || is_before(w.extent[0], z) || (flags.warp & needs_ghost_fix) != 0) {
            const bool turns = z_rules.high == FaceRule::mirror && w.extent[0] > 1;
            fix_ghosts(f, start_of(w.start), z, first, flags.lane, to, own,
                       level_of(step, now, turns ? 2 : 1) + own);
          }
        }
        if constexpr (reads_points) load_points(f, w, spans, step, first, z + 1 - rz, now, points);
        // The ghost plane at z = -1 equals plane 0: plane 0 is added twice.
        if (streams_faces && front_acts && z_rules.low != FaceRule::constant && step > 0 && z == 0) {
          again = !again;
          if (again) {
            device::sync_warp();
            continue;
          }
        }
      }
      now.advance();
      device::copy_async_wait<ahead - 2>();
      device::sync_block();
    }
  }
};

template <class Stencil>
constexpr SweepForm stepping3d_form() {
  using Kernel = Stepping3d<Stencil>;
  return stepped_form<Kernel>(sweep_stepping3d<Stencil>, 2 * Kernel::overlap_planes + Kernel::steps - 1);
}

}  // namespace device_4
}  // namespace spider
