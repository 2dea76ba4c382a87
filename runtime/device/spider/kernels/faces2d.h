/// Time steps of those cells of a 2D field that lie along faces, in registers, beside a form that takes all
/// steps at once.
///
/// A warp has a strip along a face: `lines` of it, all of which a lane has of some neighbouring cells. It
/// takes one step after the other, no barrier between them, and stores what the last one leaves of cells that
/// no step reached from beyond the strip: those of the lines at the face, away from both its ends. Strips
/// begin at multiples of what they store, counted from the field's first cell: what is left out of steps that
/// reach farther (RimTiles::left_out in generator/plan) is the same for any box.
///
/// Faces. Along the strip what lies beyond faces is filled in behind every step, as spider/kernels/rims2d.h
/// does it, and sums are added up in the same order, so that results have the same bits. Across it taps that
/// lead beyond the face take the line that the rule leads to.
///
/// A `Stencil` has, beside what spider/kernels/rims2d.h wants of it, as static members:
/// - row_reach, column_reach: what all steps reach along y and x;
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
inline namespace device_1 {

template <class Stencil>
struct Faces2d;

template <class Stencil>
SPIDER_GLOBAL(32, Stencil::strip_blocks)
sweep_faces2d(const BoxesArguments field) {
  device::launch_dependents();
  const BoxOfBlock of = find_box(field);
  Faces2d<Stencil>::sweep_strip(field, of.cut, of.block);
  device::wait_on_dependency();  // not before (spider/beside_rims.h)
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

  /// What a strip stores of each line.
  SPIDER_DEVICE static std::int32_t tile_cells(const CutBox& cut, bool has_rows) {
    return has_rows ? cut.tile_columns : cut.tile_rows;
  }

  SPIDER_DEVICE static bool has_weight(int dy, int dx) {
    return dy >= Stencil::row_low && dy <= Stencil::row_high && dx >= Stencil::column_low &&
           dx <= Stencil::column_high && Stencil::weight(dy, dx) != 0;
  }

  /// A strip along the low or the high face in y or x. Lines count from the lowest row, or column.
  template <int axis, bool is_high>
  struct Strip {
    static constexpr bool has_rows = axis == 1;  ///< are its lines rows?
    SPIDER_DEVICE static constexpr AxisRules across() {
      return has_rows ? Stencil::row_rules() : Stencil::column_rules();
    }
    SPIDER_DEVICE static constexpr AxisRules along() {
      return has_rows ? Stencil::column_rules() : Stencil::row_rules();
    }
    static constexpr int reach_along = has_rows ? Stencil::column_reach : Stencil::row_reach;
    static constexpr int low_along = has_rows ? Stencil::column_low : Stencil::row_low;
    static constexpr int high_along = has_rows ? Stencil::column_high : Stencil::row_high;
    static constexpr int low_across = has_rows ? Stencil::row_low : Stencil::column_low;
    static constexpr int high_across = has_rows ? Stencil::row_high : Stencil::column_high;
    static constexpr int lines = has_rows ? 2 * Stencil::row_reach : stored_columns + Stencil::column_reach;

    static_assert(lines > high_across && lines > -low_across,
                  "a tap reaches beyond one face of an axis only");

    const SweepArguments& field;
    Span stored, stored_across;
    FarSpan readable;         ///< along the strip
    Span known_lines;         ///< that the sweep may read
    std::int32_t extent;      ///< along the strip
    std::int32_t first_line;  ///< of the field
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
    Number cells[lines][own];

    SPIDER_DEVICE Strip(const SweepArguments& f, const CutBox& cut, std::int32_t index) : field(f) {
      constexpr int other = 3 - axis;
      const std::int32_t size = tile_cells(cut, has_rows);
      const auto box_first = static_cast<std::int32_t>(cut.box.offset[other]);
      const auto box_end = static_cast<std::int32_t>(cut.box.offset[other] + cut.box.extent[other]);
      const std::int32_t begin = (box_first / size + index) * size;
      stored = {begin > box_first ? begin : box_first, size < box_end - begin ? begin + size : box_end};
      const auto first_across = static_cast<std::int32_t>(cut.box.offset[axis]);
      stored_across = {first_across, first_across + static_cast<std::int32_t>(cut.box.extent[axis])};
      extent = static_cast<std::int32_t>(f.extent[other]);
      readable = find_readable(along(), {stored.begin, stored.end}, std::int64_t{Stencil::steps} * low_along,
                               std::int64_t{Stencil::steps} * high_along, extent);
      first_line = is_high ? static_cast<std::int32_t>(f.extent[axis]) - lines : 0;
      const FarSpan readable_across = find_readable(
          across(), {stored_across.begin, stored_across.end}, std::int64_t{Stencil::steps} * low_across,
          std::int64_t{Stencil::steps} * high_across, f.extent[axis]);
      known_lines = {readable_across.begin > first_line
                         ? static_cast<std::int32_t>(readable_across.begin) - first_line
                         : 0,
                     readable_across.end < first_line + lines
                         ? static_cast<std::int32_t>(readable_across.end) - first_line
                         : lines};
      first_cell = begin - reach_along;
      own_cell = first_cell + own * device::lane_index();
      is_filled = !holds_index(along(), first_cell, extent) ||
                  !holds_index(along(), first_cell + strip_cells - 1, extent);
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        const auto mapped = find_index(along(), own_cell + k, extent);
        beyond[k] = {!holds_index(along(), own_cell + k, extent), mapped.constant, mapped.value,
                     clamp(mapped.index - first_cell, 0, strip_cells - 1)};
      }
    }

    SPIDER_DEVICE bool is_readable(std::int32_t cell) const {
      return holds_index(along(), cell, extent) && readable.holds(cell);
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
      constexpr int skipped = is_high ? vectors * vector_elements - lines : 0;
      const auto* const input = static_cast<const Element*>(field.input) + first_line - skipped;
      Vector loaded[own][vectors];
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        const bool wanted = is_readable(own_cell + k);
        const std::int64_t row = wanted ? wrap_index(along(), own_cell + k, extent) : 0;
        SPIDER_UNROLL
        for (int i = 0; i < vectors; ++i) {
          const Element* const from = input + (row * field.input_stride[1] + i * vector_elements);
          const int first = skipped - i * vector_elements;
          const int end = skipped + lines - i * vector_elements;
          loaded[k][i] = first > 0 || end < vector_elements ? load_part(wanted, from, first, end)
                                                            : device::load_vector_if(wanted, from);
        }
      }
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        SPIDER_UNROLL
        for (int line = 0; line < lines; ++line) {
          const int cell = line + skipped;
          cells[line][k] =
              Cells::number(loaded[k][cell / vector_elements].word[cell % vector_elements / Cells::per_word],
                            cell % Cells::per_word);
        }
      }
    }

    SPIDER_DEVICE void load_cells() {
      const std::int64_t line_stride = has_rows ? field.input_stride[1] : 1;
      const std::int64_t cell_stride = has_rows ? 1 : field.input_stride[1];
      const auto* const input = static_cast<const Element*>(field.input) + first_line * line_stride;
      Element loaded[lines][own];
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        const bool is_wanted = is_readable(own_cell + k);
        const std::int64_t cell = is_wanted ? wrap_index(along(), own_cell + k, extent) : 0;
        const Element* from = input + cell * cell_stride;
        SPIDER_UNROLL
        for (int line = 0; line < lines; ++line) {
          loaded[line][k] = device::load_field_if(is_wanted && known_lines.holds(line), from, Element{0});
          from = device::step_further(from, line_stride);
        }
      }
      SPIDER_UNROLL
      for (int line = 0; line < lines; ++line) {
        SPIDER_UNROLL
        for (int k = 0; k < own; ++k) cells[line][k] = Cells::number(loaded[line][k], 0);
      }
    }

    /// Do columns that strips store begin and end with vectors of memory, where rows do?
    SPIDER_DEVICE bool ends_vectors() const { return !is_high || field.extent[axis] % vector_elements == 0; }

    SPIDER_DEVICE void load() {
      if constexpr (!has_rows) {
        if (field.aligned_input && ends_vectors() && known_lines.begin == 0 && known_lines.end == lines)
          return load_vectors();
      }
      load_cells();
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

    /// What taps find as line `i`, which may lie beyond the face; nothing that counts beyond the inner end.
    SPIDER_DEVICE void find_line(int i, Number (&line)[own]) const {
      const auto mapped = map_index(across(), i, lines);
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k)
        line[k] = mapped.constant ? Numbers::number(mapped.value, 0) : cells[mapped.index][k];
      // Where two faces meet the rule of x comes first.
      if (has_rows && mapped.constant && is_filled) {
        SPIDER_UNROLL
        for (int k = 0; k < own; ++k)
          line[k] = beyond[k].constant ? Numbers::number(beyond[k].value, 0) : line[k];
      }
    }

    SPIDER_DEVICE static bool is_known(int line) {
      return (line >= 0 || !is_high) && (line < lines || is_high);
    }

    /// A step of lines that are rows: each line in turn is added to the sums of those that it is read for.
    SPIDER_DEVICE void add_rows(Number (&sums)[lines][own]) const {
      SPIDER_UNROLL
      for (int j = low_across; j < lines + high_across; ++j) {
        if (!is_known(j)) continue;
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
            for (int dx = low_along; dx <= high_along; ++dx) {
              if (!has_weight(j - i, dx)) continue;
              sums[i][k] =
                  device::multiply_add(Stencil::weight(j - i, dx), window[k + dx - low_along], sums[i][k]);
            }
          }
        }
      }
    }

    /// A step of lines that are columns: each row in turn is added to the sums of the lane's rows.
    SPIDER_DEVICE void add_columns(Number (&sums)[lines][own]) const {
      SPIDER_UNROLL
      for (int j = low_along; j < own + high_along; ++j) {
        Number row[lines];
        SPIDER_UNROLL
        for (int line = 0; line < lines; ++line) row[line] = take_cell(cells[line], j);
        SPIDER_UNROLL
        for (int k = 0; k < own; ++k) {
          SPIDER_UNROLL
          for (int i = 0; i < lines; ++i) {
            SPIDER_UNROLL
            for (int dx = low_across; dx <= high_across; ++dx) {
              if (!has_weight(j - k, dx) || !is_known(i + dx)) continue;
              const auto mapped = map_index(across(), i + dx, lines);
              const Number u = mapped.constant ? Numbers::number(mapped.value, 0) : row[mapped.index];
              sums[i][k] = device::multiply_add(Stencil::weight(j - k, dx), u, sums[i][k]);
            }
          }
        }
      }
    }

    SPIDER_DEVICE void fill() {
      if (!is_filled) return;
      SPIDER_UNROLL
      for (auto& line : cells) fill_line(line);
    }

    SPIDER_DEVICE void take_step() {
      Number sums[lines][own] = {};
      if constexpr (has_rows) {
        add_rows(sums);
      } else {
        add_columns(sums);
      }
      SPIDER_UNROLL
      for (int i = 0; i < lines; ++i) {
        SPIDER_UNROLL
        for (int k = 0; k < own; ++k) cells[i][k] = sums[i][k];
      }
    }

    SPIDER_DEVICE Number result(int line, int k) const { return Stencil::last * cells[line][k]; }

    /// Stores the columns of a lane's rows as vectors.
    SPIDER_DEVICE void store_vectors() const {
      auto* const output = static_cast<Element*>(field.output);
      constexpr int first = is_high ? lines - stored_columns : 0;
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        const std::int32_t y = own_cell + k;
        SPIDER_UNROLL
        for (int line = first; line < first + stored_columns; line += vector_elements) {
          Vector vector;
          SPIDER_UNROLL
          for (int i = 0; i < 4; ++i) {
            const Number both[2] = {result(line + 2 * i, k), result(line + 2 * i + 1, k)};
            vector.word[i] = Cells::word(both);
          }
          const bool wanted = stored.holds(y) && stored_across.holds(first_line + line);
          device::store_field_vector_if(
              wanted, output + (wanted ? y * field.output_stride[1] + first_line + line : 0), vector);
        }
      }
    }

    SPIDER_DEVICE void store() const {
      if constexpr (!has_rows) {
        if (field.aligned_output && ends_vectors() && stored_across.begin % vector_elements == 0 &&
            stored_across.end % vector_elements == 0)
          return store_vectors();
      }
      constexpr int most = has_rows ? Stencil::row_reach : stored_columns;
      constexpr int first = is_high ? lines - most : 0;
      const std::int64_t line_stride = has_rows ? field.output_stride[1] : 1;
      const std::int64_t cell_stride = has_rows ? 1 : field.output_stride[1];
      auto* const output = static_cast<Element*>(field.output) + (first_line + first) * line_stride;
      SPIDER_UNROLL
      for (int k = 0; k < own; ++k) {
        const bool is_wanted = stored.holds(own_cell + k);
        Element* to = output + (is_wanted ? (own_cell + k) * cell_stride : 0);
        SPIDER_UNROLL
        for (int line = first; line < first + most; ++line) {
          device::store_field_if(is_wanted && stored_across.holds(first_line + line), to,
                                 Cells::cell(result(line, k)));
          to = device::step_further(to, line_stride);
        }
      }
    }
  };

  template <int axis, bool is_high>
  SPIDER_DEVICE static void sweep(const SweepArguments& f, const CutBox& cut, std::int32_t index) {
    constexpr AxisRules rules = axis == 1 ? Stencil::row_rules() : Stencil::column_rules();
    constexpr int reach = axis == 1 ? Stencil::row_reach : Stencil::column_reach;
    if constexpr (reach > 0 && !goes_on(is_high ? rules.high : rules.low)) {
      Strip<axis, is_high> strip(f, cut, index);
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
    const bool has_rows = cut.face == BoxFace::y_low || cut.face == BoxFace::y_high;
    const std::int32_t size = tile_cells(cut, has_rows);
    const std::int64_t first = has_rows ? cut.box.offset[2] : cut.box.offset[1];
    const std::int64_t end = first + (has_rows ? cut.box.extent[2] : cut.box.extent[1]);
    if (index >= (end + size - 1) / size - first / size) return;
    switch (cut.face) {
      case BoxFace::y_low:
        return sweep<1, false>(f, cut, index);
      case BoxFace::y_high:
        return sweep<1, true>(f, cut, index);
      case BoxFace::x_low:
        return sweep<2, false>(f, cut, index);
      case BoxFace::x_high:
        return sweep<2, true>(f, cut, index);
      case BoxFace::none:
        break;
    }
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
  form.starts_beside = true;
  form.steps = Stencil::steps;
  return form;
}

}  // namespace device_1
}  // namespace spider
