/// Sweeps of cells that lie inside rims, beside the launch of these (spider/kernels/rims2d.h). Both read the
/// input alone and write other cells. So the one that is second on the stream touches fields at once, and
/// waits for the first one at its end, so that what comes behind waits for both.
///
/// The rims are second where the sweep may start early itself: it lets them start only when what is ahead of
/// both is done. Others are second themselves (SweepForm::starts_beside): behind a sweep rims take time of
/// their own, in its first wave they take what it leaves. 16 steps of a star of radius 2, f16, 10240 x 10240,
/// took 163.4 us on an H100 so, and 170.9 with rims behind it; 155.2 without any.
#pragma once

#include <spider/instructions.h>

#include <type_traits>

namespace spider {
inline namespace device_1 {

/// The same stencil, of such a sweep.
template <class Stencil>
struct BesideRims : Stencil {
  static constexpr bool beside_rims = true;
};

template <class Stencil, class = void>
struct IsBesideRims : std::false_type {};
template <class Stencil>
struct IsBesideRims<Stencil, std::void_t<decltype(Stencil::beside_rims)>> : std::true_type {};

/// Lets the launch behind a sweep start.
template <class Stencil>
SPIDER_DEVICE void start_dependents() {
  if constexpr (!IsBesideRims<Stencil>::value) device::launch_dependents();
}

/// Lets the rims start beside a sweep that does not start early, so that all ahead of it is done.
template <class Stencil>
SPIDER_DEVICE void start_rims() {
  if constexpr (IsBesideRims<Stencil>::value) device::launch_dependents();
}

/// The end of a sweep that runs beside rims ahead of it. One block waits, and keeps the sweep from ending.
template <class Stencil>
SPIDER_DEVICE void wait_for_rims() {
  if constexpr (IsBesideRims<Stencil>::value) {
    if (device::block_index() == 0) device::wait_on_dependency();
  }
}

/// Before the first access to a field of a sweep that may start early.
template <class Stencil>
SPIDER_DEVICE void wait_ahead() {
  device::wait_on_dependency();
  start_rims<Stencil>();
}

}  // namespace device_1
}  // namespace spider
