/// Common parts of kernels of 3D time steps: a tile of 128 columns by some rows with which a block walks
/// along z, the copies of its input planes to shared memory, and the stores of its results. Tiles overlap by
/// the columns and rows that all steps reach on each side, walks by the planes: results there are not exact
/// and are not stored.
#pragma once

#include <spider/field/boundary.h>
#include <spider/field/rims_first.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/steps/stepping.h>
#include <spider/values/cells.h>
#include <spider/values/vectors.h>
#include <spider/values/words.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// The measures of a tile whose `rows` are the rows of a warp, `warps_down` one below the other. `is_even`:
/// weights are even along all axes and reach one cell.
template <class Stencil, bool is_even = false>
struct StepShape {
  using Cells = typename Stencil::Cells;
  using Number = typename Cells::Number;
  using Numbers = NumberCells<Cells>;
  static constexpr int vector_bytes = 16;
  static constexpr int vector_elements = vector_bytes / Cells::element_bytes;
  static constexpr int columns = 4;  ///< of a lane
  static constexpr int rows = Stencil::rows;
  static constexpr int steps = Stencil::steps;
  static constexpr int warps_down = Stencil::warps_down;
  static constexpr int ahead = Stencil::ahead;
  SPIDER_DEVICE static constexpr int larger(int a, int b) { return a > b ? a : b; }
  static constexpr int rz = larger(1, larger(Stencil::plane_high, -Stencil::plane_low));
  static constexpr int ry = larger(Stencil::row_high, -Stencil::row_low);
  static constexpr int rx = larger(Stencil::column_high, -Stencil::column_low);

  // Functions, and constants for compile-time decisions: device code has no addresses of constants.
  SPIDER_DEVICE static constexpr auto planes() { return mirror_axis(Stencil::plane_rules(), is_even); }
  SPIDER_DEVICE static constexpr auto lines() { return mirror_axis(Stencil::row_rules(), is_even); }
  SPIDER_DEVICE static constexpr auto across() { return mirror_axis(Stencil::column_rules(), is_even); }
  static constexpr auto z_axis = planes(), y_axis = lines(), x_axis = across();
  static constexpr auto z_rules = z_axis.rules, y_rules = y_axis.rules, x_rules = x_axis.rules;
  static constexpr bool front_acts = z_axis.is_closed_low(), back_acts = z_axis.is_closed_high();
  static constexpr bool rows_end = y_axis.is_closed_low() || y_axis.is_closed_high();
  static constexpr bool columns_end = x_axis.is_closed_low() || x_axis.is_closed_high();

  static constexpr int width = 32 * columns;
  static constexpr int height = warps_down * rows;
  /// Tiles begin at multiples of this: in f32 and f64 where memory's sectors of 32 bytes do.
  static constexpr int anchor = 8;
  static constexpr int overlap_columns = (steps * rx + anchor - 1) / anchor * anchor;
  static constexpr int overlap_rows = steps * ry;
  static constexpr int overlap_planes = steps * rz;
  static constexpr int valid_columns = width - 2 * overlap_columns;
  static constexpr int valid_rows = height - 2 * overlap_rows;
  static_assert(valid_columns > 0 && valid_rows > 0, "tiles have outputs");

  static constexpr int input_row_bytes = width * Cells::element_bytes;
  static constexpr int row_bytes = width * Numbers::element_bytes;  ///< of values between steps

  using Row = Number[columns];
};

/// `Layout` has, as static members:
/// - warps of the block; margin_rows of a plane in shared memory before its first row and after its last;
/// - input_slots: planes of the input in shared memory, which begins with them;
/// - sources: where the tile's rows of the input are listed there, 4 bytes each;
/// - first_plane: streams begin at it or after it if the field ends at the low face along z;
/// - has_single_cells: may pieces come as single cells? Then cells: 8 bytes a thread;
/// - streams_faces: are planes outside such a face streamed like others?
/// - prefills_constants: are constants outside faces along y and x in all planes from the start, and never
///   written again?
template <class Stencil, class Layout, bool is_even = false>
struct StepTile : StepShape<Stencil, is_even> {
  using Shape = StepShape<Stencil, is_even>;
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Shared = device::Shared;
  using Shape::columns, Shape::rows, Shape::steps, Shape::height, Shape::width, Shape::x_rules,
      Shape::y_rules, Shape::front_acts;
  using Shape::input_row_bytes, Shape::vector_elements;
  using Shape::overlap_columns, Shape::overlap_rows, Shape::overlap_planes, Shape::valid_columns,
      Shape::valid_rows;
  using typename Shape::Number, typename Shape::Numbers, typename Shape::Row;
  static constexpr int warps = Layout::warps;
  static constexpr int input_slots = Layout::input_slots;
  static constexpr int margin_rows = Layout::margin_rows;
  static constexpr int input_bytes = (height + 2 * margin_rows) * input_row_bytes;
  static constexpr int sources = Layout::sources;
  static constexpr bool streams_faces = Layout::streams_faces;
  static constexpr bool has_constant(FaceRule low, FaceRule high) {
    return low == FaceRule::constant || high == FaceRule::constant;
  }
  static constexpr bool prefills_rows = Layout::prefills_constants && has_constant(y_rules.low, y_rules.high);
  static constexpr bool prefills_columns =
      Layout::prefills_constants && has_constant(x_rules.low, x_rules.high);
  static constexpr std::uint32_t skipped_row = 0x80000000U;  ///< among sources: not read
  static constexpr std::uint32_t no_cell = ~0U;

