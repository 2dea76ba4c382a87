/// NVRTC knows the functions without a header.
#pragma once

#define HUGE_VALF __builtin_bit_cast(float, 0x7f800000)
