#include "block.h"

#include <algorithm>
#include <array>
#include <exception>
#include <numeric>
#include <utility>

#include "text.h"
#include "violation.h"

namespace spider::emulator {

namespace {

// Instructions are free functions, as on a device; they find their lane here.
thread_local Lane* running_lane = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

std::string name(const Lane& lane) {
  return "warp " + std::to_string(lane.warp) + ", lane " + std::to_string(lane.index);
}

}  // namespace

Lane* current_lane() {
  return running_lane;
}

Block::Block(const Launch& launch)
    : launch_(launch),
      warps_(static_cast<std::size_t>(launch.form.tiling.warps_per_block)),
      lane_order_(lanes_per_warp) {
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    for (int index = 0; index < lanes_per_warp; ++index) {
      auto& lanes = warps_[w].lanes;
      const auto place = static_cast<std::size_t>(index);
      lanes.push_back(std::make_unique<Lane>(*this, static_cast<int>(w), index,
                                             [this, &lanes, place] { live(*lanes[place]); }));
    }
  }
}

Block::~Block() {
  closing_ = true;
  for (Warp& warp : warps_) {
    for (const auto& lane : warp.lanes) lane->fiber.resume();
  }
}

/// A fiber runs one kernel after the other, so that its stack is set up once.
void Block::live(Lane& lane) {
  while (!closing_) {
    run_kernel(lane);
    lane.fiber.suspend();
  }
}

void Block::run_kernel(Lane& lane) {
  try {
    launch_.form.sweep(launch_.arguments);
    check_return(lane);
  } catch (const Abandoned&) {
    return;
  } catch (const std::exception& error) {
    violation_ = describe(lane) + error.what();
    return;
  }
  lane.state = LaneState::returned;
  ++warps_[static_cast<std::size_t>(lane.warp)].returned;
}

