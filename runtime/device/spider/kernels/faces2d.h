/// Time steps of those cells of a 2D field that lie along faces, in registers, beside a form that takes all
/// steps at once.
///
/// A warp has a strip along a face: `lines` of it, all of which a lane has of some neighbouring cells. It
/// takes one step after the other, no barrier between them, and stores what the last one leaves of cells that
/// no step reached from beyond the strip: those of the lines at the face, away from both its ends. Strips
/// begin at multiples of what they store, counted from the field's first cell: what is left out of steps that
/// reach farther (RimTiles::left_out in generator/plan) is the same for any box.
///
/// Lines count from the face inwards, weights are in registers, and a strip picks what lies beyond its face
/// by the face's rule. So all faces run the same code, if taps lie alike before them: a warp takes each
/// instruction a few times only, and warps of unlike code waited for instructions more than for anything
/// else.
///
/// Faces. Along the strip what lies beyond faces is filled in behind every step, as spider/kernels/rims2d.h
/// does it. Across it taps that lead beyond the face take the line that the rule leads to.
///
/// A `Stencil` has, beside what spider/kernels/rims2d.h wants of it, as static members:
/// - row_reach, column_reach: what all steps reach along y and x;
/// - even_rows, even_columns: do taps lie alike turned round along y, x; transposes: with both axes
/// exchanged;
/// - lane_cells: of a line, a lane's; strip_blocks: of a multiprocessor, each of a warp.
#pragma once

#include <spider/boundary.h>
#include <spider/boxes.h>
#include <spider/cells.h>
#include <spider/instructions.h>
#include <spider/kernel.h>
#include <spider/spans.h>
#include <spider/stepping.h>

#include <cstdint>

