#pragma once

#include <string>

#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// An f32 literal that reads back as the number, rounded to f32.
[[nodiscard]] std::string f32_literal(double value);

/// `struct Update`, and the tables of what it takes.
[[nodiscard]] std::string update_struct(const spec::StencilSpec& spec);

/// `spider::UpdateFacts` of what it takes.
[[nodiscard]] std::string update_facts(const spec::StencilSpec& spec);

/// `update` and what it takes, for --explain's JSON.
[[nodiscard]] std::string update_json(const spec::StencilSpec& spec);

}  // namespace spidergen::emit
