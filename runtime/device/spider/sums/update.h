/// Updates: functions of a point's sums from a spec (stencils/README.md, "Fields and updates").
///
/// An `Update` has, as static members,
/// - FurtherFields: FurtherFields of the cells that it reads at the point, `previous` first. If the kernel
///   has several steps, it has reads_before instead, and finds `previous` in the point's `before`;
/// - reads_input: it uses the input there;
/// - of_sums_alone: it is the same function of all points' sums;
/// - update(const UpdatePoint&): the result, in f32; of f64 fields update(const WideUpdatePoint&), in f64. A
///   stencil has an update if it is Updated by one.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>

#include <math.h>  // the functions of expressions, as C names them

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

// In spider/values/cells.h.
struct F16Cells;
struct Bf16Cells;
struct F32Cells;
struct F64Cells;

template <class Stencil, class = void>
struct HasUpdate : std::false_type {};
template <class Stencil>
struct HasUpdate<Stencil, std::void_t<typename Stencil::FurtherFields>> : std::true_type {};

/// The arguments of a launch of this stencil.
template <class Stencil>
using ArgumentsOf = std::conditional_t<HasUpdate<Stencil>::value, UpdateArguments, SweepArguments>;

/// The arguments that a kernel needs for the update; empty if there is none.
template <class Stencil, bool = HasUpdate<Stencil>::value>
struct UpdateSource {
  UpdateSource() = default;
  SPIDER_DEVICE explicit UpdateSource(const SweepArguments& /*sweep*/) {}
};
template <class Stencil>
struct UpdateSource<Stencil, true> {
  const UpdateArguments* sweep;

  UpdateSource() = default;
  SPIDER_DEVICE explicit UpdateSource(const UpdateArguments& arguments) : sweep(&arguments) {}
};

/// The sums of a point. A stencil with several has their number, sum_count, and tap_sums, the sum of each
/// tap.
template <class Stencil, class = void>
struct SumsOf {
  static constexpr int count = 1;
  SPIDER_DEVICE static constexpr int of_tap(int /*tap*/) { return 0; }
};
template <class Stencil>
struct SumsOf<Stencil, std::void_t<decltype(Stencil::sum_count)>> {
  static constexpr int count = Stencil::sum_count;
  SPIDER_DEVICE static constexpr int of_tap(int tap) { return Stencil::tap_sums[tap]; }
};

/// The sums of a lane's neighbouring outputs. An update leaves its results in the first.
template <class Stencil, int outputs>
using OutputSums = typename Stencil::Cells::Number[SumsOf<Stencil>::count][outputs];

/// The storages of the fields that an update reads at a point.
template <class... Cells>
struct FurtherFields {
  static constexpr int count = sizeof...(Cells);
};

/// An update's view of a point.
template <class Number>
struct UpdatePointOf {
  const UpdateArguments& sweep;
  std::int64_t place[3];  ///< z, y, x
  Number u;
  Number sums[most_sums];
  Number field[most_further_fields];
  Number before = 0;  ///< `previous`, in kernels of several steps

  SPIDER_DEVICE Number index(int axis) const { return static_cast<Number>(place[axis] - sweep.first[axis]); }
  SPIDER_DEVICE Number extent(int axis) const { return static_cast<Number>(sweep.whole[axis]); }
};
using UpdatePoint = UpdatePointOf<float>;
using WideUpdatePoint = UpdatePointOf<double>;

/// A kernel's stencil and its update.
template <class Stencil, class Update>
struct Updated : Stencil, Update {};

}  // namespace device_4
}  // namespace spider
