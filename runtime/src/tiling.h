/// How a sweep is cut into blocks.
#pragma once

#include <spider/kernel.h>

#include <cstdint>

#include "backend.h"

namespace spider {

struct BlockGrid {
  std::int32_t rows_per_block = 1;
  std::int32_t blocks_per_row = 1;
  std::int64_t blocks = 1;
};

/// Rows per block such that the blocks fill whole waves of the device: every wave costs as many row steps as
/// its longest block walks, `lead_rows` of them for nothing. Of the numbers of waves whose blocks walk about
/// `preferred_rows`, the one with the fewest steps in all.
[[nodiscard]] BlockGrid choose_blocks(const Tiling& tiling, std::int32_t rows, std::int32_t columns,
                                      const backend::Residency& residency);

}  // namespace spider