  /// First to before the end.
  struct Range {
    std::int32_t begin, end;
    SPIDER_DEVICE bool holds(std::int32_t i) const { return i >= begin && i < end; }
  };

  struct TileSweep {
    std::int32_t extent[3];  ///< of the field
    std::int32_t start;      ///< plane of the first element of the stream
    std::int32_t x0, y0;     ///< the tile's first column and row
    Range stored[3];
    Range readable[3];  ///< that taps reach from the box, where the field or its halo has them
    Range plain;        ///< planes that are read in place
  };

  template <class Axis>
  SPIDER_DEVICE static Range readable_of(const Axis& along, const SweepArguments& f, int axis, int low,
                                         int high) {
    const FarSpan box{f.box.offset[axis], f.box.offset[axis] + f.box.extent[axis]};
    const FarSpan reached{box.begin + steps * low, box.end + steps * high};
    const FarSpan span = along.mirrors()
                             ? reached
                             : find_readable(along.rules, box, steps * low, steps * high, f.extent[axis]);
    return {static_cast<std::int32_t>(span.begin), static_cast<std::int32_t>(span.end)};
  }

  /// The range from `begin` on that tile or walk number i stores, with `count` outputs each.
  SPIDER_DEVICE static Range stored_of(const SweepArguments& f, int axis, std::int32_t begin, int i,
                                       std::int32_t count) {
    const auto first = static_cast<std::int32_t>(f.box.offset[axis]);
    const auto end = static_cast<std::int32_t>(f.box.offset[axis] + f.box.extent[axis]);
    const std::int32_t from = begin + i * count;
    return {from > first ? from : first, count < end - from ? from + count : end};
  }

  /// The planes that a block stores if rims may come first, and its tile.
  SPIDER_DEVICE static int find_tile_of_planes(const SweepArguments& f, Range& stored) {
    const VolumeGrid& grid = f.grid.volume;
    const BlocksOfPlanes part = find_planes(f, device::block_index());
    if (part.is_rim) {
      stored = {part.begin, part.end};
      return part.block;
    }
    const bool is_whole = part.block < grid.whole_blocks;
    const int tiles = is_whole ? grid.whole_tiles : grid.across * grid.down - grid.whole_tiles;
    const int block = part.block - (is_whole ? 0 : grid.whole_blocks);
    const std::int32_t planes = is_whole ? grid.planes : grid.rest_planes;
    const int walks = static_cast<int>((part.end - part.begin + planes - 1) / planes);
    const std::int32_t from = part.begin + (is_whole ? block / tiles : block % walks) * planes;
    stored = {from, planes < part.end - from ? from + planes : part.end};
    return is_whole ? block % tiles : grid.whole_tiles + tiles - 1 - block / walks;
  }

