/// The part of runtime/src/backend.h that is the same for loops on the host and for the emulator.
#include <cstddef>
#include <cstring>
#include <vector>

#include "src/backend.h"

namespace spider::backend {
namespace {

/// From host to host.
void copy_rows(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
               std::uint64_t row_bytes, std::uint64_t rows) {
  if (row_bytes == 0) return;
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                static_cast<const std::byte*>(from) + row * from_pitch, row_bytes);
  }
}

}  // namespace

Outcome check_memory(const void* /*memory*/, const char* /*name*/) {
  return {};
}

Outcome compile(const std::vector<const spider_kernel*>& /*kernels*/) {
  return {};
}

Outcome prepare_points(const spider_kernel& /*kernel*/) {
  return {};
}

Outcome allocate_scratch(std::uint64_t bytes, void** memory, void* /*stream*/) {
  return allocate(bytes, memory);
}

Outcome release_scratch(void* memory, void* /*stream*/) {
  return release(memory);
}

Outcome upload(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
               std::uint64_t row_bytes, std::uint64_t rows) {
  copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows);
  return {};
}

Outcome download(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
                 std::uint64_t row_bytes, std::uint64_t rows) {
  copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows);
  return {};
}

Outcome synchronize(void* /*stream*/) {
  return {};
}

Outcome clear(void* memory, std::uint64_t bytes) {
  std::memset(memory, 0, bytes);
  return {};
}

}  // namespace spider::backend