std::optional<std::string> Block::run(std::int64_t number) {
  begin(number);
  while (!runnable_.empty()) {
    const std::size_t pick = random() % runnable_.size();
    const std::size_t index = runnable_[pick];
    Warp& warp = warps_[index];
    run_to_collective(warp);
    if (violation_) {
      abandon();
      return violation_;
    }
    if (at_block_barrier_ == static_cast<int>(warps_.size()) * lanes_per_warp) {
      at_block_barrier_ = 0;
      ++epoch_;
      for (Warp& each : warps_) {
        each.waiting = 0;
        ++each.epoch;
      }
      runnable_.resize(warps_.size());
      std::iota(runnable_.begin(), runnable_.end(), std::size_t{0});
    } else if (warp.waiting > 0 || warp.returned == lanes_per_warp) {
      runnable_.erase(runnable_.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
  return std::nullopt;
}

void Block::begin(std::int64_t number) {
  number_ = number;
  violation_.reset();
  random_state_ = launch_.seed ^ (static_cast<std::uint64_t>(number) + 1) * 0x9e3779b97f4a7c15U;
  at_block_barrier_ = 0;
  ++epoch_;
  bulk_copies_.clear();
  shared_.begin_block(static_cast<std::uint32_t>(launch_.form.tiling.shared_bytes), epoch_);
  for (Warp& warp : warps_) {
    ++warp.epoch;
    warp.waiting = warp.returned = 0;
    for (const auto& lane : warp.lanes) {
      lane->state = LaneState::idle;
      lane->waited = false;
      lane->copies.clear();
    }
  }
  runnable_.resize(warps_.size());
  std::iota(runnable_.begin(), runnable_.end(), std::size_t{0});
  std::iota(lane_order_.begin(), lane_order_.end(), 0);
  for (std::size_t i = lane_order_.size() - 1; i > 0; --i)
    std::swap(lane_order_[i], lane_order_[random() % (i + 1)]);
}

/// Runs every lane of a warp in turn; their collective is done once the last one has run.
void Block::run_to_collective(Warp& warp) {
  // A new permutation per collective would cost as much as the collective: walk the block's in an odd
  // stride.
  const std::uint32_t stride = random() | 1U;
  std::uint32_t position = random();
  for (int i = 0; i < lanes_per_warp && !violation_; ++i, position += stride) {
    Lane& lane = *warp.lanes[static_cast<std::size_t>(lane_order_[position % lanes_per_warp])];
    if (lane.state == LaneState::returned) continue;
    running_lane = &lane;
    lane.fiber.resume();
    running_lane = nullptr;
  }
}

/// Unwinds the stacks of lanes that stopped inside the kernel.
void Block::abandon() {
  abandoning_ = true;
  for (Warp& warp : warps_) {
    for (const auto& lane : warp.lanes) {
      if (lane->state == LaneState::waiting) lane->fiber.resume();
    }
  }
  abandoning_ = false;
}

void Block::arrive(Lane& lane, const Arrival& arrival) {
  check_company(lane, arrival);
  Warp& warp = warps_[static_cast<std::size_t>(lane.warp)];
  lane.arrival = arrival;
  if (warp.waiting++ == 0) warp.first_waiting = &lane;
  if (arrival.kind == Arrival::Kind::sync_block) {
    if (at_block_barrier_++ == 0) first_at_block_barrier_ = &lane;
  } else if (warp.waiting == lanes_per_warp) {
    perform(warp, arrival);
  }
  lane.state = LaneState::waiting;
  lane.fiber.suspend();
  if (abandoning_) throw Abandoned{};
  lane.state = LaneState::idle;
}

void Block::check_company(const Lane& lane, const Arrival& arrival) const {
  const auto refuse = [&](const Lane& other, const std::string& what) {
    throw Violation("diverged: calls " + to_string(arrival) + " while " + name(other) + ' ' + what);
  };
  const Warp& own = warps_[static_cast<std::size_t>(lane.warp)];
  if (own.waiting > 0 && !arrival.same_call(own.first_waiting->arrival)) {
    refuse(*own.first_waiting, "waits in " + to_string(own.first_waiting->arrival));
  }
  const bool whole_block = arrival.kind == Arrival::Kind::sync_block;
  if (whole_block && at_block_barrier_ > 0 && !arrival.same_call(first_at_block_barrier_->arrival)) {
    refuse(*first_at_block_barrier_, "waits in " + to_string(first_at_block_barrier_->arrival));
  }
  for (const Warp& warp : warps_) {
    if (warp.returned == 0 || (&warp != &own && !whole_block)) continue;
    for (const auto& other : warp.lanes) {
      if (other->state == LaneState::returned) refuse(*other, "has returned");
    }
  }
}

void Block::check_return(const Lane& lane) const {
  if (launch_.form.overlaps_rims && number_ == 0 && !lane.waited)
    throw Violation("returns before it waits for the rims that it may run beside");
  const Warp& own = warps_[static_cast<std::size_t>(lane.warp)];
  const Lane* const left_behind = own.waiting > 0         ? own.first_waiting
                                  : at_block_barrier_ > 0 ? first_at_block_barrier_
                                                          : nullptr;
  if (left_behind == nullptr) return;
  throw Violation("diverged: returns while " + name(*left_behind) + " waits in " +
                  to_string(left_behind->arrival));
}

void Block::perform(Warp& warp, const Arrival& arrival) {
  switch (arrival.kind) {
    case Arrival::Kind::sync_warp:
      ++warp.epoch;
      break;
    case Arrival::Kind::sync_block:
      break;
    case Arrival::Kind::transpose_8x8:
    case Arrival::Kind::warp_max:
    case Arrival::Kind::shuffle:
      exchange_words(warp, arrival.kind);
      break;
    case Arrival::Kind::multiply_sparse: {
      SparseOperands operands{};
      for (std::size_t i = 0; i < operands.sum.size(); ++i) {
        const Arrival& from = warp.lanes[i]->arrival;
        operands.sum[i] = from.sum;
        operands.a[i] = from.a;
        operands.b[i] = from.b;
        operands.metadata[i] = from.metadata;
      }
      multiply_sparse(operands, arrival.operands, launch_.products_at_once, arrival.selector, pattern_);
      break;
    }
    case Arrival::Kind::multiply_dense: {
      DenseOperands operands{};
      for (std::size_t i = 0; i < operands.sum.size(); ++i) {
        const Arrival& from = warp.lanes[i]->arrival;
        operands.sum[i] = from.sum;
        operands.a[i] = from.a;
        operands.b[i] = from.b_pair;
      }
      multiply_dense(operands, arrival.operands, launch_.products_at_once);
      break;
    }
  }
  warp.waiting = 0;
}

void Block::exchange_words(Warp& warp, Arrival::Kind kind) {
  std::array<std::uint32_t, lanes_per_warp> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = *warp.lanes[i]->arrival.word;
  if (kind == Arrival::Kind::transpose_8x8) {
    transpose_8x8(words);
  } else if (kind == Arrival::Kind::shuffle) {
    const auto brought = words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = brought[static_cast<std::size_t>(warp.lanes[i]->arrival.source) % lanes_per_warp];
    }
  } else {
    words.fill(*std::max_element(words.begin(), words.end()));
  }
  for (std::size_t i = 0; i < words.size(); ++i) *warp.lanes[i]->arrival.word = words[i];
}

Moment Block::moment(const Lane& lane) const {
  return {static_cast<std::uint16_t>(lane.warp * lanes_per_warp + lane.index),
          static_cast<std::uint16_t>(lane.warp), warps_[static_cast<std::size_t>(lane.warp)].epoch, epoch_};
}

std::string Block::describe(const Lane& lane) const {
  return "block " + std::to_string(number_) + ", " + name(lane) + ": ";
}

/// splitmix64 (Steele, Lea, Flood, OOPSLA 2014), the upper half.
std::uint32_t Block::random() {
  random_state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t z = random_state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

}  // namespace spider::emulator
