/// Inputs of the updates of stepped fields (spider/steps/stepping.h) at points: further fields, which are
/// constant over the steps of a sweep. Points outside `halo` and `periodic` faces are stepped, too: their
/// fields are read from the caller's halo, or from the other end.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/steps/stepping.h>
#include <spider/sums/point_inputs.h>
#include <spider/sums/update.h>
#include <spider/values/spans.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

/// Whether an update uses the input, and the number of fields it reads: none without an update.
template <class Stencil, bool has_update = HasUpdate<Stencil>::value>
struct UpdateReads {
  static constexpr bool input = false;
  static constexpr bool before = false;
  static constexpr int fields = 0;
};
template <class Stencil>
struct UpdateReads<Stencil, true> {
  static constexpr bool input = Stencil::reads_input;
  static constexpr bool before = Stencil::reads_before;
  static constexpr int fields = Stencil::FurtherFields::count;
};

/// The points along an axis whose fields can be read: those that all steps but the first need, in a span that
/// find_readable() gives for as many steps, and that the field has.
template <class Word>
SPIDER_DEVICE constexpr FarSpan find_points(const AxisRulesOf<Word>& rules, const FarSpan& readable,
                                            std::int64_t extent) {
  const bool cut_low = !is_open(rules.low) && readable.begin < 0;
  const bool cut_high = !is_open(rules.high) && readable.end > extent;
  return {cut_low ? 0 : readable.begin, cut_high ? extent : readable.end};
}

/// The index in a field of point i; any index for a point that no result needs.
template <class Word>
SPIDER_DEVICE constexpr std::int64_t find_point(const AxisRulesOf<Word>& rules, const FarSpan& points,
                                                std::int64_t i, std::int64_t extent) {
  const std::int64_t near = i < points.begin ? points.begin : (i >= points.end ? points.end - 1 : i);
  return wrap_index(rules, near, extent);
}

/// The place of a point for an update, in cells of the whole along an axis (UpdateArguments).
template <class Word>
SPIDER_DEVICE constexpr std::int64_t place_in_whole(const AxisRulesOf<Word>& rules,
                                                    const UpdateArguments& sweep, int axis, std::int64_t i) {
  return sweep.first[axis] + wrap_index(rules, i - sweep.first[axis], sweep.whole[axis]);
}

/// All fields that an update reads, as in memory, for a strip's row of `columns` columns a lane. Loads are
/// spread over the warp: piece i of a lane has the columns from first_column(i) on.
template <class Stencil, int columns>
class SteppedPoints {
  using Cells = typename Stencil::Cells;
  using Fields = typename Stencil::FurtherFields;

 public:
  using Number = typename Cells::Number;
  static constexpr int together = 16 / Cells::element_bytes;  ///< columns of a piece
  static constexpr int pieces = columns / together;

  SPIDER_DEVICE static int first_column(int piece) { return together * (32 * piece + device::lane_index()); }

  /// In vectors, for the strip that begins at `place`; rows are aligned for that.
  SPIDER_DEVICE void load(const UpdateArguments& sweep, const PointPlace& place) {
    SPIDER_UNROLL
    for (int i = 0; i < pieces; ++i)
      inputs_[i].load_fields(sweep, {place.z, place.y, place.x + first_column(i)}, true, 0, Fields{});
  }

  /// Point by point: `column(c)` is the place in its row of the strip's column c.
  template <class Column>
  SPIDER_DEVICE void load_each(const UpdateArguments& sweep, std::int64_t z, std::int64_t y,
                               const Column& column) {
    SPIDER_UNROLL
    for (int i = 0; i < pieces; ++i) {
      SPIDER_UNROLL
      for (int e = 0; e < together; ++e)
        inputs_[i].put_fields(sweep, {z, y, column(first_column(i) + e)}, e, Fields{});
    }
  }

  /// Field k of the e-th column of a piece.
  SPIDER_DEVICE Number number(int piece, int e, int k) const {
    Number numbers[most_further_fields];
    inputs_[piece].find_numbers(e, numbers, Fields{});
    return numbers[k];
  }

 private:
  PointInputs<Stencil, together, PointReads::again> inputs_[pieces];
};

}  // namespace device_4
}  // namespace spider
