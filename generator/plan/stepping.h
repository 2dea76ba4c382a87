/// Common to time steps that are taken one by one, in any number of dimensions.
#pragma once

#include <optional>

#include "plan/weights.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// How far taps may reach along an axis where steps above 1 are taken one by one.
[[nodiscard]] int largest_stepping_reach_of(int dimensions);

/// The largest offset of a spec's taps along an axis, up or down.
[[nodiscard]] int radius_of(const spec::StencilSpec& spec, int axis);

/// Does the field end at a face, so that its rule acts at every step?
[[nodiscard]] bool is_closed(const spec::Face& face);

/// Do steps in 3D preserve the symmetry of a field that is mirrored at a face? They do without an update,
/// where weights are even along all axes and reach one cell.
[[nodiscard]] bool preserves_symmetry(const spec::StencilSpec& spec);
/// Does the field end along an axis for such steps: are its faces such that mirroring the input alone is not
/// enough? As mirror_axis of runtime/device/spider/steps/stepping.h.
[[nodiscard]] bool is_closed_axis(const spec::StencilSpec& spec, int axis);

/// The factor for the result of `steps` steps, so that weights that sum to `packed` add up to the spec's sum;
/// 1 where the spec's weights nearly cancel. `magnitude` is the sum of their magnitudes.
[[nodiscard]] double drift_of_steps(double sum, double magnitude, double packed, int steps);
/// The same for the rounded weights of fields of this storage; 1 for f64, whose weights are the spec's.
[[nodiscard]] double drift_of_steps(spec::Storage storage, const RoundedWeights& weights, int steps);

/// A number in the compute type of steps: f32, or f64 for f64 fields.
[[nodiscard]] double as_number(spec::Storage storage, double value);
/// Bytes of such a number.
[[nodiscard]] int number_bytes(spec::Storage storage);

/// The work of an update for a point and step.
struct UpdateWork {
  double operations = 0;     ///< in units of multiply-adds
  bool reads_input = false;  ///< a step then stores its cells until their sums are complete
  int fields = 0;            ///< fields read at the point
  double words = 0;          ///< 32-bit words of a point
};

/// Bytes that a sweep of several steps reads and writes at a point; `previous` is both read and written.
[[nodiscard]] int swept_bytes(const spec::StencilSpec& spec);

/// Zero where the spec has no update.
[[nodiscard]] UpdateWork work_of_update(const spec::StencilSpec& spec);

/// Microseconds of a sweep of `steps` steps over the reference field (plan/machine.h) on an H200; nothing
/// where they fit no layout.
[[nodiscard]] std::optional<double> estimate_stepping(const spec::StencilSpec& spec, int steps);

/// The most steps that fit a layout.
[[nodiscard]] int most_stepping(const spec::StencilSpec& spec);

/// The number of steps with the fastest step; 1 where none is faster than a single sweep of `single_us`.
[[nodiscard]] int fastest_stepping(const spec::StencilSpec& spec, double single_us);

}  // namespace spidergen::plan
