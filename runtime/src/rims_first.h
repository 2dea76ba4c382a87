/// How a part of a field is cut so that the planes which neighbours take are stored first, in one launch.
#pragma once

#include <spider/kernel.h>

#include <cstdint>
#include <vector>

#include "backend.h"
#include "ready_sweep.h"
#include "tiling.h"

namespace spider {

/// Planes at both ends of a box along z that neighbours take; 0: there is none.
struct RimPlanes {
  std::int64_t low = 0;
  std::int64_t high = 0;
  [[nodiscard]] bool operator==(const RimPlanes& other) const {
    return low == other.low && high == other.high;
  }
};

/// Without blocks of rims where the box cannot be cut so.
struct RimsFirstLaunch {
  Launch launch;   ///< put_rims() is still to be called
  RimGrid rims{};  ///< without a counter
};

/// Cuts a box of a field as RimGrid says, so that all blocks together take the fewest steps, and rims end
/// within the first half of that time.
[[nodiscard]] RimsFirstLaunch choose_rims_first(const Tiling& tiling, const Box& box,
                                                const backend::Residency& residency, const RimPlanes& rims);

/// Has a launch of TilingKind::blocks say when its rims are stored.
void put_rims(BlockGrid& grid, const RimGrid& rims);

/// The cuts of one part, each found once: a search takes longer than a small sweep.
class RimCuts {
 public:
  [[nodiscard]] RimsFirstLaunch find(const SweepForm& form, const Box& box,
                                     const backend::Residency& residency, const RimPlanes& rims);

 private:
  struct Known {
    const SweepForm* form;
    Box box;
    RimPlanes rims;
    RimsFirstLaunch cut;
  };
  std::vector<Known> known_;
};

/// A sweep of all points of a part whose first blocks are those of the rims.
struct SweepWithRims {
  ReadySweep sweep;
  std::int32_t rim_blocks = 0;  ///< that raise the counter; 0: this kernel, or part, has none that do
};

/// Of `steps` time steps, of which the kernel has a form. Kernel and sweep are checked; the back end has
/// loaded the kernel. `counter` is the address of a word of the back end.
[[nodiscard]] SweepWithRims make_with_rims(const spider_kernel& kernel, const spider_sweep& sweep,
                                           const backend::Residencies& residencies, std::int32_t steps,
                                           const RimPlanes& rims, std::uintptr_t counter, RimCuts& cuts);

}  // namespace spider
