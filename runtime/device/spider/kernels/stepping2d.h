/// Many time steps of a 2D stencil in one sweep, in registers, on CUDA cores.
///
/// A warp has a strip of 32 x columns columns, `columns` neighbours a lane, and takes `steps` time steps. It
/// adds each row of its input to the sums of the rows that it reaches; a complete sum is a row of the next
/// step. The sums of a step are 2 * radius_y rows, in registers. The warps of a block are chained in time:
/// each passes its rows, a batch at a time, to the next one through shared memory, as numbers; the last one
/// passes them to all warps, and each stores a part. So every warp runs the same straight code. Strips
/// overlap by the columns that all steps reach on each side, whose results are not exact and are not stored;
/// walks along y overlap in the same way.
///
/// Faces. Outside `halo` and `periodic` faces the field continues: rows and columns there are stepped like
/// others. Ghost cells of mirroring faces are stepped, too, where the weights are even (mirror_axis): their
/// input is the mirrored field. Outside the other faces the field ends. Along y one face may mirror and the
/// other have a constant, along x not. At every step a lane at such a face takes its neighbours' values from
/// where the rule says (strips begin and end exactly there); strips that touch no such face run code
/// without these choices. Rows near such a face in y are added to sums once more, with the weights of the
/// ghost cells that mirror them; while a warp is near such a face, the block runs code that does so.
///
/// A `Stencil` has, as static members:
/// - Cells: of spider/values/cells.h;
/// - columns of a lane, steps of a warp, last_steps of the last one, warps of a block,
///   blocks_per_multiprocessor;
/// - batch: rows between two barriers; ahead: batches requested ahead; unrolled: whether a batch's rows are
///   unrolled;
/// - row_low, row_high, column_low, column_high: lowest and highest offset of a tap;
/// - form, weight(dy, dx): how rows are added, and the weights over `unit`; of several sums sum_count and
///   weight(sum, dy, dx), and the form is RowForm::window;
/// - unit, back, last: after k steps a warp has the field's cells over unit^k. It passes on `back` times its
///   cells, unit^steps as a number; the last warp stores `last` times them, so that the weights have the
///   right sum;
/// - row_rules(), column_rules(): the boundary; values are numbers, whatever the cells are.
///
/// Where it is Updated (spider/sums/update.h), the update replaces every complete sum before it is a row of
/// the next step. Then cells are never over a unit, sums are; back and last are 1. An update's inputs from
/// further fields wait in registers from the first to the last step of a warp. Where it reads `previous`, of
/// RowForm::window, a row y comes and goes together with row y - radius_y of the step before, which the next
/// step's results read; in the last step, with row y itself, which is stored, too.
#pragma once

#include <spider/field/boundary.h>
#include <spider/field/overlapping.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/steps/stepped_points.h>
#include <spider/steps/stepping.h>
#include <spider/sums/update.h>
#include <spider/values/cells.h>
#include <spider/values/spans.h>
#include <spider/values/vectors.h>
#include <spider/values/words.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

/// How a row is added to the sums if no face is near.
enum class RowForm {
  taps,    ///< a product for each tap
  even,    ///< radius 1, weights even along x and y: pairs of cells and the rows above and below share sums
  rings,   ///< radius 2, one weight for the four neighbours at each distance, that at 2 is 1
  cross,   ///< radius 1, four neighbours of one weight: diagonal pairs of cells share sums
  window,  ///< for updates of several sums or of `previous`: the rows that taps reach wait for all sums
           ///< together
};

template <class Stencil>
struct Stepping2d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps * 32, Stencil::blocks_per_multiprocessor)
sweep_stepping2d(const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  using Kernel = Stepping2d<Stencil>;
  typename Kernel::Walk walk;
  if (!Kernel::find_walk(field, field.box, field.grid.overlapping, device::block_index(), walk)) return;
  Kernel::run(field, walk);
}

template <class Stencil>
struct Stepping2d {
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Arguments = ArgumentsOf<Stencil>;
  using Number = typename Cells::Number;
  using Numbers = NumberCells<Cells>;
  static constexpr int vector_bytes = 16;
  static constexpr int vector_elements = vector_bytes / Cells::element_bytes;
  static constexpr int columns = Stencil::columns;
  static constexpr int steps = Stencil::steps;
  static constexpr int warps = Stencil::warps;
  static constexpr int batch = Stencil::batch;
  static constexpr int ahead = Stencil::ahead;
  SPIDER_DEVICE static constexpr int larger(int a, int b) { return a > b ? a : b; }
  static constexpr int ry = larger(1, larger(Stencil::row_high, -Stencil::row_low));
  static constexpr int rx = larger(Stencil::column_high, -Stencil::column_low);
  static constexpr RowForm form = Stencil::form;
  static_assert(columns % vector_elements == 0 && columns > rx, "lanes have whole vectors");

  static constexpr bool updates = HasUpdate<Stencil>::value;
  SPIDER_DEVICE static constexpr bool has_mirror() {
    constexpr auto y = Stencil::row_rules();
    constexpr auto x = Stencil::column_rules();
    constexpr FaceRule mirror = FaceRule::mirror;
    return y.low == mirror || y.high == mirror || x.low == mirror || x.high == mirror;
  }
  /// Forms that share sums have even weights. Updates may distinguish a ghost cell from its mirror image. On
  /// an H200 strips that end at faces were faster: 800 us instead of 850 for nine points, some 770 us instead
  /// of 803 for five next to a mirror.
  static constexpr bool is_even =
      !updates && (form == RowForm::rings || (form == RowForm::cross && !has_mirror()));
  SPIDER_DEVICE static constexpr auto down() { return mirror_axis(Stencil::row_rules(), is_even, ry); }
  /// Strips that mirror at one face and end at the other took 3 to 5 % longer, or spilled.
  SPIDER_DEVICE static constexpr auto across() {
    constexpr auto rules = Stencil::column_rules();
    constexpr bool is_constant = rules.low == FaceRule::constant || rules.high == FaceRule::constant;
    return mirror_axis(rules, is_even && !is_constant, rx);
  }
  static constexpr auto y_axis = down(), x_axis = across();
  static constexpr auto y_rules = y_axis.rules;
  static constexpr auto x_rules = x_axis.rules;
  static constexpr bool top_acts = y_axis.is_closed_low(), bottom_acts = y_axis.is_closed_high();
  static constexpr bool left_acts = x_axis.is_closed_low(), right_acts = x_axis.is_closed_high();
  /// If one face along y mirrors and the other ends, steps of a field of few rows reach from one to the
  /// other: there both end.
  static constexpr bool may_have_few_rows = y_axis.mirrors() && (top_acts || bottom_acts);

  static constexpr int point_fields = UpdateReads<Stencil>::fields;
  static constexpr bool reads_before = UpdateReads<Stencil>::before;
  /// Sums of `cross` and `rings` contain rows of u if no face adds images to them: then no other rows wait.
  static constexpr bool partial_sums_contain_rows =
      (form == RowForm::cross && y_rules.high != FaceRule::mirror) ||
      (form == RowForm::rings && !top_acts && !bottom_acts);
  static constexpr bool folds_rings =
      form == RowForm::rings &&
      ((top_acts && is_mirror_rule(y_rules.low)) || (bottom_acts && is_mirror_rule(y_rules.high)));
  static constexpr bool is_window = form == RowForm::window;
  static constexpr int sum_count = SumsOf<Stencil>::count;
  static_assert(is_window ? updates && Stencil::unit == 1 : sum_count == 1 && !reads_before,
                "other forms add rows to one sum");
  static constexpr int kept_rows =
      UpdateReads<Stencil>::input && !partial_sums_contain_rows && !is_window ? ry : 0;

