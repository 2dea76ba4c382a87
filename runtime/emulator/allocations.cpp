#include "allocations.h"

#include <iterator>
#include <map>
#include <mutex>

namespace spider::emulator {

namespace {

struct Allocations {
  std::mutex mutex;
  std::map<std::uintptr_t, std::uintptr_t> ends;  // by begin address
};

Allocations& allocations() {
  static auto* const all = new Allocations;  // never destroyed: static fields are freed late
  return *all;
}

}  // namespace

void note_allocation(const void* memory, std::uint64_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(allocations().mutex);
  allocations().ends[begin] = begin + bytes;
}

void forget_allocation(const void* memory) {
  const std::lock_guard lock(allocations().mutex);
  allocations().ends.erase(reinterpret_cast<std::uintptr_t>(memory));
}

std::optional<Bytes> allocation_around(std::uintptr_t at) {
  const std::lock_guard lock(allocations().mutex);
  const auto after = allocations().ends.upper_bound(at);
  if (after == allocations().ends.begin()) return std::nullopt;
  const auto [begin, end] = *std::prev(after);
  if (at >= end) return std::nullopt;
  return Bytes{begin, end};
}

}  // namespace spider::emulator
