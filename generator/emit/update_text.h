#pragma once

#include <string>

#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// `struct Update` of a kernel with `steps` steps in a sweep, and the tables of its inputs.
[[nodiscard]] std::string update_struct(const spec::StencilSpec& spec, int steps);

/// `spider::UpdateFacts` of the update.
[[nodiscard]] std::string update_facts(const spec::StencilSpec& spec);

/// `update` and its inputs, for --explain's JSON.
[[nodiscard]] std::string update_json(const spec::StencilSpec& spec);

}  // namespace spidergen::emit
