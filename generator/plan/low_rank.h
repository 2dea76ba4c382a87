#pragma once

#include <string>

#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// The weights as a sum of products of a list along y and a list along x, or why they are none.
struct LowRankOffer {
  LowRank low_rank;
  std::string objection;  ///< in a user's words; empty where they are
};

/// The fewest pairs whose truncation is within the tolerance, rounded to operands. The first list along x
/// sums to a power of two nearly enough for constant fields to pass between the lists unchanged, and results
/// are scaled such that all weights sum to what the spec's do within 2^-24.
[[nodiscard]] LowRankOffer find_low_rank(const Problem& problem);

/// The operands and products of both passes of each sum (runtime/device/spider/kernels/lowrank2d.h).
[[nodiscard]] Contraction contract_low_rank(const Problem& problem, std::vector<LowRank> low_rank);

/// What the lists of all sums take together.
struct PassReach {
  int first_column = 0;  ///< of a tile's inputs, from its first output
  int chunks = 0;        ///< of 16 columns
  int row_chunks = 0;    ///< groups of rows from the lowest row on to that with which all sums are complete
};
[[nodiscard]] PassReach reach_of_passes(const std::vector<LowRank>& low_rank);

/// Groups of outputs whose sums a kernel has at once; all sums are complete with the same group of inputs.
[[nodiscard]] int groups_in_flight(const LowRank& low_rank, const PassReach& reach);

/// How far taps may reach along y and x; registers hold fewer lists of a far reach.
inline constexpr int largest_pass_reach = 64;

inline constexpr int group_rows = 16;
inline constexpr int half_group = group_rows / 2;
inline constexpr int tile_columns = 16;

}  // namespace spidergen::plan
