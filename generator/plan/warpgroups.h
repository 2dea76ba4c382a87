#pragma once

#include <string>
#include <vector>

#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// Tensor cores cut sums towards zero: the products of so many input rows are chained into one sum, which is
/// then added to the others, rounded to nearest.
constexpr int warpgroup_chained_rows = 6;

/// Teams of four warps that prepare input rows, a row each.
constexpr int warpgroup_teams = 2;

/// Registers of a lane of warps that multiply, at most: others must be left some.
constexpr int most_warpgroup_registers = 248;

/// Replaces the 2D plan of f32 fields in two terms by one for warpgroups (templates/split2d.cu.in) where all
/// architectures, in nvcc's names, have their sparse products, which is sm_90a alone, and where it is faster:
/// one window a tap row, more products than hide behind memory, inputs and operands that fit. Its error bound
/// is another.
void fit_to_architectures(const std::vector<std::string>& architectures, const spec::StencilSpec& spec,
                          KernelPlan& plan);

/// Input rows that four output rows need.
[[nodiscard]] int warpgroup_step_rows(const Pass& pass);

/// Terms of the weights that products take.
[[nodiscard]] int weight_terms(const Pass& pass);

/// Remainders of the weights, one for each of as many input rows of a step, that registers hold beside the
/// leading terms.
[[nodiscard]] int warpgroup_held_remainders(const Pass& pass);

/// Dynamic shared memory of a block in bytes: the prepared rows of a step and the next four, twice the size
/// they have in memory; beside them the weights' remainders and sums that wait.
[[nodiscard]] int warpgroup_shared_bytes(const Pass& pass);

}  // namespace spidergen::plan
