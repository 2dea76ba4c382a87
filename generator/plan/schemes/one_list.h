#pragma once

#include <string_view>

#include "plan/problem.h"

namespace spidergen::plan {

/// Taps one behind the other along one axis, however many (runtime/device/spider/kernels/one_list.h).
struct OneList {
  static constexpr std::string_view name = "one_list";

  int axis = spec::axis_x;
  int low = 0;       ///< offset of the first tap
  int outputs = 16;  ///< of a lane along the axis
  int lines = 4;     ///< that a lane has side by side
  int warps_per_block = 4;
  int blocks_per_multiprocessor = 3;
  int preferred_steps = 0;
  int cells_loaded = 0;  ///< by a lane for all its outputs
  int estimated_registers = 0;
  int shared_bytes = 0;

  [[nodiscard]] int outputs_of_thread() const { return outputs * lines; }
  [[nodiscard]] double cells_per_output() const {
    return static_cast<double>(cells_loaded) / outputs_of_thread();
  }
  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<OneList> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const OneList&) const = default;
};

}  // namespace spidergen::plan
