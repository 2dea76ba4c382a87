/// How a sweep is cut into blocks.
#pragma once

#include <spider/kernel.h>

#include <cstddef>
#include <cstdint>

#include "backend.h"

namespace spider {

struct Launch {
  BlockGrid grid;
  std::int64_t blocks;
};

struct FormLaunch {
  std::size_t form;  ///< index into the kernel's forms
  Launch launch;
};

/// Cuts a box, by the kernel's TilingKind, such that the blocks fill whole waves of the device: every wave
/// costs as many steps as its longest walk, `lead_steps` of them for nothing. Of the numbers of waves whose
/// walks come near to `preferred_steps`, the one with the fewest steps in all. `field` is the whole interior,
/// whose faces count for TilingKind::overlapping.
[[nodiscard]] Launch choose_blocks(const Tiling& tiling, const Box& box, const backend::Residency& residency,
                                   const Box& field = {});

/// Is form i the last of those that advance as many time steps?
[[nodiscard]] bool is_last_form(const spider_kernel& kernel, std::int32_t i);

/// Cuts a box for the first of the kernel's forms of so many time steps that the device has the shared memory
/// for, that takes such rows, and whose blocks are as many as it asks for; else for the last of them.
[[nodiscard]] FormLaunch choose_form(const spider_kernel& kernel, const Box& box, bool rows_are_aligned,
                                     const backend::Residencies& residencies, std::int32_t steps = 1,
                                     const Box& field = {});

}  // namespace spider