  static constexpr int width = 32 * columns;
  static constexpr int last_steps = Stencil::last_steps;  ///< of the last warp
  static constexpr int all_steps = (warps - 1) * steps + last_steps;
  static constexpr int overlap_rows = all_steps * ry;
  static constexpr int overlap_columns =
      (all_steps * rx + vector_elements - 1) / vector_elements * vector_elements;
  static constexpr int useful = width - 2 * overlap_columns;
  /// Columns of a field in one strip with some ghost cells.
  static constexpr int whole_columns = width - larger(1, rx);
  static_assert(useful > 0, "strips have outputs");

  // Lanes are an odd number of vectors apart, which avoids bank conflicts. Inputs of two bytes wait as cells
  // and become numbers a batch later.
  static constexpr int lane_vectors = columns / vector_elements;
  static constexpr int number_bytes = Numbers::element_bytes;
  static constexpr int vector_numbers = vector_bytes / number_bytes;
  static constexpr int number_vectors = columns / vector_numbers;  ///< per lane
  static constexpr int row_bytes = 32 * vector_bytes * (number_vectors | 1);
  static constexpr int spread = vector_elements / vector_numbers;  ///< vectors of numbers per vector of cells
  /// Rows of a batch, and after them those of the step before.
  static constexpr int slot_rows = reads_before ? 2 * batch : batch;
  static constexpr int slot_bytes = slot_rows * row_bytes;
  static constexpr bool staged = Cells::element_bytes != number_bytes;
  static constexpr int input_row_bytes = staged ? width * Cells::element_bytes : row_bytes;
  static constexpr int input_slot_bytes = slot_rows * input_row_bytes;
  static constexpr int input_slots = ahead + 1;
  /// After the inputs two slots for each hand-over: the inputs as numbers, from warp to warp, and the
  /// results.
  static constexpr int chain = input_slots * input_slot_bytes;
  static constexpr int before_chain = staged ? 1 : 0;  ///< hand-overs before that of the first warp
  static constexpr int spare =
      chain + 2 * (before_chain + warps) * slot_bytes;  ///< a row a warp, for narrow fields and for points
  static constexpr int table =
      spare + ((left_acts && right_acts) || point_fields > 0 ? warps * row_bytes : 0);
  static constexpr int point_table = table + 8 * width;  ///< where in a row the points' fields lie
  static constexpr int shared_bytes = point_table + (point_fields > 0 ? 4 * width : 0);

  /// Offset of vector i in a row of numbers, in bytes.
  SPIDER_DEVICE static device::Shared place_of(int i) {
    return static_cast<device::Shared>(vector_bytes * (number_vectors % 2 == 0 ? i + i / number_vectors : i));
  }
  /// The same of column c in a row of inputs.
  SPIDER_DEVICE static device::Shared input_place(int c) {
    return staged ? static_cast<device::Shared>(c * Cells::element_bytes)
                  : place_of(c / vector_numbers) +
                        static_cast<device::Shared>(number_bytes * (c % vector_numbers));
  }
  SPIDER_DEVICE static device::Shared slot_of(int stage_buffer, std::int32_t round) {
    return static_cast<device::Shared>(chain + (2 * stage_buffer + (round & 1)) * slot_bytes);
  }

  static constexpr double unit = Stencil::unit;
  SPIDER_DEVICE static constexpr double unit_power(int k) {
    double power = 1;
    for (int i = 0; i < k; ++i) power *= unit;
    return power;
  }
  /// A face's constant, at step k of a warp.
  template <int k>
  SPIDER_DEVICE static Number constant_of(typename Numbers::Element bits) {
    constexpr auto scale = static_cast<Number>(1 / unit_power(k));
    const Number value = Numbers::number(bits, 0);
    return updates || unit == 1 ? value : value * scale;
  }

  /// No face near; the strip begins or ends at one; or one is near along y, or two along x.
  enum class Path { interior, x_boundary, y_boundary };

  using Row = Number[columns];
  /// A row with the neighbouring cells of other lanes; column c is at rx + c.
  using WideRow = Number[columns + 2 * rx];
  /// The sums of a step and rows that wait; for a window the rows before the next one.
  static constexpr int state_rows = 2 * ry + kept_rows;
  static constexpr int state_cells = is_window ? columns + 2 * rx : columns;
  using Sums = Number[state_rows][state_cells];

  /// The fields of the next row, being loaded, and those of the rows that the steps of a warp complete, in
  /// the order of the steps.
  struct FieldRows {
    SteppedPoints<Stencil, columns> next;
    Row row[(steps - 1) * ry + 1][point_fields];
  };
  struct NoFields {};
  using Points = std::conditional_t<(point_fields > 0), FieldRows, NoFields>;

  struct Walk {
    std::int32_t rows, cols;  ///< of the field
    std::int32_t start;       ///< row of the first element of the stream
    Span stored_rows;
    Span stored_columns;
    std::int32_t x0;     ///< the strip's first column
    Span readable_rows;  ///< that taps reach from the box, where the field or its halo has them
    Span readable_columns;
    bool left_face, right_face, narrow;
    bool few_rows;       ///< only if may_have_few_rows, which compilers do not always see
    FarSpan point_rows;  ///< whose further fields can be read
    FarSpan point_columns;
    bool plain_points;  ///< fields of all columns of the strip in vectors
  };

  SPIDER_DEVICE static bool holds_row(const Walk& w, std::int32_t y) {
    constexpr auto axis = down();
    const bool is_turned = (axis.mirrors_low && y < 0) || (axis.mirrors_high && y >= w.rows);
    return (is_turned && !w.few_rows) || holds_index(axis.rules, y, w.rows);
  }
  SPIDER_DEVICE static auto find_row(const Walk& w, std::int32_t y) {
    constexpr auto rules = Stencil::row_rules();
    return find_index(rules, y, w.rows);
  }

  /// The cells of an axis that the steps read for `box`, with taps from `low` to `high`.
  template <class Axis>
  SPIDER_DEVICE static Span find_readable_span(const Axis& axis, const Span& box, int low, int high,
                                               std::int32_t extent) {
    if (axis.mirrors()) return {box.begin + all_steps * low, box.end + all_steps * high};
    const FarSpan span =
        find_readable(axis.rules, {box.begin, box.end}, all_steps * low, all_steps * high, extent);
    return {static_cast<std::int32_t>(span.begin), static_cast<std::int32_t>(span.end)};
  }

  /// The walk of a block of a box.
  SPIDER_DEVICE static bool find_walk(const SweepArguments& f, const Box& box, const OverlappingGrid& grid,
                                      std::int32_t block, Walk& w) {
    w.rows = static_cast<std::int32_t>(f.extent[1]);
    w.cols = static_cast<std::int32_t>(f.extent[2]);
    const auto axis_of_box = [&](int axis) {
      const auto begin = static_cast<std::int32_t>(box.offset[axis]);
      return Span{begin, begin + static_cast<std::int32_t>(box.extent[axis])};
    };
    const Span box_rows = axis_of_box(1);
    const Span box_columns = axis_of_box(2);
    const StripWalk walk = find_strip_walk(grid, block, box_rows);
    w.stored_rows = walk.stored;
    if (w.stored_rows.begin >= w.stored_rows.end) return false;
    w.start = w.stored_rows.begin - overlap_rows;
    if (top_acts && w.start < -ry) w.start = -ry;
    const Piece strip = find_piece(grid.columns, walk.strip, box_columns, useful, overlap_columns);
    w.x0 = strip.start;
    w.stored_columns = strip.stored;
    w.left_face = left_acts && w.x0 == 0;
    w.right_face = right_acts && w.x0 + width == w.cols;
    w.narrow = left_acts && right_acts && w.x0 == 0 && w.cols <= whole_columns;
    w.few_rows = may_have_few_rows && w.rows <= overlap_rows;
    w.readable_rows = find_readable_span(down(), box_rows, Stencil::row_low, Stencil::row_high, w.rows);
    w.readable_columns =
        find_readable_span(across(), box_columns, Stencil::column_low, Stencil::column_high, w.cols);
    if constexpr (point_fields > 0) {
      constexpr auto rows = Stencil::row_rules();
      constexpr auto cols = Stencil::column_rules();
      constexpr int later = all_steps - 1;
      w.point_rows = find_points(rows,
                                 find_readable(rows, {box_rows.begin, box_rows.end}, later * Stencil::row_low,
                                               later * Stencil::row_high, w.rows),
                                 w.rows);
      w.point_columns =
          find_points(cols,
                      find_readable(cols, {box_columns.begin, box_columns.end}, later * Stencil::column_low,
                                    later * Stencil::column_high, w.cols),
                      w.cols);
      const std::int32_t end = w.x0 + width;
      w.plain_points = f.aligned_output && w.x0 % vector_elements == 0 && w.x0 >= w.point_columns.begin &&
                       end <= w.point_columns.end &&
                       (x_rules.low != FaceRule::periodic || (w.x0 >= 0 && end <= w.cols));
    }
    return true;
  }

