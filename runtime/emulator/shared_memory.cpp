#include "shared_memory.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "violation.h"

namespace spider::emulator {

namespace {

constexpr std::uint32_t vector_bytes = 16;
constexpr std::uint16_t poison = 0x7fff;  // a NaN in f16 and in bf16; twice, in f32

std::string lane_name(std::uint16_t lane) {
  return "warp " + std::to_string(lane / 32) + ", lane " + std::to_string(lane % 32);
}

std::string missing_synchronisation(std::uint16_t other, const Moment& now) {
  return lane_name(other) + (other / 32 == now.warp ? ", with no sync_warp or sync_block between"
                                                    : ", with no sync_block between");
}

std::string byte_name(std::uint32_t offset) {
  return "shared byte " + std::to_string(offset);
}

}  // namespace

bool happened_before(const Moment& past, const Moment& now) {
  if (past.lane == now.lane) return true;
  if (past.warp == now.warp) return past.warp_epoch < now.warp_epoch;
  return past.block_epoch < now.block_epoch;
}

void SharedMemory::begin_block(std::uint32_t bytes, std::uint32_t first_epoch) {
  bytes_ = bytes;
  first_epoch_ = first_epoch;
  const std::size_t count = (bytes + 1) / 2;
  if (units_.size() < count) {
    units_.resize(count);
    memory_.resize(count);
  }
}

void SharedMemory::check_range(std::uint32_t offset, std::uint32_t size, const char* what) const {
  const auto place = [&] {
    return std::string(what) + " shared bytes " + std::to_string(offset) + ".." +
           std::to_string(std::uint64_t{offset} + size - 1);
  };
  if (std::uint64_t{offset} + size > bytes_) {
    throw Violation(place() + ", outside the block's " + std::to_string(bytes_));
  }
  if (offset % size != 0)
    throw Violation(place() + ", which do not start on a multiple of " + std::to_string(size));
}

void SharedMemory::check_readable(const Moment& now, const Unit& unit, std::uint32_t offset) const {
  if (!from_this_block(unit.writer)) throw Violation("reads " + byte_name(offset) + ", which nobody wrote");
  if (unit.in_flight) {
    throw Violation("reads " + byte_name(offset) + ", into which a copy of " + lane_name(unit.writer.lane) +
                    " is in flight");
  }
  if (!happened_before(unit.writer, now)) {
    throw Violation("reads " + byte_name(offset) + ", written by " +
                    missing_synchronisation(unit.writer.lane, now));
  }
}

void SharedMemory::check_writable(const Moment& now, const Unit& unit, std::uint32_t offset) const {
  if (from_this_block(unit.writer)) {
    if (unit.in_flight) {
      throw Violation("overwrites " + byte_name(offset) + ", into which a copy of " +
                      lane_name(unit.writer.lane) + " is in flight");
    }
    if (!happened_before(unit.writer, now)) {
      throw Violation("overwrites " + byte_name(offset) + ", written by " +
                      missing_synchronisation(unit.writer.lane, now));
    }
  }
  if (!from_this_block(unit.reader)) return;
  const bool same_block_epoch = unit.reader.block_epoch == now.block_epoch;
  const bool same_warp_epoch = unit.reader.warp == now.warp && unit.reader.warp_epoch == now.warp_epoch;
  const bool unordered_others =
      (unit.many_warps_read && same_block_epoch) || (unit.many_lanes_read && same_warp_epoch);
  if (!happened_before(unit.reader, now) || unordered_others) {
    const std::uint16_t reader = happened_before(unit.reader, now) ? unit.other_reader : unit.reader.lane;
    throw Violation("overwrites " + byte_name(offset) + ", read by " + missing_synchronisation(reader, now));
  }
}

void SharedMemory::note_read(const Moment& now, Unit& unit) {
  Moment& latest = unit.reader;
  if (now.block_epoch != latest.block_epoch) {
    latest = now;
    unit.many_lanes_read = unit.many_warps_read = false;
  } else if (now.warp != latest.warp) {
    // From here on any writer of this epoch finds a reader in another warp; which one no longer matters.
    unit.other_reader = latest.lane;
    unit.many_warps_read = true;
    latest = now;
    unit.many_lanes_read = false;
  } else if (now.warp_epoch != latest.warp_epoch) {
    latest = now;
    unit.many_lanes_read = false;
  } else if (now.lane != latest.lane) {
    if (!unit.many_warps_read) unit.other_reader = latest.lane;
    unit.many_lanes_read = true;
    latest = now;
  }
}

void SharedMemory::note_load(const Moment& now, std::uint32_t from, std::uint32_t bytes) {
  check_range(from, bytes, "reads");
  for (std::uint32_t offset = from; offset < from + bytes; offset += 2) {
    Unit& unit = units_[offset / 2];
    check_readable(now, unit, offset);
    note_read(now, unit);
  }
}

void SharedMemory::note_store(const Moment& now, std::uint32_t to, std::uint32_t bytes) {
  check_range(to, bytes, "writes");
  for (std::uint32_t offset = to; offset < to + bytes; offset += 2) {
    Unit& unit = units_[offset / 2];
    check_writable(now, unit, offset);
    unit.writer = now;
    unit.in_flight = false;
    unit.bytes_written = 3;
  }
}

device::Vector SharedMemory::load(const Moment& now, std::uint32_t from) {
  note_load(now, from, vector_bytes);
  device::Vector value{};
  std::memcpy(&value, &memory_[from / 2], vector_bytes);
  return value;
}

device::Pair SharedMemory::load_pair(const Moment& now, std::uint32_t from) {
  note_load(now, from, sizeof(device::Pair));
  device::Pair value{};
  std::memcpy(&value, &memory_[from / 2], sizeof value);
  return value;
}

std::uint32_t SharedMemory::load_word(const Moment& now, std::uint32_t from) {
  note_load(now, from, sizeof(std::uint32_t));
  std::uint32_t value = 0;
  std::memcpy(&value, &memory_[from / 2], sizeof value);
  return value;
}

std::uint16_t SharedMemory::load_half(const Moment& now, std::uint32_t from) {
  note_load(now, from, sizeof(std::uint16_t));
  return memory_[from / 2];
}

void SharedMemory::store(const Moment& now, std::uint32_t to, const device::Vector& value) {
  note_store(now, to, vector_bytes);
  std::memcpy(&memory_[to / 2], &value, vector_bytes);
}

void SharedMemory::store(const Moment& now, std::uint32_t to, const device::Pair& value) {
  note_store(now, to, sizeof value);
  std::memcpy(&memory_[to / 2], &value, sizeof value);
}

void SharedMemory::store(const Moment& now, std::uint32_t to, std::uint32_t value) {
  note_store(now, to, sizeof value);
  std::memcpy(&memory_[to / 2], &value, sizeof value);
}

void SharedMemory::store(const Moment& now, std::uint32_t to, std::uint16_t value) {
  note_store(now, to, sizeof value);
  memory_[to / 2] = value;
}

void SharedMemory::store(const Moment& now, std::uint32_t to, std::uint8_t value) {
  check_range(to, sizeof value, "writes");
  Unit& unit = units_[to / 2];
  const auto byte = static_cast<std::uint8_t>(1U << to % 2);
  // Another lane may write the other byte at the same time.
  const bool beside =
      from_this_block(unit.writer) && !happened_before(unit.writer, now) && (unit.bytes_written & byte) == 0;
  if (beside) {
    unit.bytes_written = 3;
  } else {
    check_writable(now, unit, to);
    unit.bytes_written = byte;
  }
  unit.writer = now;
  const unsigned shift = to % 2 * 8;
  memory_[to / 2] =
      static_cast<std::uint16_t>((memory_[to / 2] & ~(0xffU << shift)) | unsigned{value} << shift);
}

void SharedMemory::start_copy(const Moment& now, std::uint32_t to, std::uint32_t bytes) {
  check_range(to, bytes, "copies to");
  for (std::uint32_t offset = to; offset < to + bytes; offset += 2) {
    Unit& unit = units_[offset / 2];
    check_writable(now, unit, offset);
    unit.writer = now;
    unit.in_flight = true;
    unit.bytes_written = 3;
  }
  std::fill_n(&memory_[to / 2], bytes / 2, poison);
}

void SharedMemory::finish_copy(const Moment& now, std::uint32_t to, const void* from, std::uint32_t bytes) {
  for (std::uint32_t unit = to / 2; unit < (to + bytes) / 2; ++unit) {
    units_[unit].writer = now;
    units_[unit].in_flight = false;
  }
  std::memcpy(&memory_[to / 2], from, bytes);
}

}  // namespace spider::emulator
