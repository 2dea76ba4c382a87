#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// The weights of all steps of a sweep together: plane dz, row dy, column dx, from the lowest offset of each.
/// Composed in double, with an error of steps * 2^-52 and that of the spec's weights.
[[nodiscard]] std::vector<Matrix> compose_taps(const Operator& op);

/// Is each weight of one step equal to the weight at the opposite offset along the axis?
[[nodiscard]] bool is_even(const spec::StencilSpec& spec, int axis);

/// Can the rule at a face supply the ghost cells of all steps together? It can where composing commutes with
/// the rule: `halo` and `periodic`; with weights that are even along the axis the mirroring rules; and where
/// taps also reach only one cell, `nearest`, which then acts as `reflect`, and a constant 0, which acts as
/// `antisymmetric`. With one step every rule can.
[[nodiscard]] bool commutes(const spec::StencilSpec& spec, const spec::Face& face, int axis);

/// Is a face a constant with which steps can be composed? It is where weights are even along the axis and
/// reach one cell: then the result of all steps is their result with `antisymmetric` faces, plus their result
/// for a field of zeros (added_by_constants).
[[nodiscard]] bool composes_with_constant(const spec::StencilSpec& spec, const spec::Face& face, int axis);

/// The contribution of constant faces to all steps of a sweep, in f32's range: 0 far from faces.
struct BoundaryContribution {
  /// The planes nearest to the low face, one far from both, the planes nearest to the high face; each with
  /// rows and columns in the same order. Empty where no face adds anything; one plane in 2D.
  std::vector<Matrix> planes;
  std::array<std::array<int, 2>, 3> near{};  ///< along z, y, x at the low and the high face

  [[nodiscard]] bool exist() const { return !planes.empty(); }
  /// Is every value at most 2^100?
  [[nodiscard]] bool is_moderate() const;
  bool operator==(const BoundaryContribution&) const = default;
};

/// For faces for which composes_with_constant holds, in fields of at least twice the reach of all steps.
/// Contributions below 2^-24 of the largest constant's greatest effect are left out. Values of faces are
/// rounded to the spec's storage.
[[nodiscard]] BoundaryContribution added_by_constants(spec::StencilSpec spec, const Operator& op);

/// Is a face a `mirror` with which composing commutes whatever the other face of the axis, in fields of two
/// or more cells along it? A single cell would be mirrored by both.
[[nodiscard]] bool mirrors_two_cells(const spec::StencilSpec& spec, const spec::Face& face, int axis);

/// Cells along y and x, at the low and the high face, that the face's rule reaches in all steps of a sweep
/// where it has to act at every step; 0 where it commutes, or is not reached.
using Rims = std::array<std::array<int, 2>, 2>;
[[nodiscard]] Rims rims_of(const spec::StencilSpec& spec, const Operator& op);

/// The same for two passes: 0 also where a face composes_with_constant or mirrors_two_cells.
[[nodiscard]] Rims rims_of_passes(const spec::StencilSpec& spec, const Operator& op);

/// The largest share of a result that all steps of a 2D sweep read from more than `reach` cells above or
/// below along an axis, for any position of its faces: relative to the largest cell or constant. Where that
/// exceeds `enough`, any value above it.
[[nodiscard]] double truncation_beyond(const spec::StencilSpec& spec, const Operator& op, int axis, int reach,
                                       double enough = std::numeric_limits<double>::infinity());

/// Why steps of a spec cannot be composed into one, in a user's words: a face whose rule acts at every step,
/// where there are no rims, which only 2D has, and compose_when_large does not hold. Empty where they can.
[[nodiscard]] std::string objection_to_composing(const spec::StencilSpec& spec);

/// Does a 1D or 3D spec have faces with which composing commutes only in fields of at least twice the reach
/// of all steps? There constants add to results, or a `mirror` faces another rule.
[[nodiscard]] bool compose_when_large(const spec::StencilSpec& spec);

/// The spec with the rules of all steps together. `nearest` becomes `reflect`. The constant 0, and in 1D and
/// 3D any constant that composes, becomes `antisymmetric`. A rule that does not commute becomes `halo`.
[[nodiscard]] spec::StencilSpec with_composed_rules(const spec::StencilSpec& spec);

/// All steps of a sweep as a spec of one step with these weights.
[[nodiscard]] spec::StencilSpec composed_spec(const spec::StencilSpec& spec, const RoundedWeights& weights);

/// The composed weights before rounding, and the deviation of the rounded ones.
struct ComposedSums {
  double sum = 0;
  double magnitude = 0;  ///< sum |w|
  double packed_sum = 0;
  double deviation = 0;  ///< sum |w' - w| / sum |w|

  /// Do the packed weights sum to the exact sum, as nearly as one f32 factor of results allows?
  [[nodiscard]] bool sums_agree() const;
};

/// Compares the composed weights with rounded ones, some of which may be left out.
[[nodiscard]] ComposedSums compare_composed(const Operator& op, const RoundedWeights& weights);

}  // namespace spidergen::plan
