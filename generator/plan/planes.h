#pragma once

#include <string>

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

/// Bytes before the first element of a ring row, so that it lies in the ring as it lies in memory, modulo 32.
[[nodiscard]] int plane_lead_bytes(const Pass& pass);

/// Inputs of one row of a plane in vectors of eight f16.
[[nodiscard]] int plane_row_vectors(const Pass& pass);

/// Rows of an input plane: those of the block's outputs and what taps reach above and below.
[[nodiscard]] int plane_rows(const Pass& pass);

/// Columns that taps reach in vectors across the field's edges, at most, both together.
[[nodiscard]] int plane_edge_columns(const Pass& pass);

/// Dynamic shared memory of a block in bytes: the ring, then the operands if they live there.
[[nodiscard]] int plane_shared_bytes(const Pass& pass);

}  // namespace spidergen::plan
