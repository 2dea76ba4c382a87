/// Memory that spider_allocate has given out on the host, so that a launch knows where a field's memory ends.
#pragma once

#include <cstdint>
#include <optional>

namespace spider::emulator {

/// From the first byte to that behind the last.
struct Bytes {
  std::uintptr_t begin, end;
};

void note_allocation(const void* memory, std::uint64_t bytes);
void forget_allocation(const void* memory);

/// The memory that `address` lies in; nothing where it is the caller's own.
[[nodiscard]] std::optional<Bytes> allocation_around(std::uintptr_t at);

}  // namespace spider::emulator
