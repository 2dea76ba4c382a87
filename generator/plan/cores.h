#pragma once

#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// The axes that a kernel on CUDA cores knows: it steps along z in 3D and along y in 2D, has rows along y in
/// 3D, and columns along x. Axes that the stencil lacks have extent 1.
struct CoreAxes {
  int step = spec::axis_z;
  int row = spec::axis_y;
};
[[nodiscard]] CoreAxes core_axes(int dimensions);

/// Of rings of rows (2D): bytes from ring row to ring row, in whole lines of 128 bytes.
[[nodiscard]] int row_ring_row_bytes(const CorePlan& plan);
/// And dynamic shared memory of a block; 0 without such a ring.
[[nodiscard]] int row_rings_bytes(const CorePlan& plan);

/// How many cells a warp loads for each of its outputs.
[[nodiscard]] double cells_per_output(const CorePlan& plan);

/// Orders the taps as the kernel adds them, and chooses what a thread computes. In 2D, where that is not too
/// much for registers and instruction cache, a tile whose input rows are all requested at once
/// (templates/cores2d.cu.in). Else a walk (templates/cuda_cores.cu.in): as many neighbouring outputs along x
/// as its registers hold, with the taps in the code; or, where that is too much for registers or compiler, a
/// few outputs with a loop over a table of taps. The weights are those of round_weights_to_f32.
[[nodiscard]] CorePlan plan_cores(const spec::StencilSpec& spec, const RoundedWeights& weights);

}  // namespace spidergen::plan
