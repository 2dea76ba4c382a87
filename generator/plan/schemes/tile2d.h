#pragma once

#include <string_view>
#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// One way of cutting a box into tiles whose inputs wait together (generator/README.md, "Tiles in registers"
/// and "Tiles in shared memory").
struct TileForm {
  static constexpr int low_rows = 4;         ///< for fields so small that a sweep takes as long as one tile
  static constexpr int warps_per_block = 4;  ///< of most

  int rows = 0;                       ///< output rows of a warp
  int columns = 128;                  ///< of a warp
  int across = 1;                     ///< warps of a block side by side
  int down = 1;                       ///< and below each other
  int blocks_per_multiprocessor = 1;  ///< promised to the compiler: the register budget
  int min_blocks_per_sm = 0;          ///< of a multiprocessor: for boxes that have as many
  bool allows_unaligned = false;      ///< for rows that are not aligned, too
  bool in_registers = true;           ///< a warp's inputs; otherwise those of warps abreast, in shared memory

  bool operator==(const TileForm&) const = default;
};

/// Gives each thread of a spec with an update the registers for it, by fewer blocks of a multiprocessor.
void make_room_for_update(const spec::StencilSpec& spec, std::vector<TileForm>& forms);

/// Tiles in registers: a warp requests all its inputs at once, straight into the registers that are operands
/// (runtime/device/spider/kernels/tile2d.h).
struct Tile2d {
  static constexpr std::string_view name = "tile2d";

  std::vector<TileForm> forms;  ///< from high tiles to low ones, then those for any rows
  int window_vectors = 0;       ///< of 16 bytes, that hold an input row of a tile
  int estimated_registers = 0;
  int shared_bytes = 0;  ///< of a block, at edges

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Tile2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Tile2d&) const = default;
};

}  // namespace spidergen::plan
