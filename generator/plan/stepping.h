/// What time steps that are taken one by one have in common, whatever the number of dimensions.
#pragma once

#include <optional>

#include "plan/weights.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// How far taps may reach along an axis where steps above 1 are taken one by one.
[[nodiscard]] int largest_stepping_reach_of(int dimensions);

/// How far the taps of a spec go along an axis, up or down.
[[nodiscard]] int radius_of(const spec::StencilSpec& spec, int axis);

/// Does the field end at a face, so that its rule acts at every step?
[[nodiscard]] bool is_closed(const spec::Face& face);

/// Do steps in 3D keep a field that is turned round at a face what it is? They do without an update, where
/// weights are even along all axes and reach one cell.
[[nodiscard]] bool preserves_symmetry(const spec::StencilSpec& spec);
/// And does the field end along an axis for them: are its faces such that not the input alone is turned
/// round? As mirror_axis of runtime/device/spider/steps/stepping.h.
[[nodiscard]] bool is_closed_axis(const spec::StencilSpec& spec, int axis);

/// What the result of so many steps is multiplied with, so that weights that sum to `packed` add up to the
/// spec's sum; 1 where the spec's nearly cancel, of which `magnitude` is the sum without signs.
[[nodiscard]] double drift_of_steps(double sum, double magnitude, double packed, int steps);
/// The same for the rounded weights of fields of this storage, as a number; 1 for f64, whose weights are the
/// spec's.
[[nodiscard]] double drift_of_steps(spec::Storage storage, const RoundedWeights& weights, int steps);

/// A number as steps compute with it: f32, of f64 fields f64.
[[nodiscard]] double as_number(spec::Storage storage, double value);
/// Bytes of such a number.
[[nodiscard]] int number_bytes(spec::Storage storage);

/// What the update of a point and step takes.
struct UpdateWork {
  double operations = 0;     ///< as long as so many multiply-adds
  bool reads_input = false;  ///< so that a step keeps its cells until their sums are complete
  int fields = 0;            ///< that it reads at the point
  double words = 0;          ///< of 32 bits, in which a point's lie
};

/// Bytes of a point that a sweep of several steps reads and writes: of `previous` both.
[[nodiscard]] int swept_bytes(const spec::StencilSpec& spec);

/// None where the spec has no update.
[[nodiscard]] UpdateWork work_of_update(const spec::StencilSpec& spec);

/// Microseconds of a sweep of so many steps over the reference field (plan/machine.h) on an H200; nothing
/// where no layout has room for them.
[[nodiscard]] std::optional<double> estimate_stepping(const spec::StencilSpec& spec, int steps);

/// The most steps for which there is a layout.
[[nodiscard]] int most_stepping(const spec::StencilSpec& spec);

/// The number of steps that is fastest a step; 1 where no other is faster than a single sweep of
/// `single_us`.
[[nodiscard]] int fastest_stepping(const spec::StencilSpec& spec, double single_us);

}  // namespace spidergen::plan
