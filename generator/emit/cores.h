#pragma once

#include "plan/kernel_plan.h"
#include "render/render.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// What a template needs of a plan for CUDA cores, beside what every source file does: cuda_cores.cu.in.
void bind_cores(const spec::StencilSpec& spec, const plan::KernelPlan& plan, render::Bindings& bindings);

/// The same for cores2d.cu.in.
void bind_core_tiles(const plan::KernelPlan& plan, render::Bindings& bindings);

/// The same of templates/cores3d.cu.in, for plans that have a ring.
void bind_core_ring(const spec::StencilSpec& spec, const plan::KernelPlan& plan, render::Bindings& bindings);

}  // namespace spidergen::emit