  SPIDER_DEVICE static bool find_tile(const SweepArguments& f, TileSweep& w) {
    const VolumeGrid& grid = f.grid.volume;
    const bool is_whole = device::block_index() < grid.whole_blocks;
    const int first_tile = is_whole ? 0 : grid.whole_tiles;
    const int tiles = is_whole ? grid.whole_tiles : grid.across * grid.down - grid.whole_tiles;
    const int block = device::block_index() - (is_whole ? 0 : grid.whole_blocks);
    // Short walks start with the last tiles, so that they end before the final wave.
    const std::int32_t planes = is_whole ? grid.planes : grid.rest_planes;
    const int walks = static_cast<int>((f.box.extent[0] + planes - 1) / planes);
    int tile = is_whole ? block % tiles : first_tile + tiles - 1 - block / walks;
    const int walk = is_whole ? block / tiles : block % walks;
    if constexpr (tells_rims) tile = find_tile_of_planes(f, w.stored[0]);
    // Tiles at faces along one axis come last, in short walks: they may take longer.
    int across = tile % grid.across;
    int down = tile / grid.across + 1 < grid.down ? tile / grid.across + 1 : 0;
    if constexpr (Layout::columns_last) {
      across = tile / grid.down + 1 < grid.across ? tile / grid.down + 1 : 0;
      down = tile % grid.down;
    }
    for (int axis = 0; axis < 3; ++axis) w.extent[axis] = static_cast<std::int32_t>(f.extent[axis]);
    const auto first_row = static_cast<std::int32_t>(f.box.offset[1]);
    const auto first_plane = static_cast<std::int32_t>(f.box.offset[0]);
    if constexpr (!tells_rims) w.stored[0] = stored_of(f, 0, first_plane, walk, planes);
    w.stored[1] = stored_of(f, 1, first_row, down, valid_rows);
    w.stored[2] = stored_of(f, 2, grid.first_column, across, valid_columns);
    if (w.stored[0].begin >= w.stored[0].end) return false;
    w.x0 = grid.first_column + across * valid_columns - overlap_columns;
    w.y0 = first_row + down * valid_rows - overlap_rows;
    w.start = w.stored[0].begin - overlap_planes;
    if (front_acts && w.start < Layout::first_plane) w.start = Layout::first_plane;
    constexpr auto of_planes = Shape::planes();
    constexpr auto of_rows = Shape::lines();
    constexpr auto of_columns = Shape::across();
    w.readable[0] = readable_of(of_planes, f, 0, Stencil::plane_low, Stencil::plane_high);
    w.readable[1] = readable_of(of_rows, f, 1, Stencil::row_low, Stencil::row_high);
    w.plain = w.readable[0];
    if (of_planes.rules.low != FaceRule::halo && w.plain.begin < 0) w.plain.begin = 0;
    if (of_planes.rules.high != FaceRule::halo && w.plain.end > w.extent[0]) w.plain.end = w.extent[0];
    w.readable[2] = readable_of(of_columns, f, 2, Stencil::column_low, Stencil::column_high);
    return true;
  }

  SPIDER_DEVICE static auto find_plane(const TileSweep& w, std::int32_t z) {
    constexpr auto along = Shape::planes();
    return find_on(along, z, w.extent[0]);
  }
  SPIDER_DEVICE static bool holds_plane(const TileSweep& w, std::int32_t z) {
    constexpr auto rules = Stencil::plane_rules();
    return holds_index(rules, z, w.extent[0]);
  }
  SPIDER_DEVICE static auto find_row(const TileSweep& w, std::int32_t y) {
    constexpr auto along = Shape::lines();
    return find_on(along, y, w.extent[1]);
  }
  SPIDER_DEVICE static auto find_column(const TileSweep& w, std::int32_t x) {
    constexpr auto along = Shape::across();
    return find_on(along, x, w.extent[2]);
  }
  template <class Axis>
  SPIDER_DEVICE static auto find_on(const Axis& along, std::int32_t i, std::int32_t extent) {
    auto from = find_index(along.rules, i, extent);
    if (along.has_constant_at(i, extent))
      from = {i, true, i < 0 ? along.value_before() : along.value_behind()};
    return from;
  }

  SPIDER_DEVICE static int thread_index() { return device::warp_index() * 32 + device::lane_index(); }

  // Copies.

  static constexpr int rows_of_warp = (height + warps - 1) / warps;  ///< that a warp requests of a plane

  /// The four columns of a lane's piece of every row. Incomplete pieces, and those that cross a periodic
  /// face, are copied as single cells, one a lane for all of the warp's rows.
  struct CopyPlan {
    std::int32_t
        offset[rows_of_warp];  ///< of the piece in each of the warp's rows, from the plane's first cell
    std::int32_t from;         ///< column of the first
    std::uint32_t wanted;      ///< bit c: column c is read
    bool is_vector;            ///< all four are, together
    std::uint32_t rows;        ///< bit n: the warp's row n is read
    bool whole;                ///< of the block: vectors and single cells cover everything
    bool has_cells;            ///< of the block: there are single cells
    std::int32_t cell_from;    ///< column of the lane's single cell
    std::int32_t cell_to;      ///< its column in the tile; negative if there is none
  };

  SPIDER_DEVICE static CopyPlan plan_copies(const SweepArguments& f, const TileSweep& w) {
    constexpr auto rules = Shape::across().rules;
    CopyPlan piece;
    const std::int32_t x = w.x0 + columns * device::lane_index();
    piece.from = static_cast<std::int32_t>(wrap_index(rules, x, w.extent[2]));
    piece.rows = ~0U;
    piece.wanted = 0;
    for (int c = 0; c < columns; ++c) {
      if (w.readable[2].holds(x + c) && holds_index(rules, x + c, w.extent[2])) piece.wanted |= 1U << c;
    }
    piece.is_vector = piece.wanted == (1U << columns) - 1 && piece.from % columns == 0 &&
                      (x_rules.low != FaceRule::periodic || piece.from + columns <= w.extent[2]);
    const std::uint32_t broken = piece.is_vector ? 0 : piece.wanted;
    const bool is_broken = device::warp_max(broken) != 0;
    piece.has_cells = Layout::has_single_cells && is_broken;
    piece.cell_from = 0;
    piece.cell_to = -1;
    bool fit = !is_broken;
    if constexpr (Layout::has_single_cells) {
      if (is_broken) fit = spread_single_cells(w, broken, piece);
    }
    piece.whole = f.aligned_input && fit;
    return piece;
  }

