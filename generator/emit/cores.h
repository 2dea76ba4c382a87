#pragma once

#include "plan/kernel_plan.h"
#include "render/render.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// What templates/cuda_cores.cu.in needs of a plan for CUDA cores, beside what every source file does.
void bind_cores(const spec::StencilSpec& spec, const plan::KernelPlan& plan, render::Bindings& bindings);

}  // namespace spidergen::emit
