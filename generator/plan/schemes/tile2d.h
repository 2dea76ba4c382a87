#pragma once

#include <string_view>
#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// One way to cut a box into tiles that load all their inputs together (generator/README.md, "Tiles in
/// registers" and "Tiles in shared memory").
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

/// Tiles in registers: a warp requests all its inputs together, straight into the operand registers
/// (runtime/device/spider/kernels/tile2d.h).
struct Tile2d {
  static constexpr std::string_view name = "tile2d";

  std::vector<TileForm> forms;  ///< from high tiles to low ones, then those for unaligned rows
  int window_vectors = 0;       ///< of 16 bytes, in an input row of a tile
  int estimated_registers = 0;
  int shared_bytes = 0;  ///< of a block, at edges

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Tile2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Tile2d&) const = default;
};

}  // namespace spidergen::plan
