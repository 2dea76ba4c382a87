#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "shared_memory.h"

namespace spider::emulator {

/// The bulk copies of a block, indexed by their barrier. A barrier serves one round of copies. All offsets
/// are bytes of shared memory; every broken rule is a Violation.
class BulkCopies {
 public:
  struct Copy {
    Moment issued;
    std::uint32_t to;
    const void* from;
    std::uint32_t bytes;
  };

  /// Starts a block.
  void clear() { barriers_.clear(); }
  /// A thread prepares the barrier for copies of `bytes` together.
  void begin(const Moment& now, std::uint32_t barrier, std::uint32_t bytes);
  void issue(std::uint32_t barrier, const Copy& copy);
  /// A thread waits for all copies of the barrier: calls `finish` for each that no thread has waited for yet.
  void wait(const Moment& now, std::uint32_t barrier, const std::function<void(const Copy&)>& finish);

 private:
  struct Barrier {
    Moment begun;
    std::uint64_t expected = 0;  ///< bytes
    std::uint64_t issued = 0;
    std::vector<Copy> in_flight;
  };

  Barrier& known(const Moment& now, std::uint32_t barrier, const char* what);

  std::map<std::uint32_t, Barrier> barriers_;
};

}  // namespace spider::emulator
