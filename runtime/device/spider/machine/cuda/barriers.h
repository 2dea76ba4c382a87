/// Waiting: for asynchronous and bulk copies, and for earlier launches on the stream.
#pragma once

#include <spider/machine/cuda/memory.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {
namespace device {

/// griddepcontrol.wait (9.7.13.13): waits until the launches that this one depends on are complete and their
/// writes are visible. Devices that cannot start a launch early have nothing to wait for.
SPIDER_DEVICE void wait_on_dependency() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// griddepcontrol.launch_dependents: the next launch may start once all blocks have called this or ended. It
/// waits before it touches fields, or overlaps rims (spider/field/beside_rims.h).
SPIDER_DEVICE void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// cp.async.commit_group: closes this lane's group of copies, which may be empty.
SPIDER_DEVICE void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// cp.async.wait_group: waits until at most `pending` of this lane's latest groups are unfinished.
template <int pending>
SPIDER_DEVICE void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

/// True if there are bulk copies, from sm_90 on; elsewhere their functions do nothing.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr bool has_bulk_copies = false;
#else
inline constexpr bool has_bulk_copies = true;
#endif

/// mbarrier.init and mbarrier.arrive.expect_tx (9.7.13.15): all lanes of a warp call this. The first one
/// prepares the 8 bytes at `barrier`, a multiple of 8, for bulk copies of `bytes` in total, before any of
/// them starts. A warp barrier stands between the two: compute-sanitizer's racecheck takes the first, which
/// ptxas makes an instruction of the whole warp, for one of each lane.
SPIDER_DEVICE void begin_bulk_copies(Shared barrier, std::uint32_t bytes) {
  if constexpr (has_bulk_copies) {
    const bool prepares = lane_index() == 0;
    if (prepares) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    sync_warp();
    if (prepares) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                   "r"(bytes)
                   : "memory");
    }
  }
}

/// cp.async.bulk.shared::cluster.global (9.7.9.25.4.1): both addresses and `bytes` are multiples of 16. The
/// data is there for a thread after its wait_for_bulk_copies.
SPIDER_DEVICE void copy_bulk_async(Shared to, const void* from, std::uint32_t bytes, Shared barrier) {
  if constexpr (has_bulk_copies) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
  }
}

/// mbarrier.try_wait.parity (9.7.13.15.16): waits until all bytes of the barrier's copies have arrived. A
/// sync_block after begin_bulk_copies makes the barrier known to the thread.
SPIDER_DEVICE void wait_for_bulk_copies(Shared barrier) {
  if constexpr (has_bulk_copies) {
    asm volatile(
        "{\n"
        ".reg .pred arrived;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 arrived, [%0], 0;\n"
        "@!arrived bra again;\n"
        "}" ::"r"(shared_address(barrier))
        : "memory");
  }
}

}  // namespace device
}  // namespace device_4
}  // namespace spider
