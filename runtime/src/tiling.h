/// How a sweep is cut into blocks.
#pragma once

#include <spider/kernel.h>

#include <cstdint>

#include "backend.h"

namespace spider {

struct Launch {
  BlockGrid grid;
  std::int64_t blocks;
};

/// Rows per walk such that the blocks fill whole waves of the device: every wave costs as many row steps as
/// its longest walk, `lead_rows` of them for nothing. Of the numbers of waves whose walks come near to
/// `preferred_rows`, the one with the fewest steps in all.
[[nodiscard]] Launch choose_blocks(const Tiling& tiling, std::int32_t rows, std::int32_t columns,
                                   const backend::Residency& residency);

}  // namespace spider
