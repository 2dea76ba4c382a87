#pragma once

#include "emit/kernel_text.h"

namespace spidergen::emit {

/// The storage, and the rules of the axes that a kernel walks along.
void bind_core_cells(const Kernel& kernel, render::Bindings& bindings);
void bind_core_rows(const Kernel& kernel, render::Bindings& bindings);

/// The taps, their steps, the warps of a block and what a multiprocessor has of them.
void bind_core_taps(const plan::KernelPlan& plan, render::Bindings& bindings);

/// Rows of taps, the steps of a walk, and the columns that all of them reach.
void bind_core_walk(const plan::KernelPlan& plan, render::Bindings& bindings);

}  // namespace spidergen::emit
