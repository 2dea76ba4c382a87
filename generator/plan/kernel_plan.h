#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/compose.h"
#include "plan/contraction.h"
#include "plan/engine.h"
#include "plan/operator.h"
#include "plan/rim_tiles.h"
#include "plan/scheme.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// Coefficients of a result's error bound (plan/error_bound.h).
struct ErrorBound {
  double result = 0;
  double sum = 0;
  double absolute = 0;
  double neighbourhood = 0;  ///< times sum |w| of one step and the largest |x|

  bool operator==(const ErrorBound&) const = default;
};

/// A scheme that was considered for a stencil, with a contraction that it could take.
struct Candidate {
  Engine engine = Engine::sparse;
  std::string_view scheme;  ///< its name; empty: none of the engine
  Grouping grouping = Grouping::windows;
  std::string mapping;
  int products = 0;         ///< MMAs per 128 outputs; on CUDA cores multiply-adds a point
  double microseconds = 0;  ///< of a sweep over the reference field (plan/machine.h) on an H200, estimated
  bool measured = true;     ///< the estimate is a fit to measured times; others are taken as a last resort
  std::string objection;    ///< why it cannot hold the stencil, in a user's words; empty where it can

  bool operator==(const Candidate&) const = default;
};

/// What the steps of a sweep become where they are taken as one (plan/compose.h): a stencil that a scheme of
/// one step computes. What is left of a number of steps takes another such scheme, on CUDA cores.
struct ComposedSteps {
  RoundedWeights weights;  ///< of all steps together, as operands hold them
  double magnitude = 0;    ///< sum |w| of the exact ones
  double deviation = 0;    ///< sum |w' - w| over that, of what is packed
  Contraction single_contraction;
  Scheme single_scheme;
  Rims rims{};                 ///< in 2D, cells at faces that do not commute: steps are taken one by one
  std::array<int, 2> least{};  ///< rows and columns of a field; of a smaller one all cells are such
  std::optional<RimTiles> rim_steps;  ///< what takes them, where there are any
  double rims_us = 0;                 ///< of a sweep over the reference field
  /// In 1D and 3D to results, whose steps are composed beside faces of 0. Where `fewest` is not 0,
  /// single_scheme is of all steps of fields of fewer cells along an axis, too.
  BoundaryContribution added;
  int fewest = 0;

  bool operator==(const ComposedSteps&) const = default;
};

/// By it candidates that are taken in passes are known (plan/axis_passes.h).
inline constexpr std::string_view passes_name = "passes";

struct PassPlan;

/// All decisions about a kernel; nothing about its text. Of a sweep in passes contraction and scheme are
/// those of the last, with the taps of all; weights are those that the passes together stand for.
struct KernelPlan {
  Engine engine = Engine::sparse;
  int dimensions = 2;
  Operator op;
  RoundedWeights weights;        ///< of one step
  int further_bytes = 0;         ///< that an update reads at a point, beside the input
  double microseconds = 0;       ///< as its candidate's
  double single_step_us = 0;     ///< of more steps: what a sweep of one would take
  std::vector<TapRow> tap_rows;  ///< of all steps of a sweep together, ascending in (dz, dy)
  Contraction contraction;
  Scheme scheme;
  std::optional<ComposedSteps>
      composition;  ///< of more steps, where contraction and scheme are of all as one
  ErrorBound error_bound;
  std::vector<Candidate> candidates;  ///< fastest first, then those with an objection
  std::vector<PassPlan> passes;       ///< in the order in which they run; none: one sweep does it all

  bool operator==(const KernelPlan&) const = default;
};

/// A pass over all cells, from field to field, along one axis, or along y and x. A spec of two dimensions is
/// swept plane by plane, in planes of x and another axis.
struct PassPlan {
  std::vector<int> axes;        ///< ascending
  int row_axis = spec::axis_y;  ///< of two dimensions: the axis that is the spec's y
  spec::StencilSpec spec;
  KernelPlan plan;

  bool operator==(const PassPlan& other) const {
    return axes == other.axes && row_axis == other.row_axis && plan == other.plan;
  }
};

/// The letters of its axes, as "yx".
[[nodiscard]] std::string axis_names(const PassPlan& pass);

/// What the weights of passes that meet at an offset multiply to.
[[nodiscard]] double packed_product(const std::vector<PassPlan>& passes, const spec::Offset& at);

/// By how much a weight of a pass may be off its spec's, as a part of it.
[[nodiscard]] constexpr double pass_rounding(const RoundedWeights& weights) {
  return weights.in_f64 ? 0x1p-49 : 0x1p-22;
}

/// Of composed steps: the plan of a sweep as that of one step of plan::composed_spec, and that of a sweep
/// of one step.
[[nodiscard]] KernelPlan plan_of_composed(const spec::StencilSpec& spec, const KernelPlan& plan);
[[nodiscard]] KernelPlan plan_of_single_step(const spec::StencilSpec& spec, const KernelPlan& plan);

}  // namespace spidergen::plan
