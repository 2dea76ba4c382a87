#pragma once

#include <string>

#include "plan/problem.h"

namespace spidergen::plan {

/// Output columns of a unit of bands, in combs of 8 columns that are 4 apart.
inline constexpr int band_unit_columns = 32;
inline constexpr int band_combs = 4;
/// Chunks of 16 input columns that a unit reads, starting 8 columns before it.
inline constexpr int band_chunks = 3;

/// The band along y of 16 output rows: L = 16 on m16n8k32, 16 taps, dy = -8..7. A column of B is a column of
/// the field. Positions count along y. A group of four has two neighbouring inputs and the two that are 16
/// further. Groups are in the order of their inputs, so that lanes that load together read different banks of
/// shared memory.
[[nodiscard]] TileMapping column_band_mapping();

/// The part of the band along x from a chunk of inputs to the outputs of a comb, columns comb, comb + 4, ...
/// of a unit: 8 outputs by 16 inputs, not compressed, as B of m16n8k16. dx = -8..8. A lane of A has four
/// neighbouring inputs of a row.
[[nodiscard]] TileMapping comb_mapping(int comb, int chunk);

/// Why the stencil cannot be computed as a band along y and one along x (generator/README.md, "Bands of
/// stars"); empty where it can: all taps are on the two axes and within the mappings' reach, there are many
/// along y, and each weight off the y axis takes one number.
[[nodiscard]] std::string objection_to_bands(const Problem& problem);

/// The operands and products of such a stencil: those along y for all sums, then those along x.
[[nodiscard]] Contraction contract_bands(const Problem& problem);

/// The number of its operands along y, which come first; and of its bands along x, one for each term and sum.
[[nodiscard]] int column_operands_of(const Contraction& contraction);
[[nodiscard]] int row_bands_of(const Contraction& contraction);

}  // namespace spidergen::plan
