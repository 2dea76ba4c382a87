#pragma once

#include <climits>
#include <cstdint>
#include <vector>

#include "emit/kernel_text.h"
#include "plan/core_taps.h"

namespace spidergen::emit {

/// Tap rows of one input row that span the same columns; bit i of `steps` is the lowest step plus i.
struct Hull {
  std::uint32_t steps = 0;
  int low = 0;
  int high = 0;
};

/// The taps of one row, as the template's tables tell them.
struct InputRow {
  int low = INT_MAX;
  int high = INT_MIN;
  int taps = 0;
  std::vector<Hull> hulls;

  [[nodiscard]] std::uint32_t steps() const {
    std::uint32_t all = 0;
    for (const Hull& hull : hulls) all |= hull.steps;
    return all;
  }
};

/// Input rows of taps that are ascending in row, step and column.
[[nodiscard]] std::vector<InputRow> input_rows_of(const std::vector<plan::CoreTap>& taps);

/// The storage, and the rules of the axes that a kernel walks along.
void bind_core_cells(const Kernel& kernel, render::Bindings& bindings);
void bind_core_rows(const Kernel& kernel, render::Bindings& bindings);

/// The taps, their steps, the warps of a block and what a multiprocessor has of them.
void bind_core_taps(const plan::KernelPlan& plan, render::Bindings& bindings);

/// Rows of taps, the steps of a walk, and the columns that all of them reach.
void bind_core_walk(const plan::KernelPlan& plan, render::Bindings& bindings);

/// Of each input row {lowest, highest} column and the first of its taps.
void bind_core_spans(const std::vector<InputRow>& rows, render::Bindings& bindings);

}  // namespace spidergen::emit
