/// Sweeps of cells that lie inside rims, beside the launch of these (spider/kernels/rims2d.h), which comes
/// next on the stream. That one touches fields at once, and waits at its end, so that what comes behind it
/// waits for both. So the sweep lets it start only when what is ahead of both is done.
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

/// Before the first access to a field of a sweep that may start early.
template <class Stencil>
SPIDER_DEVICE void wait_ahead() {
  device::wait_on_dependency();
  start_rims<Stencil>();
}

}  // namespace device_1
}  // namespace spider
