#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pack/compress.h"
#include "plan/half.h"
#include "plan/tile_mapping.h"

namespace spidergen::pack {

inline constexpr int warp_lanes = 32;

/// The four A registers of each lane, filled by one 16-byte load.
using OperandFragment = std::array<std::array<std::uint32_t, 4>, warp_lanes>;
/// The metadata register of each lane; it has room for two operands' metadata, distinguished by the sparsity
/// selector.
using MetadataFragment = std::array<std::uint32_t, warp_lanes>;

/// A compressed 16 x 16 matrix of values of `type` in the lane order of mma.sp.m16n8k32: row g + 8 h,
/// compressed column c goes to lane 4 g + (c mod 8) / 2, register h + 2 (c / 8), half c mod 2 (PTX ISA
/// 9.7.14.6.2). It is also the order of a whole matrix of mma.sync.m16n8k16 (PTX ISA 9.7.14.5.8).
[[nodiscard]] OperandFragment to_fragment(const plan::Matrix& matrix,
                                          plan::OperandType type = plan::OperandType::f16);
/// Its inverse.
[[nodiscard]] plan::Matrix from_fragment(const OperandFragment& fragment,
                                         plan::OperandType type = plan::OperandType::f16);

/// A whole matrix of 8 outputs by 16 inputs as B of mma.sync.m16n8k16: output n, input k goes to lane 4 n +
/// (k mod 8) / 2, half k mod 2 of the first of B's two registers, or of the second from k = 8 on (PTX ISA
/// 9.7.14.5.8). Here they are registers 0 and 2, those of the first eight rows of A.
[[nodiscard]] OperandFragment to_narrow_fragment(const plan::Matrix& matrix,
                                                 plan::OperandType type = plan::OperandType::f16);
/// Its inverse.
[[nodiscard]] plan::Matrix from_narrow_fragment(const OperandFragment& fragment,
                                                plan::OperandType type = plan::OperandType::f16);

/// The metadata of one or two selections of 16 x 8 groups. Selection s is in lanes 4 g + 2 s and 4 g + 2 s +
/// 1: row g + 8 h, group q goes to lane 4 g + 2 s + q / 4, bit 16 h + 4 (q mod 4) (PTX ISA 9.7.14.6.1).
[[nodiscard]] MetadataFragment pack_metadata(const std::vector<Selection>& selections);
/// The selection for sparsity selector `selector`.
[[nodiscard]] Selection unpack_metadata(const MetadataFragment& metadata, int selector);

}  // namespace spidergen::pack
