/// What a time step costs on many ranks, from what was measured on these.
#pragma once

#include <array>
#include <cstdint>

/// Measured on these ranks, in seconds and bytes a second.
struct Measured {
  double sweep;      ///< of a part, without its neighbours
  double exchange;   ///< of its halos, alone
  double step;       ///< both together, by iterate
  double bandwidth;  ///< that the exchange reached, each way
};

/// Prints a table for 1 to 1024 ranks with parts of these extents: a step is the sweep, or the exchange where
/// that takes longer, and what the rims added when it was measured. Up to `ranks_per_host` ranks exchange as
/// was measured; beyond that the faces along the outermost axis pass a network of so many bytes a second and
/// rank.
void print_model(const Measured& measured, const std::array<std::int64_t, 3>& extent,
                 const std::array<std::int64_t, 3>& halo, std::int64_t element_bytes, int ranks_per_host,
                 double network);
