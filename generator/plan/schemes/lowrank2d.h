#pragma once

#include <optional>
#include <string_view>

#include "plan/compose.h"
#include "plan/problem.h"
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
  Rims rims{};                          ///< cells at faces that do not commute, of which all steps are taken
  std::optional<Stepping2d> rim_steps;  ///< by this, where there are any
  double rims_us = 0;                   ///< of a sweep over the reference field

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Lowrank2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Lowrank2d&) const = default;
};

}  // namespace spidergen::plan
