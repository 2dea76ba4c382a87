/// Extents of the fields that are measured.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// Along z, y, x, each >= 1; axes that a kernel has not are 1.
using Extents = std::array<std::int64_t, 3>;

/// As given on the command line: one number, which counts for every axis of any kernel, or one per axis,
/// slowest first, which fits kernels of that many dimensions.
using Size = std::vector<std::int64_t>;

/// "10240", "10007x9973" or "768x768x768". Throws std::invalid_argument for anything else.
[[nodiscard]] Size parse_size(const std::string& text);

/// What the size means for a kernel of 1 to 3 dimensions; nothing where it is a size of other dimensions.
[[nodiscard]] std::optional<Extents> extents_for(const Size& size, int dimensions);

/// E.g. "10007x9973" for 2 dimensions.
[[nodiscard]] std::string name_of(const Extents& extents, int dimensions);

[[nodiscard]] std::int64_t point_count(const Extents& extents);

}  // namespace bench
