#include "tiling.h"

#include <algorithm>

namespace spider {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

BlockGrid choose_blocks(const Tiling& tiling, std::int32_t rows, std::int32_t columns,
                        const backend::Residency& residency) {
  const std::int64_t block_columns = std::int64_t{tiling.columns_per_warp} * tiling.warps_per_block;
  const std::int64_t blocks_per_row = divide_up(columns, block_columns);
  const std::int64_t resident = std::max<std::int64_t>(
      1, std::int64_t{residency.multiprocessors} * residency.blocks_per_multiprocessor);

  BlockGrid best;
  std::int64_t best_steps = 0;
  // A kernel without preference walks as far as one wave allows; the next numbers of waves mend a bad fit.
  const std::int64_t preferred = tiling.preferred_rows > 0 ? tiling.preferred_rows : rows;
  const std::int64_t preferred_waves =
      std::max<std::int64_t>(1, divide_up(rows, preferred) * blocks_per_row / resident);
  for (std::int64_t waves = preferred_waves; waves < preferred_waves + 3; ++waves) {
    const std::int64_t segments = std::clamp<std::int64_t>(waves * resident / blocks_per_row, 1, rows);
    const std::int64_t rows_per_block = divide_up(rows, segments);
    const std::int64_t blocks = divide_up(rows, rows_per_block) * blocks_per_row;
    const std::int64_t steps = divide_up(blocks, resident) * (rows_per_block + tiling.lead_rows);
    if (waves == preferred_waves || steps < best_steps) {
      best = {static_cast<std::int32_t>(rows_per_block), static_cast<std::int32_t>(blocks_per_row), blocks};
      best_steps = steps;
    }
  }
  return best;
}

}  // namespace spider
