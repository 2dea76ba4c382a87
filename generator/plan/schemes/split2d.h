#pragma once

#include <string_view>

#include "plan/problem.h"

namespace spidergen::plan {

/// f32 fields in two terms as products of a warpgroup (runtime/device/spider/kernels/split2d.h).
struct Split2d {
  static constexpr std::string_view name = "split2d";
  static constexpr int minimum_arch = 90;  ///< the only one with wgmma.mma_async.sp

  /// Tensor cores cut sums towards zero: the products of so many input rows are chained into one sum, which
  /// is then added to the others, rounded to nearest.
  static constexpr int chained_rows = 6;
  /// Teams of four warps that prepare input rows, a row each.
  static constexpr int teams = 2;
  /// Of a lane of warps that multiply, at most: others must be left some.
  static constexpr int most_registers = 248;

  int warps_per_block = 0;
  int step_rows = 0;        ///< input rows that four output rows need
  int held_remainders = 0;  ///< of the weights, one for each of as many input rows of a step, that registers
                            ///< hold beside the leading terms
  int estimated_registers = 0;
  int shared_bytes = 0;

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Split2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Split2d&) const = default;
};

}  // namespace spidergen::plan
