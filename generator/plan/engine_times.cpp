#include "plan/engine_times.h"

#include <algorithm>

#include "plan/warpgroups.h"

namespace spidergen::plan {
namespace {

// CUDA cores. Tiles take a little longer than a copy, which takes 197 us: 209 us for a box of radius 1, 216
// for radius 2, 223 for a star of radius 4. Walks: 242 us for 49 taps, 892 for 225.
constexpr double tile_us = 215;
constexpr double least_walk_us = 61;
constexpr double walk_us_per_tap = 3.69;
// A multiply-add by a table loads its value and its tap, too.
constexpr double slower_by_table = 10;

// Sparse products of f32 fields, each per 128 outputs and row: splitting values, scaling and adding to the
// sums of a window take longer than the MMAs. Measured for 9, 15, 21 and 45 of them: 287, 404, 516 and 734
// us.
constexpr double few_products_us = 115;
constexpr double us_per_few_products = 19;
constexpr double many_products_us = 325;
constexpr double us_per_many_products = 9.1;
constexpr double least_sparse_us = 230;

double estimate_cuda(const CorePlan& cores) {
  if (cores.tile_rows > 0) return tile_us;
  const double us = least_walk_us + walk_us_per_tap * static_cast<double>(cores.taps.size());
  return std::max(tile_us, cores.unrolled ? us : slower_by_table * us);
}

// Products of warpgroups, by the input rows of a step. Measured for 18: with two-term weights 453 us, with
// exact ones 374. Of that a product takes 64 cycles of a step, of two-term weights 104 on average
// (wgmma.mma_async.sp, N = 64); what is left does not depend on the stencil.
constexpr double preparing_us = 225;
constexpr double us_per_step_row = 8.25;
constexpr double us_per_step_row_of_two_terms = 12.8;

}  // namespace

double estimate_f32_walks(const Pass& pass) {
  const auto products = static_cast<double>(pass.products.size());
  const double us = std::min(few_products_us + us_per_few_products * products,
                             many_products_us + us_per_many_products * products);
  return std::max(least_sparse_us, us);
}

double estimate_f32_warpgroups(int step_rows, int weight_terms) {
  const double us_per_row = weight_terms > 1 ? us_per_step_row_of_two_terms : us_per_step_row;
  return preparing_us + us_per_row * step_rows;
}

EngineTimes estimate_times(const KernelPlan& sparse, const KernelPlan& cuda) {
  const Pass& pass = sparse.passes.front();
  const double sparse_us = pass.streaming.warpgroups
                               ? estimate_f32_warpgroups(warpgroup_step_rows(pass), weight_terms(pass))
                               : estimate_f32_walks(pass);
  return {sparse_us, estimate_cuda(cuda.cores)};
}

}  // namespace spidergen::plan
