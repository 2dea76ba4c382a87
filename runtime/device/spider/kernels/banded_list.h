/// Taps that lie one behind the other along one axis, many, on tensor cores: the field times a band matrix.
///
/// A block has 64 lines that run along the axis and walks along it in steps of 64 outputs. Cells wait in
/// shared memory as operands: a ring of panels of 64 rows by 64 columns, of which a step reads all, the 64
/// inputs that its first outputs begin with in the first. Numbers that an operand does not hold exactly are a
/// sum of two, in panels of their own.
///
/// A warp has 16 lines and all 64 outputs: four groups of 16. A chunk of 16 inputs meets group i with the
/// band's operand that lies i chunks behind, so that each operand is loaded once a step. Along y and z it is
/// A, 16 outputs by 16 inputs, and B are the cells; along x it is B, of two times eight outputs, in the same
/// registers. So a lane has pairs of neighbouring columns either way. Groups begin at multiples of 16 cells
/// from the field's first: a sum adds in the same order however a field is cut.
///
/// A `Stencil` has, as static members:
/// - Cells: of spider/values/cells.h; OutCells, where results are others; Operands: of
///   spider/values/storage.h, F16Format or Bf16Format;
/// - dimensions; axis: z, y, x;
/// - low: of the first input of a group, from its first output, along x a multiple of 8;
/// - first_tap, last_tap; chunks;
/// - input_terms; input_scale: of cells before they are operands; remainder_scale: of what is left of them;
/// - weight_terms; operand(i, lane): where the vector of a lane is of chunk i / weight_terms;
/// - leading_products: terms of weights that the first terms of inputs meet; remainder_weight,
///   remainder_products: the first of those that the second ones meet, and how many;
/// - result_scale: of sums;
/// - walk: outputs of a block along the axis, a multiple of 64; blocks_per_multiprocessor;
/// - rules(): the boundary of the axis.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/sums/cores.h>
#include <spider/values/cell_numbers.h>
#include <spider/values/storage.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

inline constexpr int banded_list_warps = 4;

template <class Stencil>
struct BandedList;

template <class Stencil>
SPIDER_GLOBAL(banded_list_warps * 32, Stencil::blocks_per_multiprocessor)
sweep_banded_list(SPIDER_GRID_CONSTANT const SweepArguments field) {
  SPIDER_ENTRY;
  BandedList<Stencil>::sweep(field);
}

template <class Stencil>
struct BandedList {
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using OutCells = typename OutCellsOf<Stencil>::Type;
  using OutElement = typename OutCells::Element;
  using Operands = typename Stencil::Operands;
  using Accumulator = device::Accumulator;
  using Pair = device::Pair;
  using Shared = device::Shared;
  using Vector = device::Vector;
  static_assert(Cells::element_bytes <= 4, "operands hold no doubles");

  static constexpr int axis = Stencil::axis;
  static constexpr int axis_x = 2;
  static constexpr bool along_x = axis == axis_x;
  static constexpr int row_axis = axis == 0 ? 0 : 1;  ///< of a panel's rows
  static constexpr int fixed_axis = 1 - row_axis;     ///< along which a block has one cell
  static constexpr int chunks = Stencil::chunks;
  static constexpr int input_terms = Stencil::input_terms;
  static constexpr int weight_terms = Stencil::weight_terms;
  static constexpr bool takes_images = Stencil::dimensions < 3;
  static_assert(Stencil::dimensions > 1, "a 1D field has one line");

  static constexpr int warps = banded_list_warps;
  static constexpr int threads = warps * 32;
  static constexpr int group = 16;  ///< outputs along the axis, and inputs of a chunk
  static constexpr int groups = 4;  ///< of a step
  static constexpr int side = 64;   ///< of a panel: outputs of a step, and lines
  static constexpr int vector_cells = 8;
  static constexpr int panels = (chunks + groups - 1 + groups - 1) / groups;
  static_assert(Stencil::walk % side == 0 && (!along_x || Stencil::low % vector_cells == 0));
  static constexpr int row_extent = axis_x == axis ? side : axis == 1 ? Stencil::walk : 1;  ///< of a block
  static constexpr int plane_extent = axis == 0 ? Stencil::walk : 1;
  static constexpr int column_extent = along_x ? Stencil::walk : side;

  static constexpr int row_bytes = side * 2;
  static constexpr int panel_bytes = side * row_bytes;
  static constexpr int shared_bytes = panels * input_terms * panel_bytes;

