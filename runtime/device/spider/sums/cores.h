/// Common parts of kernels on CUDA cores: taps whose weights are constants in the code, and rows of results.
#pragma once

#include <spider/field/boundary.h>
#include <spider/machine/instructions.h>
#include <spider/sums/update.h>
#include <spider/values/cell_numbers.h>
#include <spider/values/words.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

/// weight * in[step][row][column] relative to an output. Kernels take steps along z in 3D and along y in 2D,
/// and have rows along y in 3D.
template <class Number>
struct alignas(16) CoreTapOf {
  int step, row, column;
  Number weight;
};
using CoreTap = CoreTapOf<float>;
using WideCoreTap = CoreTapOf<double>;  ///< for f64 fields

/// Columns from `low` to `high`; none if low is greater.
struct TapColumns {
  int low, high;

  SPIDER_DEVICE constexpr bool empty() const { return low > high; }
};

SPIDER_DEVICE constexpr int floor_divide(int a, int b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// The columns of all taps from the first step and row to the last ones.
template <class Stencil>
SPIDER_DEVICE constexpr TapColumns tap_columns(int first_step, int last_step, int first_row, int last_row) {
  TapColumns columns{1, 0};
  for (int t = 0; t < Stencil::tap_count; ++t) {
    const auto& tap = Stencil::taps[t];
    if (tap.step < first_step || tap.step > last_step || tap.row < first_row || tap.row > last_row) continue;
    const bool first = columns.empty();
    columns.low = first || tap.column < columns.low ? tap.column : columns.low;
    columns.high = first || tap.column > columns.high ? tap.column : columns.high;
  }
  return columns;
}

/// Taps of rows before `row`: they are ascending in row, step and column.
template <class Stencil>
SPIDER_DEVICE constexpr int taps_before_row(int row) {
  int count = 0;
  while (count < Stencil::tap_count && Stencil::taps[count].row < row) ++count;
  return count;
}

/// Adds a tap's products to neighbouring sums; `numbers` begin `first` columns from the first sum's own.
template <class Stencil, int t, int first, class Number, int sum_count, int outputs>
SPIDER_DEVICE void add_tap(const Number* numbers, Number (&sums)[sum_count][outputs]) {
  constexpr auto tap = Stencil::taps[t];
  constexpr int sum = SumsOf<Stencil>::of_tap(t);
  SPIDER_UNROLL
  for (int i = 0; i < outputs; ++i)
    sums[sum][i] = device::multiply_add(tap.weight, numbers[i + tap.column - first], sums[sum][i]);
}

/// A tap row of a sum whose tap rows are all multiples of the first one, which is summed once for each input
/// row. Shared rows of a sum are consecutive, the lowest step first.
struct SharedRow {
  int sum, step;
  double weight;
};

/// The shared rows of a stencil; most have none.
template <class Stencil, class = void>
struct SharedRowsOf {
  static constexpr int count = 0;
  SPIDER_DEVICE static constexpr SharedRow row(int /*i*/) { return {}; }
};
template <class Stencil>
struct SharedRowsOf<Stencil, std::void_t<decltype(Stencil::shared_rows)>> {
  static constexpr int count = sizeof(Stencil::shared_rows) / sizeof(SharedRow);
  SPIDER_DEVICE static constexpr SharedRow row(int i) { return Stencil::shared_rows[i]; }
};

/// The first shared row of a sum, or -1.
template <class Stencil>
SPIDER_DEVICE constexpr int first_shared_row(int sum) {
  using Rows = SharedRowsOf<Stencil>;
  for (int i = 0; i < Rows::count; ++i) {
    if (Rows::row(i).sum == sum) return i;
  }
  return -1;
}

/// Sets sums to 0, or to those of others.
template <class Number, int sum_count, int outputs>
SPIDER_DEVICE void clear_sums(Number (&sums)[sum_count][outputs]) {
  SPIDER_UNROLL
  for (int sum = 0; sum < sum_count; ++sum) {
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) sums[sum][i] = 0;
  }
}
template <class Number, int sum_count, int outputs>
SPIDER_DEVICE void copy_sums(const Number (&from)[sum_count][outputs], Number (&to)[sum_count][outputs]) {
  SPIDER_UNROLL
  for (int sum = 0; sum < sum_count; ++sum) {
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) to[sum][i] = from[sum][i];
  }
}

/// The product that a sum begins with. Signs cost no instruction.
template <class Number>
SPIDER_DEVICE Number first_product(Number weight, Number number) {
  if (weight == 1) return number;
  return weight == -1 ? -number : device::multiply(weight, number);
}

