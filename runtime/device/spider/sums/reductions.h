/// Numbers that a sweep makes of all its points: sums, maxima and minima. A lane has its own in shared
/// memory; at the end of a block its first warp reduces them, and adds the block's to the accumulators in
/// memory.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/values/each.h>
#include <spider/values/exact_sum.h>

#include <math.h>  // HUGE_VALF

#include <cstdint>
#include <utility>

namespace spider {
inline namespace device_4 {

/// `Sweep` has `reduced` and `reduced_count` (spider/loads/system_point.h).
template <class Sweep, int warps>
struct BlockReductions {
  static constexpr int lanes = warps * 32;
  static constexpr int bytes_of_lane = 32;
  static constexpr int shared_bytes = Sweep::reduced_count * lanes * bytes_of_lane;
  using Number = typename Sweep::Number;

  SPIDER_DEVICE static device::Shared slot(int which, int lane) {
    return static_cast<device::Shared>((which * lanes + lane) * bytes_of_lane);
  }
  SPIDER_DEVICE static int own_lane() { return device::warp_index() * 32 + device::lane_index(); }

  /// A copy of accumulator `which` that this block shares with few others.
  SPIDER_DEVICE static std::int64_t* accumulator(std::int64_t* all, int which) {
    return all + (which * reduction_copies + device::block_index() % reduction_copies) * reduction_words;
  }

  /// Each lane, before the first point.
  SPIDER_DEVICE static void begin() { begin_each(Reduced{}); }

  /// Values of a lane's points `first` to before `end` of each of its lines, one for each reduction: those of
  /// the next line are `stride` further. What a lane has is read and written once.
  template <int lines, int stride, int count>
  SPIDER_DEVICE static void add(std::int64_t* all, const Pack<Number, count>* values, int first, int end) {
    add_each<lines, stride>(all, values, first, end, Reduced{});
  }

  /// All lanes of the block, after the last point.
  SPIDER_DEVICE static void finish(std::int64_t* all) {
    device::sync_block();
    if (device::warp_index() != 0) return;
    finish_each(all, Reduced{});
  }

 private:
  /// A lane's sum; of f32 the smallest value that is not 0, and a bound of what the others add up to.
  struct LaneSum {
    ExactSum sum;
    float least, bound;
  };
  static constexpr float largest_number = 0x1.fffffep127F;

  using Reduced = std::make_integer_sequence<int, Sweep::reduced_count>;

  /// By value: code of a device has no address of the table.
  template <int i>
  SPIDER_DEVICE static constexpr ReducedNumber reduced() {
    return Sweep::reduced[i];
  }

  template <int... i>
  SPIDER_DEVICE static void begin_each(std::integer_sequence<int, i...> /*reduced*/) {
    (begin_one<i>(), ...);
  }
  template <int i>
  SPIDER_DEVICE static void begin_one() {
    constexpr auto infinity = static_cast<Number>(HUGE_VALF);
    if constexpr (reduced<i>().kind == ReductionKind::sum) {
      store_sum(slot(i, own_lane()), {{0, 0}, largest_number, 0});
    } else {
      store_number(slot(i, own_lane()), reduced<i>().kind == ReductionKind::max ? -infinity : infinity);
    }
  }

  template <int lines, int stride, int count, int... i>
  SPIDER_DEVICE static void add_each(std::int64_t* all, const Pack<Number, count>* values, int first, int end,
                                     std::integer_sequence<int, i...> /*reduced*/) {
    (add_one<lines, stride, i>(accumulator(all, reduced<i>().which), values + i, first, end), ...);
  }
  template <int lines, int stride, int i, int count>
  SPIDER_DEVICE static void add_one(std::int64_t* to, const Pack<Number, count>* values, int first, int end) {
    constexpr ReductionKind kind = reduced<i>().kind;
    const device::Shared place = slot(i, own_lane());
    if constexpr (kind == ReductionKind::sum) {
      LaneSum lane = load_sum(place);
      SPIDER_UNROLL
      for (int line = 0; line < lines; ++line) add_sum(lane, to, values[line * stride], first, end);
      store_sum(place, lane);
    } else {
      Number known = load_number(place);
      SPIDER_UNROLL
      for (int line = 0; line < lines; ++line)
        known = extreme_of(known, values[line * stride], kind, first, end);
      store_number(place, known);
    }
  }

  template <int count>
  SPIDER_DEVICE static void add_sum(LaneSum& lane, std::int64_t* to, const Pack<Number, count>& values,
                                    int first, int end) {
    const bool is_whole = first <= 0 && end >= count;
    if (is_whole && add_together(lane, values)) return;
    SPIDER_UNROLL
    for (int c = 0; c < count; ++c) {
      if (c < first || c >= end) continue;
      if constexpr (sizeof(Number) == 4) {
        const Number size = ::fabsf(values.of[c]);
        lane.bound += size;
        if (size != 0) lane.least = device::smaller(lane.least, size);
      }
      add_exactly(lane.sum, static_cast<double>(values.of[c]), [to](double rest) { spill(to, rest); });
    }
  }

  /// Adds at most four values of f32 without a branch for what additions leave out; false, and nothing is
  /// added, where that might be rounded. Their sum needs no more than the 53 digits of f64 where the largest
  /// is below 2^27 times the smallest, for each has 24; and what is left out of sum.high no more where the
  /// smallest of all values so far, whose last digit is 2^-23 of it, is above 2^-60 of a bound of sum.high. A
  /// NaN passes, and makes the sum NaN.
  template <int count>
  SPIDER_DEVICE static bool add_together(LaneSum& lane, const Pack<Number, count>& values) {
    static_assert(count <= 4, "3 digits of 53 are for the carries of four");
    if constexpr (sizeof(Number) == 8) {
      return false;
    } else {
      Number most = 0;
      Number least = largest_number;
      SPIDER_UNROLL
      for (int c = 0; c < count; ++c) {
        const Number size = ::fabsf(values.of[c]);
        most = device::larger(most, size);
        least = device::smaller(least, size == 0 ? largest_number : size);
      }
      const Number bound = lane.bound + 4 * most;
      const Number least_of_all = device::smaller(lane.least, least);
      lane.bound = bound;
      lane.least = least_of_all;
      if (!(least >= most * 0x1p-26F && least_of_all > bound * 0x1p-60F)) return false;
      auto together = static_cast<double>(values.of[0]);
      SPIDER_UNROLL
      for (int c = 1; c < count; ++c) together = device::add(together, static_cast<double>(values.of[c]));
      const double high = device::add(lane.sum.high, together);
      lane.sum.low = device::add(lane.sum.low, left_out_of(high, lane.sum.high, together));
      lane.sum.high = high;
      return true;
    }
  }

  template <int... i>
  SPIDER_DEVICE static void finish_each(std::int64_t* all, std::integer_sequence<int, i...> /*reduced*/) {
    (finish_one<i>(accumulator(all, reduced<i>().which)), ...);
  }
  template <int i>
  SPIDER_DEVICE static void finish_one(std::int64_t* to) {
    if constexpr (reduced<i>().kind == ReductionKind::sum) {
      finish_sum(to, i);
    } else {
      finish_extreme(to, i, reduced<i>().kind);
    }
  }

  SPIDER_DEVICE_NOINLINE void spill(std::int64_t* to, double value) {
    accumulate(value, [to](int word, std::int64_t part) { device::add_to(to + word, part); });
  }

  SPIDER_DEVICE static LaneSum load_sum(device::Shared from) {
    const device::Vector v = device::load_shared(from);
    const device::Pair range = device::load_shared_pair(from + 16);
    return {{device::double_of(std::uint64_t{v.word[1]} << 32 | v.word[0]),
             device::double_of(std::uint64_t{v.word[3]} << 32 | v.word[2])},
            device::float_of(range.word[0]),
            device::float_of(range.word[1])};
  }
  SPIDER_DEVICE static void store_sum(device::Shared to, const LaneSum& lane) {
    const std::uint64_t high = device::bits_of(lane.sum.high);
    const std::uint64_t low = device::bits_of(lane.sum.low);
    device::store_shared(
        to, device::Vector{{static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32),
                            static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32)}});
    device::store_shared(to + 16, device::Pair{{device::bits_of(lane.least), device::bits_of(lane.bound)}});
  }
  SPIDER_DEVICE static Number load_number(device::Shared from) {
    if constexpr (sizeof(Number) == 8) {
      const device::Pair pair = device::load_shared_pair(from);
      return device::double_of(std::uint64_t{pair.word[1]} << 32 | pair.word[0]);
    } else {
      return device::float_of(device::load_shared_word(from));
    }
  }
  SPIDER_DEVICE static void store_number(device::Shared to, Number number) {
    device::store_shared(to, device::bits_of(number));
  }

