/// runtime/src/backend.h on the host.
#include "src/backend.h"

#include <cstdlib>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "allocations.h"
#include "host/host_points.h"
#include "run_launch.h"
#include "src/host_memory.h"

namespace spider::backend {

namespace {

// An H200's limit per block: a kernel too large for devices is too large here.
constexpr std::int32_t largest_shared_bytes = 227 * 1024;
constexpr std::int32_t most_warps_per_block = 32;
constexpr std::int32_t blocks_per_multiprocessor = 2;

}  // namespace

std::int32_t kind() {
  return SPIDER_BACKEND_EMULATED;
}

Outcome prepare(const spider_kernel& kernel, Residencies& residencies) {
  for (std::int32_t i = 0; i < kernel.form_count; ++i) {
    const Tiling& tiling = kernel.forms[i].tiling;
    if (tiling.warps_per_block < 1 || tiling.warps_per_block > most_warps_per_block ||
        tiling.shared_bytes < 0 || tiling.shared_bytes > largest_shared_bytes) {
      return {SPIDER_ERROR_DEVICE, "no device can run blocks of " + std::to_string(tiling.warps_per_block) +
                                       " warps and " + std::to_string(tiling.shared_bytes) +
                                       " bytes of shared memory"};
    }
  }
  residencies.fill({emulator::read_settings().multiprocessors, blocks_per_multiprocessor, false});
  return {};
}

Outcome load(const spider_kernel& kernel, const FormSet& /*forms*/, Residencies& residencies) {
  return prepare(kernel, residencies);
}

Outcome launch(const spider_kernel& kernel, const Start& start, const SweepArguments& arguments,
               const spider_field& /*input*/, const spider_field& /*output*/) {
  if (start.blocks < 1 || start.blocks > std::numeric_limits<std::int32_t>::max()) {
    return {SPIDER_ERROR_LAUNCH, "a grid of " + std::to_string(start.blocks) + " blocks"};
  }
  try {
    if (auto reason = emulator::run_launch(kernel, start.form, arguments, start.blocks,
                                           emulator::read_settings(), start.images)) {
      return {SPIDER_ERROR_EMULATION, std::move(*reason)};
    }
  } catch (const std::bad_alloc&) {
    return {SPIDER_ERROR_MEMORY, "not enough memory to emulate a launch"};
  } catch (const std::exception& error) {
    return {SPIDER_ERROR_LAUNCH, error.what()};
  }
  return {};
}

Outcome access_points(const spider_kernel& /*kernel*/, const PointArguments& points, void* /*stream*/) {
  access_on_host(points);
  return {};
}

Outcome allocate(std::uint64_t bytes, void** memory) {
  Outcome allocated = allocate_on_host(bytes, memory);
  if (allocated.status == SPIDER_OK) emulator::note_allocation(*memory, bytes);
  return allocated;
}

Outcome release(void* memory) {
  emulator::forget_allocation(memory);
  std::free(memory);
  return {};
}

}  // namespace spider::backend
