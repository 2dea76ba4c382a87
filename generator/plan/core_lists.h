#pragma once

#include <vector>

#include "plan/low_rank.h"
#include "plan/problem.h"

namespace spidergen::plan {

/// The largest relative distance from a weight to the product of two numbers of a pair of lists, each rounded
/// to f32, or for doubles each a quotient.
[[nodiscard]] double most_product_error(bool doubles);

/// The weights of one step of f32 or f64 fields as a sum of at most four products of a list along y and a
/// list along x, within 2^-24 of the sum of their magnitudes (2^-49 for f64) before lists are rounded; or the
/// reason why not. Lists of f32 fields are f32 numbers, each within 2^-23 of itself, and sum as nearly as
/// that allows to the exact sum: all weights sum to the spec's within 2^-23 of their magnitudes. Lists along
/// x sum to at most 1 in magnitude, so that values between the passes are finite where the field is. Products
/// are zero where the stencil has no tap; the product of a single pair is within most_product_error of its
/// weight.
[[nodiscard]] LowRankOffer find_core_lists(const Problem& problem);

/// A multiply-add for each weight of a list (runtime/device/spider/kernels/passes2d.h).
[[nodiscard]] Contraction contract_core_lists(const Problem& problem, std::vector<LowRank> low_rank);

}  // namespace spidergen::plan
