/// Memory that ranks of one host open to each other: a GPU writes halos straight into its neighbour's, and
/// both tell each other by flags there, which streams write and wait for.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <vector>

#include "transport.h"

namespace spider::distributed {

constexpr int directions = 27;  ///< tags of messages

/// A slot for each direction from which messages come, and two flags for each direction: whether a slot is
/// full, and whether that of the neighbour has room. Flags are 0 or 1 and the same after each exchange, so
/// that CUDA graphs can be replayed. Every rank sends all that it has before it waits for what it gets.
class Peers {
 public:
  Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  ~Peers();

  /// Collective. Opens the memory of those neighbours with which `largest` has messages and that are on this
  /// host, and tries it. Neighbours that cannot reach each other, both ways, are no peers: that is no error.
  /// Nor is SPIDER_PEER_COPIES=0 in the environment, with which a rank has none.
  [[nodiscard]] Outcome open(MPI_Comm communicator, const Exchanges& largest, cudaStream_t stream);
  [[nodiscard]] bool has(int rank) const {
    return static_cast<std::size_t>(rank) < theirs_.size() && theirs_[static_cast<std::size_t>(rank)].is_peer;
  }
  /// How many neighbours are peers, and how many are not.
  [[nodiscard]] int count_peers() const;
  [[nodiscard]] int count_others() const { return static_cast<int>(neighbours_.size()) - count_peers(); }

  /// Where a message to a rank, or from one, begins; that of a later field of an exchange lies
  /// offset_in_slot() bytes behind.
  [[nodiscard]] char* slot_to(const Message& message) const;
  [[nodiscard]] char* slot_from(const Message& message) const;

  /// What each block of a sweep's rims raises (RimGrid::counter); null where all cannot go to peers.
  [[nodiscard]] std::uint32_t* rim_counter() const {
    return count_peers() == 0 || count_others() > 0 ? nullptr : own_flags()->rim_blocks;
  }

  /// Waits and writes that go to the stream together, by take(): waits until so many blocks have raised
  /// rim_counter(), which is 0 again then, and until the slots of peers to which something goes have room;
  /// says that they are full; waits until those of this rank are; says that they have room.
  void await_rims(std::uint32_t blocks);
  void await_room(const Exchanges& exchanges);
  void say_full(const Exchanges& exchanges);
  void await_full(const Exchanges& exchanges);
  void say_room(const Exchanges& exchanges);
  [[nodiscard]] Outcome take();

  /// Ends waits for ranks that are gone, so that the stream's work ends, for at most some seconds.
  void release();

 private:
  struct Flags {
    static constexpr int words_apart = 32;  // 128 bytes
    std::uint32_t full[directions][words_apart];
    std::uint32_t room[directions][words_apart];
    std::uint32_t rim_blocks[words_apart];
  };
  struct Their {
    bool is_peer = false;
    char* memory = nullptr;  ///< flags and slots, in this process
    std::array<std::int64_t, directions> slots{};
  };
  /// One wait or write of a stream.
  struct Step {
    std::uint32_t* flag;
    std::uint32_t value;
    bool waits;
  };

  [[nodiscard]] Outcome prepare(const Exchanges& largest);
  [[nodiscard]] Outcome map_neighbours(MPI_Comm communicator);
  [[nodiscard]] Outcome try_neighbours(const Exchanges& largest, std::vector<char>& good);
  [[nodiscard]] Outcome reset_flags();
  [[nodiscard]] Flags* flags_of(int rank) const;
  [[nodiscard]] Flags* own_flags() const { return reinterpret_cast<Flags*>(memory_); }

  std::vector<Step> steps_;  ///< for take()
  MPI_Comm communicator_ = MPI_COMM_NULL;
  cudaStream_t stream_ = nullptr;
  void* take_steps_ = nullptr;  ///< cuStreamBatchMemOp; null: there are no peers
  char* memory_ = nullptr;
  std::array<std::int64_t, directions> slots_{};  ///< where they begin in the memory
  std::vector<int> neighbours_;
  std::vector<Their> theirs_;  ///< of all ranks
};

/// Is a variable of the environment 0?
[[nodiscard]] bool is_switched_off(const char* name);

/// The bytes in a message's slot before its cells of the field `i` of an exchange.
[[nodiscard]] std::int64_t offset_in_slot(const Exchanges& exchanges, std::size_t i, const Message& message,
                                          bool sends);

}  // namespace spider::distributed