  /// Cells of the field, from its first: rows and columns as panels have them.
  struct Window {
    std::int32_t row_begin, row_end, column_begin, column_end;

    SPIDER_DEVICE bool has(std::int32_t row, std::int32_t column) const {
      return row >= row_begin && row < row_end && column >= column_begin && column < column_end;
    }
  };

  /// What a block computes.
  struct Place {
    const Element* cells;  ///< the cell in row 0 and column 0
    OutElement* results;
    std::int64_t input_stride, output_stride;  ///< from row to row
    Window outputs, inputs;                    ///< that are needed
    std::int32_t start;                        ///< the first output of the first group, along the axis
    std::int32_t first_line;                   ///< along y and z a multiple of 8
    std::int32_t extent[2];                    ///< rows and columns of the field
    bool aligned_input, aligned_output;

    SPIDER_DEVICE std::int32_t end_along() const { return along_x ? outputs.column_end : outputs.row_end; }
    /// Of panel i of the walk.
    SPIDER_DEVICE std::int32_t first_row(int i) const {
      return along_x ? first_line : start + Stencil::low + i * side;
    }
    SPIDER_DEVICE std::int32_t first_column(int i) const {
      return along_x ? start + Stencil::low + i * side : first_line;
    }
  };

  /// A thread's cells of a panel: vectors of eight neighbours.
  static constexpr int thread_vectors = side * side / vector_cells / threads;
  static constexpr int vector_words = vector_cells * Cells::element_bytes / 4;
  using Fetched = std::uint32_t[thread_vectors][vector_words];

  SPIDER_DEVICE static int vector_row(int i) { return thread_index() / 8 + i * (threads / 8); }
  SPIDER_DEVICE static int vector_column() { return thread_index() % 8 * vector_cells; }
  SPIDER_DEVICE static int thread_index() { return device::warp_index() * 32 + device::lane_index(); }

  /// Where eight neighbours are: neighbouring rows use different banks.
  SPIDER_DEVICE static Shared operand_place(int slot, int term, int row, int column) {
    return static_cast<Shared>((slot * input_terms + term) * panel_bytes + row * row_bytes +
                               (column / vector_cells ^ row % vector_cells) * 16);
  }

  /// Are all needed cells of a panel in the field?
  SPIDER_DEVICE static bool is_plain(const Place& place, int i) {
    const Window& needed = place.inputs;
    const auto lies_in = [](std::int32_t first, std::int32_t begin, std::int32_t end, std::int32_t extent) {
      const std::int32_t low = first > begin ? first : begin;
      const std::int32_t high = first + side < end ? first + side : end;
      return low >= high || (low >= 0 && high <= extent);
    };
    return place.aligned_input &&
           lies_in(place.first_row(i), needed.row_begin, needed.row_end, place.extent[0]) &&
           lies_in(place.first_column(i), needed.column_begin, needed.column_end, place.extent[1]);
  }

  /// Requests a thread's cells of a plain panel, in vectors all of whose cells are needed; others are zeros.
  SPIDER_DEVICE static void fetch(const Place& place, int panel, Fetched& fetched) {
    const std::int32_t column = place.first_column(panel) + vector_column();
    const bool needs_columns =
        column >= place.inputs.column_begin && column + vector_cells <= place.inputs.column_end;
    SPIDER_UNROLL
    for (int i = 0; i < thread_vectors; ++i) {
      const std::int32_t row = place.first_row(panel) + vector_row(i);
      const bool needed = needs_columns && row >= place.inputs.row_begin && row < place.inputs.row_end;
      const Element* const from = place.cells + (row * place.input_stride + column);
      if constexpr (vector_words == 2) {
        SPIDER_UNROLL
        for (int word = 0; word < 2; ++word) fetched[i][word] = 0;
        device::load_cell_pair_if(needed, from, fetched[i]);
      } else {
        SPIDER_UNROLL
        for (int first = 0; first < vector_words; first += 4) {
          Vector vector{};
          device::load_field_vector_if(needed, reinterpret_cast<const std::uint32_t*>(from) + first, vector);
          SPIDER_UNROLL
          for (int word = 0; word < 4; ++word) fetched[i][first + word] = vector.word[word];
        }
      }
    }
  }