  // Copies.

  /// How a strip's rows are copied: in vectors from their own places, in vectors from places of a table, with
  /// single cells outside mirrored faces, or cell by cell.
  enum class Copies { direct, vectors, cells };

  /// Cells of a row outside such a face: a warp copies 32 together.
  static constexpr int ghost_pieces = x_axis.mirrors() ? (overlap_columns + 31) / 32 : 0;
  static_assert(32 * ghost_pieces + width / vector_elements <= width, "the table has room for them");

  /// Columns of a strip outside mirrored faces, in whole vectors: those before `low`, and from `high` to
  /// before `end`.
  struct MirrorGhosts {
    std::int32_t low, high, end;

    SPIDER_DEVICE std::int32_t count() const { return low + end - high; }
    SPIDER_DEVICE bool holds(std::int32_t c) const { return c < low || c >= high; }
    SPIDER_DEVICE std::int32_t column(std::int32_t i) const { return i < low ? i : high + i - low; }
  };
  SPIDER_DEVICE static MirrorGhosts find_mirror_ghosts(const Walk& w) {
    MirrorGhosts mirrors{0, width, width};
    if (x_axis.mirrors_low) mirrors.low = clamp(-w.x0, 0, width);
    if (x_axis.mirrors_high) {
      const std::int32_t whole = w.cols / vector_elements * vector_elements;
      mirrors.end = clamp(w.readable_columns.end - w.x0, mirrors.low, width);
      mirrors.high = clamp(whole - w.x0, mirrors.low, mirrors.end);
    }
    return mirrors;
  }

  /// Where a requested column is read.
  SPIDER_DEVICE static std::int32_t find_input_column(const Walk& w, std::int32_t x) {
    constexpr auto axis = across();
    if constexpr (axis.mirrors()) return mirror_index(axis.rules, x, w.cols);
    return static_cast<std::int32_t>(wrap_index(axis.rules, x, w.cols));
  }

  /// Fills the table of places, {from, to} for each vector or cell; those not needed have no place, and stay
  /// zero.
  SPIDER_DEVICE static Copies plan_copies(const SweepArguments& f, const Walk& w) {
    const auto aligned = [&] { return f.aligned_input && (!reads_before || f.aligned_output); };
    const int thread = device::warp_index() * 32 + device::lane_index();
    const Span& readable = w.readable_columns;
    const Span strip{w.x0, w.x0 + width};
    if (aligned() && Span{0, w.cols}.holds(strip) && readable.holds(strip) && w.x0 % vector_elements == 0)
      return Copies::direct;
    const auto wanted = [&](std::int32_t x) {
      constexpr auto axis = across();
      return readable.holds(x) && (axis.mirrors() || holds_index(axis.rules, x, w.cols));
    };
    // Cells outside mirrored faces are listed after the vectors.
    [[maybe_unused]] MirrorGhosts mirrors{};
    if constexpr (x_axis.mirrors()) mirrors = find_mirror_ghosts(w);
    std::uint32_t broken = 0;
    if constexpr (x_axis.mirrors()) broken = mirrors.count() > 32 * ghost_pieces ? 1 : 0;
    for (int v = device::lane_index(); v < width / vector_elements; v += 32) {
      if constexpr (x_axis.mirrors()) {
        if (mirrors.holds(vector_elements * v)) continue;
      }
      const std::int32_t x = w.x0 + vector_elements * v;
      const std::int32_t from = find_input_column(w, x);
      int count = 0;
      for (int j = 0; j < vector_elements; ++j) count += wanted(x + j) ? 1 : 0;
      const bool whole = from % vector_elements == 0 &&
                         find_input_column(w, x + vector_elements - 1) == from + vector_elements - 1;
      if (count != 0 && !(count == vector_elements && whole)) broken = 1;
    }
    const bool by_cells = device::warp_max(broken) != 0 || !aligned();
    const int piece = by_cells ? 1 : vector_elements;
    const int pieces = width / piece + (by_cells ? 0 : 32 * ghost_pieces);
    for (int i = thread; i < pieces; i += 32 * warps) {
      int c = i * piece;
      bool is_copied = true;
      if constexpr (x_axis.mirrors()) {
        const int cell = i - width / vector_elements;
        if (!by_cells) is_copied = cell < 0 ? !mirrors.holds(c) : cell < mirrors.count();
        if (!by_cells && cell >= 0) c = mirrors.column(cell);
      }
      const std::int32_t x = w.x0 + c;
      device::Pair place;
      place.word[0] = static_cast<std::uint32_t>(find_input_column(w, x));
      place.word[1] = is_copied && wanted(x) ? static_cast<std::uint32_t>(input_place(c)) : ~0U;
      device::store_shared(static_cast<device::Shared>(table + 8 * i), place);
    }
    for (int i = thread; i < chain / vector_bytes; i += 32 * warps)
      device::store_shared(static_cast<device::Shared>(vector_bytes * i), device::Vector{});
    return by_cells ? Copies::cells : Copies::vectors;
  }

  /// Where row y is read; any row will do if there is none, or none is needed.
  SPIDER_DEVICE static std::int32_t find_input_row(const Walk& w, std::int32_t y) {
    y = clamp(y, w.readable_rows.begin, w.readable_rows.end - 1);
    if (!holds_row(w, y)) return clamp(y, 0, w.rows - 1);
    constexpr auto axis = down();
    if constexpr (axis.mirrors()) return mirror_index(axis.rules, y, w.rows);
    return static_cast<std::int32_t>(wrap_index(axis.rules, y, w.rows));
  }

  /// Requests this warp's part of a batch.
  template <Copies copies>
  SPIDER_DEVICE static void request_pieces(const Arguments& f, const Walk& w, int warp, std::int32_t b) {
    constexpr int row_pieces = copies == Copies::cells     ? columns
                               : copies == Copies::vectors ? lane_vectors + ghost_pieces
                                                           : lane_vectors;
    constexpr int pieces = slot_rows * row_pieces;
    constexpr int rounds = (pieces + warps - 1) / warps;
    const int lane = device::lane_index();
    const int slot = b % input_slots * input_slot_bytes;
    const std::int32_t first = w.start + b * batch;
    const Span rows{reads_before ? first - ry : first, first + batch};
    const bool plain = Span{0, w.rows}.holds(rows) && w.readable_rows.holds(rows);
    const auto copy = [&](int i) {
      const int j = i / row_pieces;
      const bool is_before = reads_before && j >= batch;
      const std::int32_t wanted_row = first + (is_before ? j - batch - ry : j);
      const std::int32_t y = plain ? wanted_row : find_input_row(w, wanted_row);
      const Element* row = static_cast<const Element*>(f.input) + y * f.input_stride[1];
      if constexpr (reads_before) {
        if (is_before) row = static_cast<const Element*>(f.before) + y * f.before_stride[1];
      }
      const int v = lane + 32 * (i - j * row_pieces);
      const auto to = static_cast<device::Shared>(slot + j * input_row_bytes);
      const bool mine = i < pieces;
      if constexpr (copies == Copies::direct) {
        device::copy_async_if(mine, to + input_place(vector_elements * v),
                              row + (w.x0 + vector_elements * v));
      } else {
        if (!mine) return;
        const device::Pair place = device::load_shared_pair(static_cast<device::Shared>(table + 8 * v));
        const Element* from = row + static_cast<std::int32_t>(place.word[0]);
        const bool wanted = place.word[1] != ~0U;
        if (copies == Copies::vectors && (ghost_pieces == 0 || v < 32 * lane_vectors)) {
          device::copy_async_if(wanted, to + place.word[1], from);
        } else if constexpr (Cells::element_bytes >= 4) {
          copy_cell_async_if(wanted, to + place.word[1], from);
        } else {
          device::store_shared_if(wanted, to + place.word[1], device::load_field_if(wanted, from, Element{}));
        }
      }
    };
    if (plain && rounds <= 8) {
      SPIDER_UNROLL
      for (int n = 0; n < rounds; ++n) copy(warp + n * warps);
    } else {
      SPIDER_NO_UNROLL
      for (int n = 0; n < rounds; ++n) copy(warp + n * warps);
    }
  }

