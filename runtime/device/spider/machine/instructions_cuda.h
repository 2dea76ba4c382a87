/// The instructions on the device: one function, one instruction. Sections are those of the PTX ISA.
#pragma once

#include <spider/machine/cuda/barriers.h>
#include <spider/machine/cuda/lanes.h>
#include <spider/machine/cuda/memory.h>
#include <spider/machine/cuda/mma.h>
#include <spider/machine/cuda/numbers.h>