  /// Gives each lane one of the cells `broken` of all lanes, in one of the warp's rows. Returns whether there
  /// are lanes for all.
  SPIDER_DEVICE static bool spread_single_cells(const TileSweep& w, std::uint32_t broken, CopyPlan& piece) {
    constexpr auto rules = Shape::across().rules;
    constexpr int most = 32 / rows_of_warp;
    const int own = device::lane_index() / rows_of_warp;
    int count = 0;
    SPIDER_NO_UNROLL
    for (int i = 0; i < width; ++i) {
      if ((device::shuffle(broken, i / columns) >> i % columns & 1U) == 0) continue;
      if (count == own && own < most) piece.cell_to = i;
      ++count;
    }
    if (piece.cell_to >= 0)
      piece.cell_from = static_cast<std::int32_t>(wrap_index(rules, w.x0 + piece.cell_to, w.extent[2]));
    return count <= most;
  }

  /// The index of an axis that is read for index i; clamped to a valid cell if none is needed.
  template <class Axis>
  SPIDER_DEVICE static std::int32_t find_input(const Axis& along, const Range& readable, std::int32_t i,
                                               std::int32_t extent) {
    const auto& rules = along.rules;
    if (i < readable.begin) i = readable.begin;
    if (i >= readable.end) i = readable.end - 1;
    i = along.mirrors() ? mirror_index(rules, i, extent)
                        : static_cast<std::int32_t>(wrap_index(rules, i, extent));
    if (holds_index(rules, i, extent)) return i;
    return i < 0 ? 0 : extent - 1;
  }

  /// True if a row, or a column, lies outside a constant face and planes contain it.
  SPIDER_DEVICE static bool is_constant_row(const TileSweep& w, std::int32_t y) {
    constexpr auto along = Shape::lines();
    return prefills_rows && along.has_constant_at(y, w.extent[1]);
  }
  SPIDER_DEVICE static bool is_constant_column(const TileSweep& w, std::int32_t x) {
    constexpr auto along = Shape::across();
    return prefills_columns && along.has_constant_at(x, w.extent[2]);
  }

  /// Needs the sources of a plane's rows. If rows are aligned (SweepArguments), offsets have 32 bits.
  SPIDER_DEVICE static void find_offsets(const SweepArguments& f, CopyPlan& piece) {
    SPIDER_UNROLL
    for (int n = 0; n < rows_of_warp; ++n) {
      const int j = device::warp_index() + n * warps;
      const std::uint32_t y =
          device::load_shared_word(static_cast<Shared>(sources + 4 * (j < height ? j : 0)));
      if (prefills_rows && y == skipped_row) {
        piece.rows &= ~(1U << n);
        piece.offset[n] = 0;
        continue;
      }
      piece.offset[n] =
          static_cast<std::int32_t>(static_cast<std::int32_t>(y) * f.input_stride[1] + piece.from);
    }
    if (Layout::has_single_cells && piece.has_cells) {
      const int j = device::warp_index() + device::lane_index() % rows_of_warp * warps;
      const std::uint32_t y =
          device::load_shared_word(static_cast<Shared>(sources + 4 * (j < height ? j : 0)));
      const bool is_read = piece.cell_to >= 0 && j < height && !(prefills_rows && y == skipped_row);
      const std::int64_t offset =
          is_read ? static_cast<std::int32_t>(y) * f.input_stride[1] + piece.cell_from : 0;
      device::Pair cell;
      cell.word[0] = static_cast<std::uint32_t>(offset);
      cell.word[1] = is_read ? static_cast<std::uint32_t>((margin_rows + j) * input_row_bytes +
                                                          piece.cell_to * Cells::element_bytes)
                             : no_cell;
      device::store_shared(cell_place(), cell);
    }
  }

  /// Place of a lane's single cell in shared memory: its offset from a plane's first in the field, its place
  /// in a plane.
  SPIDER_DEVICE static Shared cell_place() {
    if constexpr (Layout::has_single_cells) return static_cast<Shared>(Layout::cells + 8 * thread_index());
    return 0;
  }

