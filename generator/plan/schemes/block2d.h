#pragma once

#include <string_view>
#include <vector>

#include "plan/problem.h"
#include "plan/tile_form.h"

namespace spidergen::plan {

/// Tiles: all inputs of one are requested together, to shared memory by bulk copies, or to registers
/// (runtime/device/spider/kernels/block2d.h).
struct Block2d {
  static constexpr std::string_view name = "block2d";

  std::vector<TileForm> forms;  ///< from high tiles to low ones, then those for unaligned rows
  int window_vectors = 0;       ///< of 16 bytes, in an input row of a warp's tile
  int stage_bytes = 0;          ///< of a warp: stages unaligned outputs of pairs of rows, so that it stores
                                ///< neighbouring words
  int estimated_registers = 0;
  int shared_bytes = 0;

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Block2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Block2d&) const = default;
};

}  // namespace spidergen::plan
