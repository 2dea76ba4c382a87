#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/column_reach.h"
#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// Outputs of a thread along x.
constexpr int core_ring_outputs = 4;

/// How a kernel streams planes through shared memory on CUDA cores (templates/cores3d.cu.in), or nothing
/// where it does not: in less than three dimensions, and where sums, code or ring would be too much. `taps`
/// as in CorePlan.
[[nodiscard]] std::optional<CoreRing> plan_core_ring(const spec::StencilSpec& spec,
                                                     const std::vector<CoreTap>& taps);

/// Why there is none for these taps in 3D, in words.
[[nodiscard]] std::string objection_to_core_ring(const std::vector<CoreTap>& taps);

/// Those that taps reach.
[[nodiscard]] SideVectors side_vectors(const std::vector<CoreTap>& taps, int element_bytes);

/// Columns of a ring row that taps reach and that are in no vector inside, beside both edges of the field or
/// of a box.
[[nodiscard]] int core_edge_columns(const std::vector<TapRow>& rows, int element_bytes);

/// Bytes from row to row in the ring, and before the block's own columns of the first row.
[[nodiscard]] int core_row_bytes(const CoreRing& ring, const SideVectors& sides, int element_bytes);
[[nodiscard]] int core_lead_bytes(const SideVectors& sides);

/// Cells that a thread reads from the ring for its outputs of a plane.
[[nodiscard]] int core_cells_loaded(const CoreRing& ring, const std::vector<CoreTap>& taps);

/// Words in which a thread keeps where its cells at edges come from (EdgeTable in
/// runtime/device/spider/plane_ring.h).
[[nodiscard]] int core_edge_words(const CoreRing& ring, const std::vector<CoreTap>& taps, int element_bytes);

/// Bytes of shared memory of a block.
[[nodiscard]] int core_ring_bytes(const CoreRing& ring, const std::vector<CoreTap>& taps, int element_bytes);

}  // namespace spidergen::plan
