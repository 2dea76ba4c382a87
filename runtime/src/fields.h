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

/// Axes z, y, x. An index that crosses a reflecting face of an axis with fewer cells than the reach may come
/// out at the other face: the halo there is then as wide as it goes.
[[nodiscard]] HaloWidth halo_width(const spider_kernel& kernel, const spider_field& field, int axis);

/// Of one element of the kernel's fields.
[[nodiscard]] std::int64_t element_bytes(const spider_kernel& kernel);

/// Whether a kernel can sweep a field of these extents; the reason, which begins with `name`, if it cannot.
[[nodiscard]] backend::Outcome check_extents(const spider_kernel& kernel, const spider_field& field,
                                             const std::string& name);

/// Whether one sweep from `in` to `out` is well defined; the reason if it is not.
[[nodiscard]] backend::Outcome check_fields(const spider_kernel& kernel, const spider_field& in,
                                            const spider_field& out);

/// Whether `box` is a part of the field's interior, and not empty; the reason if it is not.
[[nodiscard]] backend::Outcome check_box(const spider_field& field, const Box& box);

/// Do all rows that a sweep touches start on multiples of `bytes`? `with_halo` for its input.
[[nodiscard]] bool rows_aligned(const spider_kernel& kernel, const spider_field& field, std::int64_t bytes,
                                bool with_halo);

}  // namespace spider
