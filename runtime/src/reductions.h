/// Accumulators of a system's reductions (spider/reductions.h), and the numbers in them.
#pragma once

#include <spider/kernel.h>
#include <spider/reductions.h>

#include <array>
#include <cstdint>
#include <vector>

#include "backend.h"

struct spider_reductions {
  const spider_kernel* kernel = nullptr;
  spider::backend::Memory accumulators;
  std::int64_t points = 0;  ///< that may have been added since the last read
};

namespace spider {

/// Whether the sweeps of a kernel may add so many points.
[[nodiscard]] backend::Outcome take_points(const spider_kernel& kernel, spider_reductions& reductions,
                                           std::int64_t points);

/// The kinds of a system's reductions, in the order of their names.
[[nodiscard]] std::vector<ReductionKind> reduction_kinds(const spider_kernel& kernel);

/// Downloads the accumulators behind the work on a stream, reduction_copies for each reduction, and clears
/// them.
[[nodiscard]] backend::Outcome fetch_accumulators(spider_reductions& reductions, void* stream,
                                                  std::vector<std::int64_t>& words);

/// What `copies` accumulators of a reduction have together.
[[nodiscard]] double number_of(ReductionKind kind, const std::int64_t* accumulators, std::int32_t copies);

/// spider_reductions_read.
[[nodiscard]] backend::Outcome read_reductions(spider_reductions& reductions, double* values, void* stream);

}  // namespace spider
