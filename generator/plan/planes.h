#pragma once

#include <string>

#include "plan/column_reach.h"
#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// Chooses rows, warps, ring and place of the operands for a pass over planes whose sources, operands and
/// products are known, from the registers that accumulators and operands take.
[[nodiscard]] PlaneStreaming choose_plane_streaming(const Pass& pass);

/// Why no kernel can hold a pass over planes: more operands than shared memory has room for, or more products
/// than a compiler takes in half a minute. Empty where one can.
[[nodiscard]] std::string objection_to_volume(const Pass& pass);

/// Column of a ring row's first element, counted from the block's first.
[[nodiscard]] int plane_first_column(const Pass& pass);

/// Vectors of a ring row before the block's own columns, and behind them.
[[nodiscard]] SideVectors plane_side_vectors(const Pass& pass);

/// Bytes before the block's own columns of the first ring row, so that they lie in the ring as in memory,
/// modulo 32.
[[nodiscard]] int plane_lead_bytes(const Pass& pass);

/// Rows of an input plane: those of the block's outputs and what taps reach above and below.
[[nodiscard]] int plane_rows(const Pass& pass);

/// Columns of a ring row that taps reach in no vector inside, beside both edges, of which one may cut a
/// vector: in boxes where both do within a block, every element is brought by itself.
[[nodiscard]] int plane_edge_columns(const Pass& pass);

/// Dynamic shared memory of a block in bytes: the ring, then the operands if they live there.
[[nodiscard]] int plane_shared_bytes(const Pass& pass);

}  // namespace spidergen::plan
