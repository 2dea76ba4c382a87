/// Numbers that a sweep makes of all its points: sums, maxima and minima. A lane has its own in shared
/// memory; at the end of a block its first warp reduces them, and adds the block's to the accumulators in
/// memory.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/values/each.h>
#include <spider/values/exact_sum.h>

#include <cstdint>
#include <utility>

namespace spider {
inline namespace device_4 {

/// `Sweep` has `reduced` and `reduced_count` (spider/loads/system_point.h).
template <class Sweep, int warps>
struct BlockReductions {
  static constexpr int lanes = warps * 32;
  static constexpr int bytes_of_lane = 16;
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
  SPIDER_DEVICE static void begin() {
    SPIDER_UNROLL
    for (int i = 0; i < Sweep::reduced_count; ++i)
      device::store_shared(slot(i, own_lane()), device::Vector{{0, 0, 0, 0}});
  }

  /// Values of a lane's points `first` to before `end`, one for each reduction.
  template <int count>
  SPIDER_DEVICE static void add(std::int64_t* all, const Pack<Number, count>* values, int first, int end) {
    add_each(all, values, first, end, Reduced{});
  }

  /// All lanes of the block, after the last point.
  SPIDER_DEVICE static void finish(std::int64_t* all) {
    device::sync_block();
    if (device::warp_index() != 0) return;
    finish_each(all, Reduced{});
  }

 private:
  using Reduced = std::make_integer_sequence<int, Sweep::reduced_count>;

  /// By value: code of a device has no address of the table.
  template <int i>
  SPIDER_DEVICE static constexpr ReducedNumber reduced() {
    return Sweep::reduced[i];
  }

  template <int count, int... i>
  SPIDER_DEVICE static void add_each(std::int64_t* all, const Pack<Number, count>* values, int first, int end,
                                     std::integer_sequence<int, i...> /*reduced*/) {
    (add_one<i>(accumulator(all, reduced<i>().which), values[i], first, end), ...);
  }
  template <int i, int count>
  SPIDER_DEVICE static void add_one(std::int64_t* to, const Pack<Number, count>& values, int first, int end) {
    const device::Shared place = slot(i, own_lane());
    constexpr ReductionKind kind = reduced<i>().kind;
    if constexpr (kind == ReductionKind::sum) {
      ExactSum sum = load_sum(place);
      SPIDER_UNROLL
      for (int c = 0; c < count; ++c) {
        if (c >= first && c < end)
          add_exactly(sum, static_cast<double>(values.of[c]), [to](double rest) { spill(to, rest); });
      }
      store_sum(place, sum);
    } else {
      store_key(place, larger(load_key(place), key_of_points(values, kind, first, end)));
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
      finish_key(to, i);
    }
  }

  SPIDER_DEVICE_NOINLINE void spill(std::int64_t* to, double value) {
    accumulate(value, [to](int word, std::int64_t part) { device::add_to(to + word, part); });
  }

  SPIDER_DEVICE static ExactSum load_sum(device::Shared from) {
    const device::Vector v = device::load_shared(from);
    return {device::double_of(std::uint64_t{v.word[1]} << 32 | v.word[0]),
            device::double_of(std::uint64_t{v.word[3]} << 32 | v.word[2])};
  }
  SPIDER_DEVICE static void store_sum(device::Shared to, const ExactSum& sum) {
    const std::uint64_t high = device::bits_of(sum.high);
    const std::uint64_t low = device::bits_of(sum.low);
    device::store_shared(
        to, device::Vector{{static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32),
                            static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32)}});
  }
  SPIDER_DEVICE static std::uint64_t load_key(device::Shared from) {
    const device::Pair pair = device::load_shared_pair(from);
    return std::uint64_t{pair.word[1]} << 32 | pair.word[0];
  }
  SPIDER_DEVICE static void store_key(device::Shared to, std::uint64_t key) { device::store_shared(to, key); }
  SPIDER_DEVICE static std::uint64_t larger(std::uint64_t a, std::uint64_t b) { return a > b ? a : b; }

  template <int count>
  SPIDER_DEVICE static std::uint64_t key_of_points(const Pack<Number, count>& values, ReductionKind kind,
                                                   int first, int end) {
    const bool reversed = kind == ReductionKind::min;
    bool any = false;
    Number most = 0;
    SPIDER_UNROLL
    for (int c = 0; c < count; ++c) {
      const Number value = values.of[c];
      const bool replaces = !any || value != value || (reversed ? value < most : value > most);
      if (c < first || c >= end) continue;
      if (replaces) most = value;
      any = true;
    }
    return any ? key_of(static_cast<double>(most), reversed) : 0;
  }

  /// Lane by lane as a tree: each number is in one lane's sum alone, so that what is spilled is spilled once.
  SPIDER_DEVICE static void finish_sum(std::int64_t* to, int which) {
    const auto spilled = [to](double rest) { spill(to, rest); };
    const int lane = device::lane_index();
    ExactSum sum = load_sum(slot(which, lane));
    SPIDER_NO_UNROLL
    for (int other = lane + 32; other < lanes; other += 32) {
      const ExactSum more = load_sum(slot(which, other));
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

  SPIDER_DEVICE static void finish_key(std::int64_t* to, int which) {
    const int lane = device::lane_index();
    std::uint64_t key = load_key(slot(which, lane));
    SPIDER_NO_UNROLL
    for (int other = lane + 32; other < lanes; other += 32) key = larger(key, load_key(slot(which, other)));
    SPIDER_NO_UNROLL
    for (int step = 16; step > 0; step /= 2) key = larger(key, device::shuffle(key, lane + step));
    if (lane == 0) device::raise(reinterpret_cast<std::uint64_t*>(to), key);
  }
};

}  // namespace device_4
}  // namespace spider
