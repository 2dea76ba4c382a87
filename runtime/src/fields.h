/// What makes a pair of fields fit a kernel. No back end is asked here.
#pragma once

#include <spider/kernel.h>

#include <cstdint>
#include <string>

#include "backend.h"

namespace spider {

/// How far a kernel reads beyond an axis's faces: cells that the caller keeps, so only through faces whose
/// rule is halo.
struct HaloWidth {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// Axes z, y, x.
[[nodiscard]] HaloWidth halo_width(const spider_kernel& kernel, int axis);

/// Whether one sweep from `in` to `out` is well defined; the reason if it is not.
[[nodiscard]] backend::Outcome check_fields(const spider_kernel& kernel, const spider_field& in,
                                            const spider_field& out);

}  // namespace spider
