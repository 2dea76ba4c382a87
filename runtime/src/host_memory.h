/// Memory of back ends that run on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "backend.h"

namespace spider::backend {

/// On 256 bytes, for std::free.
[[nodiscard]] inline Outcome allocate_on_host(std::uint64_t bytes, void** memory) {
  constexpr std::uint64_t alignment = 256;
  *memory = nullptr;
  if (bytes <= std::numeric_limits<std::size_t>::max() - alignment) {
    const std::uint64_t rounded = (bytes == 0 ? alignment : bytes + alignment - 1) / alignment * alignment;
    *memory = std::aligned_alloc(alignment, rounded);
  }
  if (*memory == nullptr)
    return {SPIDER_ERROR_MEMORY, "no " + std::to_string(bytes) + " bytes of host memory"};
  return {};
}

/// Either way.
inline void copy_rows(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
                      std::uint64_t row_bytes, std::uint64_t rows) {
  if (row_bytes == 0) return;
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                static_cast<const std::byte*>(from) + row * from_pitch, row_bytes);
  }
}

}  // namespace spider::backend
