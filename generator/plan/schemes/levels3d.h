#pragma once

#include <optional>
#include <string_view>

#include "plan/problem.h"

namespace spidergen::plan {

/// Time steps of a 3D stencil of up to seven points on CUDA cores: blocks walk along z, each warp does all
/// steps of some rows in registers (runtime/device/spider/kernels/levels3d.h; generator/time_steps.md).
struct Levels3d {
  static constexpr std::string_view name = "levels3d";
  static constexpr bool advances_steps = true;
  static constexpr int columns = 4;      ///< of a lane
  static constexpr int warps = 8;        ///< in a column
  static constexpr int single_rows = 4;  ///< of a warp in single steps

  /// How neighbours are added: LevelForm of the kernel's header.
  enum class Form { taps, cross };

  /// Weights of one step.
  struct Weights {
    float center = 0;
    float low[3] = {};  ///< of the neighbours along z, y, x
    float high[3] = {};
    bool operator==(const Weights&) const = default;
  };

  int steps = 1;  ///< of a sweep
  int rows = 2;   ///< of a warp
  int ahead = 2;  ///< planes requested ahead
  Form form = Form::taps;
  double unit = 1;  ///< after k steps cells are divided by unit^k, so that neighbours have weight 1
  float last = 1;   ///< factor of results, so that all weights sum to the spec's
  /// For constant faces along x: the weight of a ghost cell with which steps preserve it. None where errors
  /// would grow; then ghost cells are set at every step.
  std::optional<float> ghost_center;
  float back = 1;                ///< for updates, whose cells have no unit: divides the weights of sums
  Weights scaled;                ///< divided by the unit, or by `back`
  Weights single;                ///< of a single step
  int operations = 0;            ///< of a point and step
  double update_operations = 0;  ///< and of its update
  int blocks_per_multiprocessor = 1;
  int estimated_registers = 0;
  int shared_bytes = 0;

  [[nodiscard]] int height() const { return warps * rows; }
  [[nodiscard]] int time_steps() const { return steps; }
  [[nodiscard]] int outputs_of_thread() const { return columns * rows; }
  /// Stored columns and rows of a tile.
  [[nodiscard]] int valid_columns() const;
  [[nodiscard]] int valid_rows() const { return height() - 2 * steps; }
  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Levels3d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Levels3d&) const = default;
};

/// The name of a form in the kernel's header.
[[nodiscard]] std::string_view form_name(Levels3d::Form form);

/// As choose_stepping (plan/schemes/stepping2d.h), for the 3D reference field.
[[nodiscard]] std::optional<Choice<Levels3d>> choose_levels3d(const spec::StencilSpec& spec, int steps);

}  // namespace spidergen::plan
