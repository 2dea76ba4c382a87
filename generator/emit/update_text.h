#pragma once

#include <string>

#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// `struct Update` of a kernel that takes so many steps in a sweep, and the tables of what it takes.
[[nodiscard]] std::string update_struct(const spec::StencilSpec& spec, int steps);

/// `spider::UpdateFacts` of what it takes.
[[nodiscard]] std::string update_facts(const spec::StencilSpec& spec);

/// `update` and what it takes, for --explain's JSON.
[[nodiscard]] std::string update_json(const spec::StencilSpec& spec);

}  // namespace spidergen::emit