  /// Stores eight neighbours as operands.
  SPIDER_DEVICE static void put(int slot, int row, int column, const std::uint32_t (&words)[vector_words]) {
    if constexpr (std::is_same_v<Cells, typename Operands::Cells>) {
      device::store_shared(operand_place(slot, 0, row, column),
                           Vector{{words[0], words[1], words[2], words[3]}});
    } else {
      float numbers[vector_cells];
      numbers_of_words<Cells, vector_cells>(words, numbers);
      SPIDER_UNROLL
      for (int k = 0; k < vector_cells; ++k) numbers[k] *= Stencil::input_scale;
      SPIDER_UNROLL
      for (int term = 0; term < input_terms; ++term) {
        Vector packed{};
        SPIDER_UNROLL
        for (int k = 0; k < 4; ++k) {
          packed.word[k] = Operands::pack(numbers[2 * k], numbers[2 * k + 1]);
          // The remainder has few digits: this is exact.
          SPIDER_UNROLL
          for (int half = 0; half < 2; ++half) {
            float& number = numbers[2 * k + half];
            number = (number - Operands::Cells::number(packed.word[k], half)) * Stencil::remainder_scale;
          }
        }
        device::store_shared(operand_place(slot, term, row, column), packed);
      }
    }
  }

  /// A cell by the rules of the axis; one that is not needed is zero.
  SPIDER_DEVICE static Element find_cell(const Place& place, std::int32_t row, std::int32_t column) {
    if (!place.inputs.has(row, column)) return 0;
    const std::int32_t index = along_x ? column : row;
    const auto mapped = map_by<Stencil::rules>(index, place.extent[along_x ? 1 : 0]);
    const std::int64_t at =
        along_x ? row * place.input_stride + mapped.index : mapped.index * place.input_stride + column;
    const Element cell =
        mapped.constant ? static_cast<Element>(mapped.value) : device::load_field(place.cells + at);
    return static_cast<Element>(cell ^ sign_of<Element>(mapped.negated));
  }

  /// Brings a thread's cells of a panel one by one.
  SPIDER_DEVICE static void gather(const Place& place, int panel, int slot) {
    constexpr int per_word = 4 / Cells::element_bytes;
    SPIDER_NO_UNROLL
    for (int i = 0; i < thread_vectors; ++i) {
      const std::int32_t row = place.first_row(panel) + vector_row(i);
      const std::int32_t column = place.first_column(panel) + vector_column();
      std::uint32_t words[vector_words] = {};
      SPIDER_UNROLL
      for (int k = 0; k < vector_cells; ++k) {
        words[k / per_word] |= static_cast<std::uint32_t>(find_cell(place, row, column + k))
                               << (k % per_word * 8 * Cells::element_bytes);
      }
      put(slot, vector_row(i), vector_column(), words);
    }
  }

  /// Stores a plain panel. Of vectors that the needed cells begin or end within these come one by one.
  SPIDER_DEVICE static void put_all(const Place& place, int panel, int slot, const Fetched& fetched) {
    SPIDER_UNROLL
    for (int i = 0; i < thread_vectors; ++i) put(slot, vector_row(i), vector_column(), fetched[i]);
    const std::int32_t column = place.first_column(panel) + vector_column();
    const auto cuts = [column](std::int32_t at) { return column < at && at < column + vector_cells; };
    if (cuts(place.inputs.column_begin) || cuts(place.inputs.column_end)) gather(place, panel, slot);
  }

  using Weights = Vector[groups][weight_terms];  ///< of the last four chunks
  /// Along y and z of each group two tiles of eight lines, along x two of eight outputs.
  using Sums = Accumulator[groups][2];

  /// A chunk of a panel, of the warp's lines: along x an operand A, else two operands B.
  SPIDER_DEVICE static Vector load_chunk(int slot, int term, int chunk) {
    const int lane = device::lane_index();
    const int line = device::warp_index() * group;
    const int low = lane % 16;
    const int high = lane / 16 * 8;
    if constexpr (along_x) {
      return device::load_matrices(operand_place(slot, term, line + low, chunk * group + high));
    } else {
      return device::load_matrices_transposed(operand_place(slot, term, chunk * group + low, line + high));
    }
  }

  SPIDER_DEVICE static void multiply(Accumulator (&sums)[2], const Vector& weights, const Vector& cells) {
    SPIDER_UNROLL
    for (int half = 0; half < 2; ++half) {
      if constexpr (along_x) {
        Operands::multiply_whole(sums[half], cells, Pair{{weights.word[half], weights.word[half + 2]}});
      } else {
        Operands::multiply_whole(sums[half], weights, Pair{{cells.word[2 * half], cells.word[2 * half + 1]}});
      }
    }
  }

