/// Work on all cores.
#pragma once

#include <cstdint>
#include <functional>

namespace spider::host {

/// How many threads for_each takes.
[[nodiscard]] int thread_count();

/// Calls `body` with 0 to before `count`, on all cores where the compiler has OpenMP; an exception of one of
/// them is thrown here.
void for_each(std::int64_t count, const std::function<void(std::int64_t)>& body);

}  // namespace spider::host
