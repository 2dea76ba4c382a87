#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// The weights of all steps of a sweep together: plane dz, row dy, column dx, from the lowest of each that
/// they reach. Composed in double: each lies within steps * 2^-52 of itself and the rounding of the spec's.
[[nodiscard]] std::vector<Matrix> compose_taps(const Operator& op);

/// Are the weights of one step the same at an offset along the axis and at its opposite?
[[nodiscard]] bool is_even(const spec::StencilSpec& spec, int axis);

/// Does a rule at every face take what lies beyond it to where all steps together may read it? It does where
/// composing commutes with the rule: `halo` and `periodic`; with weights that are even along the axis those
/// that turn it round, and where taps reach one cell `nearest`, which then is `reflect`, and a constant 0,
/// which is `antisymmetric`. Of one step all do.
[[nodiscard]] bool commutes(const spec::StencilSpec& spec, const spec::Face& face, int axis);

/// Is a face a constant that steps may be composed beside? It is where weights are even along the axis and
/// reach one cell: then all steps together make of a field what they make of it beside 0, `antisymmetric`,
/// and add what they make of a field of zeros (added_by_constants).
[[nodiscard]] bool composes_with_constant(const spec::StencilSpec& spec, const spec::Face& face, int axis);

/// What all steps of a sweep add to results near constant faces, in f32's range: 0 far from them.
struct BoundaryContribution {
  /// The planes nearest to the low face, one far from both, the planes nearest to the high face; so rows and
  /// columns of each. Empty where no face adds anything; one plane in 2D.
  std::vector<Matrix> planes;
  std::array<std::array<int, 2>, 3> near{};  ///< along z, y, x at the low and the high face

  [[nodiscard]] bool exist() const { return !planes.empty(); }
  /// Is nothing larger than 2^100?
  [[nodiscard]] bool is_moderate() const;
  bool operator==(const BoundaryContribution&) const = default;
};

/// Of faces for which composes_with_constant holds, in fields of at least twice what all steps reach. What is
/// less than 2^-24 of what magnitudes of the largest constant would come to is left out. Values of faces are
/// taken as cells of the spec's storage have them.
[[nodiscard]] BoundaryContribution added_by_constants(spec::StencilSpec spec, const Operator& op);

/// Is a face a `mirror` that composing commutes with, whatever the other face of the axis is, in fields of
/// two cells along it or more? One cell is shown again by both.
[[nodiscard]] bool mirrors_two_cells(const spec::StencilSpec& spec, const spec::Face& face, int axis);

/// Cells along y and x at the low and the high face that all steps of a sweep reach a face from which has to
/// act at every one; 0 where it commutes, or is not reached.
using Rims = std::array<std::array<int, 2>, 2>;
[[nodiscard]] Rims rims_of(const spec::StencilSpec& spec, const Operator& op);

/// The same of two passes: 0 also where a face composes_with_constant or mirrors_two_cells.
[[nodiscard]] Rims rims_of_passes(const spec::StencilSpec& spec, const Operator& op);

/// What all steps of a sweep in 2D take at most of a result from more than `reach` cells above, or below,
/// along an axis, wherever its faces are: in parts of the largest cell, or constant. Where that is more than
/// `enough`, any that is.
[[nodiscard]] double truncation_beyond(const spec::StencilSpec& spec, const Operator& op, int axis, int reach,
                                       double enough = std::numeric_limits<double>::infinity());

/// Why steps of a spec cannot be taken as one, in a user's words: a face whose rule acts at every step, where
/// there are no rims, which are 2D, and none of those compose_when_large. Empty where they can.
[[nodiscard]] std::string objection_to_composing(const spec::StencilSpec& spec);

/// Have faces of a spec in 1D or 3D a rule that composing commutes with only in fields of at least twice what
/// all steps reach? Constants add to results there, and a `mirror` is beside another rule.
[[nodiscard]] bool compose_when_large(const spec::StencilSpec& spec);

/// The spec with the rules that all steps together have: where the rule of one step is `nearest`, `reflect`,
/// and where it is the constant 0, or in 1D and 3D any that composes, `antisymmetric`; `halo` where it does
/// not commute.
[[nodiscard]] spec::StencilSpec with_composed_rules(const spec::StencilSpec& spec);

/// All steps of a sweep as a spec of one step with these weights.
[[nodiscard]] spec::StencilSpec composed_spec(const spec::StencilSpec& spec, const RoundedWeights& weights);

/// What weights of composed steps are before they are rounded, and how far rounded ones lie from that.
struct ComposedSums {
  double sum = 0;
  double magnitude = 0;  ///< sum |w|
  double packed_sum = 0;
  double deviation = 0;  ///< sum |w' - w| / sum |w|

  /// Do the packed weights sum to what the exact ones do, as far as one f32 factor of results allows?
  [[nodiscard]] bool sums_agree() const;
};

/// Of rounded weights of all steps of a sweep together, of which some may be left out.
[[nodiscard]] ComposedSums compare_composed(const Operator& op, const RoundedWeights& weights);

}  // namespace spidergen::plan
