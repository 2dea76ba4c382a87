#pragma once

#include "adjoint/adjoint_system.h"

namespace spidergen::adjoint {

/// The adjoint with each stage of several results split, where that changes no value: the values that are
/// read around points go to further fields first, and each stage after that adds one sum of such a field to
/// one derivative, as kernels of stencils do. Stages stay whole where a ghost cell that is read is a copy of
/// another cell, and where a further field would round what one stage does not (16-bit storages).
[[nodiscard]] AdjointSystem split_stages(AdjointSystem system);

}  // namespace spidergen::adjoint
