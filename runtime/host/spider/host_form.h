/// A kernel for the host: a generated file's stencil as loops over rows, its taps known to the compiler.
/// Boundaries, boxes, storages and time steps are the same for all kernels: runtime/host/sweep.cpp.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/sums/update.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace spider {
inline namespace device_4 {
namespace loops {

/// sums[x] = sum of weight * row[x + dx] for x from 0 to before `count`; of several sums, sums[i * count + x]
/// is the i-th. `rows` has a pointer for each (dz, dy) that has a tap, ascending, to where dx is 0. Rows and
/// sums hold Numbers of the storage, and do not overlap.
using SumRow = void (*)(const void* const* rows, void* sums, std::int64_t count);

/// A row of points along x whose sums an update replaces by its results: all Numbers of the storage.
struct UpdateRow {
  const UpdateArguments& sweep;
  std::int64_t z, y, x;        ///< of the first point
  const void* input;           ///< numbers of the input at the points
  const void* const* further;  ///< and of further fields
  const void* before;          ///< and of `previous`, if the kernel has several steps
  void* sums;                  ///< of several sums, `apart` from one to the next
  std::int64_t apart;
  std::int64_t count;
};

/// A generated file's stencil, the argument of sweep().
struct Stencil {
  std::int32_t storage;  ///< SPIDER_F16, ...
  std::int32_t steps;
  std::int32_t tap_count;   ///< of one step
  const TapRow* step_rows;  ///< of these taps, in their order
  std::int32_t step_row_count;
  const TapRow* tap_rows;  ///< of all steps of a sweep
  std::int32_t tap_row_count;
  const Face (*faces)[2];
  SumRow sum;
  // With an update: the number of further fields it reads, and whether it reads the input.
  void (*update)(const UpdateRow&) = nullptr;
  const std::int32_t* further_storages = nullptr;
  int further_count = 0;
  bool reads_input = false;
  bool reads_before = false;  ///< `previous`, in a kernel of several steps
  int sum_count = 1;
  std::int32_t output = -1;  ///< SPIDER_F16, ... of results; -1: `storage`
};

/// Sweeps the box of the arguments.
void sweep(const Stencil& stencil, const SweepArguments& arguments);

/// The number type that a storage is computed in.
template <int storage>
using NumberOf = std::conditional_t<storage == SPIDER_F64, double, float>;

/// Taps that one loop over columns adds; their sums wait in memory between loops.
constexpr int taps_per_loop = 32;
/// With more taps the compiler gets no constants: it would take minutes.
constexpr int most_unrolled_taps = 256;
/// Columns whose sums stay in the L1 cache between loops.
constexpr std::int64_t strip_columns = 512;

/// Taps and properties derived from them, by index.
template <const auto& taps>
struct TapList {
  static constexpr int count = static_cast<int>(sizeof(taps) / sizeof(Tap));

  static constexpr int sum_count() {
    int last = 0;
    for (const Tap& tap : taps) last = tap.sum > last ? tap.sum : last;
    return last + 1;
  }
  static constexpr bool begins_row(int i) {
    return i == 0 || taps[i].dz != taps[i - 1].dz || taps[i].dy != taps[i - 1].dy;
  }
  static constexpr int row(int tap) {
    int row = -1;
    for (int i = 0; i <= tap; ++i) row += begins_row(i) ? 1 : 0;
    return row;
  }
  /// The middle tap, or -1.
  static constexpr int middle() {
    for (int i = 0; i < count; ++i) {
      if (taps[i].dz == 0 && taps[i].dy == 0 && taps[i].dx == 0) return i;
    }
    return -1;
  }
};

/// Adds taps first, first + 1, ... to the sums of `count` columns; sums lie `pitch` Numbers apart.
template <class Number, const auto& taps, bool adds_old_value, int first, int... next>
inline void add_taps(const Number* const* rows, Number* __restrict sums, std::int64_t count,
                     std::int64_t pitch, std::integer_sequence<int, next...> /*taps*/) {
  using List = TapList<taps>;
  constexpr int kept = adds_old_value ? List::middle() : -1;
  constexpr bool begins = first == 0;
  const Number* const from[] = {rows[List::row(first + next)]...};
  for (std::int64_t x = 0; x < count; ++x) {
    Number sum[List::sum_count()];
    for (int i = 0; i < List::sum_count(); ++i) sum[i] = begins ? Number{0} : sums[i * pitch + x];
    ((sum[taps[first + next].sum] =
          device::multiply_add(std::integral_constant<int, first + next>{} == kept
                                   ? static_cast<Number>(taps[first + next].weight - 1)
                                   : static_cast<Number>(taps[first + next].weight),
                               from[next][x + taps[first + next].dx], sum[taps[first + next].sum])),
     ...);
    for (int i = 0; i < List::sum_count(); ++i) sums[i * pitch + x] = sum[i];
  }
}

template <class Number, const auto& taps, bool adds_old_value, int first>
inline void add_all_taps(const Number* const* rows, Number* sums, std::int64_t count, std::int64_t pitch) {
  constexpr int left = TapList<taps>::count - first;
  constexpr int now = left < taps_per_loop ? left : taps_per_loop;
  add_taps<Number, taps, adds_old_value, first>(rows, sums, count, pitch,
                                                std::make_integer_sequence<int, now>{});
  if constexpr (left > now) add_all_taps<Number, taps, adds_old_value, first + now>(rows, sums, count, pitch);
}

/// The same for very many taps.
template <class Number, const auto& taps, bool adds_old_value>
inline void add_listed_taps(const Number* const* rows, Number* __restrict sums, std::int64_t count,
                            std::int64_t pitch) {
  using List = TapList<taps>;
  constexpr int kept = adds_old_value ? List::middle() : -1;
  for (int i = 0; i < List::sum_count(); ++i) {
    for (std::int64_t x = 0; x < count; ++x) sums[i * pitch + x] = 0;
  }
  int row = -1;
  for (int i = 0; i < List::count; ++i) {
    if (List::begins_row(i)) ++row;
    const Number* from = rows[row] + taps[i].dx;
    const auto weight = static_cast<Number>(i == kept ? taps[i].weight - 1 : taps[i].weight);
    Number* __restrict sum = sums + taps[i].sum * pitch;
    for (std::int64_t x = 0; x < count; ++x) sum[x] = device::multiply_add(weight, from[x], sum[x]);
  }
}

template <class Number, const auto& taps, bool adds_old_value>
void sum_row(const void* const* untyped_rows, void* untyped_sums, std::int64_t count) {
  using List = TapList<taps>;
  constexpr int row_count = List::row(List::count - 1) + 1;
  constexpr int kept = adds_old_value ? List::middle() : -1;
  const Number* rows[row_count];
  for (int row = 0; row < row_count; ++row) rows[row] = static_cast<const Number*>(untyped_rows[row]);
  auto* sums = static_cast<Number*>(untyped_sums);
  const std::int64_t strip = List::count <= taps_per_loop ? count : strip_columns;
  const std::int64_t pitch = count;
  while (count > 0) {
    const std::int64_t columns = count < strip ? count : strip;
    if constexpr (List::count <= most_unrolled_taps) {
      add_all_taps<Number, taps, adds_old_value, 0>(rows, sums, columns, pitch);
    } else {
      add_listed_taps<Number, taps, adds_old_value>(rows, sums, columns, pitch);
    }
    if constexpr (kept >= 0) {
      const Number* old = rows[List::row(kept)];
      for (std::int64_t x = 0; x < columns; ++x) sums[x] += old[x];
    }
    for (const Number*& row : rows) row += columns;
    sums += columns;
    count -= columns;
  }
}

/// A generated file's update of a row.
template <class Number, class Update, int sum_count>
void update_row(const UpdateRow& row) {
  constexpr int count = Update::FurtherFields::count;
  const auto* input = static_cast<const Number*>(row.input);
  auto* sums = static_cast<Number*>(row.sums);
  for (std::int64_t i = 0; i < row.count; ++i) {
    UpdatePointOf<Number> point{row.sweep, {row.z, row.y, row.x + i}, 0, {}, {}};
    for (int k = 0; k < sum_count; ++k) point.sums[k] = sums[k * row.apart + i];
    if constexpr (Update::reads_input) point.u = input[i];
    if constexpr (Update::reads_before) point.before = static_cast<const Number*>(row.before)[i];
    for (int k = 0; k < count; ++k) point.field[k] = static_cast<const Number*>(row.further[k])[i];
    sums[i] = Update::update(point);
  }
}

/// The rows of the taps of a step, in their order.
template <const auto& taps>
struct StepRows {
  static constexpr int count = TapList<taps>::row(TapList<taps>::count - 1) + 1;

  struct Rows {
    TapRow row[count];
  };
  static constexpr Rows find() {
    Rows found{};
    int end = 0;
    for (int i = 0; i < TapList<taps>::count; ++i) {
      const Tap& tap = taps[i];
      if (TapList<taps>::begins_row(i)) found.row[end++] = {tap.dz, tap.dy, tap.dx, tap.dx};
      found.row[end - 1].high = tap.dx;
    }
    return found;
  }
  static constexpr Rows rows = find();
};

struct NoUpdate {};

template <class Cells>
constexpr std::int32_t storage_of = SPIDER_F32;
template <>
inline constexpr std::int32_t storage_of<F16Cells> = SPIDER_F16;
template <>
inline constexpr std::int32_t storage_of<Bf16Cells> = SPIDER_BF16;
template <>
inline constexpr std::int32_t storage_of<F64Cells> = SPIDER_F64;

/// SPIDER_F16, ... of each field; one element more, since there may be no field.
template <class Fields>
struct StoragesOf;
template <class... Cells>
struct StoragesOf<FurtherFields<Cells...>> {
  static constexpr std::int32_t storages[] = {storage_of<Cells>..., -1};
};

/// A generated file's stencil, all of it constants.
template <const auto& taps, const auto& tap_rows, const auto& faces, int storage_code, int step_count,
          bool adds_old_value, class Update, int output_code>
struct Meaning {
  using Number = NumberOf<storage_code>;
  static constexpr bool has_update = !std::is_same_v<Update, NoUpdate>;

  static constexpr Stencil stencil() {
    Stencil stencil{storage_code,
                    step_count,
                    TapList<taps>::count,
                    StepRows<taps>::rows.row,
                    StepRows<taps>::count,
                    tap_rows,
                    static_cast<std::int32_t>(sizeof(tap_rows) / sizeof(TapRow)),
                    faces,
                    sum_row<Number, taps, adds_old_value>};
    stencil.output = output_code;
    if constexpr (has_update) {
      stencil.update = update_row<Number, Update, TapList<taps>::sum_count()>;
      stencil.further_storages = StoragesOf<typename Update::FurtherFields>::storages;
      stencil.further_count = Update::FurtherFields::count;
      stencil.reads_input = Update::reads_input;
      stencil.reads_before = Update::reads_before;
      stencil.sum_count = TapList<taps>::sum_count();
    }
    return stencil;
  }
  static void sweep(std::conditional_t<has_update, UpdateArguments, SweepArguments> arguments) {
    static constexpr Stencil meant = stencil();
    loops::sweep(meant, arguments);
  }
};

}  // namespace loops

/// The only form for that many steps. It has no block grid: the sweep divides its box itself. With
/// `adds_old_value`, the old value is added separately and last, so that errors are relative to the change.
template <const auto& taps, const auto& tap_rows, const auto& faces, int storage, int steps,
          bool adds_old_value = false, class Update = loops::NoUpdate, int output = storage>
constexpr SweepForm host_form() {
  SweepForm form{};
  form.sweep = loops::Meaning<taps, tap_rows, faces, storage, steps, adds_old_value, Update, output>::sweep;
  form.tiling.kind = TilingKind::lines;
  form.tiling.warps_per_block = 1;
  form.tiling.input_alignment = 1;
  form.tiling.output_alignment = 1;
  form.tiling.anchor = 1;
  for (std::int32_t& extent : form.tiling.tile_extent) extent = 1 << 30;
  form.steps = steps;
  return form;
}

}  // namespace device_4
}  // namespace spider
