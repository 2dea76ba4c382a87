/// The box of a block, in a launch of several.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

struct BoxOfBlock {
  CutBox cut;
  std::int32_t block;  ///< within the box
};

SPIDER_DEVICE BoxOfBlock find_box(const BoxesArguments& field) {
  const std::int32_t block = device::block_index();
  CutBox cut = field.boxes[0];
  std::int32_t first = 0;
  SPIDER_UNROLL
  for (int i = 1; i < most_boxes; ++i) {
    const std::int32_t behind = field.boxes[i - 1].end_block;
    if (block < behind) break;
    cut = field.boxes[i];
    first = behind;
  }
  return {cut, block - first};
}

}  // namespace device_4
}  // namespace spider
