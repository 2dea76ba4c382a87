#pragma once

#include <spider/instructions_emulated.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fragments.h"
#include "lane_fiber.h"
#include "shared_memory.h"

namespace spider::emulator {

class Block;

/// The collective that a lane waits at, and the registers it brings.
struct Arrival {
  enum class Kind {
    sync_warp,
    sync_block,
    transpose_8x8,
    warp_max,
    shuffle,
    multiply_sparse,
    multiply_dense
  };
  Kind kind = Kind::sync_warp;
  int selector = 0;
  CallSite site;
  // multiply_sparse and multiply_dense
  device::Accumulator* sum = nullptr;
  const device::Vector* a = nullptr;
  const device::Vector* b = nullptr;     ///< sparse
  const device::Pair* b_pair = nullptr;  ///< dense
  std::uint32_t metadata = 0;
  OperandType operands = OperandType::f16;
  // transpose_8x8, warp_max and shuffle, both ways
  std::uint32_t* word = nullptr;
  int source = 0;  // shuffle

  [[nodiscard]] bool same_call(const Arrival& other) const;
};

/// `sync_warp at file:line:column`.
[[nodiscard]] std::string to_string(const Arrival& arrival);

/// The asynchronous copies of one lane, in groups as cp.async.commit_group and .wait_group define them.
class CopyQueue {
 public:
  struct Copy {
    std::uint32_t to;
    const void* from;
    std::uint32_t bytes;
    std::uint64_t group;
  };

  void clear();
  void issue(std::uint32_t to, const void* from, std::uint32_t bytes) {
    copies_.push_back({to, from, bytes, open_group_});
  }
  void commit() { ++open_group_; }
  /// Calls `finish` for every copy of the groups that are not among the latest `pending` committed ones.
  void wait(std::uint64_t pending, const std::function<void(const Copy&)>& finish);

 private:
  std::vector<Copy> copies_;  // those before `retired_` are done
  std::size_t retired_ = 0;
  std::uint64_t open_group_ = 0;
};

enum class LaneState { idle, waiting, returned };

/// One lane of a block.
struct Lane {
  Lane(Block& its_block, int its_warp, int its_index, std::function<void()> body)
      : block(its_block), warp(its_warp), index(its_index), fiber(std::move(body)) {}

  Block& block;
  int warp;
  int index;  ///< within the warp
  LaneState state = LaneState::idle;
  bool waited = false;  ///< for earlier work
  Arrival arrival;
  CopyQueue copies;
  LaneFiber fiber;
};

}  // namespace spider::emulator
