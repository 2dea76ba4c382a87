#pragma once

#include <cstddef>
#include <string>

#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// Chooses tiles, warps, ring and place of the operands for a pass whose shifts, operands and products are
/// known, from the registers that accumulators and operands take; or a tile that is not streamed at all.
[[nodiscard]] Streaming choose_streaming(const Pass& pass, const Variant& variant = {});

/// Of two passes for the same taps of 16-bit fields in 2D: is the one with pairs of rows the faster?
[[nodiscard]] bool prefers_row_pairs(const Pass& windows, const Pass& row_pairs);

/// Do so many products of mma.sp.m16n8k32 for each tile and row take no longer than the tile's bytes?
[[nodiscard]] bool hides_behind_memory(std::size_t products, const InputTerms& inputs);

/// Why no kernel can hold a pass: more rows in flight than registers hold, more operands than shared memory
/// does, or more products than a compiler takes in half a minute. Empty where one can.
[[nodiscard]] std::string objection_to_size(const Pass& pass);

/// Halves a block until its shared memory is what every device has, or it is one warp.
void fit_shared_memory(Pass& pass);

/// Bytes of one ring row: the inputs of a warp's strip with the columns that windows reach on both sides,
/// padded so that rows start on 128 bytes.
[[nodiscard]] int ring_row_bytes(const Pass& pass);

/// Inputs of one ring row in vectors of 16 bytes.
[[nodiscard]] int ring_row_vectors(const Pass& pass);

/// The same of a tile in shared memory that so many warps share.
[[nodiscard]] int window_vectors(const Pass& pass, int warps);

/// Bytes of shared memory where outputs of pairs of rows wait that are not aligned, so that a warp stores
/// neighbouring words: four rows of each warp, one behind the other half of the banks further.
[[nodiscard]] int warp_stage_bytes(const Pass& pass);

/// Vectors of a ring row that may lie across the edges of the field or of a box, both counted.
[[nodiscard]] int staged_vectors(const Pass& pass);

/// Rows whose edge vectors are fetched at once: about 32, fewer where they are wide, in whole turns of the
/// unrolled loop.
[[nodiscard]] int batch_rows(const Pass& pass);

/// Dynamic shared memory of a block in bytes: a ring and a stage per warp, then the operands if they live
/// there; or, of tiles, the inputs of each; or what plan/warpgroups.h says.
[[nodiscard]] int shared_bytes(const Pass& pass);

}  // namespace spidergen::plan
