#pragma once

#include <string>
#include <vector>

#include "plan/problem.h"

namespace spidergen::plan {

/// The weights of all steps of a sweep together: row dy, column dx, from the lowest of each that they reach.
/// Composed in double: each lies within steps * 2^-52 of itself and the rounding of the spec's.
[[nodiscard]] Matrix compose_taps(const Operator& op);

/// A matrix as sum of value[i] * left[i] x right[i], values descending; lists have norm 1.
struct SingularValues {
  std::vector<double> value;
  std::vector<std::vector<double>> left;   ///< by row
  std::vector<std::vector<double>> right;  ///< by column
};

/// By one-sided Jacobi rotations (Golub and Van Loan, Matrix Computations, section 8.6.3).
[[nodiscard]] SingularValues singular_values(const Matrix& matrix);

/// What a spec lets composed weights differ by, as a part of the sum of their magnitudes: its tolerance, or
/// what suits its storage; of one step, where there is none, what weights of several terms may.
[[nodiscard]] double tolerance_of(const spec::StencilSpec& spec, int steps);

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

/// The weights that packed lists stand for: row dy, column dx.
[[nodiscard]] Matrix expand(const LowRank& low_rank);

/// Does a rule at every face take what lies beyond it to where all steps together may read it? It does where
/// composing commutes with the rule: `halo` and `periodic`; with weights that are even along the axis those
/// that turn it round, and where taps reach one cell `nearest`, which then is `reflect`, and a constant 0,
/// which is `antisymmetric`. Of one step all do.
[[nodiscard]] bool commutes(const spec::StencilSpec& spec, const spec::Face& face, int axis);

/// How far taps may reach along y and x; registers hold fewer lists of a far reach.
inline constexpr int largest_pass_reach = 64;

inline constexpr int group_rows = 8;
inline constexpr int tile_columns = 16;

}  // namespace spidergen::plan
