/// Work on all cores.
#pragma once

#include <cstdint>
#include <functional>

#include "src/float_mode.h"

namespace spider::host {

/// How many threads pay off for that many operations, such as multiply-adds: 1 where a single thread ends
/// before another one has begun, which takes a time slice of the scheduler on a busy machine.
[[nodiscard]] int threads_for(double operations);

/// for_each() on more than one thread.
void share(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body);

/// Calls `body` with 0 to before `count` on that many threads, with subnormal numbers; an exception of one of
/// them is thrown here.
template <class Body>
void for_each(std::int64_t count, int threads, const Body& body) {
  if (threads > 1 && count > 1) return share(count, threads, std::cref(body));
  const WithSubnormals mode;
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace spider::host
