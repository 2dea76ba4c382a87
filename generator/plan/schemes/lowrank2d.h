#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "plan/compose.h"
#include "plan/problem.h"
#include "plan/rim_tiles.h"
#include "plan/schemes/stepping2d.h"

namespace spidergen::plan {

/// Lists along x, then lists along y, in two passes of dense products
/// (runtime/device/spider/kernels/lowrank2d.h; generator/time_steps.md).
struct Lowrank2d {
  static constexpr std::string_view name = "lowrank2d";

  int tiles = 4;  ///< of 16 columns side by side in a warp
  int warps_per_block = 4;
  int ring_groups = 4;  ///< of 16 rows
  int blocks_per_multiprocessor = 1;
  int preferred_groups = 0;  ///< of a walk; 0: such that walks fill one wave
  int estimated_registers = 0;
  int shared_bytes = 0;
  std::optional<Stepping2d> single_step;  ///< of more steps, for what is left of a number of them
  BoundaryContribution added;             ///< to results, whose steps are composed beside faces of 0
  Rims rims{};                 ///< cells at other faces that do not commute: steps are taken one by one
  std::array<int, 2> least{};  ///< rows and columns of a field; of a smaller one all cells are such
  std::optional<RimTiles> rim_steps;  ///< what takes them, where there may be any
  double rims_us = 0;                 ///< of a sweep over the reference field

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Lowrank2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Lowrank2d&) const = default;
};

}  // namespace spidergen::plan
