#pragma once

#include <array>

namespace spidergen::spec {

/// An offset or extent per axis: z, y, x. Axes that a stencil does not have are 0.
using Offset = std::array<int, 3>;

}  // namespace spidergen::spec
