#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// Time steps of a 3D stencil on CUDA cores: blocks walk along z, and each warp computes one step of some
/// rows (runtime/device/spider/kernels/stepping3d.h; generator/time_steps.md).
struct Stepping3d {
  static constexpr std::string_view name = "stepping3d";
  static constexpr bool advances_steps = true;
  static constexpr int columns = 4;  ///< of a lane

  static constexpr int single_warps = 8;  ///< of the kernel of single steps, in a column
  /// The kernel of single steps.
  struct Single {
    int rows = 1;  ///< of a lane
    int blocks_per_multiprocessor = 1;
    bool operator==(const Single&) const = default;
  };

  /// How planes are added to sums: PlaneForm of the kernel's header.
  enum class Form { taps, even };

  int steps = 1;       ///< of a sweep, each by other warps
  int warps_down = 1;  ///< in a column, of each step
  int rows = 1;        ///< of a lane
  int ahead = 2;       ///< planes requested ahead
  int blocks_per_multiprocessor = 1;
  Single single;
  int radius[3] = {1, 0, 0};  ///< along z (at least 1), y, x
  Form form = Form::taps;
  double last = 1;              ///< factor of results, so that all weights sum to the spec's
  std::vector<double> weights;  ///< for each sum the box of these radii, dx fastest
  int operations = 0;           ///< of a point and step
  int estimated_registers = 0;
  int shared_bytes = 0;

  [[nodiscard]] int warps() const { return steps * warps_down; }
  [[nodiscard]] int height() const { return warps_down * rows; }
  [[nodiscard]] int valid_columns() const;  ///< stored columns of a tile
  [[nodiscard]] int time_steps() const { return steps; }
  [[nodiscard]] int outputs_of_thread() const { return columns * rows; }
  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Stepping3d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Stepping3d&) const = default;
};

/// The name of a form in the kernel's header.
[[nodiscard]] std::string_view form_name(Stepping3d::Form form);

/// As choose_stepping (plan/schemes/stepping2d.h), for the 3D reference field.
[[nodiscard]] std::optional<Choice<Stepping3d>> choose_stepping3d(const spec::StencilSpec& spec, int steps);

}  // namespace spidergen::plan
