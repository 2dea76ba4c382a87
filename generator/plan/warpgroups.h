#pragma once

#include <string>
#include <vector>

#include "plan/kernel_plan.h"

namespace spidergen::plan {

/// Replaces a 2D plan by one for warpgroups (templates/group2d.cu.in) where all architectures, in nvcc's
/// names, have their sparse products, which is sm_90a alone, and where it is faster: fields of 16 bits and
/// one window a tap row, more products than hide behind memory, inputs and operands that fit. Results keep
/// their bits.
void fit_to_architectures(const std::vector<std::string>& architectures, KernelPlan& plan);

/// Products of the tap row that has most of them.
[[nodiscard]] int most_row_products(const Pass& pass);

/// Dynamic shared memory of a block in bytes: the prepared rows of a step and the next four, twice the size
/// they have in memory, and eight rows on their way.
[[nodiscard]] int warpgroup_shared_bytes(const Pass& pass);

}  // namespace spidergen::plan
