#pragma once

#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// Chooses the tiles of a warp and its registers for a pass whose taps are all in one row, and which has this
/// boundary along x.
[[nodiscard]] LineStreaming choose_line_streaming(const Pass& pass, const spec::AxisBoundary& boundary);

/// Vectors of 16 bytes that hold the inputs of a warp's tiles. A pass of Walk::lines, with its shifts and
/// tiles.
[[nodiscard]] int line_window_vectors(const Pass& pass);

/// Shared memory of a block: each warp can gather its inputs there.
[[nodiscard]] int line_shared_bytes(const Pass& pass);

}  // namespace spidergen::plan