  /// Requests this warp's rows of plane b of the stream, all in vectors and single cells, in place.
  SPIDER_DEVICE static void request_pieces(const Element* plane, const CopyPlan& piece, std::int32_t b) {
    const auto first = static_cast<Shared>(b % input_slots * input_bytes);
    const Shared slot = first + static_cast<Shared>(margin_rows * input_row_bytes +
                                                    columns * Cells::element_bytes * device::lane_index());
    SPIDER_UNROLL
    for (int n = 0; n < rows_of_warp; ++n) {
      const int j = device::warp_index() + n * warps;
      const bool wanted = piece.is_vector && (height % warps == 0 || j < height) &&
                          (!prefills_rows || (piece.rows >> n & 1U) != 0);
      const Shared to = slot + static_cast<Shared>(j * input_row_bytes);
      if constexpr (Cells::element_bytes >= 4) {
        SPIDER_UNROLL
        for (int c = 0; c < columns; c += vector_elements) {
          const auto place = static_cast<Shared>(c * Cells::element_bytes);
          device::copy_async_if(wanted, to + place, plane + (piece.offset[n] + c));
        }
      } else {
        device::copy_pair_async_if(wanted, to, plane + piece.offset[n]);
      }
    }
    if (Layout::has_single_cells && piece.has_cells) {
      const device::Pair cell = device::load_shared_pair(cell_place());
      const bool wanted = cell.word[1] != no_cell;
      request_cell(wanted, first + (wanted ? cell.word[1] : 0),
                   plane + static_cast<std::int32_t>(cell.word[0]));
    }
  }

  /// The source of plane b of the stream.
  struct PlaneSource {
    const Element* cells;  ///< the plane's first in the field
    bool is_filled;        ///< or it lies outside a face, and is all `value`
    typename Numbers::Element value;
  };
  SPIDER_DEVICE static PlaneSource find_source(const SweepArguments& f, const TileSweep& w, std::int32_t b) {
    std::int32_t z = w.start + b;
    if (z < w.plain.begin || z >= w.plain.end) {
      constexpr auto along = Shape::planes();
      auto source = find_plane(w, z);
      if (along.mirrors() && !source.constant) source.index = z;
      if (streams_faces && source.constant) return {nullptr, true, source.value};
      z = find_input(along, w.readable[0], source.constant ? z : source.index, w.extent[0]);
    }
    return {static_cast<const Element*>(f.input) + z * f.input_stride[0], false, {}};
  }
  /// Its place in shared memory, from the first of the tile's rows on.
  SPIDER_DEVICE static Shared slot_of(std::int32_t b) {
    return static_cast<Shared>(b % input_slots * input_bytes + margin_rows * input_row_bytes);
  }

  // Misaligned rows, and rows that a face cuts within a lane's columns, are copied by 4-byte words, or by
  // cells that are no shorter. 2-byte rows that start in mid-word arrive one cell late, and realign_rows()
  // moves them. Their last cell is not copied, since a constant may follow it: realign_rows() loads it.

  static constexpr int word_bytes = Cells::element_bytes < 4 ? 4 : Cells::element_bytes;
  static constexpr int word_cells = word_bytes / Cells::element_bytes;
  static constexpr bool splits_words = word_cells > 1;
  static constexpr int words_of_lane = columns / word_cells;
  /// True if a result needs the last column of the tile.
  static constexpr bool needs_last = overlap_columns == steps * Shape::rx;

  /// Columns of the tile that are read, and those of them that are read in place.
  struct Columns {
    Range read, plain;
  };
  SPIDER_DEVICE static Columns find_columns(const TileSweep& w) {
    constexpr auto along = Shape::across();
    const auto within = [&](std::int32_t x) { return x < w.x0 ? 0 : (x > w.x0 + width ? width : x - w.x0); };
    Columns found;
    found.read = {within(w.readable[2].begin), within(w.readable[2].end)};
    found.plain = found.read;
    if (along.rules.low != FaceRule::halo && found.plain.begin < within(0)) found.plain.begin = within(0);
    if (along.rules.high != FaceRule::halo && found.plain.end > within(w.extent[2]))
      found.plain.end = within(w.extent[2]);
    if (found.plain.end < found.plain.begin) found.plain.end = found.plain.begin;
    if (along.rules.low != FaceRule::periodic) found.read = found.plain;
    return found;
  }
  /// They wait in a word: finding them takes as long as requesting a row or two.
  static_assert(width < 256, "columns are bytes");
  SPIDER_DEVICE static std::uint32_t pack_columns(const Columns& found) {
    return static_cast<std::uint32_t>(found.read.begin) | static_cast<std::uint32_t>(found.read.end) << 8U |
           static_cast<std::uint32_t>(found.plain.begin) << 16U |
           static_cast<std::uint32_t>(found.plain.end) << 24U;
  }
  SPIDER_DEVICE static Columns unpack_columns(std::uint32_t word) {
    const auto byte = [&](int i) { return static_cast<std::int32_t>(word >> (8 * i) & 0xffU); };
    return {{byte(0), byte(1)}, {byte(2), byte(3)}};
  }

  SPIDER_DEVICE static constexpr int smaller(int a, int b) { return a < b ? a : b; }

