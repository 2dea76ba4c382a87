#pragma once

#include "emit/kernel_text.h"

namespace spidergen::emit {

/// The storage, the taps, and the blocks of a multiprocessor.
void bind_core_taps(const Kernel& kernel, render::Bindings& bindings);

}  // namespace spidergen::emit