  /// The largest, or the smallest, of a number and values; NaN if any is.
  template <int count>
  SPIDER_DEVICE static Number extreme_of(Number known, const Pack<Number, count>& values, ReductionKind kind,
                                         int first, int end) {
    SPIDER_UNROLL
    for (int c = 0; c < count; ++c) {
      if (c < first || c >= end) continue;
      known = extreme_of(known, values.of[c], kind);
    }
    return known;
  }
  SPIDER_DEVICE static Number extreme_of(Number a, Number b, ReductionKind kind) {
    return kind == ReductionKind::max ? device::larger_or_nan(a, b) : device::smaller_or_nan(a, b);
  }

  /// Lane by lane as a tree: each number is in one lane's sum alone, so that what is spilled is spilled once.
  SPIDER_DEVICE static void finish_sum(std::int64_t* to, int which) {
    const auto spilled = [to](double rest) { spill(to, rest); };
    const int lane = device::lane_index();
    ExactSum sum = load_sum(slot(which, lane)).sum;
    SPIDER_NO_UNROLL
    for (int other = lane + 32; other < lanes; other += 32) {
      const ExactSum more = load_sum(slot(which, other)).sum;
      add_exactly(sum, more.high, spilled);
      if (more.low != 0) add_exactly(sum, more.low, spilled);
    }
    SPIDER_NO_UNROLL
    for (int step = 16; step > 0; step /= 2) {
      const double high = device::double_of(device::shuffle(device::bits_of(sum.high), lane + step));
      const double low = device::double_of(device::shuffle(device::bits_of(sum.low), lane + step));
      if (lane < step) {
        add_exactly(sum, high, spilled);
        if (low != 0) add_exactly(sum, low, spilled);
      }
    }
    if (lane != 0) return;
    spill(to, sum.high);
    if (sum.low != 0) spill(to, sum.low);
  }

  SPIDER_DEVICE static void finish_extreme(std::int64_t* to, int which, ReductionKind kind) {
    const int lane = device::lane_index();
    Number number = load_number(slot(which, lane));
    SPIDER_NO_UNROLL
    for (int other = lane + 32; other < lanes; other += 32)
      number = extreme_of(number, load_number(slot(which, other)), kind);
    std::uint64_t key = key_of(static_cast<double>(number), kind == ReductionKind::min);
    SPIDER_NO_UNROLL
    for (int step = 16; step > 0; step /= 2) {
      const std::uint64_t other = device::shuffle(key, lane + step);
      key = other > key ? other : key;
    }
    if (lane == 0) device::raise(reinterpret_cast<std::uint64_t*>(to), key);
  }
};

}  // namespace device_4
}  // namespace spider