  /// One of the rows that the warp requests of a plane, number n.
  struct InputRow {
    int number;            ///< in the tile
    bool comes;            ///< from memory
    int behind;            ///< cells behind its place
    const Element* cells;  ///< of memory, from the tile's column 0 on
    Range words;           ///< that are read
  };
  SPIDER_DEVICE static InputRow find_input_row(const SweepArguments& f, const TileSweep& w,
                                               const Columns& found, const Element* plane, int n) {
    InputRow row;
    row.number = device::warp_index() + n * warps;
    const bool exists = height % warps == 0 || row.number < height;
    const std::uint32_t y =
        device::load_shared_word(static_cast<Shared>(sources + 4 * (exists ? row.number : 0)));
    row.comes = exists && !(prefills_rows && y == skipped_row);
    row.cells = plane + ((row.comes ? static_cast<std::int32_t>(y) : 0) * f.input_stride[1] + w.x0);
    row.behind = is_misaligned(row.cells) ? 1 : 0;
    const int end = smaller(found.plain.end + row.behind, found.read.end);
    row.words = {(found.plain.begin + row.behind + word_cells - 1) / word_cells, end / word_cells};
    return row;
  }

  /// Requests this warp's rows of plane b of the stream by words.
  SPIDER_DEVICE static void load_by_words(const SweepArguments& f, const TileSweep& w, const Columns& found,
                                          std::int32_t b) {
    const PlaneSource source = find_source(f, w, b);
    const Shared slot = slot_of(b);
    const int lane = device::lane_index();
    if (source.is_filled) {
      fill_input(w, slot + static_cast<Shared>(columns * Cells::element_bytes * lane), source.value);
      return;
    }
    SPIDER_UNROLL
    for (int n = 0; n < rows_of_warp; ++n) {
      const InputRow row = find_input_row(f, w, found, source.cells, n);
      const Shared to = slot + static_cast<Shared>(row.number * input_row_bytes + word_bytes * lane);
      const Element* const from = row.cells + (word_cells * lane - row.behind);
      SPIDER_UNROLL
      for (int i = 0; i < words_of_lane; ++i) {
        const bool wanted = row.comes && row.words.holds(32 * i + lane);
        copy_piece_async_if<word_bytes>(wanted, to + 32 * word_bytes * i, from + 32 * word_cells * i);
      }
    }
    // Cells next to words, of all rows together: cells of two bytes wait for memory.
    const int begin = smaller(found.plain.begin + word_cells - 1, found.plain.end);
    const int end = Shape::larger(found.plain.end - 2 * (word_cells - 1), begin);
    const int beside = begin - found.read.begin + found.read.end - end;
    SPIDER_NO_UNROLL
    for (int i = lane; i < rows_of_warp * beside; i += 32) {
      const InputRow row = find_input_row(f, w, found, source.cells, i / beside);
      const int k = i % beside;
      const int column = k < begin - found.read.begin ? found.read.begin + k : found.read.end - beside + k;
      const int to = column + row.behind;
      if (!row.comes || row.words.holds(to / word_cells) || to >= found.read.end) continue;
      constexpr auto along = Shape::across();
      const auto x = static_cast<std::int32_t>(wrap_index(along.rules, w.x0 + column, w.extent[2]));
      request_cell(true, slot + static_cast<Shared>(row.number * input_row_bytes + to * Cells::element_bytes),
                   row.cells + (x - w.x0));
    }
  }

  /// Moves the warp's rows of plane b that are a cell behind, once they have arrived.
  SPIDER_DEVICE static void realign_rows(const SweepArguments& f, const TileSweep& w, const Columns& found,
                                         std::int32_t b) {
    const PlaneSource source = find_source(f, w, b);
    if (source.is_filled) return;
    const int lane = device::lane_index();
    device::sync_warp();
    std::uint32_t moved[rows_of_warp][words_of_lane];
    const auto place = [&](const InputRow& row, int i) {
      return slot_of(b) + static_cast<Shared>(row.number * input_row_bytes + word_bytes * (32 * i + lane));
    };
    SPIDER_UNROLL
    for (int n = 0; n < rows_of_warp; ++n) {
      const InputRow row = find_input_row(f, w, found, source.cells, n);
      if (!row.comes || row.behind == 0) continue;
      SPIDER_UNROLL
      for (int i = 0; i < words_of_lane; ++i) {
        const bool is_last = i + 1 == words_of_lane && lane == 31;
        const std::uint32_t own = device::load_shared_word(place(row, i));
        const std::uint32_t next = device::load_shared_word(place(row, i) + (is_last ? 0 : word_bytes));
        // Columns other than those that are read stay as they are.
        const int column = word_cells * (32 * i + lane);
        const std::uint32_t low = column >= found.read.begin && column < found.read.end ? own >> 16 : own;
        const bool has_high = column + 1 >= found.read.begin && column + 1 < found.read.end;
        moved[n][i] = (low & 0xffffU) | (has_high ? next << 16 : own & 0xffff0000U);
      }
    }
    device::sync_warp();
    SPIDER_UNROLL
    for (int n = 0; n < rows_of_warp; ++n) {
      const InputRow row = find_input_row(f, w, found, source.cells, n);
      if (!row.comes || row.behind == 0) continue;
      SPIDER_UNROLL
      for (int i = 0; i < words_of_lane; ++i) device::store_shared(place(row, i), moved[n][i]);
    }
    if (found.read.begin == found.read.end || (!needs_last && found.read.end == width)) return;
    device::sync_warp();
    static_assert(rows_of_warp <= 32, "a lane for each row");
    const InputRow row = find_input_row(f, w, found, source.cells, lane < rows_of_warp ? lane : 0);
    if (lane >= rows_of_warp || !row.comes || row.behind == 0) return;
    constexpr auto along = Shape::across();
    const int column = found.read.end - 1;
    const auto x = static_cast<std::int32_t>(wrap_index(along.rules, w.x0 + column, w.extent[2]));
    request_cell(
        true, slot_of(b) + static_cast<Shared>(row.number * input_row_bytes + column * Cells::element_bytes),
        row.cells + (x - w.x0));
  }

