#pragma once

#include "diag/diagnostic.h"
#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// What is a valid spec but cannot be generated with this engine and variant: not yet (errors), or not
/// without a loss that the user asked for (warnings); located. May be asked of a spec that has other errors,
/// so that all are told at once.
[[nodiscard]] diag::Diagnostics check_supported(const spec::StencilSpec& spec, Engine engine = Engine::sparse,
                                                const Variant& variant = {});

/// The engine of a spec for which none is asked: sparse tensor cores where there is a plan for its dimensions
/// and storage, otherwise CUDA cores.
[[nodiscard]] Engine default_engine(const spec::StencilSpec& spec);

/// Decides everything about the kernel of a spec that read_spec and check_supported, asked for the same
/// engine and variant, found no error in.
[[nodiscard]] KernelPlan make_plan(const spec::StencilSpec& spec, Engine engine = Engine::sparse,
                                   const Variant& variant = {});

}  // namespace spidergen::plan
