#include "model.h"

#include <mpi.h>

#include <algorithm>
#include <cstdio>

namespace {

constexpr double message_latency = 15e-6;  // seconds, of a message between hosts

/// Bytes that a rank in the middle sends along an axis, both ways.
double bytes_along(int axis, const std::array<std::int64_t, 3>& extent,
                   const std::array<std::int64_t, 3>& halo, std::int64_t element_bytes) {
  double cells = 2.0 * static_cast<double>(halo.at(static_cast<std::size_t>(axis)));
  for (int other = 0; other < 3; ++other) {
    if (other != axis) cells *= static_cast<double>(extent.at(static_cast<std::size_t>(other)));
  }
  return cells * static_cast<double>(element_bytes);
}

}  // namespace

void print_model(const Measured& measured, const std::array<std::int64_t, 3>& extent,
                 const std::array<std::int64_t, 3>& halo, std::int64_t element_bytes, int ranks_per_host,
                 double network) {
  const int dimensions = extent[0] > 1 ? 3 : 2;
  const double rims = std::max(0.0, measured.step - std::max(measured.sweep, measured.exchange));
  std::printf("  ranks      as     exchange us   step us   of one rank's speed each\n");
  for (int ranks = 1; ranks <= 1024; ranks *= 2) {
    std::array<int, 3> parts{};
    MPI_Dims_create(ranks, dimensions, parts.data());
    double inside = 0;
    double outside = 0;
    bool outermost = true;
    for (int i = 0; i < dimensions; ++i) {
      if (parts.at(static_cast<std::size_t>(i)) == 1) continue;
      const double bytes = bytes_along(3 - dimensions + i, extent, halo, element_bytes);
      (ranks > ranks_per_host && outermost ? outside : inside) += bytes;
      outermost = false;
    }
    const double exchange = ranks == 1 ? 0
                                       : std::max(inside / measured.bandwidth,
                                                  outside > 0 ? outside / network + message_latency : 0);
    const double step = ranks == 1 ? measured.sweep : std::max(measured.sweep, exchange) + rims;
    std::printf("  %5d %3d x %2d x %2d  %10.1f %10.1f %8.1f %%\n", ranks, parts[0], parts[1],
                std::max(1, parts[2]), 1e6 * exchange, 1e6 * step, 100 * measured.sweep / step);
  }
}