  SPIDER_DEVICE static void request(const Arguments& f, const Walk& w, Copies copies, int warp,
                                    std::int32_t b) {
    if (copies == Copies::direct) {
      request_pieces<Copies::direct>(f, w, warp, b);
    } else if (copies == Copies::vectors) {
      request_pieces<Copies::vectors>(f, w, warp, b);
    } else {
      request_pieces<Copies::cells>(f, w, warp, b);
    }
  }

  // Neighbours.

  struct Sides {
    Number left[rx > 0 ? rx : 1];   // left[d] is column -1 - d
    Number right[rx > 0 ? rx : 1];  // right[d] is column columns + d
  };

  SPIDER_DEVICE static Number take(Number v, int source) { return take_number<Numbers>(v, source); }

  /// They are zero in an empty row, whatever the rule.
  template <bool edge, int k, bool both = true>
  SPIDER_DEVICE static void find_sides(const Walk& w, const Row& u, Sides& s, bool nothing = false) {
    const int lane = device::lane_index();
    SPIDER_UNROLL
    for (int d = 0; d < rx; ++d) {
      s.left[d] = take(u[columns - 1 - d], lane + 31);
      s.right[d] = both ? take(u[d], lane + 1) : Number{0};
      if constexpr (edge && left_acts) {
        constexpr FaceRule rule = x_rules.low;
        const Number mapped = rule == FaceRule::constant  ? constant_of<k>(x_rules.low_value)
                              : rule == FaceRule::nearest ? u[0]
                              : rule == FaceRule::mirror
                                  ? (w.cols > 1 ? u[d + 1 < columns ? d + 1 : 0] : u[0])
                                  : u[d];
        if (w.left_face && lane == 0) s.left[d] = mapped;
      }
      if constexpr (edge && right_acts) {
        constexpr FaceRule rule = x_rules.high;
        const Number mapped =
            rule == FaceRule::constant  ? constant_of<k>(x_rules.high_value)
            : rule == FaceRule::nearest ? u[columns - 1]
            : rule == FaceRule::mirror
                ? (w.cols > 1 ? u[columns - 2 - d >= 0 ? columns - 2 - d : 0] : u[columns - 1])
                : u[columns - 1 - d];
        if (w.right_face && lane == 31) s.right[d] = mapped;
      }
      if (edge && nothing) s.left[d] = s.right[d] = Number{0};
    }
  }

  SPIDER_DEVICE static Number cell(const Row& u, const Sides& s, int c) {
    return c < 0 ? s.left[-1 - c] : (c >= columns ? s.right[c - columns] : u[c]);
  }

  /// weight * cell + sum
  SPIDER_DEVICE static Number add_product(Number weight, Number value, Number sum) {
    return weight == Number{1} ? value + sum : device::multiply_add(weight, value, sum);
  }
  SPIDER_DEVICE static Number product(Number weight, Number value) {
    return weight == Number{1} ? value : device::multiply_add(weight, value, Number{0});
  }

  /// sums = base + taps of row dy times the input row.
  SPIDER_DEVICE static Number add_tap_row(const Row& u, const Sides& s, int dy, int c, Number sum) {
    SPIDER_UNROLL
    for (int dx = -rx; dx <= rx; ++dx) {
      const Number weight = Stencil::weight(dy, dx);
      if (weight != Number{0}) sum = add_product(weight, cell(u, s, c + dx), sum);
    }
    return sum;
  }

  /// The same starting from zero.
  SPIDER_DEVICE static Number begin_sum(const Row& u, const Sides& s, int dy, int c) {
    Number sum = 0;
    bool first = true;
    SPIDER_UNROLL
    for (int dx = -rx; dx <= rx; ++dx) {
      const Number weight = Stencil::weight(dy, dx);
      if (weight == Number{0}) continue;
      sum = first ? product(weight, cell(u, s, c + dx)) : add_product(weight, cell(u, s, c + dx), sum);
      first = false;
    }
    return sum;
  }

  /// Adds row `u` of a step and returns the row of the next step that it completes.
  template <bool edge, int k>
  SPIDER_DEVICE static void add_row(const Walk& w, Sums& sums, const Row& u, Row& out, bool nothing = false) {
    Sides s;
    find_sides<edge, k, form != RowForm::cross && form != RowForm::rings>(w, u, s, nothing);
    if constexpr (form == RowForm::taps) {
      add_by_taps(u, s, sums, out);
    } else if constexpr (form == RowForm::even) {
      add_by_pairs(u, s, sums, out);
    } else if constexpr (form == RowForm::rings) {
      add_by_rings<edge, k>(w, u, s, sums, out);
    } else {
      add_by_diagonals<edge, k>(w, u, s, sums, out);
    }
  }

