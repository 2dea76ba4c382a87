#pragma once

#include <array>

namespace spidergen::spec {

/// An offset or extent per axis: z, y, x. It is 0 along axes that a stencil does not have.
using Offset = std::array<int, 3>;

}  // namespace spidergen::spec