  /// Requests this warp's rows of plane b of the stream in pieces, except those outside faces.
  SPIDER_DEVICE static void request_whole(const SweepArguments& f, const TileSweep& w, const CopyPlan& piece,
                                          std::int32_t b) {
    const PlaneSource source = find_source(f, w, b);
    if (source.is_filled) {
      fill_input(w, slot_of(b) + static_cast<Shared>(columns * Cells::element_bytes * device::lane_index()),
                 source.value);
    } else {
      request_pieces(source.cells, piece, b);
    }
  }

  SPIDER_DEVICE static void request_cell(bool wanted, Shared to, const Element* from) {
    if constexpr (Cells::element_bytes >= 4) {
      copy_cell_async_if(wanted, to, from);
    } else {
      device::store_shared_if(wanted, to, device::load_field_if(wanted, from, Element{}));
    }
  }

  /// Fills a plane of the input outside a constant face, except prefilled constants.
  SPIDER_DEVICE static void fill_input(const TileSweep& w, Shared slot, typename Numbers::Element value) {
    SPIDER_NO_UNROLL
    for (int j = device::warp_index(); j < height; j += warps) {
      if (is_constant_row(w, w.y0 + j)) continue;
      SPIDER_NO_UNROLL
      for (int c = 0; c < columns; ++c) {
        if (is_constant_column(w, w.x0 + columns * device::lane_index() + c)) continue;
        device::store_shared(slot + static_cast<Shared>(j * input_row_bytes + c * Cells::element_bytes),
                             Cells::cell(Numbers::number(value, 0)));
      }
    }
  }

  /// Lists the rows of the input; all threads of the block take part.
  SPIDER_DEVICE static void list_sources(const TileSweep& w) {
    constexpr auto along = Shape::lines();
    for (int j = thread_index(); j < height; j += warps * 32) {
      const auto y = static_cast<std::uint32_t>(find_input(along, w.readable[1], w.y0 + j, w.extent[1]));
      device::store_shared(static_cast<Shared>(sources + 4 * j),
                           is_constant_row(w, w.y0 + j) ? skipped_row : y);
    }
  }

  // Ghost cells of mirrored faces along x, which no copy fills.

  /// A ghost cell next to each face that a lane fills, in one of the rows that the warp requests of a plane,
  /// and the cell of its row that it equals: places in a plane, the source's in the lower half; 0 if there is
  /// none.
  struct MirrorGhosts {
    std::uint32_t places[2];

    SPIDER_DEVICE bool exist() const { return (places[0] | places[1]) != 0; }
  };

  SPIDER_DEVICE static MirrorGhosts find_mirror_ghosts(const TileSweep& w) {
    static_assert(input_bytes <= 0x10000, "places in a plane have 16 bits");
    static_assert(rows_of_warp * steps <= 32, "a lane fills one cell beyond each face");
    constexpr auto along = Shape::across();
    MirrorGhosts mirrors{{0, 0}};
    if (along.mirrors_low) mirrors.places[0] = find_ghosts_from(w, -1, 1);
    if (along.mirrors_high) mirrors.places[1] = find_ghosts_from(w, w.extent[2], -1);
    return mirrors;
  }

  /// From column `first` on, `towards` the field.
  SPIDER_DEVICE static std::uint32_t find_ghosts_from(const TileSweep& w, std::int32_t first, int towards) {
    constexpr auto along = Shape::across();
    const int n = device::lane_index();
    const int j = device::warp_index() + n % rows_of_warp * warps;
    const std::int32_t x = first - towards * (n / rows_of_warp);
    const std::int32_t source = mirror_index(along.rules, x, w.extent[2]);
    const bool is_here = n < rows_of_warp * steps && j < height && x >= w.x0 && x < w.x0 + width &&
                         source >= w.x0 && source < w.x0 + width && !along.has_constant_at(x, w.extent[2]);
    const auto place = [&](std::int32_t column) {
      return static_cast<std::uint32_t>((margin_rows + j) * input_row_bytes +
                                        (column - w.x0) * Cells::element_bytes);
    };
    return is_here ? place(x) << 16U | place(source) : 0;
  }

