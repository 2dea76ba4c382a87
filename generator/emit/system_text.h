#pragma once

#include <string>
#include <vector>

#include "emit/emit.h"
#include "plan/system_plan.h"
#include "spec/system_spec.h"

namespace spidergen::emit {

/// The generated files of a system: source and header.
[[nodiscard]] std::vector<EmittedFile> emit_system(const spec::SystemSpec& spec, const plan::SystemPlan& plan,
                                                   const std::string& version);

}  // namespace spidergen::emit
