/// Memory of back ends that run on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "backend.h"

namespace spider::backend {

/// Aligned to 256 bytes; free it with std::free.
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

}  // namespace spider::backend
