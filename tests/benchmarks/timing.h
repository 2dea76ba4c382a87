/// The two ways of timing.
#pragma once

#include <string>
#include <vector>

#include "contestant.h"
#include "nvml.h"
#include "statistics.h"

namespace bench {

/// Of one contestant. Times are microseconds per launch.
struct Timing {
  Summary summary{};
  std::int64_t launches = 0;
  Load load;            ///< sustained only
  std::string failure;  ///< not empty: it could not be timed, and this is why
};

/// Whether launches are timed one by one or as the nodes of a graph.
enum class Method { single, graph };

/// Bursts: 3 warm rounds, then `rounds` that count; in each round every contestant in turn, so that clocks
/// and heat are the same for all. Method::single: one launch between two events, queued behind a short delay
/// so that the host's part does not count. Method::graph: one graph of `batch` launches between two events.
/// Launches go round the pairs of fields. Medians are of rounds.
[[nodiscard]] std::vector<Timing> time_bursts(const std::vector<Contestant>& contestants, Method method,
                                              int batch, int rounds);

/// Sustained: each contestant back to back for `seconds` after the others, in pieces of some 20 ms, of which
/// the next is always queued already. The median is the time of the whole per launch, events from the first
/// to the last; percentiles are of pieces. `estimates`: microseconds per launch. Clock and power are of the
/// same time.
[[nodiscard]] std::vector<Timing> time_sustained(const std::vector<Contestant>& contestants, Method method,
                                                 int batch, double seconds,
                                                 const std::vector<double>& estimates, const Nvml& nvml);

}  // namespace bench
