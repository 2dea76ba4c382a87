#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// Time steps of a 1D stencil in registers, on CUDA cores: warps compute overlapping strips
/// (runtime/device/spider/kernels/stepping1d.h; generator/time_steps.md).
struct Stepping1d {
  static constexpr std::string_view name = "stepping1d";
  static constexpr bool advances_steps = true;

  int steps = 1;    ///< of a sweep
  int columns = 8;  ///< of a lane
  int warps = 4;    ///< of a block
  int radius_x = 0;
  double last = 1;              ///< factor of results, so that all weights sum to the spec's
  std::vector<double> weights;  ///< for each sum from -radius_x to radius_x
  int estimated_registers = 0;
  int shared_bytes = 0;  ///< for ghost cells

  /// Steps that a sweep advances.
  [[nodiscard]] int time_steps() const { return steps; }
  [[nodiscard]] int outputs_of_thread() const { return columns; }
  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Stepping1d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Stepping1d&) const = default;
};

/// As choose_stepping (plan/schemes/stepping2d.h).
[[nodiscard]] std::optional<Choice<Stepping1d>> choose_stepping1d(const spec::StencilSpec& spec, int steps);

}  // namespace spidergen::plan
