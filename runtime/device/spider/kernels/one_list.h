/// Taps that lie one behind the other along one axis, however many, on CUDA cores.
///
/// A lane has `outputs` neighbours along the axis in each of `lines` lines that run along it. It takes the
/// inputs one after the other and adds each to all outputs that it reaches, so that an input is loaded once
/// and a weight is there for all lines. The first inputs reach the first outputs alone, and the last ones the
/// last: they are in the code. Between them every input reaches all outputs; there weights come from a table.
///
/// Along y and z the lines of a lane are 32 columns apart, and inputs come from memory, where the L1 cache
/// has what the warps of a block share: they lie one behind the other along the axis. Along x the lines are
/// rows, and a warp brings its inputs to shared memory, as it does results on their way back.
///
/// A `Stencil` has, as static members:
/// - Cells: of spider/values/cells.h; OutCells, where results are others;
/// - dimensions; axis: z, y, x;
/// - low, count, weights[count]: of the offsets from `low` on, none of them 0;
/// - outputs, lines; warps_per_block, blocks_per_multiprocessor: the launch;
/// - rules(): the boundary of the axis.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/sums/cores.h>
#include <spider/values/cells.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace spider {
inline namespace device_4 {

template <class Stencil>
struct OneList;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_one_list(SPIDER_GRID_CONSTANT const SweepArguments field) {
  SPIDER_ENTRY;
  OneList<Stencil>::sweep(field);
}

template <class Stencil>
struct OneList {
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;
  using OutCells = typename OutCellsOf<Stencil>::Type;
  using OutElement = typename OutCells::Element;
  using NumberBits = std::conditional_t<sizeof(Number) == 8, std::uint64_t, std::uint32_t>;
  using Shared = device::Shared;
  // In 1D there may be more columns than 32 bits count.
  using Index = std::conditional_t<Stencil::dimensions == 1, std::int64_t, std::int32_t>;

  static constexpr int axis = Stencil::axis;
  static constexpr int axis_x = 2;
  static constexpr bool along_x = axis == axis_x;
  static constexpr int low = Stencil::low;
  static constexpr int count = Stencil::count;
  static constexpr int outputs = Stencil::outputs;
  static constexpr int lines = Stencil::lines;
  static constexpr int warps = Stencil::warps_per_block;
  static constexpr bool takes_images = Stencil::dimensions < 3;
  static_assert(Stencil::dimensions > 1 || (along_x && lines == 1), "a 1D field has one row");

  /// Inputs of all outputs of a lane; those between the first and the last ones, which come in turns.
  static constexpr int inputs = count + outputs - 1;
  static constexpr int full_begin = outputs - 1;

  // A warp's inputs in shared memory. One number of padding follows the inputs of each lane, so that lanes
  // use different banks.
  static constexpr int warp_columns = 32 * (along_x ? outputs : lines);
  static constexpr int segment = warp_columns + count - 1;
  static constexpr int segment_bytes = (segment + segment / outputs + 1) * static_cast<int>(sizeof(Number));
  static constexpr int shared_bytes = along_x ? warps * lines * segment_bytes : 0;

  using Numbers = Number[lines];
  using Sums = Number[outputs][lines];
  using Weights = std::make_integer_sequence<int, count>;

  /// Where a warp's first outputs are, and how many it has of the sweep's along the axis and across.
  struct Place {
    Index at[3];
    std::int32_t columns;  ///< from at[2] on
    std::int32_t rows;     ///< from at[1] on, or along z planes from at[0] on
  };

  template <int... k>
  SPIDER_DEVICE static Number weight(int i, std::integer_sequence<int, k...> /*all*/) {
    SPIDER_CONSTANTS Number table[] = {Stencil::weights[k]...};
    return table[i];
  }

  /// Adds input j to the outputs that it reaches, where j is a constant.
  SPIDER_DEVICE static void add_end(int j, const Numbers& numbers, Sums& sums) {
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) {
      if (j < i || j - i >= count) continue;
      SPIDER_UNROLL
      for (int line = 0; line < lines; ++line)
        sums[i][line] = device::multiply_add(weight(j - i, Weights{}), numbers[line], sums[i][line]);
    }
  }

  /// Adds the inputs from `first` on, which reach all outputs.
  template <int inputs_of_turn, class Inputs>
  SPIDER_DEVICE static void add_turn(int first, const Inputs& from, Sums& sums) {
    Numbers numbers[inputs_of_turn];
    SPIDER_UNROLL
    for (int j = 0; j < inputs_of_turn; ++j) from.load(first + j, numbers[j]);
    Number weights[outputs - 1 + inputs_of_turn];
    SPIDER_UNROLL
    for (int k = 0; k < outputs - 1 + inputs_of_turn; ++k)
      weights[k] = weight(first - full_begin + k, Weights{});
    SPIDER_UNROLL
    for (int j = 0; j < inputs_of_turn; ++j) {
      SPIDER_UNROLL
      for (int i = 0; i < outputs; ++i) {
        SPIDER_UNROLL
        for (int line = 0; line < lines; ++line)
          sums[i][line] = device::multiply_add(weights[full_begin + j - i], numbers[j][line], sums[i][line]);
      }
    }
  }

  /// Adds inputs `begin` to before `end`, which are constants.
  template <int begin, int end, class Inputs>
  SPIDER_DEVICE static void add_ends(const Inputs& from, Sums& sums) {
    SPIDER_UNROLL
    for (int j = begin; j < end; ++j) {
      Numbers numbers;
      from.load(j, numbers);
      add_end(j, numbers, sums);
    }
  }

  /// All sums, each in the order of its taps.
  template <int inputs_of_turn, class Inputs>
  SPIDER_DEVICE static void add_up(const Inputs& from, Sums& sums) {
    constexpr int full_turns = count > full_begin ? (count - full_begin) / inputs_of_turn : 0;
    constexpr int first_end = full_turns > 0 ? full_begin : inputs;
    add_ends<0, first_end>(from, sums);
    if constexpr (full_turns > 0) {
      SPIDER_NO_UNROLL
      for (int turn = 0; turn < full_turns; ++turn)
        add_turn<inputs_of_turn>(full_begin + turn * inputs_of_turn, from, sums);
      add_ends<full_begin + full_turns * inputs_of_turn, inputs>(from, sums);
    }
  }

  SPIDER_DEVICE static auto find(Index i, Index extent) {
    if constexpr (Stencil::dimensions == 1) {
      return map_far_by<Stencil::rules>(i, extent);
    } else {
      return map_by<Stencil::rules>(i, extent);
    }
  }

  /// The number of the input at index i of the axis, where `cells` is that at index 0; `inside`: of one that
  /// is in memory.
  template <bool inside>
  SPIDER_DEVICE static Number fetch(const Element* cells, std::int64_t stride, Index i, Index extent) {
    if constexpr (inside) {
      return Cells::number(device::load_field(cells + i * stride), 0);
    } else {
      const auto mapped = find(i, extent);
      const auto sign = sign_of<Element>(mapped.negated);
      const Element cell = mapped.constant ? static_cast<Element>(mapped.value)
                                           : device::load_field(cells + mapped.index * stride);
      return Cells::number(static_cast<Element>(cell ^ sign), 0);
    }
  }

  /// Inputs of a lane along y and z, from memory.
  template <bool inside>
  struct FieldInputs {
    const Element* cells;  ///< of the lane's first line, at index 0 of the axis
    std::int64_t stride;
    Index first, extent;  ///< the index of input 0; of the axis
    int needed;           ///< inputs of outputs that are wanted
    int columns;          ///< that are wanted from the lane's first line on

    SPIDER_DEVICE void load(int j, Numbers& numbers) const {
      if constexpr (inside) {
        const Element* const from = cells + (first + j) * stride;
        SPIDER_UNROLL
        for (int line = 0; line < lines; ++line)
          numbers[line] = Cells::number(device::load_field(from + 32 * line), 0);
      } else {
        SPIDER_UNROLL
        for (int line = 0; line < lines; ++line) {
          numbers[line] = 0;
          if (j < needed && 32 * line < columns)
            numbers[line] = fetch<false>(cells + 32 * line, stride, first + j, extent);
        }
      }
    }
  };

  /// Inputs of a lane along x, from shared memory.
  struct SharedInputs {
    Shared own;  ///< input 0 of the lane's first line

    SPIDER_DEVICE void load(int j, Numbers& numbers) const {
      SPIDER_UNROLL
      for (int line = 0; line < lines; ++line)
        numbers[line] = load_number(own + static_cast<Shared>(line * segment_bytes) + place_in_line(j));
    }
  };

  /// Where number i of a line is in shared memory.
  SPIDER_DEVICE static Shared place_in_line(int i) {
    return static_cast<Shared>((i + i / outputs) * static_cast<int>(sizeof(Number)));
  }
  SPIDER_DEVICE static Number load_number(Shared from) {
    if constexpr (sizeof(Number) == 8) {
      return device::double_of(word_of<std::uint64_t>(device::load_shared_pair(from), 0));
    } else {
      return device::float_of(device::load_shared_word(from));
    }
  }
  SPIDER_DEVICE static void store_number(Shared to, Number number) {
    device::store_shared(to, static_cast<NumberBits>(device::bits_of(number)));
  }

  /// Copies the inputs of a warp's rows to shared memory, line by line. Inputs that no output of the sweep
  /// reads are undefined.
  template <bool inside>
  SPIDER_DEVICE static void bring_rows(const SweepArguments& field, const Element* cells, const Place& place,
                                       Shared own) {
    constexpr int at_once = 4;
    const int needed = place.columns + count - 1;
    SPIDER_NO_UNROLL
    for (int line = 0; line < lines; ++line) {
      const int row = line < place.rows ? line : place.rows - 1;
      const Element* const from = cells + row * field.input_stride[1];
      const Shared to = own + static_cast<Shared>(line * segment_bytes);
      SPIDER_NO_UNROLL
      for (int first = device::lane_index(); first < segment; first += 32 * at_once) {
        Number numbers[at_once];
        SPIDER_UNROLL
        for (int i = 0; i < at_once; ++i) {
          const int column = first + 32 * i < needed ? first + 32 * i : needed - 1;
          numbers[i] =
              fetch<inside>(from, 1, place.at[axis_x] + low + column, static_cast<Index>(field.extent[2]));
        }
        SPIDER_UNROLL
        for (int i = 0; i < at_once; ++i) {
          if (first + 32 * i < segment) store_number(to + place_in_line(first + 32 * i), numbers[i]);
        }
      }
    }
  }

  SPIDER_DEVICE static void sweep_along_x(const SweepArguments& field, const Element* cells, OutElement* to,
                                          const Place& place) {
    const auto own = static_cast<Shared>(device::warp_index() * lines * segment_bytes);
    const bool inside = place.at[axis_x] + low >= 0 &&
                        place.at[axis_x] + place.columns - 1 + low + count - 1 < field.extent[2];
    if (inside) {
      bring_rows<true>(field, cells, place, own);
    } else {
      bring_rows<false>(field, cells, place, own);
    }
    device::sync_warp();
    Sums sums = {};
    const Shared of_lane = own + place_in_line(device::lane_index() * outputs);
    add_up<8>(SharedInputs{of_lane}, sums);
    device::sync_warp();
    SPIDER_UNROLL
    for (int line = 0; line < lines; ++line) {
      SPIDER_UNROLL
      for (int i = 0; i < outputs; ++i)
        store_number(of_lane + static_cast<Shared>(line * segment_bytes) + place_in_line(i), sums[i][line]);
    }
    device::sync_warp();
    SPIDER_NO_UNROLL
    for (int line = 0; line < lines; ++line) {
      SPIDER_UNROLL
      for (int i = 0; i < outputs; ++i) {
        const int column = device::lane_index() + 32 * i;
        const Number sum =
            load_number(own + static_cast<Shared>(line * segment_bytes) + place_in_line(column));
        device::store_field_if(line < place.rows && column < place.columns,
                               to + (line * field.output_stride[1] + column), cell_of_number<OutCells>(sum));
      }
    }
  }

  template <bool inside>
  SPIDER_DEVICE static void sweep_across(const SweepArguments& field, const Element* cells, OutElement* to,
                                         const Place& place) {
    constexpr int stride_of_axis = axis == 0 ? 0 : 1;
    const std::int64_t stride = field.output_stride[stride_of_axis];
    const int lane = device::lane_index();
    const int columns = place.columns - lane;
    Sums sums = {};
    add_up<inside ? 8 : 4>(
        FieldInputs<inside>{cells + lane, field.input_stride[stride_of_axis], place.at[axis] + low,
                            static_cast<Index>(field.extent[axis]), place.rows + count - 1, columns},
        sums);
    to += lane;
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) {
      SPIDER_UNROLL
      for (int line = 0; line < lines; ++line) {
        device::store_field_if(inside || (i < place.rows && 32 * line < columns), to + 32 * line,
                               cell_of_number<OutCells>(sums[i][line]));
      }
      to += stride;
    }
  }

  SPIDER_DEVICE static Index end_of(const SweepArguments& field, int along) {
    return static_cast<Index>(field.box.offset[along] + field.box.extent[along]);
  }

  /// This warp's part; one of no rows where it has none.
  SPIDER_DEVICE static Place find_place(const SweepArguments& field) {
    Place place{};
    if constexpr (Stencil::dimensions == 1) {
      const std::int64_t index = std::int64_t{device::block_index()} * warps + device::warp_index();
      place.at[axis_x] = field.box.offset[2] + index * warp_columns;
    } else {
      const VolumeGrid& grid = field.grid.volume;
      const int index = device::block_index();
      constexpr int of_warp[3] = {axis == 0 ? outputs : 0, axis == 1 ? outputs : (along_x ? lines : 0), 0};
      constexpr int of_block[3] = {axis == 0 ? warps * outputs : 1, axis == 0 ? 1 : warps * of_warp[1],
                                   warp_columns};
      const int number[3] = {index / grid.across / grid.down, index / grid.across % grid.down,
                             index % grid.across};
      SPIDER_UNROLL
      for (int along = 0; along < 3; ++along) {
        place.at[along] = static_cast<Index>(field.box.offset[along]) + number[along] * of_block[along] +
                          device::warp_index() * of_warp[along];
      }
    }
    const Index rest = end_of(field, axis == 0 ? 0 : 1) - place.at[axis == 0 ? 0 : 1];
    constexpr int most = along_x ? lines : outputs;
    place.rows = static_cast<std::int32_t>(rest < most ? rest : most);
    const Index columns = end_of(field, axis_x) - place.at[axis_x];
    place.columns = static_cast<std::int32_t>(columns < warp_columns ? columns : warp_columns);
    return place;
  }

  SPIDER_DEVICE static void sweep(const SweepArguments& field) {
    const Place place = find_place(field);
    if (place.rows <= 0 || place.columns <= 0) return;
    const auto* cells = static_cast<const Element*>(field.input);
    auto* to = static_cast<OutElement*>(field.output);
    if constexpr (takes_images) {
      cells += device::image_index() * field.input_stride[0];
      to += device::image_index() * field.output_stride[0];
    }
    // Along its axis an input has its own index.
    SPIDER_UNROLL
    for (int along = 0; along < 2; ++along) {
      if (along != axis && !(takes_images && along == 0))
        cells += place.at[along] * field.input_stride[along];
      if (!(takes_images && along == 0)) to += place.at[along] * field.output_stride[along];
    }
    to += place.at[axis_x];
    if constexpr (along_x) {
      sweep_along_x(field, cells, to, place);
    } else {
      cells += place.at[axis_x];
      const bool inside = place.rows == outputs && place.columns == warp_columns &&
                          place.at[axis] + low >= 0 && place.at[axis] + low + inputs <= field.extent[axis];
      if (inside) {
        sweep_across<true>(field, cells, to, place);
      } else {
        sweep_across<false>(field, cells, to, place);
      }
    }
  }
};

template <class Stencil>
constexpr SweepForm one_list_form() {
  using Kernel = OneList<Stencil>;
  SweepForm form{};
  form.sweep = SweepFunction{sweep_one_list<Stencil>};
  Tiling& tiling = form.tiling;
  tiling.kind = Stencil::dimensions == 1 ? TilingKind::lines : TilingKind::boxes;
  tiling.warps_per_block = Kernel::warps;
  tiling.shared_bytes = Kernel::shared_bytes;
  tiling.input_alignment = Kernel::Cells::element_bytes;
  tiling.output_alignment = Kernel::OutCells::element_bytes;
  tiling.tile_extent[0] = Kernel::axis == 0 ? Kernel::warps * Kernel::outputs : 1;
  const int rows = Kernel::along_x ? Kernel::lines : Kernel::outputs;
  tiling.tile_extent[1] = Kernel::axis == 0 || Stencil::dimensions == 1 ? 1 : Kernel::warps * rows;
  tiling.tile_extent[2] = Kernel::warp_columns;
  tiling.anchor = 1;
  form.takes_images = Kernel::takes_images;
  return form;
}

}  // namespace device_4
}  // namespace spider
