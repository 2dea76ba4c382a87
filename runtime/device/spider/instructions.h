/// The machine as templates see it: one function per instruction, the same for both back ends. The emulator
/// supplies a header of its own, so that a generated file compiles as C++ where no CUDA compiler is.
#pragma once

#if defined(__CUDACC__)
#include <spider/instructions_cuda.h>
#else
#include <spider/instructions_emulated.h>
#endif
