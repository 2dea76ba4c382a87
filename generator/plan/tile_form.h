#pragma once

#include <vector>

#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// One way to cut a box into tiles that load all their inputs together (generator/README.md, "Tiles").
struct TileForm {
  static constexpr int low_rows = 4;         ///< for fields so small that a sweep takes as long as one tile
  static constexpr int warps_per_block = 4;  ///< in most forms

  int rows = 0;                       ///< output rows of a warp
  int columns = 128;                  ///< of a warp
  int across = 1;                     ///< warps of a block side by side
  int down = 1;                       ///< and in a column
  int blocks_per_multiprocessor = 1;  ///< in the launch bounds: the register budget
  int min_blocks_per_sm = 0;          ///< of a multiprocessor: for boxes that have as many
  bool allows_unaligned = false;      ///< also for unaligned rows
  bool in_registers = true;           ///< a warp's inputs; otherwise those of warps abreast, in shared memory

  bool operator==(const TileForm&) const = default;
};

/// Gives each thread of a spec with an update the registers for it, by fewer blocks a multiprocessor.
void make_room_for_update(const spec::StencilSpec& spec, std::vector<TileForm>& forms);

}  // namespace spidergen::plan
