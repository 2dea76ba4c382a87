#pragma once

#include <string>

#include "plan/problem.h"

namespace spidergen::plan {

/// Columns of outputs of a unit of bands, and how many combs of 8 of them it has, 4 apart.
inline constexpr int band_unit_columns = 32;
inline constexpr int band_combs = 4;
/// Chunks of 16 columns of inputs that a unit takes, from 8 columns before it on.
inline constexpr int band_chunks = 3;

/// The band along y of 16 rows of outputs: L = 16 on m16n8k32, 16 taps, dy = -8..7. A column of B is one of
/// the field. Positions count along y. A group of four has two neighbouring inputs and the two that are 16
/// further; groups follow each other in the order of their inputs, so that those that lanes load together lie
/// in different banks of shared memory.
[[nodiscard]] TileMapping column_band_mapping();

/// The part of the band along x that makes the outputs of a comb, columns comb, comb + 4, ... of a unit, from
/// a chunk of inputs: 8 outputs by 16 inputs, whole, for m16n8k16, of which it is B. dx = -8..8. A lane of A
/// holds four neighbouring inputs of a row.
[[nodiscard]] TileMapping comb_mapping(int comb, int chunk);

/// Why the stencil is not computed as a band along y and one along x (generator/README.md, "Bands of stars");
/// empty where it can be: all taps are on the two axes and in the mappings' reach, those of y are many, and
/// the weights off the y axis take one number each.
[[nodiscard]] std::string objection_to_bands(const Problem& problem);

/// The operands and products of such a stencil: those along y of all sums, then those along x.
[[nodiscard]] Contraction contract_bands(const Problem& problem);

/// Its operands along y, which come first; and how many bands there are along x: of each sum a term each.
[[nodiscard]] int column_operands_of(const Contraction& contraction);
[[nodiscard]] int row_bands_of(const Contraction& contraction);

}  // namespace spidergen::plan
