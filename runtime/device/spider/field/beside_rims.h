/// Sweeps of cells that lie inside rims, beside the launch of these (spider/kernels/rims2d.h), which is ahead
/// of them on the stream. Both read the input alone and write other cells. So such a sweep may start as soon
/// as all blocks of the rims have waited for what is ahead of both, touches fields at once, and waits for the
/// rims at its end, so that what comes behind waits for both. Behind a sweep rims take time of their own,
/// ahead of it they take what its first wave leaves: 16 steps of a star of radius 2, f16, 10240 x 10240, took
/// 170.9 us on an H100 with rims behind them, and 163.4 so; 155.2 without any.
#pragma once

#include <spider/machine/instructions.h>

#include <type_traits>

namespace spider {
inline namespace device_4 {

/// The same stencil, of such a sweep.
template <class Stencil>
struct ConcurrentWithRims : Stencil {
  static constexpr bool beside_rims = true;
};

template <class Stencil, class = void>
struct IsBesideRims : std::false_type {};
template <class Stencil>
struct IsBesideRims<Stencil, std::void_t<decltype(Stencil::beside_rims)>> : std::true_type {};

/// Before the first access to a field of a sweep that may start early.
template <class Stencil>
SPIDER_DEVICE void wait_unless_concurrent() {
  if constexpr (!IsBesideRims<Stencil>::value) device::wait_on_dependency();
}

/// Lives as long as a kernel runs, on whichever way it ends: then a sweep beside rims waits for these. One
/// block does, and keeps the sweep from ending.
template <class Stencil>
struct JoinRimsAtExit {
  JoinRimsAtExit() = default;
  JoinRimsAtExit(const JoinRimsAtExit&) = delete;
  JoinRimsAtExit& operator=(const JoinRimsAtExit&) = delete;
  SPIDER_DEVICE ~JoinRimsAtExit() {
    if constexpr (IsBesideRims<Stencil>::value) {
      if (device::block_index() == 0) device::wait_on_dependency();
    }
  }
};

}  // namespace device_4
}  // namespace spider
