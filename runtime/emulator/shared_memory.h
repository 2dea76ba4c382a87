#pragma once

#include <spider/instructions_emulated.h>

#include <cstdint>
#include <vector>

namespace spider::emulator {

/// A lane's position among a block's synchronisations. `warp_epoch` counts those of its warp (sync_warp and
/// sync_block), `block_epoch` those of its block.
struct Moment {
  std::uint16_t lane = 0;  ///< within the block
  std::uint16_t warp = 0;
  std::uint32_t warp_epoch = 0;
  std::uint32_t block_epoch = 0;
};

/// True if `past` precedes `now` for every order of lanes and warps: the same lane, or a synchronisation of
/// both in between.
[[nodiscard]] bool happened_before(const Moment& past, const Moment& now);

/// The shared memory of one block, and who wrote and read each 2 bytes of it (only stores of single
/// bytes touch less).
/// Two accesses by different lanes, at least one a write, must have a sync_warp (same warp) or a sync_block
/// between them. All offsets are bytes; every broken rule is a Violation.
class SharedMemory {
 public:
  /// Starts a block with `bytes` of unwritten memory, whose epochs begin at `first_epoch`; that number must
  /// exceed every epoch of the blocks before.
  void begin_block(std::uint32_t bytes, std::uint32_t first_epoch);

  [[nodiscard]] device::Vector load(const Moment& now, std::uint32_t from);
  [[nodiscard]] device::Pair load_pair(const Moment& now, std::uint32_t from);
  [[nodiscard]] std::uint32_t load_word(const Moment& now, std::uint32_t from);
  [[nodiscard]] std::uint16_t load_half(const Moment& now, std::uint32_t from);
  void store(const Moment& now, std::uint32_t to, const device::Vector& value);
  void store(const Moment& now, std::uint32_t to, const device::Pair& value);
  void store(const Moment& now, std::uint32_t to, std::uint32_t value);
  void store(const Moment& now, std::uint32_t to, std::uint16_t value);
  void store(const Moment& now, std::uint32_t to, std::uint8_t value);

  /// Starts a copy to the `bytes` at `to`, which is a multiple of them: they contain NaN and belong to no
  /// lane until finish_copy.
  void start_copy(const Moment& now, std::uint32_t to, std::uint32_t bytes);
  void finish_copy(const Moment& now, std::uint32_t to, const void* from, std::uint32_t bytes);

 private:
  struct Unit {
    Moment writer;
    Moment reader;  ///< of the latest epoch only
    bool in_flight = false;
    bool many_lanes_read = false;    ///< several lanes of reader.warp in reader.warp_epoch
    bool many_warps_read = false;    ///< several warps in reader.block_epoch
    std::uint8_t bytes_written = 3;  ///< since the synchronisation before: bit 0, bit 1
    std::uint16_t other_reader = 0;  ///< a lane that is not `reader`'s, where one of the two above is set
  };

  void note_load(const Moment& now, std::uint32_t from, std::uint32_t bytes);
  void note_store(const Moment& now, std::uint32_t to, std::uint32_t bytes);
  void check_range(std::uint32_t offset, std::uint32_t size, const char* what) const;
  void check_readable(const Moment& now, const Unit& unit, std::uint32_t offset) const;
  void check_writable(const Moment& now, const Unit& unit, std::uint32_t offset) const;
  static void note_read(const Moment& now, Unit& unit);
  [[nodiscard]] bool from_this_block(const Moment& moment) const {
    return moment.block_epoch >= first_epoch_;
  }

  std::vector<std::uint16_t> memory_;
  std::vector<Unit> units_;
  std::uint32_t bytes_ = 0;
  std::uint32_t first_epoch_ = 1;  // units start with epoch 0: unwritten
};

}  // namespace spider::emulator
