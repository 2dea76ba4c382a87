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
  double neighbourhood = 0;  ///< multiplies sum |w| of one step and the largest |x|

  bool operator==(const ErrorBound&) const = default;
};

/// A scheme considered for a stencil, with a contraction for it.
struct Candidate {
  Engine engine = Engine::sparse;
  std::string_view scheme;  ///< its name; empty: none of the engine fits
  Grouping grouping = Grouping::windows;
  std::string mapping;
  int products = 0;         ///< MMAs per 128 outputs; on CUDA cores multiply-adds a point
  double microseconds = 0;  ///< of a sweep over the reference field (plan/machine.h) on an H200, estimated
  bool measured = true;     ///< the estimate is fitted to measured times; others are a last resort
  std::string objection;    ///< why it does not support the stencil, in a user's words; empty where it does

  bool operator==(const Candidate&) const = default;
};

/// Steps of a sweep composed into one (plan/compose.h): a stencil for a scheme of one step. The rest of a
/// number of steps takes another such scheme, on CUDA cores.
struct ComposedSteps {
  RoundedWeights weights;  ///< of all steps together, as operands
  double magnitude = 0;    ///< sum |w| of the exact weights
  double deviation = 0;    ///< sum |w' - w| / magnitude, of the packed weights
  Contraction single_contraction;
  Scheme single_scheme;
  Rims rims{};                        ///< in 2D, cells at faces that do not commute: stepped one by one
  std::array<int, 2> least{};         ///< rows and columns of a field; all cells of a smaller one are rims
  std::optional<RimTiles> rim_steps;  ///< the layout for the rims, if any
  double rims_us = 0;                 ///< of a sweep over the reference field
  /// In 1D and 3D, added to results of steps that are composed with zero faces. Where `fewest` is not 0,
  /// single_scheme also advances all steps of fields with fewer cells along an axis.
  BoundaryContribution added;
  int fewest = 0;

  bool operator==(const ComposedSteps&) const = default;
};

/// The scheme name of candidates in passes (plan/axis_passes.h).
inline constexpr std::string_view passes_name = "passes";

struct PassPlan;

/// All decisions about a kernel, without its text. For a sweep in passes, contraction and scheme are those of
/// the last pass, with the taps of all; weights are those of all passes together.
struct KernelPlan {
  Engine engine = Engine::sparse;
  int dimensions = 2;
  Operator op;
  RoundedWeights weights;        ///< of one step
  int further_bytes = 0;         ///< bytes that an update reads at a point, besides the input
  double microseconds = 0;       ///< as its candidate's
  double single_step_us = 0;     ///< with more steps: time of a sweep of one step
  std::vector<TapRow> tap_rows;  ///< of all steps of a sweep together, ascending in (dz, dy)
  Contraction contraction;
  Scheme scheme;
  std::optional<ComposedSteps>
      composition;  ///< with more steps, where contraction and scheme are for all as one
  ErrorBound error_bound;
  std::vector<Candidate> candidates;  ///< fastest first, then those with an objection
  std::vector<PassPlan> passes;       ///< in execution order; none: one sweep for all

  bool operator==(const KernelPlan&) const = default;
};

/// A pass over all cells, from field to field, along one axis, or along y and x. A 2D spec is swept plane by
/// plane, in planes of x and another axis.
struct PassPlan {
  std::vector<int> axes;        ///< ascending
  int row_axis = spec::axis_y;  ///< with two dimensions: the axis that is the spec's y
  spec::StencilSpec spec;
  KernelPlan plan;

  bool operator==(const PassPlan& other) const {
    return axes == other.axes && row_axis == other.row_axis && plan == other.plan;
  }
};

/// The letters of its axes, as "yx".
[[nodiscard]] std::string axis_names(const PassPlan& pass);

/// The product of the weights of passes that meet at an offset.
[[nodiscard]] double packed_product(const std::vector<PassPlan>& passes, const spec::Offset& at);

/// The relative error of a pass's weight.
[[nodiscard]] constexpr double pass_rounding(const RoundedWeights& weights) {
  return weights.in_f64 ? 0x1p-49 : 0x1p-22;
}

/// For composed steps: the plan of a sweep as one step of plan::composed_spec, and the plan of a sweep of one
/// step.
[[nodiscard]] KernelPlan plan_of_composed(const spec::StencilSpec& spec, const KernelPlan& plan);
[[nodiscard]] KernelPlan plan_of_single_step(const spec::StencilSpec& spec, const KernelPlan& plan);

}  // namespace spidergen::plan
