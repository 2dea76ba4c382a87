#pragma once

#include "emit/kernel_text.h"

namespace spidergen::emit {

/// Each binds what the template of its name needs, beside what all do (emit.cpp).
void bind_stream1d(const Kernel& kernel, render::Bindings& bindings);
void bind_stream2d(const Kernel& kernel, render::Bindings& bindings);
void bind_tile2d(const Kernel& kernel, render::Bindings& bindings);
void bind_block2d(const Kernel& kernel, render::Bindings& bindings);
void bind_star2d(const Kernel& kernel, render::Bindings& bindings);
void bind_split2d(const Kernel& kernel, render::Bindings& bindings);
void bind_stream3d(const Kernel& kernel, render::Bindings& bindings);
void bind_cuda_cores(const Kernel& kernel, render::Bindings& bindings);
void bind_cores2d(const Kernel& kernel, render::Bindings& bindings);
void bind_cores3d(const Kernel& kernel, render::Bindings& bindings);

}  // namespace spidergen::emit