namespace spider {
inline namespace device_3 {

template <class Stencil>
struct Faces2d;

template <class Stencil>
SPIDER_GLOBAL(32, Stencil::strip_blocks)
sweep_faces2d(const BoxesArguments field) {
  device::wait_on_dependency();
  device::launch_dependents();  // the sweep beside them (spider/beside_rims.h), which touches fields at once
  const BoxOfBlock of = find_box(field);
  Faces2d<Stencil>::sweep_strip(field, of.cut, of.block);
}

template <class Stencil>
struct Faces2d {
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;
  using Numbers = NumberCells<Cells>;
  using Vector = device::Vector;
  static constexpr int own = Stencil::lane_cells;
  static constexpr int strip_cells = 32 * own;
  static constexpr int vector_bytes = 16;
  static constexpr int vector_elements = vector_bytes / Cells::element_bytes;

  /// Columns that strips along faces in x store at most: whole vectors.
  static constexpr int stored_columns =
      (Stencil::column_reach + vector_elements - 1) / vector_elements * vector_elements;

  SPIDER_DEVICE static constexpr bool faces_are_alike(int axis) {
    return axis == 1 ? Stencil::even_rows : Stencil::even_columns;
  }

  SPIDER_DEVICE static constexpr AxisRules rules_of(int axis) {
    return axis == 1 ? Stencil::row_rules() : Stencil::column_rules();
  }
  SPIDER_DEVICE static constexpr bool acts(const AxisRules& rules) {
    return !goes_on(rules.low) || !goes_on(rules.high);
  }
  static constexpr bool axes_are_alike = Stencil::transposes && Stencil::row_reach == Stencil::column_reach &&
                                         acts(rules_of(1)) && acts(rules_of(2));
  /// Does the low or the high face of an axis act, or one that is stepped like it?
  SPIDER_DEVICE static constexpr bool acts(int axis, bool is_high) {
    if (faces_are_alike(axis) || axes_are_alike) return acts(rules_of(axis));
    return !goes_on(is_high ? rules_of(axis).high : rules_of(axis).low);
  }
  SPIDER_DEVICE static constexpr bool occurs(FaceRule rule) {
    return rules_of(1).low == rule || rules_of(1).high == rule || rules_of(2).low == rule ||
           rules_of(2).high == rule;
  }
  /// Of the faces that act.
  SPIDER_DEVICE static constexpr int count_rules() {
    return (occurs(FaceRule::constant) ? 1 : 0) + (occurs(FaceRule::nearest) ? 1 : 0) +
           (occurs(FaceRule::reflect) ? 1 : 0) + (occurs(FaceRule::mirror) ? 1 : 0);
  }

  /// What a strip stores of each line.
  SPIDER_DEVICE static std::int32_t tile_cells(const CutBox& cut, bool has_rows) {
    return has_rows ? cut.tile_columns : cut.tile_rows;
  }

  /// What steps at the low or the high face of an axis are, and of all faces that are like it.
  template <int axis, bool is_high>
  struct Side {
    static constexpr bool has_rows = axis == 1;  ///< are its lines rows?
    /// Rows that are stepped like columns have as many lines.
    static constexpr int stored_lines = has_rows && !axes_are_alike ? Stencil::row_reach : stored_columns;
    static constexpr int lines = stored_lines + (has_rows ? Stencil::row_reach : Stencil::column_reach);
    static constexpr int reach_along = has_rows ? Stencil::column_reach : Stencil::row_reach;
    static constexpr int low_along = has_rows ? Stencil::column_low : Stencil::row_low;
    static constexpr int high_along = has_rows ? Stencil::column_high : Stencil::row_high;
    static constexpr int lowest = has_rows ? Stencil::row_low : Stencil::column_low;
    static constexpr int highest = has_rows ? Stencil::row_high : Stencil::column_high;
    static constexpr int low_across = is_high ? -highest : lowest;
    static constexpr int high_across = is_high ? -lowest : highest;

    /// Is there a tap that leads so many lines inwards, and so many cells along?
    SPIDER_DEVICE static bool has_tap(int inwards, int cells) {
      return Faces2d::weight(has_rows, is_high, inwards, cells) != 0;
    }
  };

  /// The weight of a tap that leads so many lines inwards, and so many cells along.
  SPIDER_DEVICE static float weight(bool has_rows, bool is_high, int inwards, int cells) {
    const int offset = is_high ? -inwards : inwards;
    return has_rows ? Stencil::weight(offset, cells) : Stencil::weight(cells, offset);
  }

  /// A strip along a face that is like `Side`.
  template <class Side>
  struct Strip {
    static constexpr int lines = Side::lines;
    static constexpr int low_across = Side::low_across, high_across = Side::high_across;
    static constexpr int low_along = Side::low_along, high_along = Side::high_along;
    static_assert(lines > high_across && lines > -low_across,
                  "a tap reaches beyond one face of an axis only");

    const SweepArguments& field;
    bool has_rows, is_high;
    Span stored, stored_across;
    FarSpan readable;     ///< along the strip
    Span known_lines;     ///< that the sweep may read
    std::int32_t extent;  ///< along the strip
    std::int32_t extent_across;
    std::int32_t first_cell;  ///< of lane 0
    std::int32_t own_cell;    ///< of the lane
    bool is_filled;           ///< does it cross a face along its lines?
    /// Of the lane's cells of a line: what is there instead where they lie beyond a face.
    struct Beyond {
      bool is_filled, constant;
      std::uint32_t value;  ///< of a constant
      std::int32_t cell;    ///< else a cell of the strip
    };
    Beyond beyond[own];
    float weights[high_across - low_across + 1][high_along - low_along + 1];  ///< of each lowest offset on
    Number cells[lines][own];

    SPIDER_DEVICE AxisRules along() const { return rules_of(has_rows ? 2 : 1); }
    /// Beyond the face, whichever it is, as beyond a low one.
    SPIDER_DEVICE AxisRules across() const {
      const AxisRules rules = rules_of(has_rows ? 1 : 2);
      return is_high ? AxisRules{rules.high, rules.low, rules.high_value, rules.low_value} : rules;
    }
    /// Is this the face's rule? Nothing is to be found out where all faces that act have one.
    SPIDER_DEVICE bool has_rule(FaceRule rule) const {
      return occurs(rule) && (count_rules() == 1 || across().low == rule);
    }

    SPIDER_DEVICE Strip(const SweepArguments& f, const CutBox& cut, std::int32_t index, bool lies_in_rows,
                        bool lies_high)
        : field(f), has_rows(lies_in_rows), is_high(lies_high) {
      const auto along_of = [&](const std::int64_t(&numbers)[3]) {
        return has_rows ? numbers[2] : numbers[1];
      };
      const auto across_of = [&](const std::int64_t(&numbers)[3]) {
        return has_rows ? numbers[1] : numbers[2];
      };
      const std::int32_t size = tile_cells(cut, has_rows);
      const auto box_first = static_cast<std::int32_t>(along_of(cut.box.offset));
      const auto box_end = box_first + static_cast<std::int32_t>(along_of(cut.box.extent));
      const std::int32_t begin = (box_first / size + index) * size;
      stored = {begin > box_first ? begin : box_first, size < box_end - begin ? begin + size : box_end};
      const auto first_across = static_cast<std::int32_t>(across_of(cut.box.offset));
      stored_across = {first_across, first_across + static_cast<std::int32_t>(across_of(cut.box.extent))};
      extent = static_cast<std::int32_t>(along_of(f.extent));
      extent_across = static_cast<std::int32_t>(across_of(f.extent));
      readable = find_readable(along(), {stored.begin, stored.end}, std::int64_t{Stencil::steps} * low_along,
                               std::int64_t{Stencil::steps} * high_along, extent);
      const Span own_lines =
          is_high ? Span{extent_across - stored_across.end, extent_across - stored_across.begin}
                  : stored_across;
      const FarSpan readable_lines =
          find_readable(across(), {own_lines.begin, own_lines.end}, std::int64_t{Stencil::steps} * low_across,
                        std::int64_t{Stencil::steps} * high_across, extent_across);
      // A field may have fewer rows than lines: what is left out of the steps comes from beyond these.
      const std::int32_t there = lines < extent_across ? lines : extent_across;
      known_lines = {readable_lines.begin > 0 ? static_cast<std::int32_t>(readable_lines.begin) : 0,
                     readable_lines.end < there ? static_cast<std::int32_t>(readable_lines.end) : there};
      first_cell = begin - Side::reach_along;
      own_cell = first_cell + own * device::lane_index();
      is_filled = !holds_index(along(), first_cell, extent) ||
                  !holds_index(along(), first_cell + strip_cells - 1, extent);
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        const auto mapped = find_index(along(), own_cell + k, extent);
        beyond[k] = {!holds_index(along(), own_cell + k, extent), mapped.constant, mapped.value,
                     clamp(mapped.index - first_cell, 0, strip_cells - 1)};
      }
      SPIDER_UNROLL
      for (int i = low_across; i <= high_across; ++i) {
        SPIDER_UNROLL
        for (int n = low_along; n <= high_along; ++n)
          weights[i - low_across][n - low_along] = weight(has_rows, is_high, i, n);
      }
    }

    SPIDER_DEVICE bool is_readable(std::int32_t cell) const {
      return holds_index(along(), cell, extent) && readable.holds(cell);
    }

    /// The row or column that a line is.
    SPIDER_DEVICE std::int32_t index_of(int line) const { return is_high ? extent_across - 1 - line : line; }
    /// From a line to the next one in memory, and from a cell of a line to the next.
    SPIDER_DEVICE std::int64_t line_stride(std::int64_t row_stride) const {
      const std::int64_t stride = has_rows ? row_stride : 1;
      return is_high ? -stride : stride;
    }
    SPIDER_DEVICE std::int64_t cell_stride(std::int64_t row_stride) const {
      return has_rows ? 1 : row_stride;
    }

    // Columns are whole vectors of memory where the field's rows and the face are aligned, those at a high
    // face in the order of memory, turned round.

    SPIDER_DEVICE std::int32_t vector_column(int i) const {
      return is_high ? extent_across - (i + 1) * vector_elements : i * vector_elements;
    }
    SPIDER_DEVICE bool ends_vectors() const { return !is_high || extent_across % vector_elements == 0; }

    SPIDER_DEVICE static Vector in_order_of_lines(const Vector& vector, bool is_turned) {
      Vector turned;
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t word = vector.word[3 - i];
        const std::uint32_t other = Cells::per_word == 2 ? word << 16U | word >> 16U : word;
        turned.word[i] = is_turned ? other : vector.word[i];
      }
      return turned;
    }

    /// Brings the lines of a vector of memory, of which `from` is in the field and not all are lines: words
    /// and, at the end, a cell.
    SPIDER_DEVICE static Vector load_part(bool wanted, const Element* from, int first, int end) {
      Vector part{};
      SPIDER_UNROLL
      for (int cell = 0; cell < vector_elements; cell += Cells::per_word) {
        std::uint32_t& word = part.word[cell / Cells::per_word];
        if (cell >= first && cell + 1 < end) {
          if (wanted) word = device::load_field_word(from + cell);
        } else if (cell >= first && cell < end) {
          word = device::load_field_if(wanted, from + cell, Element{0});
        } else if (cell + 1 >= first && cell + 1 < end) {
          Cells::put(word, 1, device::load_field_if(wanted, from + cell + 1, Element{0}));
        }
      }
      return part;
    }

    /// Loads the columns of a lane's rows, vectors at a time where all of one are lines.
    SPIDER_DEVICE void load_vectors() {
      constexpr int vectors = (lines + vector_elements - 1) / vector_elements;
      const auto* const input = static_cast<const Element*>(field.input);
      Vector loaded[own][vectors];
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        const bool wanted = is_readable(own_cell + k);
        const std::int64_t row = wanted ? wrap_index(along(), own_cell + k, extent) : 0;
        SPIDER_UNROLL
        for (int i = 0; i < vectors; ++i) {
          const Element* const from = input + (row * field.input_stride[1] + vector_column(i));
          const int count = lines - i * vector_elements;
          if (count >= vector_elements) {
            loaded[k][i] = device::load_vector_if(wanted, from);
          } else if (is_high) {
            loaded[k][i] = load_part(wanted, from, vector_elements - count, vector_elements);
          } else {
            loaded[k][i] = load_part(wanted, from, 0, count);
          }
        }
      }
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        SPIDER_UNROLL
        for (int i = 0; i < vectors; ++i) {
          const Vector vector = in_order_of_lines(loaded[k][i], is_high);
          SPIDER_UNROLL
          for (int n = 0; n < vector_elements; ++n) {
            const int line = i * vector_elements + n;
            if (line < lines)
              cells[line][k] = Cells::number(vector.word[n / Cells::per_word], n % Cells::per_word);
          }
        }
      }
    }

    SPIDER_DEVICE void load_cells() {
      const std::int64_t stride = line_stride(field.input_stride[1]);
      const auto* const input =
          static_cast<const Element*>(field.input) + index_of(0) * (is_high ? -stride : stride);
      Element loaded[lines][own];
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        const bool is_wanted = is_readable(own_cell + k);
        const std::int64_t cell = is_wanted ? wrap_index(along(), own_cell + k, extent) : 0;
        const Element* from = input + cell * cell_stride(field.input_stride[1]);
        SPIDER_UNROLL
        for (int line = 0; line < lines; ++line) {
          loaded[line][k] = device::load_field_if(is_wanted && known_lines.holds(line), from, Element{0});
          from = device::step_further(from, stride);
        }
      }
      SPIDER_UNROLL
      for (int line = 0; line < lines; ++line) {
        SPIDER_UNROLL
        for (int k = 0; k < own; ++k) cells[line][k] = Cells::number(loaded[line][k], 0);
      }
    }

    SPIDER_DEVICE void load() {
      if (!has_rows && field.aligned_input && ends_vectors() && known_lines.begin == 0 &&
          known_lines.end == lines) {
        load_vectors();
      } else {
        load_cells();
      }
    }

    /// Fills what taps find of a line beyond the faces that end it, without branches: lanes that took others
    /// would exchange numbers one after the other.
    SPIDER_DEVICE void fill_line(Number (&line)[own]) const {
      Number found[own];
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        found[k] = take_number<Numbers>(line[0], beyond[k].cell / own);
        SPIDER_UNROLL
        for (int i = 1; i < own; ++i) {
          const Number other = take_number<Numbers>(line[i], beyond[k].cell / own);
          found[k] = beyond[k].cell % own == i ? other : found[k];
        }
      }
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        found[k] = beyond[k].constant ? Numbers::number(beyond[k].value, 0) : found[k];
        line[k] = beyond[k].is_filled ? found[k] : line[k];
      }
    }

    /// The cell of a line that lies `k` from the lane's first, of this lane or another. Beyond the ends of
    /// the strip it is one of the lane's own, which is as good as any that is near.
    SPIDER_DEVICE static Number take_cell(const Number (&line)[own], int k) {
      const int lanes = k >= 0 ? k / own : -((own - 1 - k) / own);
      const Number value = line[k - lanes * own];
      if (lanes == 0) return value;
      return take_number<Numbers>(value, clamp(device::lane_index() + lanes, 0, 31));
    }

    /// Of the lane's cell k what taps find `distance` >= 1 lines beyond the face.
    SPIDER_DEVICE Number find_beyond(int distance, int k) const {
      Number found = cells[0][k];
      found = has_rule(FaceRule::reflect) ? cells[fold_inwards(FaceRule::reflect, distance)][k] : found;
      found = has_rule(FaceRule::mirror) ? cells[fold_inwards(FaceRule::mirror, distance)][k] : found;
      // Where two faces meet the rule of x comes first.
      const bool is_of_x = has_rows && beyond[k].constant;
      const std::uint32_t constant = is_of_x ? beyond[k].value : across().low_value;
      return has_rule(FaceRule::constant) ? Numbers::number(constant, 0) : found;
    }

    /// What taps find as line `i`, which may lie beyond the face; nothing that counts beyond the inner end.
    SPIDER_DEVICE void find_line(int i, Number (&line)[own]) const {
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) line[k] = i < 0 ? find_beyond(-i, k) : cells[i < 0 ? 0 : i][k];
    }

    /// Each line in turn is added to the sums of those that it is read for.
    SPIDER_DEVICE void take_step() {
      Number sums[lines][own] = {};
      SPIDER_UNROLL
      for (int j = low_across; j < lines; ++j) {
        Number line[own];
        find_line(j, line);
        Number window[own + high_along - low_along];
        SPIDER_UNROLL
        for (int k = low_along; k < own + high_along; ++k) window[k - low_along] = take_cell(line, k);
        SPIDER_UNROLL
        for (int i = j - high_across; i <= j - low_across; ++i) {
          if (i < 0 || i >= lines) continue;
          SPIDER_UNROLL
          for (int k = 0; k < own; ++k) {
            SPIDER_UNROLL
            for (int n = low_along; n <= high_along; ++n) {
              if (!Side::has_tap(j - i, n)) continue;
              sums[i][k] = device::multiply_add(weights[j - i - low_across][n - low_along],
                                                window[k + n - low_along], sums[i][k]);
            }
          }
        }
      }
      SPIDER_UNROLL
      for (int i = 0; i < lines; ++i) {
        SPIDER_UNROLL
        for (int k = 0; k < own; ++k) cells[i][k] = sums[i][k];
      }
    }

    SPIDER_DEVICE void fill() {
      if (!is_filled) return;
      SPIDER_UNROLL
      for (auto& line : cells) fill_line(line);
    }

    SPIDER_DEVICE Number result(int line, int k) const { return Stencil::last * cells[line][k]; }

    /// Stores the columns of a lane's rows as vectors.
    SPIDER_DEVICE void store_vectors() const {
      auto* const output = static_cast<Element*>(field.output);
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        const std::int32_t y = own_cell + k;
        SPIDER_UNROLL
        for (int i = 0; i < stored_columns / vector_elements; ++i) {
          const int line = i * vector_elements;
          Vector vector;
          SPIDER_UNROLL
          for (int n = 0; n < 4; ++n) {
            const Number both[2] = {result(line + 2 * n, k), result(line + 2 * n + 1, k)};
            vector.word[n] = Cells::word(both);
          }
          const std::int32_t x = vector_column(i);
          const bool wanted = stored.holds(y) && stored_across.holds(x);
          device::store_field_vector_if(wanted, output + (wanted ? y * field.output_stride[1] + x : 0),
                                        in_order_of_lines(vector, is_high));
        }
      }
    }

    SPIDER_DEVICE void store_cells() const {
      const std::int64_t stride = line_stride(field.output_stride[1]);
      auto* const output = static_cast<Element*>(field.output) + index_of(0) * (is_high ? -stride : stride);
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        const bool is_wanted = stored.holds(own_cell + k);
        Element* to = output + (is_wanted ? (own_cell + k) * cell_stride(field.output_stride[1]) : 0);
        SPIDER_UNROLL
        for (int line = 0; line < Side::stored_lines; ++line) {
          device::store_field_if(is_wanted && stored_across.holds(index_of(line)), to,
                                 Cells::cell(result(line, k)));
          to = device::step_further(to, stride);
        }
      }
    }

    SPIDER_DEVICE void store() const {
      if (!has_rows && field.aligned_output && ends_vectors() && stored_across.begin % vector_elements == 0 &&
          stored_across.end % vector_elements == 0) {
        store_vectors();
      } else {
        store_cells();
      }
    }
  };

  /// Sweeps a strip along a face that is like the low or the high one of an axis.
  template <int axis, bool is_like_high>
  SPIDER_DEVICE static void sweep(const SweepArguments& f, const CutBox& cut, std::int32_t index,
                                  bool has_rows, bool is_high) {
    constexpr int reach = axis == 1 ? Stencil::row_reach : Stencil::column_reach;
    if constexpr (reach > 0 && acts(axis, is_like_high)) {
      Strip<Side<axis, is_like_high>> strip(f, cut, index, axes_are_alike ? has_rows : axis == 1, is_high);
      strip.load();
      SPIDER_NO_UNROLL
      for (int step = 0; step < Stencil::steps; ++step) {
        strip.fill();
        strip.take_step();
      }
      strip.store();
    }
  }

  SPIDER_DEVICE static void sweep_strip(const SweepArguments& f, const CutBox& cut, std::int32_t index) {
    if (cut.face == BoxFace::none) return;
    const bool has_rows = cut.face == BoxFace::y_low || cut.face == BoxFace::y_high;
    const bool is_high = cut.face == BoxFace::y_high || cut.face == BoxFace::x_high;
    const std::int32_t size = tile_cells(cut, has_rows);
    const std::int64_t first = has_rows ? cut.box.offset[2] : cut.box.offset[1];
    const std::int64_t end = first + (has_rows ? cut.box.extent[2] : cut.box.extent[1]);
    if (index >= (end + size - 1) / size - first / size) return;
    if (axes_are_alike || has_rows) {
      if (faces_are_alike(1) || !is_high) return sweep<1, false>(f, cut, index, has_rows, is_high);
      return sweep<1, true>(f, cut, index, has_rows, is_high);
    }
    if (faces_are_alike(2) || !is_high) return sweep<2, false>(f, cut, index, has_rows, is_high);
    return sweep<2, true>(f, cut, index, has_rows, is_high);
  }
};

/// For the rims of the forms ahead of it, beside faces.
template <class Stencil>
constexpr SweepForm faces2d_form() {
  using Kernel = Faces2d<Stencil>;
  SweepForm form;
  form.sweep = sweep_faces2d<Stencil>;
  form.tiling.kind = TilingKind::faces;
  form.tiling.warps_per_block = 1;
  form.tiling.input_alignment = form.tiling.output_alignment = Kernel::vector_bytes;
  form.tiling.tile_extent[1] = Kernel::strip_cells - 2 * Stencil::row_reach;
  form.tiling.tile_extent[2] = Kernel::strip_cells - 2 * Stencil::column_reach;
  form.tiling.lead_steps = Stencil::row_reach;
  form.tiling.left_margin = form.tiling.right_margin = Kernel::stored_columns;
  form.tiling.anchor = Kernel::vector_elements;
  form.steps = Stencil::steps;
  form.starts_early = true;
  return form;
}

}  // namespace device_3
}  // namespace spider