  SPIDER_DEVICE static void add_by_taps(const Row& u, const Sides& s, Sums& sums, Row& out) {
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      out[c] = add_tap_row(u, s, ry, c, sums[0][c]);
      SPIDER_UNROLL
      for (int i = 0; i < 2 * ry; ++i) {
        sums[i][c] = i + 1 < 2 * ry ? add_tap_row(u, s, ry - 1 - i, c, sums[i + 1 < 2 * ry ? i + 1 : i][c])
                                    : begin_sum(u, s, -ry, c);
      }
    }
  }

  SPIDER_DEVICE static void add_by_pairs(const Row& u, const Sides& s, Sums& sums, Row& out) {
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      const Number pair = cell(u, s, c - 1) + cell(u, s, c + 1);
      const Number outer = add_product(Stencil::weight(1, 1), pair, product(Stencil::weight(1, 0), u[c]));
      out[c] = sums[0][c] + outer;
      sums[0][c] =
          add_product(Stencil::weight(0, 1), pair, add_product(Stencil::weight(0, 0), u[c], sums[1][c]));
      sums[1][c] = outer;
    }
  }

  template <bool edge, int k>
  SPIDER_DEVICE static void add_by_rings(const Walk& w, const Row& u, const Sides& s, Sums& sums, Row& out) {
    // near[c] = u[c - 1] + last[c], far[c] = u[c - 2] + last but one[c]; a point uses its own and one or two
    // more.
    const Number weight = Stencil::weight(0, 1);
    const Number center = Stencil::weight(0, 0);
    Number near[columns + 1];
    Number far[columns + 2];
    near[columns] = u[columns - 1] + beyond<edge, k>(w, sums[3], 0);
    far[columns] = u[columns - 2] + beyond<edge, k>(w, sums[2], 0);
    far[columns + 1] = u[columns - 1] + beyond<edge, k>(w, sums[2], 1);
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      near[c] = cell(u, s, c - 1) + sums[3][c];
      far[c] = cell(u, s, c - 2) + sums[2][c];
    }
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      out[c] = sums[0][c] + far[c + 2];
      sums[0][c] = device::multiply_add(weight, near[c + 1], sums[1][c]);
      sums[1][c] = device::multiply_add(center, u[c], device::multiply_add(weight, near[c], far[c]));
      sums[2][c] = sums[3][c];
      sums[3][c] = u[c];
    }
  }

  template <bool edge, int k>
  SPIDER_DEVICE static void add_by_diagonals(const Walk& w, const Row& u, const Sides& s, Sums& sums,
                                             Row& out) {
    // diagonal[c] = w (u[c - 1] here + u[c] in the row before). sums[1] = w u, sums[0] = centre and one
    // diagonal.
    const Number weight = Stencil::weight(0, 1);
    const Number center = Stencil::weight(0, 0);
    const int lane = device::lane_index();
    // The pair after the last column is the right lane's first, from this lane's last cell and the row
    // before.
    Number above = take(sums[1][0], lane + 1);
    if constexpr (edge && right_acts) {
      constexpr FaceRule rule = x_rules.high;
      const Number mapped = rule == FaceRule::constant ? weight * constant_of<k>(x_rules.high_value)
                            : rule == FaceRule::mirror
                                ? (w.cols > 1 ? sums[1][columns - 2] : sums[1][columns - 1])
                                : sums[1][columns - 1];
      if (w.right_face && lane == 31) above = mapped;
    }
    const Number first = add_product(weight, s.left[0], sums[1][0]);
    const Number behind = add_product(weight, u[columns - 1], above);
    Number diagonal = first;
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      const Number next =
          c + 1 < columns ? add_product(weight, u[c], sums[1][c + 1 < columns ? c + 1 : c]) : behind;
      out[c] = sums[0][c] + next;
      sums[0][c] = device::multiply_add(center, u[c], diagonal);
      sums[1][c] = product(weight, u[c]);
      diagonal = next;
    }
  }

  /// Column columns + d of a row, which the next lane has.
  template <bool edge, int k>
  SPIDER_DEVICE static Number beyond(const Walk& w, const Row& u, int d) {
    const int lane = device::lane_index();
    Number value = take(u[d], lane + 1);
    if constexpr (edge && right_acts) {
      constexpr FaceRule rule = x_rules.high;
      const Number mapped = rule == FaceRule::constant  ? constant_of<k>(x_rules.high_value)
                            : rule == FaceRule::nearest ? u[columns - 1]
                            : rule == FaceRule::mirror  ? (w.cols > 1 ? u[columns - 2 - d] : u[columns - 1])
                                                        : u[columns - 1 - d];
      if (w.right_face && lane == 31) value = mapped;
    }
    return value;
  }

  /// cross: sums[0] lacks the pair to the right, which sums[1] has.
  template <bool add, int k>
  SPIDER_DEVICE static void to_plain_sums(const Walk& w, Sums& sums) {
    if constexpr (form == RowForm::rings) {
      // Converts to the sums of RowForm::taps, or back; sums[2] and sums[3] are rows.
      const Number weight = Stencil::weight(0, 1);
      if (!add) {
        SPIDER_UNROLL
        for (int c = 0; c < columns; ++c) sums[2][c] -= weight * sums[3][c];
      }
      const Number last[2] = {beyond<true, k>(w, sums[3], 0), beyond<true, k>(w, sums[3], 1)};
      const Number before[2] = {beyond<true, k>(w, sums[2], 0), beyond<true, k>(w, sums[2], 1)};
      const auto at = [&](const Row& u, const Number(&more)[2], int c) {
        return c < columns ? u[c] : more[c - columns];
      };
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        const Number far = at(sums[2], before, c + 2);
        const Number rest = weight * at(sums[3], last, c + 1) + at(sums[3], last, c + 2);
        sums[0][c] = add ? sums[0][c] + far : sums[0][c] - far;
        sums[1][c] = add ? sums[1][c] + rest : sums[1][c] - rest;
      }
      if (add) {
        SPIDER_UNROLL
        for (int c = 0; c < columns; ++c) sums[2][c] += weight * sums[3][c];
      }
    } else if constexpr (form == RowForm::cross) {
      const int lane = device::lane_index();
      Number behind = take(sums[1][0], lane + 1);
      if constexpr (right_acts) {
        constexpr FaceRule rule = x_rules.high;
        const Number mapped =
            rule == FaceRule::constant ? Stencil::weight(0, 1) * constant_of<k>(x_rules.high_value)
            : rule == FaceRule::mirror ? (w.cols > 1 ? sums[1][columns - 2] : sums[1][columns - 1])
                                       : sums[1][columns - 1];
        if (w.right_face && lane == 31) behind = mapped;
      }
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        const Number pair = c + 1 < columns ? sums[1][c + 1 < columns ? c + 1 : c] : behind;
        sums[0][c] = add ? sums[0][c] + pair : sums[0][c] - pair;
      }
    }
  }

  /// Adds row y, `u`, once more for its mirror images outside a face in y: to sums and the complete row.
  template <int k>
  SPIDER_DEVICE static void add_images(const Walk& w, Sums& sums, std::int32_t y, const Row& u, Row& out) {
    // Bit 2 ry + d: row y + d is one.
    std::uint32_t images = 0;
    SPIDER_UNROLL
    for (int d = -2 * ry; d <= 2 * ry; ++d) {
      const auto from = find_row(w, y + d);
      const bool is_image = !holds_row(w, y + d) && !from.constant && from.index == y;
      images |= is_image ? 1U << (2 * ry + d) : 0U;
    }
    if (images == 0) return;
    Sides s;
    find_sides<true, k>(w, u, s);
    to_plain_sums<true, k>(w, sums);
    SPIDER_UNROLL
    for (int q = 0; q <= 2 * ry; ++q) {
      const bool is_row = holds_row(w, y - ry + q);
      SPIDER_UNROLL
      for (int dy = -ry; dy <= ry; ++dy) {
        if (is_row && (images >> (ry + q + dy) & 1U) != 0) {
          SPIDER_UNROLL
          for (int c = 0; c < columns; ++c) {
            Number& sum = q == 0 ? out[c] : sums[q > 0 ? q - 1 : 0][c];
            sum = add_tap_row(u, s, dy, c, sum);
          }
        }
      }
    }
    to_plain_sums<false, k>(w, sums);
  }

  /// Makes a row near a face in y as step k sees it. True if it is empty: images of rows replace it.
  template <int k>
  SPIDER_DEVICE static bool fill_row(const Walk& w, std::int32_t y, Row& u) {
    const bool here = holds_row(w, y);
    const auto source = find_row(w, y);
    const bool nothing = !here && !source.constant;
    if (!here) {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) u[c] = source.constant ? constant_of<k>(source.value) : Number{0};
    }
    if (w.narrow && !nothing) fill_columns<k>(w, u);
    return nothing;
  }

  /// Adds a row near a face in y; `y` is the row of u, or of its place if there is none.
  template <int k>
  SPIDER_DEVICE static void add_row_at_face(const Walk& w, Sums& sums, std::int32_t y, Row& u, Row& out) {
    const bool nothing = fill_row<k>(w, y, u);
    add_row<true, k>(w, sums, u, out, nothing);
    const bool near = (top_acts && y <= ry) || (bottom_acts && y >= w.rows - 1 - ry);
    if (holds_row(w, y) && (near || (may_have_few_rows && w.few_rows))) add_images<k>(w, sums, y, u, out);
  }

  /// For a field narrower than a strip with faces on both sides: fills ghost cells through shared memory.
  template <int k>
  SPIDER_DEVICE static void fill_columns(const Walk& w, Row& u) {
    if constexpr (left_acts && right_acts) {
      const int lane = device::lane_index();
      const auto own = static_cast<device::Shared>(spare + device::warp_index() * row_bytes);
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        device::store_shared(own + static_cast<device::Shared>(number_bytes * (lane * columns + c)),
                             device::bits_of(u[c]));
      }
      device::sync_warp();
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        const std::int32_t x = lane * columns + c;
        if (x >= w.cols) {
          constexpr auto rules = Stencil::column_rules();
          const auto from = find_index(rules, x, w.cols);
          u[c] = from.constant
                     ? constant_of<k>(from.value)
                     : load_number<Numbers>(own + static_cast<device::Shared>(number_bytes * from.index));
        }
      }
      device::sync_warp();
    }
  }

  // Updates.

  /// Lists where in a row the fields of the strip's columns lie.
  SPIDER_DEVICE static void list_points(const Walk& w) {
    constexpr auto rules = Stencil::column_rules();
    for (int c = device::warp_index() * 32 + device::lane_index(); c < width; c += 32 * warps) {
      const auto x = static_cast<std::uint32_t>(find_point(rules, w.point_columns, w.x0 + c, w.cols));
      device::store_shared(static_cast<device::Shared>(point_table + 4 * c), x);
    }
  }

  /// Before row y is added: passes the fields of the row that the first step completes to the lanes with its
  /// columns, and requests those of the next row.
  SPIDER_DEVICE static void move_points(const Arguments& f, const Walk& w, Points& points, std::int32_t y) {
    if constexpr (point_fields > 0) {
      using Next = SteppedPoints<Stencil, columns>;
      const int lane = device::lane_index();
      const auto own = static_cast<device::Shared>(spare + device::warp_index() * row_bytes);
      SPIDER_UNROLL
      for (int k = 0; k < point_fields; ++k) {
        SPIDER_UNROLL
        for (int i = (steps - 1) * ry; i > 0; --i) {
          SPIDER_UNROLL
          for (int c = 0; c < columns; ++c) points.row[i][k][c] = points.row[i - 1][k][c];
        }
        SPIDER_UNROLL
        for (int piece = 0; piece < Next::pieces; ++piece) {
          SPIDER_UNROLL
          for (int first = 0; first < Next::together; first += vector_numbers) {
            device::Vector v;
            SPIDER_UNROLL
            for (int e = 0; e < vector_numbers; ++e)
              put_word(v, e, device::bits_of(points.next.number(piece, first + e, k)));
            device::store_shared(own + place_of((Next::first_column(piece) + first) / vector_numbers), v);
          }
        }
        device::sync_warp();
        load_row(own + place_of(number_vectors * lane), points.row[0][k]);
        device::sync_warp();
      }
      constexpr auto rules = Stencil::row_rules();
      const std::int64_t row = find_point(rules, w.point_rows, y + 1 - ry, w.rows);
      if (w.plain_points) {
        points.next.load(f, {0, row, w.x0});
      } else {
        points.next.load_each(f, 0, row, [&](int c) {
          return static_cast<std::int32_t>(
              device::load_shared_word(static_cast<device::Shared>(point_table + 4 * c)));
        });
      }
    }
  }

  /// The row of u that lies ry before the next one to add.
  SPIDER_DEVICE static const Row& earlier_row(const Sums& sums) {
    return sums[kept_rows > 0 ? 2 * ry : (form == RowForm::cross ? 1 : 2)];
  }

  /// The result of a point's sums in the lane's column c; it replaces u, and `before` is the step before; k
  /// is the step of a warp.
  template <int k>
  SPIDER_DEVICE static Number update_point(const Arguments& f, const Points& points,
                                           const std::int64_t (&place)[2], int c, Number u,
                                           const Number (&sums)[sum_count], Number before = 0) {
    UpdatePointOf<Number> point{f, {0, place[0], place[1]}, 0, {}, {}};
    if constexpr (UpdateReads<Stencil>::input) point.u = u;
    SPIDER_UNROLL
    for (int i = 0; i < sum_count; ++i) point.sums[i] = sums[i];
    if constexpr (point_fields > 0) {
      SPIDER_UNROLL
      for (int i = 0; i < point_fields; ++i) point.field[i] = points.row[k * ry][i][c];
    }
    if constexpr (reads_before) point.before = before;
    return Stencil::update(point);
  }

  /// Replaces the sums of row y by the result of step k of a warp; `u` are the old values.
  template <int k>
  SPIDER_DEVICE static void update_row(const Arguments& f, const Points& points, std::int32_t y,
                                       std::int32_t x, const Row& u, Row& out) {
    constexpr auto rows = Stencil::row_rules();
    constexpr auto cols = Stencil::column_rules();
    const std::int64_t row = place_in_whole(rows, f, 1, y);
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      const Number sum[1] = {unit == 1 ? out[c] : out[c] * static_cast<Number>(unit)};
      const Number old = UpdateReads<Stencil>::input ? u[c] : Number{0};
      out[c] = update_point<k>(f, points, {row, place_in_whole(cols, f, 2, x + c)}, c, old, sum);
    }
  }

  /// RowForm::window: computes all sums of row y - ry from rows y - 2 ry to y of step k, and its results.
  template <int k>
  SPIDER_DEVICE static void update_window(const Arguments& f, const Points& points, std::int32_t y,
                                          std::int32_t x, const WideRow (&rows)[2 * ry + 1],
                                          const Row& before, Row& out) {
    constexpr auto y_axis = Stencil::row_rules();
    constexpr auto x_axis = Stencil::column_rules();
    const std::int64_t row = place_in_whole(y_axis, f, 1, y - ry);
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      Number sums[sum_count];
      SPIDER_UNROLL
      for (int i = 0; i < sum_count; ++i) {
        sums[i] = 0;
        SPIDER_UNROLL
        for (int dy = -ry; dy <= ry; ++dy) {
          SPIDER_UNROLL
          for (int dx = -rx; dx <= rx; ++dx) {
            const Number weight = weight_of<Stencil>(i, dy, dx);
            if (weight != Number{0}) sums[i] = add_product(weight, rows[ry + dy][rx + c + dx], sums[i]);
          }
        }
      }
      const Number earlier = reads_before ? before[c] : Number{0};
      out[c] = update_point<k>(f, points, {row, place_in_whole(x_axis, f, 2, x + c)}, c, rows[ry][rx + c],
                               sums, earlier);
    }
  }

  /// Rows outside faces in y that the rule takes from other rows, which wait with them: a row of results
  /// within the field reaches no row farther from the face than its ghost rows.
  SPIDER_DEVICE static void copy_images(const Walk& w, std::int32_t y, WideRow (&rows)[2 * ry + 1]) {
    const std::int32_t first = y - 2 * ry;
    SPIDER_UNROLL
    for (int i = 0; i <= 2 * ry; ++i) {
      const auto from = find_row(w, first + i);
      if (holds_row(w, first + i) || from.constant) continue;
      SPIDER_UNROLL
      for (int j = 0; j <= 2 * ry; ++j) {
        if (from.index != first + j) continue;
        SPIDER_UNROLL
        for (int c = 0; c < columns + 2 * rx; ++c) rows[i][c] = rows[j][c];
      }
    }
  }

  /// take_step() for RowForm::window. `before` is row y - ry of the step before, and becomes row y - 2 ry of
  /// this one, or in the last step row y - ry.
  template <Path path, int k>
  SPIDER_DEVICE static void take_step_of_window(const Arguments& f, const Walk& w, Sums& window,
                                                const Points& points, std::int32_t y, bool is_last, Row& u,
                                                Row& before, Row& out) {
    WideRow rows[2 * ry + 1];
    if constexpr (path == Path::y_boundary) fill_row<k>(w, y, u);
    Sides s;
    find_sides<path != Path::interior, k>(w, u, s);
    SPIDER_UNROLL
    for (int c = 0; c < columns + 2 * rx; ++c) {
      SPIDER_UNROLL
      for (int i = 0; i < 2 * ry; ++i) rows[i][c] = window[i][c];
      rows[2 * ry][c] = cell(u, s, c - rx);
    }
    if constexpr (path == Path::y_boundary && (top_acts || bottom_acts)) copy_images(w, y, rows);
    update_window<k>(f, points, y, w.x0 + device::lane_index() * columns, rows, before, out);
    if constexpr (reads_before) {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) before[c] = is_last ? rows[ry][rx + c] : rows[0][rx + c];
    }
    SPIDER_UNROLL
    for (int i = 0; i < 2 * ry; ++i) {
      SPIDER_UNROLL
      for (int c = 0; c < columns + 2 * rx; ++c) window[i][c] = rows[i + 1][c];
    }
  }

  /// Adds row y to the sums of step k and returns row y - ry of the next step.
  template <Path path, int k>
  SPIDER_DEVICE static void take_step(const Arguments& f, const Walk& w, Sums& sums, const Points& points,
                                      std::int32_t y, Row& u, Row& out) {
    Row earlier;
    if constexpr (UpdateReads<Stencil>::input) {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) earlier[c] = earlier_row(sums)[c];
    }
    if constexpr (path == Path::y_boundary) {
      add_row_at_face<k>(w, sums, y, u, out);
    } else {
      add_row<path == Path::x_boundary, k>(w, sums, u, out);
    }
    if constexpr (updates)
      update_row<k>(f, points, y - ry, w.x0 + device::lane_index() * columns, earlier, out);
    if constexpr (kept_rows > 0) {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        SPIDER_UNROLL
        for (int i = 0; i < ry; ++i) sums[2 * ry + i][c] = i + 1 < ry ? sums[2 * ry + i + 1][c] : u[c];
      }
    }
  }

  template <Path path, int k>
  SPIDER_DEVICE static void take_steps(const Arguments& f, const Walk& w, Sums (&sums)[steps],
                                       const Points& points, std::int32_t y, Row& u, Row& before,
                                       bool is_last_warp) {
    Row out;
    if constexpr (is_window) {
      const bool is_last = k + 1 == last_steps && is_last_warp;
      take_step_of_window<path, k>(f, w, sums[k], points, y, is_last, u, before, out);
    } else {
      take_step<path, k>(f, w, sums[k], points, y, u, out);
    }
    if constexpr (k + 1 < steps) {
      if (k + 1 != last_steps || !is_last_warp)
        take_steps<path, k + 1>(f, w, sums, points, y - ry, out, before, is_last_warp);
    }
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) u[c] = out[c];
  }

  /// Multiplies a row of a warp to its true numbers.
  SPIDER_DEVICE static void scale_row(Number factor, Row& u) {
    if constexpr (Stencil::back != Number{1} || Stencil::last != Number{1}) {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) u[c] *= factor;
    }
  }

  // Rows in shared memory.

  SPIDER_DEVICE static Number number_at(const device::Vector& v, int i) {
    return Numbers::number(word_of<typename Numbers::Word>(v, i), 0);
  }

  SPIDER_DEVICE static void load_row(device::Shared from, Row& u) {
    SPIDER_UNROLL
    for (int i = 0; i < number_vectors; ++i) {
      const device::Vector v = device::load_shared(from + static_cast<device::Shared>(vector_bytes * i));
      SPIDER_UNROLL
      for (int j = 0; j < vector_numbers; ++j) u[vector_numbers * i + j] = number_at(v, j);
    }
  }

  SPIDER_DEVICE static void store_row(device::Shared to, const Row& u) {
    SPIDER_UNROLL
    for (int i = 0; i < number_vectors; ++i) {
      device::Vector v;
      SPIDER_UNROLL
      for (int j = 0; j < vector_numbers; ++j) put_word(v, j, device::bits_of(u[vector_numbers * i + j]));
      device::store_shared(to + static_cast<device::Shared>(vector_bytes * i), v);
    }
  }

  /// Calls `take(row, vector of a row)` for this warp's part of the vectors of that many rows.
  template <int rows, class Take>
  SPIDER_DEVICE static void share_rows(int warp, const Take& take) {
    constexpr int pieces = rows * lane_vectors;
    SPIDER_UNROLL
    for (int n = 0; n < (pieces + warps - 1) / warps; ++n) {
      const int i = warp + n * warps;
      const int j = i / lane_vectors;
      if (i < pieces) take(j, device::lane_index() + 32 * (i - j * lane_vectors));
    }
  }

  /// Converts a batch of inputs, cells of two bytes, to numbers.
  SPIDER_DEVICE static void widen_inputs(int warp, device::Shared from, device::Shared to) {
    share_rows<slot_rows>(warp, [&](int j, int v) {
      const device::Vector cells = device::load_shared(
          from + static_cast<device::Shared>(j * input_row_bytes) + input_place(vector_elements * v));
      SPIDER_UNROLL
      for (int i = 0; i < spread; ++i) {
        device::Vector numbers;
        SPIDER_UNROLL
        for (int e = 0; e < vector_numbers; ++e) {
          const int at = vector_numbers * i + e;
          const auto word = word_of<typename Cells::Word>(cells, at / Cells::per_word);
          put_word(numbers, e, device::bits_of(Cells::number(word, at % Cells::per_word)));
        }
        device::store_shared(to + static_cast<device::Shared>(j * row_bytes) + place_of(spread * v + i),
                             numbers);
      }
    });
  }

  /// Stores a batch of results, rows from `first` on, in whole vectors if possible.
  SPIDER_DEVICE static void store_results(const Arguments& f, const Walk& w, int warp, bool whole,
                                          std::int32_t first, device::Shared from) {
    share_rows<all_steps == 1 ? batch : slot_rows>(warp, [&](int j, int v) {
      const bool is_before = reads_before && j >= batch;
      const std::int32_t row = is_before ? first + j - batch : first + j;
      if (!w.stored_rows.holds(row)) return;
      Number numbers[vector_elements];
      SPIDER_UNROLL
      for (int i = 0; i < spread; ++i) {
        const device::Vector some =
            device::load_shared(from + static_cast<device::Shared>(j * row_bytes) + place_of(spread * v + i));
        SPIDER_UNROLL
        for (int e = 0; e < vector_numbers; ++e) numbers[vector_numbers * i + e] = number_at(some, e);
      }
      const std::int32_t x = w.x0 + vector_elements * v;
      Element* to = static_cast<Element*>(f.output) + row * f.output_stride[1] + x;
      if constexpr (reads_before) {
        if (is_before) to = static_cast<Element*>(f.output_before) + row * f.output_before_stride[1] + x;
      }
      if (whole) {
        device::Vector cells;
        SPIDER_UNROLL
        for (int i = 0; i < vector_elements / Cells::per_word; ++i)
          put_word(cells, i, Cells::word(numbers + Cells::per_word * i));
        device::store_field_vector_if(w.stored_columns.holds(x), to, cells);
      } else {
        SPIDER_UNROLL
        for (int c = 0; c < vector_elements; ++c)
          device::store_field_if(w.stored_columns.holds(x + c), to + c, Cells::cell(numbers[c]));
      }
    });
  }

  /// Loop invariants of a walk.
  struct SweepPlan {
    Copies copies;
    int warp;
    bool whole;  ///< all stores are whole vectors
    std::int32_t batches, rounds;
  };

  /// Rounds in which no warp is near a face in y, so that rows follow in straight code.
  SPIDER_DEVICE static Span find_plain_rounds(const Walk& w, const SweepPlan& plan) {
    if (w.narrow || w.few_rows) return {plan.rounds, plan.rounds};
    // The last warp's last step takes row y in round before_chain + warps - 1 + (y + late - start) / batch.
    constexpr int late = (warps * steps - 1) * ry;
    const std::int32_t rows_ahead = ry + 1 + late - w.start;
    std::int32_t begin = 0;
    if (top_acts && rows_ahead > 0) begin = before_chain + warps - 1 + (rows_ahead + batch - 1) / batch;
    std::int32_t end = plan.rounds;
    const std::int32_t rows_before = w.rows - 1 - ry - w.start;
    if (bottom_acts) end = rows_before < 0 ? 0 : before_chain + rows_before / batch;
    if (end > plan.rounds) end = plan.rounds;
    return begin < end ? Span{begin, end} : Span{plan.rounds, plan.rounds};
  }

  template <Path path>
  SPIDER_DEVICE static void take_rounds(const Arguments& f, const Walk& w, const SweepPlan& plan,
                                        const Span& rounds, Sums (&sums)[steps], Points& points) {
    const int warp = plan.warp;
    const bool is_last_warp = warp == warps - 1;
    const Number factor = is_last_warp ? Stencil::last : Stencil::back;
    const auto lane_place = place_of(number_vectors * device::lane_index());
    const std::int32_t first_row = w.start - warp * steps * ry;
    const std::int32_t first_result = w.start - all_steps * ry;
    // If batches are requested far enough ahead, half of the warps move data after their rows, so that some
    // warps compute while others move.
    const bool moves_first = ahead == 1 || warp < (warps + 1) / 2;
    SPIDER_NO_UNROLL
    for (std::int32_t round = rounds.begin; round < rounds.end; ++round) {
      const auto inputs = static_cast<device::Shared>(round % input_slots * input_slot_bytes);
      const auto move_data = [&] {
        if (round + ahead < plan.batches) request(f, w, plan.copies, warp, round + ahead);
        device::copy_async_commit();
        const std::int32_t done = round - before_chain - warps;
        if (done >= 0) {
          store_results(f, w, warp, plan.whole, first_result + done * batch,
                        slot_of(before_chain + warps - 1, round + 1));
        }
        if (staged && round < plan.batches) widen_inputs(warp, inputs, slot_of(0, round));
      };
      if (moves_first) move_data();
      const std::int32_t b = round - before_chain - warp;
      if (b >= 0 && b < plan.batches) {
        const device::Shared from =
            lane_place + (staged || warp > 0 ? slot_of(before_chain + warp - 1, round + 1) : inputs);
        const device::Shared to = lane_place + slot_of(before_chain + warp, round);
        const std::int32_t y = first_row + b * batch;
        const auto load = [&](int j, Row& u) {
          load_row(from + static_cast<device::Shared>(j * row_bytes), u);
        };
        const auto step_row = [&](int j, Row& u) {
          move_points(f, w, points, y + j);
          [[maybe_unused]] Row before;
          const auto place_before = static_cast<device::Shared>((batch + j) * row_bytes);
          if constexpr (reads_before) load_row(from + place_before, before);
          take_steps<path, 0>(f, w, sums, points, y + j, u, before, is_last_warp);
          scale_row(factor, u);
          store_row(to + static_cast<device::Shared>(j * row_bytes), u);
          if constexpr (reads_before) store_row(to + place_before, before);
        };
        if constexpr (path != Path::y_boundary && Stencil::unrolled) {
          Row rows[2];
          load(0, rows[0]);
          SPIDER_UNROLL
          for (int j = 0; j < batch; ++j) {
            if (j + 1 < batch) load(j + 1, rows[(j + 1) % 2]);
            step_row(j, rows[j % 2]);
          }
        } else {
          SPIDER_NO_UNROLL
          for (int j = 0; j < batch; ++j) {
            Row u;
            load(j, u);
            step_row(j, u);
          }
        }
      }
      if (!moves_first) move_data();
      device::copy_async_wait<ahead - 1>();
      device::sync_block();
    }
  }

  SPIDER_DEVICE static void run(const Arguments& f, const Walk& w) {
    SweepPlan plan;
    // Through a shuffle, so that the compiler knows it is warp-uniform, and shuffles need no divergence code.
    plan.warp = static_cast<int>(device::shuffle(static_cast<std::uint32_t>(device::warp_index()), 0));
    const Span& stored = w.stored_columns;
    plan.whole = f.aligned_output && w.x0 % vector_elements == 0 && stored.begin % vector_elements == 0 &&
                 stored.end % vector_elements == 0;
    const std::int32_t stream = w.stored_rows.end - w.start + overlap_rows;
    plan.batches = (stream + batch - 1) / batch;
    plan.rounds = plan.batches + before_chain + warps;
    plan.copies = plan_copies(f, w);
    if constexpr (point_fields > 0) list_points(w);
    device::sync_block();
    SPIDER_NO_UNROLL
    for (int b = 0; b < ahead; ++b) {
      if (b < plan.batches) request(f, w, plan.copies, plan.warp, b);
      device::copy_async_commit();
    }
    device::copy_async_wait<ahead - 1>();
    device::sync_block();
    Points points{};
    Sums sums[steps];
    SPIDER_UNROLL
    for (int k = 0; k < steps; ++k) {
      SPIDER_UNROLL
      for (int i = 0; i < state_rows; ++i) {
        SPIDER_UNROLL
        for (int c = 0; c < state_cells; ++c) sums[k][i][c] = Number{0};
      }
    }
    if constexpr (top_acts || bottom_acts || (left_acts && right_acts)) {
      const Span plain = find_plain_rounds(w, plan);
      std::int32_t round = 0;
      SPIDER_NO_UNROLL
      while (round < plan.rounds) {
        if (!plain.holds(round)) {
          const Span near{round, round < plain.begin ? plain.begin : plan.rounds};
          take_rounds<Path::y_boundary>(f, w, plan, near, sums, points);
          round = near.end;
        } else {
          take_plain_rounds(f, w, plan, plain, sums, points);
          round = plain.end;
        }
      }
    } else {
      take_plain_rounds(f, w, plan, Span{0, plan.rounds}, sums, points);
    }
  }

  SPIDER_DEVICE static void take_plain_rounds(const Arguments& f, const Walk& w, const SweepPlan& plan,
                                              const Span& rounds, Sums (&sums)[steps], Points& points) {
    if constexpr (left_acts || right_acts) {
      if (w.left_face || w.right_face) return take_rounds<Path::x_boundary>(f, w, plan, rounds, sums, points);
    }
    take_rounds<Path::interior>(f, w, plan, rounds, sums, points);
  }
};

