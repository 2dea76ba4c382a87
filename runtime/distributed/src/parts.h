/// Into how many parts each axis is cut, so that a step takes the least time by estimate: arithmetic, without
/// MPI.
#pragma once

#include <array>
#include <cstdint>

#include "layout.h"

namespace spider::distributed {

/// The number of ranks, and whether they share a host.
struct RankFacts {
  std::int32_t count = 1;
  bool on_one_host = true;
};

/// How long a step takes on the rank that takes longest, in cells that it could sweep in that time; infinite
/// where a part is narrower than the halo. The exchange is hidden behind the sweep, unless it takes longer.
[[nodiscard]] double estimate_step(const CutField& field, const Extents& whole, const Parts& parts,
                                   bool on_one_host);

/// The parts with the least estimate, of those that are as many as ranks and cut no axis that must not be
/// `cut`; of equals those with the most along z, then y. All 0 where no parts are as wide as the halo.
[[nodiscard]] Parts choose_parts(const CutField& field, const Extents& whole, const std::array<bool, 3>& cut,
                                 const RankFacts& ranks);

}  // namespace spider::distributed
