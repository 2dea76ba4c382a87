/// A long list of taps along one axis, on tensor cores: the field times a band matrix.
///
/// A block has up to 64 lines that run along the axis and walks along it. Cells wait in shared memory, a ring
/// of panels of 64 inputs of each line; those that a step adds are copied while the one before computes.
/// Cells of 8 and 16 bits are stored as operands. Other cells are stored as f32, and split into two or three
/// terms in registers.
///
/// A warp has 16 lines and 64 outputs of each: four groups of 16. A chunk of 16 inputs meets group i with the
/// band's operand that lies i chunks behind, so that each operand is loaded once a step. Along y and z it is
/// A, 16 outputs by 16 inputs, and B are the cells; along x it is B, of two times eight outputs, in the same
/// registers. So a lane has pairs of neighbouring columns either way. Groups begin at multiples of 16 cells
/// from the field's first: a sum adds in the same order however a field is cut.
///
/// Three terms have all digits of f32. Tensor cores truncate, so sums of leading products are added up panel
/// by panel, rounded to nearest. The other products are small and have sums of their own.
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
///   remainder_products: the first of those that the second ones meet, and how many; third ones meet one;
/// - result_scale: of sums;
/// - line_warps: of a block's four, warps whose lines differ; the others have other outputs of these lines;
/// - walk: outputs of a block along the axis, whole steps; blocks_per_multiprocessor;
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
  static constexpr int line_warps = Stencil::line_warps;
  static constexpr int output_warps = warps / line_warps;
  static constexpr int threads = warps * 32;
  static constexpr int group = 16;  ///< outputs along the axis, and inputs of a chunk
  static constexpr int groups = 4;  ///< of a warp
  static constexpr int side = 64;   ///< of a panel along the axis: outputs of a warp
  static constexpr int lines = group * line_warps;
  static constexpr int step = side * output_warps;                            ///< outputs along the axis
  static constexpr int panels = (chunks + groups - 1 + groups - 1) / groups;  ///< that a warp reads in a step
  static constexpr int panels_of_step = panels + output_warps - 1;
  static constexpr int slots = panels_of_step + output_warps;
  static_assert(Stencil::walk % step == 0 && (!along_x || Stencil::low % 8 == 0));
  static constexpr int row_extent = axis_x == axis ? lines : axis == 1 ? Stencil::walk : 1;  ///< of a block
  static constexpr int plane_extent = axis == 0 ? Stencil::walk : 1;
  static constexpr int column_extent = along_x ? Stencil::walk : lines;

  /// Cells that become several terms wait as f32.
  static constexpr bool splits = input_terms > 1;
  using PanelCells = std::conditional_t<splits, F32Cells, typename Operands::Cells>;
  static constexpr bool tiles_alternate = splits && !along_x;        ///< with lines, one by one
  static constexpr bool copies = std::is_same_v<Cells, PanelCells>;  ///< cells as they are
  static constexpr int vector_bytes = 16;
  static constexpr int vector_cells = vector_bytes / PanelCells::element_bytes;
  static constexpr int row_vectors = (along_x ? side : lines) / vector_cells;  ///< of a panel
  static constexpr int panel_bytes = side * lines * PanelCells::element_bytes;
  static constexpr int shared_bytes = slots * panel_bytes;

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
    Window outputs;                            ///< that are needed
    std::int32_t start;                        ///< the first output of the first group, along the axis
    std::int32_t first_line;                   ///< along y and z a multiple of 8
    std::int32_t extent[2];                    ///< rows and columns of the field
    bool aligned_input, aligned_output;

    /// The inputs that the outputs read.
    SPIDER_DEVICE Window inputs() const {
      Window window = outputs;
      (along_x ? window.column_begin : window.row_begin) += Stencil::first_tap;
      (along_x ? window.column_end : window.row_end) += Stencil::last_tap;
      return window;
    }
    SPIDER_DEVICE std::int32_t end_along() const { return along_x ? outputs.column_end : outputs.row_end; }
    /// Of panel i of the walk.
    SPIDER_DEVICE std::int32_t first_row(int i) const {
      return along_x ? first_line : start + Stencil::low + i * side;
    }
    SPIDER_DEVICE std::int32_t first_column(int i) const {
      return along_x ? start + Stencil::low + i * side : first_line;
    }
  };

  /// A thread's cells of a panel: vectors of neighbours.
  static constexpr int thread_vectors = side * lines / vector_cells / threads;
  static constexpr int vector_words = vector_cells * Cells::element_bytes / 4;
  using Words = std::uint32_t[vector_words];

  SPIDER_DEVICE static int vector_row(int i) {
    return thread_index() / row_vectors + i * (threads / row_vectors);
  }
  SPIDER_DEVICE static int vector_column() { return thread_index() % row_vectors * vector_cells; }
  SPIDER_DEVICE static int thread_index() { return device::warp_index() * 32 + device::lane_index(); }

  /// Where a cell is, of the vectors that the rows of a panel have: those that lanes read together lie in
  /// different banks. Operands are read in eight rows, f32 cells in four, along y every other one.
  SPIDER_DEVICE static Shared panel_place(int slot, int row, int column) {
    int other = row / (row_vectors < 8 ? 8 / row_vectors : 1) % (row_vectors < 8 ? row_vectors : 8);
    if constexpr (splits) other = 2 * ((along_x ? row : row / 2) % 4);
    const int vector = (row * row_vectors + column / vector_cells) ^ other;
    return static_cast<Shared>(slot * panel_bytes + vector * vector_bytes +
                               column % vector_cells * PanelCells::element_bytes);
  }

  /// Are all needed cells of a panel in the field?
  SPIDER_DEVICE static bool is_plain(const Place& place, int i) {
    const Window needed = place.inputs();
    const auto lies_in = [](std::int32_t first, int count, std::int32_t begin, std::int32_t end,
                            std::int32_t extent) {
      const std::int32_t low = first > begin ? first : begin;
      const std::int32_t high = first + count < end ? first + count : end;
      return low >= high || (low >= 0 && high <= extent);
    };
    constexpr int rows = along_x ? lines : side;
    constexpr int columns = along_x ? side : lines;
    return place.aligned_input &&
           lies_in(place.first_row(i), rows, needed.row_begin, needed.row_end, place.extent[0]) &&
           lies_in(place.first_column(i), columns, needed.column_begin, needed.column_end, place.extent[1]);
  }

  /// Stores neighbours as a panel has them.
  SPIDER_DEVICE static void put(int slot, int row, int column, const Words& words) {
    Vector vector{};
    float numbers[vector_cells];
    if constexpr (!copies) numbers_of_words<Cells, vector_cells>(words, numbers);
    SPIDER_UNROLL
    for (int k = 0; k < 4; ++k) {
      if constexpr (copies) {
        vector.word[k] = words[k];
      } else if constexpr (splits) {
        vector.word[k] = device::bits_of(numbers[k]);
      } else {
        vector.word[k] = Operands::pack(numbers[2 * k], numbers[2 * k + 1]);
      }
    }
    device::store_shared(panel_place(slot, row, column), vector);
  }

  /// A cell by the rules of the axis; one that is not needed is zero.
  SPIDER_DEVICE static Element find_cell(const Place& place, std::int32_t row, std::int32_t column) {
    if (!place.inputs().has(row, column)) return 0;
    const std::int32_t index = along_x ? column : row;
    const auto mapped = map_by<Stencil::rules>(index, place.extent[along_x ? 1 : 0]);
    const std::int64_t at =
        along_x ? row * place.input_stride + mapped.index : mapped.index * place.input_stride + column;
    const Element cell =
        mapped.constant ? static_cast<Element>(mapped.value) : device::load_field(place.cells + at);
    return static_cast<Element>(cell ^ sign_of<Element>(mapped.negated));
  }

  /// Brings a thread's cells of a panel one by one.
  SPIDER_DEVICE static void gather(const Place& place, int panel) {
    constexpr int per_word = 4 / Cells::element_bytes;
    SPIDER_NO_UNROLL
    for (int i = 0; i < thread_vectors; ++i) {
      const std::int32_t row = place.first_row(panel) + vector_row(i);
      const std::int32_t column = place.first_column(panel) + vector_column();
      Words words = {};
      SPIDER_UNROLL
      for (int k = 0; k < vector_cells; ++k) {
        words[k / per_word] |= static_cast<std::uint32_t>(find_cell(place, row, column + k))
                               << (k % per_word * 8 * Cells::element_bytes);
      }
      put(panel % slots, vector_row(i), vector_column(), words);
    }
  }

  /// Begins to bring a thread's cells of a panel; those that are not needed are zeros. Whole vectors come
  /// from the field where all needed cells lie in it.
  SPIDER_DEVICE static void bring(const Place& place, int panel) {
    const Window inputs = place.inputs();
    const std::int32_t column = place.first_column(panel) + vector_column();
    const auto cuts = [column](std::int32_t at) { return column < at && at < column + vector_cells; };
    if (!is_plain(place, panel) || cuts(inputs.column_begin) || cuts(inputs.column_end)) {
      gather(place, panel);
      return;
    }
    const bool needs_column = column >= inputs.column_begin && column < inputs.column_end;
    const int slot = panel % slots;
    SPIDER_UNROLL
    for (int i = 0; i < thread_vectors; ++i) {
      const std::int32_t row = place.first_row(panel) + vector_row(i);
      const bool needed = needs_column && row >= inputs.row_begin && row < inputs.row_end;
      const Element* const from = place.cells + (row * place.input_stride + column);
      if constexpr (copies) {
        const Shared to = panel_place(slot, vector_row(i), vector_column());
        device::copy_async_if(needed, to, from);
        device::store_shared_if(!needed, to, Vector{});
      } else {
        Words words = {};
        device::load_cell_pair_if(needed, from, words);
        put(slot, vector_row(i), vector_column(), words);
      }
    }
  }

  using Weights = Vector[groups][weight_terms];  ///< of the last four chunks
  using Inputs = Vector[input_terms];
  /// Along y and z of each group two tiles of eight lines, along x two of eight outputs.
  using Sums = Accumulator[groups][2];

  /// The first of a warp's lines, and how many panels behind the step's first its own first lies.
  SPIDER_DEVICE static int warp_line() { return device::warp_index() % line_warps * group; }
  SPIDER_DEVICE static int warp_panel() { return device::warp_index() / line_warps; }

  /// A chunk of a panel, of the warp's lines: along x an operand A, else two operands B.
  SPIDER_DEVICE static void load_chunk(int slot, int chunk, Inputs& terms) {
    const int lane = device::lane_index();
    if constexpr (splits) {
      SPIDER_UNROLL
      for (int i = 0; i < 2; ++i) {
        float numbers[2][2];
        load_numbers(slot, chunk, i, numbers);
        SPIDER_UNROLL
        for (int k = 0; k < 2; ++k) split(numbers[k], along_x ? 2 * i + k : 2 * k + i, terms);
      }
    } else {
      const int low = lane % 16;
      const int high = lane / 16 * 8;
      if constexpr (along_x) {
        terms[0] = device::load_matrices(panel_place(slot, warp_line() + low, chunk * group + high));
      } else {
        terms[0] =
            device::load_matrices_transposed(panel_place(slot, chunk * group + low, warp_line() + high));
      }
    }
  }

  /// The f32 inputs of two words of a chunk's operands. Along x these are of lines that are eight apart,
  /// along y and z of neighbouring lines, which tiles have alternately.
  SPIDER_DEVICE static void load_numbers(int slot, int chunk, int i, float (&numbers)[2][2]) {
    const int lane = device::lane_index();
    const int input = chunk * group + 8 * i + 2 * (lane % 4);
    SPIDER_UNROLL
    for (int k = 0; k < 2; ++k) {
      const Pair pair =
          device::load_shared_pair(along_x ? panel_place(slot, warp_line() + lane / 4 + 8 * k, input)
                                           : panel_place(slot, input + k, warp_line() + lane / 4 * 2));
      SPIDER_UNROLL
      for (int j = 0; j < 2; ++j) (along_x ? numbers[k][j] : numbers[j][k]) = device::float_of(pair.word[j]);
    }
  }

  /// Two inputs as word i of each term. What a term leaves is exact. Of three, each is what remains cut to
  /// the high half of its bits: the first of a finite cell is finite, and the last leaves nothing.
  SPIDER_DEVICE static void split(float (&numbers)[2], int i, Inputs& terms) {
    SPIDER_UNROLL
    for (int half = 0; half < 2; ++half) numbers[half] *= Stencil::input_scale;
    SPIDER_UNROLL
    for (int term = 0; term < input_terms; ++term) {
      std::uint32_t& word = terms[term].word[i];
      word = input_terms == 3
                 ? device::join_high_halves(device::bits_of(numbers[0]), device::bits_of(numbers[1]))
                 : Operands::pack(numbers[0], numbers[1]);
      SPIDER_UNROLL
      for (int half = 0; half < 2; ++half)
        numbers[half] = (numbers[half] - Operands::Cells::number(word, half)) * Stencil::remainder_scale;
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

  /// Adds the chunks of panel `index`, from the warp's first, to all groups that they reach. `everywhere`:
  /// that is all. `leading`: sums of products of first terms; those of the others may be the same.
  template <bool everywhere>
  SPIDER_DEVICE static void add_panel(int index, int slot, Weights& weights, Sums& leading, Sums& others) {
    SPIDER_UNROLL
    for (int k = 0; k < groups; ++k) {
      const int chunk = groups * index + k;
      if (!everywhere && chunk >= chunks + groups - 1) continue;
      Inputs inputs;
      load_chunk(slot, k, inputs);
      if (everywhere || chunk < chunks) {
        SPIDER_UNROLL
        for (int term = 0; term < weight_terms; ++term) {
          weights[k][term] =
              device::load_table(Stencil::operand(chunk * weight_terms + term, device::lane_index()));
        }
      }
      SPIDER_UNROLL
      for (int of_input = 0; of_input < input_terms; ++of_input) {
        const int first = of_input == 1 ? Stencil::remainder_weight : 0;
        const int count = of_input == 0   ? Stencil::leading_products
                          : of_input == 1 ? Stencil::remainder_products
                                          : 1;
        SPIDER_UNROLL
        for (int term = first; term < first + count; ++term) {
          SPIDER_UNROLL
          for (int i = 0; i < groups; ++i) {
            if (!everywhere && (chunk < i || chunk - i >= chunks)) continue;
            multiply(of_input + term == 0 ? leading[i] : others[i], weights[(k - i + groups) % groups][term],
                     inputs[of_input]);
          }
        }
      }
    }
  }

  SPIDER_DEVICE static void add(const Sums& of_panel, Sums& sums) {
    SPIDER_UNROLL
    for (int i = 0; i < groups; ++i) {
      SPIDER_UNROLL
      for (int half = 0; half < 2; ++half) {
        SPIDER_UNROLL
        for (int k = 0; k < 4; ++k) sums[i][half].value[k] += of_panel[i][half].value[k];
      }
    }
  }

  /// The same where others have sums of their own.
  template <bool everywhere>
  SPIDER_DEVICE static void add_panel_apart(int index, int panel, Weights& weights, Sums& sums,
                                            Sums& others) {
    if constexpr (input_terms < 3) {
      add_panel<everywhere>(index, panel % slots, weights, sums, sums);
    } else {
      Sums leading = {};
      add_panel<everywhere>(index, panel % slots, weights, leading, others);
      add(leading, sums);
    }
  }

  /// The sums of a warp, whose first panel is `first`.
  SPIDER_DEVICE static void add_up(int first, Sums& sums) {
    constexpr int full_panels = chunks / groups;  // but for the first one
    constexpr int first_end = full_panels > 1 ? full_panels : 1;
    Weights weights;
    Sums others = {};
    add_panel_apart<false>(0, first, weights, sums, others);
    SPIDER_NO_UNROLL
    for (int index = 1; index < full_panels; ++index)
      add_panel_apart<true>(index, first + index, weights, sums, others);
    SPIDER_UNROLL
    for (int index = first_end; index < panels; ++index)
      add_panel_apart<false>(index, first + index, weights, sums, others);
    if constexpr (input_terms == 3) add(others, sums);
  }

  /// Stores a warp's results, of which `first` is the first output.
  template <bool whole>
  SPIDER_DEVICE static void store(const Place& place, std::int32_t first, const Sums& sums) {
    const int lane = device::lane_index();
    const std::int32_t line = place.first_line + warp_line();
    const std::int32_t row = (along_x ? line : first) + lane / 4;
    const std::int32_t column = along_x ? first : line;
    SPIDER_UNROLL
    for (int i = 0; i < groups; ++i) {
      SPIDER_UNROLL
      for (int below = 0; below < 2; ++below) {
        const std::int32_t at_row = row + 8 * below + (along_x ? 0 : group * i);
        const std::int32_t at_column = column + (along_x ? group * i : 0);
        float numbers[4];
        SPIDER_UNROLL
        for (int half = 0; half < 2; ++half) {
          SPIDER_UNROLL
          for (int k = 0; k < 2; ++k) {
            numbers[tiles_alternate ? 2 * k + half : 2 * half + k] =
                sums[i][half].value[2 * below + k] * Stencil::result_scale;
          }
        }
        constexpr int neighbours = tiles_alternate ? 4 : 2;
        SPIDER_UNROLL
        for (int k = 0; k < 4; k += neighbours) {
          store_neighbours<whole, neighbours>(place, at_row, at_column + lane % 4 * neighbours + 4 * k,
                                              numbers + k);
        }
      }
    }
  }
  template <bool whole, int count>
  SPIDER_DEVICE static void store_neighbours(const Place& place, std::int32_t row, std::int32_t column,
                                             const float* numbers) {
    OutElement* const to = place.results + (row * place.output_stride + column);
    if constexpr (whole && count * OutCells::element_bytes > 2) {
      store_cells<OutCells, count>(to, numbers);
    } else {
      SPIDER_UNROLL
      for (int k = 0; k < count; ++k) {
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
    for (int panel = 0; panel < panels_of_step; ++panel) bring(place, panel);
    int panel = 0;  // the step's first
    SPIDER_NO_UNROLL
    for (std::int32_t first = place.start; first < place.end_along(); first += step) {
      device::copy_async_commit();
      device::copy_async_wait<0>();
      device::sync_block();
      if (first + step < place.end_along()) {
        SPIDER_NO_UNROLL
        for (int i = 0; i < output_warps; ++i) bring(place, panel + panels_of_step + i);
      }
      const std::int32_t first_of_warp = first + warp_panel() * side;
      if (first_of_warp < place.end_along()) {
        Sums sums = {};
        add_up(panel + warp_panel(), sums);
        store_all(place, first_of_warp, sums);
      }
      panel += output_warps;
    }
  }

  /// Stores a warp's results, in pairs where all are wanted.
  SPIDER_DEVICE static void store_all(const Place& place, std::int32_t first, const Sums& sums) {
    const Window& needed = place.outputs;
    const bool lines_are_whole =
        along_x ? needed.row_end - place.first_line >= lines
                : needed.column_begin <= place.first_line && needed.column_end - place.first_line >= lines;
    const std::int32_t begin = along_x ? needed.column_begin : needed.row_begin;
    if (place.aligned_output && lines_are_whole && begin <= first && first + side <= place.end_along()) {
      store<true>(place, first, sums);
    } else {
      store<false>(place, first, sums);
    }
  }
};

template <class Stencil>
constexpr SweepForm banded_list_form() {
  using Kernel = BandedList<Stencil>;
  SweepForm form{};
  form.sweep = SweepFunction{sweep_banded_list<Stencil>};
  Tiling& tiling = form.tiling;
  tiling.kind = TilingKind::boxes;
  tiling.warps_per_block = Kernel::warps;
  tiling.shared_bytes = Kernel::shared_bytes;
  tiling.input_alignment = Kernel::vector_bytes;
  tiling.output_alignment = Kernel::vector_bytes;
  tiling.tile_extent[0] = Kernel::plane_extent;
  tiling.tile_extent[1] = Kernel::row_extent;
  tiling.tile_extent[2] = Kernel::column_extent;
  tiling.anchor = Kernel::group;
  form.takes_images = Kernel::takes_images;
  return form;
}

}  // namespace device_4
}  // namespace spider
