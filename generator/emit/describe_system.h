#pragma once

#include <string>
#include <vector>

#include "plan/system_plan.h"
#include "spec/system_spec.h"

namespace spidergen::emit {

/// The spec's description, or the kind of system.
[[nodiscard]] std::string system_summary(const spec::SystemSpec& spec);

/// "Stages 1 and 2: vx, vy, p".
[[nodiscard]] std::string describe_sweep(const spec::SystemSpec& spec, const plan::SystemSweep& sweep);

/// A line for each field: storage, axes, use, faces.
[[nodiscard]] std::vector<std::string> describe_fields(const spec::SystemSpec& spec,
                                                       const plan::SystemPlan& plan);

/// The plan in a few lines, for generated files and for `--explain`.
[[nodiscard]] std::vector<std::string> report_system(const spec::SystemSpec& spec,
                                                     const plan::SystemPlan& plan);

/// The plan for a person to read, each line ending in a newline: fields, sweeps, and the least bytes a point.
[[nodiscard]] std::string explain_system_text(const spec::SystemSpec& spec, const plan::SystemPlan& plan,
                                              const std::vector<std::string>& architectures);

/// The same for programs: one JSON object with a fixed key order (generator/cli/README.md, "Explain").
[[nodiscard]] std::string explain_system_json(const spec::SystemSpec& spec, const plan::SystemPlan& plan);

}  // namespace spidergen::emit