/// The neighbouring outputs of a lane that the sweep covers, and how they are stored.
struct OutputClip {
  std::uint32_t single;  ///< bit i: output i is stored separately
  bool whole;            ///< all together by one store
};

/// For outputs from column x on; `begin` and `end` are the sweep's columns. `aligned`: output rows are.
template <int outputs, class Column>
SPIDER_DEVICE OutputClip clip_outputs(Column x, Column begin, Column end, bool aligned) {
  OutputClip clip{0, aligned && x >= begin && x + outputs <= end};
  SPIDER_UNROLL
  for (int i = 0; i < outputs; ++i) {
    if (!clip.whole && x + i >= begin && x + i < end) clip.single |= 1U << i;
  }
  return clip;
}

/// Rounds a lane's neighbouring sums and stores those of a needed row that the sweep covers: all of them, if
/// `inside`. `of_update`: they are results of an update.
template <class Cells, bool inside, bool of_update = false, int outputs>
SPIDER_DEVICE void store_outputs(typename Cells::Element* to, bool wanted, const OutputClip& clip,
                                 const typename Cells::Number (&sums)[outputs]) {
  using Word = typename Cells::Word;
  constexpr int words = outputs / Cells::per_word;
  constexpr int bytes = words * static_cast<int>(sizeof(Word));
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "a lane stores a vector or a part of one");
  Word results[words];
  SPIDER_UNROLL
  for (int i = 0; i < words; ++i) results[i] = Cells::word(sums + i * Cells::per_word);
  const bool whole = wanted && (inside || clip.whole);
  if constexpr (bytes == 4) {
    if constexpr (of_update) {
      device::store_point_word_if(whole, to, results[0]);
    } else {
      device::store_field_word_if(whole, to, results[0]);
    }
  } else {
    std::conditional_t<bytes == 16, device::Vector, device::Pair> together;
    SPIDER_UNROLL
    for (int i = 0; i < words; ++i) put_word(together, i, results[i]);
    if constexpr (of_update && bytes == 16) {
      device::store_point_vector_if(whole, to, together);
    } else if constexpr (of_update) {
      device::store_point_pair_if(whole, to, together);
    } else if constexpr (bytes == 16) {
      device::store_field_vector_if(whole, to, together);
    } else if (whole) {
      device::store_field_pair(to, together);
    }
  }
  if constexpr (!inside) {
    if (clip.single == 0 || !wanted) return;
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) {
      device::store_field_if((clip.single >> i & 1U) != 0, to + i,
                             Cells::cell_of(results[i / Cells::per_word], i % Cells::per_word));
    }
  }
}

/// The cells of a stencil's results: those of its storage, unless it names others as `OutCells`.
template <class Stencil, class = void>
struct OutCellsOf {
  using Type = typename Stencil::Cells;
};
template <class Stencil>
struct OutCellsOf<Stencil, std::void_t<typename Stencil::OutCells>> {
  using Type = typename Stencil::OutCells;
};

/// store_outputs() for sums of another type than these cells, or more than a vector of them.
template <class OutCells, bool inside, class Number, int outputs>
SPIDER_DEVICE void store_converted(typename OutCells::Element* to, bool wanted, const OutputClip& clip,
                                   const Number (&sums)[outputs]) {
  constexpr int vector_cells = 16 / OutCells::element_bytes;
  constexpr int together = outputs < vector_cells ? outputs : vector_cells;
  if constexpr (together * OutCells::element_bytes < 4) {
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i) {
      const bool is_wanted = wanted && (inside || clip.whole || (clip.single >> i & 1U) != 0);
      device::store_field_if(is_wanted, to + i, cell_of_number<OutCells>(sums[i]));
    }
  } else {
    SPIDER_UNROLL
    for (int first = 0; first < outputs; first += together) {
      typename OutCells::Number numbers[together];
      SPIDER_UNROLL
      for (int i = 0; i < together; ++i) {
        if constexpr (sizeof(Number) == 8 && OutCells::element_bytes < 4) {
          numbers[i] = round_to_odd(sums[first + i]);
        } else {
          numbers[i] = static_cast<typename OutCells::Number>(sums[first + i]);
        }
      }
      store_outputs<OutCells, inside>(to + first, wanted,
                                      {clip.single >> first & ((1U << together) - 1), clip.whole}, numbers);
    }
  }
}

}  // namespace device_4
}  // namespace spider
