/// Sweeps in passes along an axis or two each (spider_kernel::passes), from field to field.
#pragma once

#include <spider/kernel.h>

#include <cstdint>
#include <vector>

#include "backend.h"
#include "ready_sweep.h"

namespace spider {

/// One sweep of a kernel in passes, or `steps` of them from `in` to `out` and back, over `box` of each image
/// of a batch; the fields are a part of a whole, or `part` is null. Kernel and fields are checked already,
/// and so is the box, which has points. Between passes lie bytes_between_passes() for each of the images that
/// go through them together, in the caller's scratch; where that is null in memory of the back end for the
/// time being, in the order of the stream: one pass writes all that those after it read.
[[nodiscard]] backend::Outcome run_passes(const spider_kernel& kernel, const SweepFields& given,
                                          const Box& box, const spider_part* part, std::int64_t steps,
                                          void* stream);

/// The bytes of scratch that a sweep over a box of an image needs between passes. `in` has extents and
/// strides, data it needs none.
[[nodiscard]] std::uint64_t bytes_between_passes(const spider_kernel& kernel, const spider_field& in,
                                                 const Box& box, const spider_part* part);

/// Loads each pass on the current device, loaded or not. `residencies` are those of each.
[[nodiscard]] backend::Outcome load_passes(const spider_kernel& kernel,
                                           std::vector<backend::Residencies>& residencies);

}  // namespace spider
