/// The check that stands before every time.
#pragma once

#include <cstdint>

#include "contestant.h"
#include "reference.h"

namespace bench {

/// Runs the contestant on the last pair of its fields, the output poisoned, and compares points of what it
/// wrote.
[[nodiscard]] Errors check(const Contestant& contestant, std::uint64_t seed);

[[nodiscard]] bool is_right(const Contestant& contestant, const Errors& errors);

}  // namespace bench
