#pragma once

#include <spider/kernel.h>

#include <cstdint>

/// A kernel of the emulator that takes one time step a sweep and reaches no other cell; it has no form yet.
inline spider_kernel kernel_by_hand(const char* name, std::int32_t dimensions, std::int32_t storage) {
  spider_kernel kernel{};
  kernel.abi = SPIDER_ABI;
  kernel.size = sizeof(spider_kernel);
  kernel.launch_size = sizeof(spider::SweepArguments);
  kernel.info.size = sizeof(spider_kernel_info);
  kernel.info.abi = SPIDER_ABI;
  kernel.info.name = name;
  kernel.info.generator = "by hand";
  kernel.info.spec_hash = "";
  kernel.info.dimensions = dimensions;
  kernel.info.storage = kernel.info.output = storage;
  kernel.info.accumulate = SPIDER_F32;
  kernel.info.steps = 1;
  kernel.info.backend = SPIDER_BACKEND_EMULATED;
  return kernel;
}
