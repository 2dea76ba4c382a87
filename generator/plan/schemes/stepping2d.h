#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// Time steps of a 2D stencil in registers, on CUDA cores: warps form a pipeline in time and walk down
/// overlapping strips (runtime/device/spider/kernels/stepping2d.h; generator/time_steps.md).
struct Stepping2d {
  static constexpr std::string_view name = "stepping2d";
  static constexpr bool advances_steps = true;

  /// How rows are added to sums: RowForm of the kernel's header.
  enum class Form { taps, even, rings, cross, window };

  /// A weight of one step: divided by `unit`, and of a single step.
  struct Weight {
    int dy = 0;
    int dx = 0;
    int sum = 0;
    double scaled = 0;
    double single = 0;

    bool operator==(const Weight&) const = default;
  };

  int steps = 1;       ///< of a warp; the last one takes the rest
  int last_steps = 1;  ///< of the last warp
  int warps = 1;
  int columns = 4;  ///< of a lane
  int radius_y = 1;
  int radius_x = 0;
  int batch = 4;  ///< rows between two barriers
  int ahead = 1;  ///< batches requested ahead
  int blocks_per_multiprocessor = 1;
  bool unrolled = false;  ///< the rows of a batch
  Form form = Form::taps;
  double unit = 1;              ///< cells are divided by unit^k after k steps, so that a weight is 1
  double back = 1;              ///< a warp's factor before it passes rows on: unit^steps
  double last = 1;              ///< factor of the last warp, so that the composed weights sum to the spec's
  std::vector<Weight> weights;  ///< ascending in (dy, dx, sum)
  int operations = 0;           ///< of a point and step
  int estimated_registers = 0;
  int shared_bytes = 0;

  /// Steps that a sweep advances.
  [[nodiscard]] int time_steps() const { return (warps - 1) * steps + last_steps; }
  [[nodiscard]] int outputs_of_thread() const { return columns; }
  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Stepping2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Stepping2d&) const = default;
};

/// The name of a form in the kernel's header.
[[nodiscard]] std::string_view form_name(Stepping2d::Form form);

/// The layout of `steps` steps with the smallest estimate, in microseconds of a sweep over the 2D reference
/// field (plan/machine.h) on an H200; nothing where none fits a multiprocessor.
[[nodiscard]] std::optional<Choice<Stepping2d>> choose_stepping(const spec::StencilSpec& spec,
                                                                int time_steps);

/// Cells divided by unit^steps are within a factor of 2^24 of the field's, so that numbers below 2^100 do not
/// overflow.
inline constexpr int most_unit_exponent = 24;

/// The largest reach of taps along y and x.
inline constexpr int largest_stepping_reach = 7;

}  // namespace spidergen::plan
