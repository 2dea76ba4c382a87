/// The machine as templates see it: one function per instruction, the same for CUDA and the emulator. The
/// emulator has its own header, so that a generated file compiles as C++ without a CUDA compiler. With
/// SPIDER_HOST a generated file omits its templates: there is no machine.
#pragma once

#if defined(__CUDACC__)
#include <spider/machine/instructions_cuda.h>
#elif defined(SPIDER_HOST)
#include <spider/instructions_host.h>
#else
#include <spider/instructions_emulated.h>
#endif
