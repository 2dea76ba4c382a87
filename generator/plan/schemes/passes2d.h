#pragma once

#include <string_view>

#include "plan/problem.h"

namespace spidergen::plan {

/// Lists along x, then lists along y, in two passes on CUDA cores
/// (runtime/device/spider/kernels/passes2d.h; generator/time_steps.md).
struct Passes2d {
  static constexpr std::string_view name = "passes2d";

  int outputs = 4;  ///< of a lane along x
  int warps_per_block = 4;
  int group_rows = 16;  ///< that a block brings at once
  int ring_groups = 2;
  int blocks_per_multiprocessor = 1;
  int preferred_steps = 0;  ///< of a walk: such that walks fill one wave
  int first_column = 0;     ///< of a strip's inputs, from its first output
  int cells_loaded = 0;     ///< by a lane for the outputs of a row
  int estimated_registers = 0;
  int shared_bytes = 0;

  [[nodiscard]] int outputs_of_thread() const { return outputs; }
  [[nodiscard]] double cells_per_output() const { return static_cast<double>(cells_loaded) / outputs; }
  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Passes2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Passes2d&) const = default;
};

}  // namespace spidergen::plan