  /// Adds the chunks of panel `turn` of a step's to all groups that they reach. `everywhere`: that is all.
  template <bool everywhere>
  SPIDER_DEVICE static void add_panel(int turn, int slot, Weights& weights, Sums& sums) {
    SPIDER_UNROLL
    for (int k = 0; k < groups; ++k) {
      const int chunk = groups * turn + k;
      if (!everywhere && chunk >= chunks + groups - 1) continue;
      Vector cells[input_terms];
      SPIDER_UNROLL
      for (int term = 0; term < input_terms; ++term) cells[term] = load_chunk(slot, term, k);
      if (everywhere || chunk < chunks) {
        SPIDER_UNROLL
        for (int term = 0; term < weight_terms; ++term) {
          weights[k][term] =
              device::load_table(Stencil::operand(chunk * weight_terms + term, device::lane_index()));
        }
      }
      SPIDER_UNROLL
      for (int i = 0; i < groups; ++i) {
        if (!everywhere && (chunk < i || chunk - i >= chunks)) continue;
        const Vector(&of_group)[weight_terms] = weights[(k - i + groups) % groups];
        SPIDER_UNROLL
        for (int term = 0; term < Stencil::leading_products; ++term)
          multiply(sums[i], of_group[term], cells[0]);
        SPIDER_UNROLL
        for (int term = 0; term < Stencil::remainder_products; ++term)
          multiply(sums[i], of_group[Stencil::remainder_weight + term], cells[input_terms - 1]);
      }
    }
  }

  /// The sums of a step, whose first panel is in `first_slot`.
  SPIDER_DEVICE static void add_up(int first_slot, Sums& sums) {
    constexpr int full_turns = chunks / groups;  // but for the first one
    constexpr int first_end = full_turns > 1 ? full_turns : 1;
    const auto slot_of = [first_slot](int turn) {
      return first_slot + turn < panels ? first_slot + turn : first_slot + turn - panels;
    };
    Weights weights;
    add_panel<false>(0, first_slot, weights, sums);
    SPIDER_NO_UNROLL
    for (int turn = 1; turn < full_turns; ++turn) add_panel<true>(turn, slot_of(turn), weights, sums);
    SPIDER_UNROLL
    for (int turn = first_end; turn < panels; ++turn) add_panel<false>(turn, slot_of(turn), weights, sums);
  }

  /// Stores a warp's results of a step whose first output is `first`.
  template <bool whole>
  SPIDER_DEVICE static void store(const Place& place, std::int32_t first, const Sums& sums) {
    const int lane = device::lane_index();
    const std::int32_t line = place.first_line + device::warp_index() * group;
    const std::int32_t row = (along_x ? line : first) + lane / 4;
    const std::int32_t column = (along_x ? first : line) + 2 * (lane % 4);
    SPIDER_UNROLL
    for (int i = 0; i < groups; ++i) {
      SPIDER_UNROLL
      for (int half = 0; half < 2; ++half) {
        SPIDER_UNROLL
        for (int below = 0; below < 2; ++below) {
          const std::int32_t at_row = row + 8 * below + (along_x ? 0 : group * i);
          const std::int32_t at_column = column + 8 * half + (along_x ? group * i : 0);
          const float numbers[2] = {sums[i][half].value[2 * below] * Stencil::result_scale,
                                    sums[i][half].value[2 * below + 1] * Stencil::result_scale};
          store_pair<whole>(place, at_row, at_column, numbers);
        }
      }
    }
  }
  template <bool whole>
  SPIDER_DEVICE static void store_pair(const Place& place, std::int32_t row, std::int32_t column,
                                       const float (&numbers)[2]) {
    OutElement* const to = place.results + (row * place.output_stride + column);
    if constexpr (whole && OutCells::element_bytes > 1) {
      store_cells<OutCells, 2>(to, numbers);
    } else {
      SPIDER_UNROLL
      for (int k = 0; k < 2; ++k) {
        device::store_field_if(whole || place.outputs.has(row, column + k), to + k,
                               cell_of_number<OutCells>(numbers[k]));
      }
    }
  }

