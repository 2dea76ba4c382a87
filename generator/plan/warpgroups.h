#pragma once

#include <string>
#include <vector>

#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// Tensor cores cut sums towards zero: of f32 fields the products of so many input rows are chained into one
/// sum, which is then added to the others, rounded to nearest.
constexpr int warpgroup_chained_rows = 6;

/// Teams of four warps that prepare input rows of f32 fields, a row each.
constexpr int warpgroup_teams = 2;

/// Registers of a lane of warps that multiply f32 fields, at most: others must be left some.
constexpr int most_warpgroup_registers = 248;

/// Replaces a 2D plan by one for warpgroups where all architectures, in nvcc's names, have their sparse
/// products, which is sm_90a alone, and where it is faster: one window a tap row, more products than hide
/// behind memory and, of 16-bit fields, than tiles take, inputs and operands that fit. Fields of 16 bits
/// (templates/group2d.cu.in) keep the bits of their results; those of f32 in two terms
/// (templates/split2d.cu.in) have another error bound.
void fit_to_architectures(const std::vector<std::string>& architectures, const spec::StencilSpec& spec,
                          KernelPlan& plan);

/// Input rows that four output rows need.
[[nodiscard]] int warpgroup_step_rows(const Pass& pass);

/// Terms of the weights that products take.
[[nodiscard]] int weight_terms(const Pass& pass);

/// Of f32 fields: remainders of the weights, one for each of as many input rows of a step, that registers
/// hold beside the leading terms.
[[nodiscard]] int warpgroup_held_remainders(const Pass& pass);

/// Products of the tap row that has most of them.
[[nodiscard]] int most_row_products(const Pass& pass);

/// Dynamic shared memory of a block in bytes: the prepared rows of a step and the next four, twice the size
/// they have in memory; beside them of 16-bit fields eight rows on their way, and of f32 fields the weights'
/// remainders and sums that wait.
[[nodiscard]] int warpgroup_shared_bytes(const Pass& pass);

}  // namespace spidergen::plan
