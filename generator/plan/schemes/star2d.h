#pragma once

#include <string_view>
#include <vector>

#include "plan/problem.h"
#include "plan/tile_form.h"

namespace spidergen::plan {

/// Stars as a band along y and one along x, in tiles in shared memory
/// (runtime/device/spider/kernels/star2d.h).
struct Star2d {
  static constexpr std::string_view name = "star2d";

  std::vector<TileForm> forms;  ///< from the largest to the smallest
  int estimated_registers = 0;
  int shared_bytes = 0;

  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<Star2d> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const Star2d&) const = default;
};

}  // namespace spidergen::plan
