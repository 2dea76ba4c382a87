/// The images of a batch: several sweeps by one call, which differ in where their fields lie.
#pragma once

#include <spider/kernel.h>

#include <cstdint>

#include "backend.h"
#include "ready_sweep.h"

namespace spider {

/// Whether a sweep, extended(), has a batch that the kernel supports, strides in range; the reason if not.
[[nodiscard]] backend::Outcome check_batch(const spider_kernel& kernel, const spider_sweep& sweep);

/// The batch of a checked sweep.
[[nodiscard]] Batch batch_of(const spider_sweep& sweep);

/// The fields of a sweep whose batch is checked.
[[nodiscard]] SweepFields given_by(const spider_sweep& sweep);

/// Whether images that are written share no cell with other images, or with cells read of others. The first
/// images are checked already.
[[nodiscard]] backend::Outcome check_apart(const spider_kernel& kernel, const SweepFields& given,
                                           const spider_part& part);

/// Whether that many bytes of the caller's scratch overlap no image's input or output, each with the halo
/// that a next step reads.
[[nodiscard]] backend::Outcome check_scratch_apart(const spider_kernel& kernel, const SweepFields& given,
                                                   const spider_part& part, std::uint64_t bytes);

/// A field of another image; a cell has that many bytes.
[[nodiscard]] spider_field image_of(const SweepFields& given, const spider_field* first, std::int64_t bytes,
                                    std::int64_t image);

}  // namespace spider