  /// This block's part; one without rows or columns where it has none.
  SPIDER_DEVICE static Place find_place(const SweepArguments& field) {
    const VolumeGrid& grid = field.grid.volume;
    constexpr int of_block[3] = {plane_extent, row_extent, column_extent};
    const int index = device::block_index();
    const int number[3] = {index / grid.across / grid.down, index / grid.across % grid.down,
                           index % grid.across};
    std::int32_t first[3];
    std::int32_t begin[3];
    std::int32_t end[3];
    SPIDER_UNROLL
    for (int along = 0; along < 3; ++along) {
      const auto offset = static_cast<std::int32_t>(field.box.offset[along]);
      const auto box_end = offset + static_cast<std::int32_t>(field.box.extent[along]);
      first[along] = (along == axis_x ? grid.first_column : offset) + number[along] * of_block[along];
      begin[along] = first[along] > offset ? first[along] : offset;
      const std::int32_t block_end = first[along] + of_block[along];
      end[along] = block_end < box_end ? block_end : box_end;
    }
    Place place{};
    place.cells = static_cast<const Element*>(field.input);
    place.results = static_cast<OutElement*>(field.output);
    if constexpr (takes_images) {
      place.cells += device::image_index() * field.input_stride[0];
      place.results += device::image_index() * field.output_stride[0];
    } else {
      place.cells += begin[fixed_axis] * field.input_stride[fixed_axis];
      place.results += begin[fixed_axis] * field.output_stride[fixed_axis];
    }
    place.input_stride = field.input_stride[row_axis];
    place.output_stride = field.output_stride[row_axis];
    place.outputs = {begin[row_axis], end[row_axis], begin[axis_x], end[axis_x]};
    place.inputs = place.outputs;
    (along_x ? place.inputs.column_begin : place.inputs.row_begin) += Stencil::first_tap;
    (along_x ? place.inputs.column_end : place.inputs.row_end) += Stencil::last_tap;
    place.start = begin[axis] / group * group;
    place.first_line = along_x ? begin[row_axis] : first[axis_x];
    place.extent[0] = static_cast<std::int32_t>(field.extent[row_axis]);
    place.extent[1] = static_cast<std::int32_t>(field.extent[axis_x]);
    place.aligned_input = field.aligned_input;
    place.aligned_output = field.aligned_output;
    return place;
  }

  SPIDER_DEVICE static void sweep(const SweepArguments& field) {
    const Place place = find_place(field);
    const Window& needed = place.outputs;
    if (needed.row_begin >= needed.row_end || needed.column_begin >= needed.column_end) return;
    SPIDER_NO_UNROLL
    for (int panel = 0; panel < panels; ++panel) {
      if (is_plain(place, panel)) {
        Fetched fetched;
        fetch(place, panel, fetched);
        put_all(place, panel, panel, fetched);
      } else {
        gather(place, panel, panel);
      }
    }
    int slot = 0;  // of the step's first panel
    int panel = panels;
    SPIDER_NO_UNROLL
    for (std::int32_t first = place.start; first < place.end_along(); first += side) {
      device::sync_block();
      const bool is_last = first + side >= place.end_along();
      const bool plain = !is_last && is_plain(place, panel);
      Fetched fetched;
      if (plain) fetch(place, panel, fetched);
      Sums sums = {};
      add_up(slot, sums);
      const bool lines_are_whole =
          along_x ? needed.row_end - place.first_line >= side
                  : needed.column_begin <= place.first_line && needed.column_end - place.first_line >= side;
      const std::int32_t begin = along_x ? needed.column_begin : needed.row_begin;
      if (place.aligned_output && lines_are_whole && begin <= first && first + side <= place.end_along()) {
        store<true>(place, first, sums);
      } else {
        store<false>(place, first, sums);
      }
      if (is_last) return;
      device::sync_block();
      if (plain) {
        put_all(place, panel, slot, fetched);
      } else {
        gather(place, panel, slot);
      }
      slot = slot + 1 < panels ? slot + 1 : 0;
      ++panel;
    }
  }
};

template <class Stencil>
constexpr SweepForm banded_list_form() {
  using Kernel = BandedList<Stencil>;
  constexpr int vector_bytes = 16;
  SweepForm form{};
  form.sweep = SweepFunction{sweep_banded_list<Stencil>};
  Tiling& tiling = form.tiling;
  tiling.kind = TilingKind::boxes;
  tiling.warps_per_block = Kernel::warps;
  tiling.shared_bytes = Kernel::shared_bytes;
  tiling.input_alignment = vector_bytes;
  tiling.output_alignment = vector_bytes;
  tiling.tile_extent[0] = Kernel::plane_extent;
  tiling.tile_extent[1] = Kernel::row_extent;
  tiling.tile_extent[2] = Kernel::column_extent;
  tiling.anchor = Kernel::group;
  form.takes_images = Kernel::takes_images;
  return form;
}

}  // namespace device_4
}  // namespace spider
