#pragma once

#include <vector>

#include "plan/low_rank.h"
#include "plan/problem.h"

namespace spidergen::plan {

/// How far the product of two numbers of a pair of lists, each rounded to f32, or doubles that are quotients,
/// may lie from the weight, relative to it.
[[nodiscard]] double most_product_error(bool doubles);

/// The weights of one step of f32 or f64 fields as a sum of at most four products of a list along y and a
/// list along x, within 2^-24 of the sum of their magnitudes (of f64 2^-49) before lists are rounded; or why
/// they are none. Lists of f32 fields are f32 numbers, each within 2^-23 of itself, and sum to what the exact
/// ones do as nearly as that allows: all weights sum to the spec's within 2^-23 of their magnitudes. Those
/// along x are at most 1 in sum of magnitudes, so that what passes between the lists is finite where the
/// field is. Their products are zero where the stencil has no tap, and those of one pair each within
/// most_product_error of its weight.
[[nodiscard]] LowRankOffer find_core_lists(const Problem& problem);

/// A multiply-add for each weight of a list (runtime/device/spider/kernels/passes2d.h).
[[nodiscard]] Contraction contract_core_lists(const Problem& problem, std::vector<LowRank> low_rank);

}  // namespace spidergen::plan
