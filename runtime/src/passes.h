/// Sweeps in passes along an axis or two each (spider_kernel::passes), from field to field.
#pragma once

#include <spider/kernel.h>

#include <cstdint>
#include <vector>

#include "backend.h"
#include "ready_sweep.h"

namespace spider {

/// One sweep of a kernel in passes, or `steps` of them from `in` to `out` and back, over `box` of each image
/// of a batch; the fields are a part of a whole, or `part` is null. Kernel, fields and box are checked
/// already; the box has points. Scratch has bytes_between_passes() for each image that goes through the
/// passes together. It is the caller's; if that is null, the back end's in stream order. Each pass writes
/// everything that later ones read.
[[nodiscard]] backend::Outcome run_passes(const spider_kernel& kernel, const SweepFields& given,
                                          const Box& box, const spider_part* part, std::int64_t steps,
                                          void* stream);

/// The bytes of scratch between passes that a sweep over a box of an image needs. `in` needs extents and
/// strides, but no data.
[[nodiscard]] std::uint64_t bytes_between_passes(const spider_kernel& kernel, const spider_field& in,
                                                 const Box& box, const spider_part* part);

/// Loads each pass on the current device, loaded or not. `residencies` are those of each pass.
[[nodiscard]] backend::Outcome load_passes(const spider_kernel& kernel,
                                           std::vector<backend::Residencies>& residencies);

}  // namespace spider
