#pragma once

#include <string>

#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// The weights as a sum of products of a list along y and a list along x, or the reason why not.
struct LowRankOffer {
  LowRank low_rank;
  std::string objection;  ///< in a user's words; empty where there are lists
};

/// The fewest pairs whose truncation is within the tolerance, rounded to operands. The first list along x
/// sums nearly enough to a power of two for constant fields to pass between the lists unchanged. Results are
/// scaled so that all weights sum to the spec's sum within 2^-24.
[[nodiscard]] LowRankOffer find_low_rank(const Problem& problem);

/// The operands and products of both passes of each sum (runtime/device/spider/kernels/lowrank2d.h).
[[nodiscard]] Contraction contract_low_rank(const Problem& problem, std::vector<LowRank> low_rank);

/// The common reach of the lists of all sums.
struct PassReach {
  int first_column = 0;  ///< of a tile's inputs, relative to its first output
  int chunks = 0;        ///< of 16 columns
  int row_chunks = 0;    ///< groups of rows from the lowest row to the one that completes all sums
};
[[nodiscard]] PassReach reach_of_passes(const std::vector<LowRank>& low_rank);

/// Groups of outputs whose sums a kernel has in registers; the same group of inputs completes all sums.
[[nodiscard]] int groups_in_flight(const LowRank& low_rank, const PassReach& reach);

/// How far taps may reach along y and x; with a far reach, registers have room for fewer lists.
inline constexpr int largest_pass_reach = 64;

inline constexpr int group_rows = 16;
inline constexpr int half_group = group_rows / 2;
inline constexpr int tile_columns = 16;

}  // namespace spidergen::plan