  /// Filling them in a plane has two parts: code in between hides the latency of the loads.
  struct GhostCells {
    Element cell[2];
  };
  SPIDER_DEVICE static void load_mirror_ghosts(const MirrorGhosts& mirrors, Shared plane, GhostCells& cells) {
    SPIDER_UNROLL
    for (int i = 0; i < 2; ++i) {
      if (mirrors.places[i] != 0) cells.cell[i] = load_cell(plane + (mirrors.places[i] & 0xffffU));
    }
  }
  SPIDER_DEVICE static void store_mirror_ghosts(const MirrorGhosts& mirrors, Shared plane,
                                                const GhostCells& cells) {
    SPIDER_UNROLL
    for (int i = 0; i < 2; ++i)
      device::store_shared_if(mirrors.places[i] != 0, plane + (mirrors.places[i] >> 16U), cells.cell[i]);
  }

  SPIDER_DEVICE static Element load_cell(Shared from) {
    if constexpr (Cells::element_bytes == 8) {
      return word_of<Element>(device::load_shared_pair(from), 0);
      // NOLINTNEXTLINE(bugprone-branch-clone): loads of several widths
    } else if constexpr (Cells::element_bytes == 4) {
      return device::load_shared_word(from);
    } else {
      return device::load_shared_half(from);
    }
  }

  // Stores.

  /// Which of a lane's columns, and of the warp's rows, are outputs: bits.
  struct Wanted {
    std::uint32_t cells, rows;
    bool whole;  ///< all columns of a lane or none; four are stored together
  };

  SPIDER_DEVICE static Wanted find_wanted(const SweepArguments& f, const TileSweep& w, int first) {
    Wanted wanted{0, 0, true};
    for (int c = 0; c < columns; ++c) {
      if (w.stored[2].holds(w.x0 + device::lane_index() * columns + c)) wanted.cells |= 1U << c;
    }
    for (int i = 0; i < rows; ++i) {
      if (w.stored[1].holds(w.y0 + first + i)) wanted.rows |= 1U << i;
    }
    wanted.whole = f.aligned_output && w.stored[2].begin % columns == 0 && w.stored[2].end % columns == 0;
    return wanted;
  }

  SPIDER_DEVICE static void store_vector(bool wanted, Element* to, const Number* numbers) {
    static_assert(columns <= 2 * vector_elements || Cells::per_word > 1, "a lane has one vector or two");
    device::Vector v;
    SPIDER_UNROLL
    for (int i = 0; i < vector_elements; ++i) put_word(v, i, device::bits_of(numbers[i]));
    device::store_field_vector_if(wanted, to, v);
  }

  /// Stores the columns `cells`.
  SPIDER_DEVICE static void store_row(bool whole, std::uint32_t cells, Element* to, Row& u) {
    if constexpr (Stencil::last != Number{1}) {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) u[c] *= Stencil::last;
    }
    if (whole) {
      if constexpr (Cells::element_bytes >= 4) {
        store_vector(cells != 0, to, u);
        if constexpr (columns > vector_elements)
          store_vector(cells != 0, to + vector_elements, u + vector_elements);
      } else {
        device::store_field_if(cells != 0, to, Cells::word(u), Cells::word(u + 2));
      }
    } else {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c)
        device::store_field_if((cells >> c & 1U) != 0, to + c, Cells::cell(u[c]));
    }
  }
};

/// A kernel on such tiles; its walks begin that many planes before their first result.
template <class Kernel>
constexpr SweepForm stepped_form(SweepFunction sweep, std::int32_t lead_planes) {
  constexpr int lane_bytes = Kernel::columns * Kernel::Cells::element_bytes;
  constexpr int piece_bytes = lane_bytes < Kernel::vector_bytes ? lane_bytes : Kernel::vector_bytes;
  constexpr int longest_walk = 512;  // planes: high fields do not need longer walks
  static_assert(Kernel::shared_bytes <= 227 * 1024, "a block has room on sm_90");
  SweepForm form{sweep,
                 {TilingKind::blocks,
                  Kernel::warps,
                  Kernel::shared_bytes,
                  piece_bytes,
                  piece_bytes,
                  {1, Kernel::valid_rows, Kernel::valid_columns},
                  0,
                  0,
                  Kernel::anchor,
                  lead_planes,
                  longest_walk / 2}};
  form.tiling.balances_tail = true;
  form.tiling.tells_rims = tells_rims;
  form.steps = Kernel::steps;
  return form;
}

}  // namespace device_4
}  // namespace spider
