#pragma once

#include <string>

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

/// The operands and products of both passes (runtime/device/spider/kernels/lowrank2d.h).
[[nodiscard]] Contraction contract_low_rank(const Problem& problem, LowRank low_rank);

/// How far taps may reach along y and x; registers hold fewer lists of a far reach.
inline constexpr int largest_pass_reach = 64;

inline constexpr int group_rows = 16;
inline constexpr int tile_columns = 16;

}  // namespace spidergen::plan
