#pragma once

#include <optional>
#include <vector>

#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"
#include "spec/system_spec.h"

namespace spidergen::plan {

struct SystemSweep;

/// A sweep of a system as a stencil with an update, which has schemes of its own.
struct SweepUpdate {
  spec::StencilSpec spec;
  KernelPlan plan;
  int input = 0;                ///< the field that is read around the point: its place in SystemSpec::fields
  std::optional<int> previous;  ///< the field that is written, where it is read, and is not the input
  std::vector<int> fields;      ///< by place in spec.fields, that in SystemSpec::fields
};

/// The sweep as an update: it writes one field, and reads one around the point, in weighted sums. None where
/// it does more, and where no scheme of one sweep has the accuracy of the numbers that the system computes
/// in.
[[nodiscard]] std::optional<SweepUpdate> find_update(const spec::SystemSpec& spec, const SystemSweep& sweep);

}  // namespace spidergen::plan