template <class Stencil>
constexpr SweepForm stepping2d_form() {
  using Kernel = Stepping2d<Stencil>;
  SweepForm form{
      sweep_stepping2d<Stencil>,
      {TilingKind::overlapping,
       Stencil::warps,
       Kernel::shared_bytes,
       Kernel::vector_bytes,
       Kernel::vector_bytes,
       {1, 1, Kernel::width},
       Kernel::overlap_columns,
       Kernel::overlap_columns,
       Kernel::vector_elements,
       2 * Kernel::overlap_rows + (Kernel::before_chain + Stencil::warps + Stencil::ahead) * Stencil::batch}};
  // Extra cost of walks at faces, in percent of their rows and in rows, measured on an H200.
  constexpr bool ends = Kernel::left_acts && Kernel::right_acts;
  constexpr int face_steps =
      (Kernel::folds_rings ? 3 : 2) * Kernel::overlap_rows + Stencil::batch * Stencil::warps;
  form.tiling.edge_walk_percent = ends ? 95 : 90;
  form.tiling.low_face_steps = Kernel::top_acts ? face_steps - Kernel::overlap_rows : 0;
  form.tiling.high_face_steps = Kernel::bottom_acts ? face_steps : 0;
  form.tiling.whole_columns = Kernel::whole_columns;
  form.tiling.ends_at_low_face = Kernel::left_acts;
  form.tiling.ends_at_high_face = Kernel::right_acts;
  form.steps = Kernel::all_steps;
  return form;
}

}  // namespace device_4
}  // namespace spider
