/// Host memory allocated by spider_allocate: tells a launch where a field's memory ends.
#pragma once

#include <cstdint>
#include <optional>

namespace spider::emulator {

/// From the first byte to one past the last.
struct Bytes {
  std::uintptr_t begin, end;
};

void note_allocation(const void* memory, std::uint64_t bytes);
void forget_allocation(const void* memory);

/// The allocation that contains `address`; nothing if the memory is the caller's own.
[[nodiscard]] std::optional<Bytes> allocation_around(std::uintptr_t at);

}  // namespace spider::emulator
