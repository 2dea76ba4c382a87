/// What the texts of time steps that are taken one by one have in common.
#pragma once

#include <string>
#include <vector>

#include "plan/kernel_plan.h"
#include "render/render.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// The rules of an axis with constants as numbers, f32 or f64: cells are such between steps.
[[nodiscard]] std::string stepped_rules_text(const spec::StencilSpec& spec, int axis);

/// Binds the types of cells, of numbers and of rules.
void bind_stepped_types(spec::Storage storage, render::Bindings& bindings);

/// A number of steps, f32 or f64, as a literal that is exactly it.
[[nodiscard]] std::string stepped_number_text(spec::Storage storage, double number);

/// Weights along x as such literals, separated by commas.
[[nodiscard]] std::string weight_row_text(spec::Storage storage, const double* weights, int count);

/// The lines of a report that every such scheme begins with.
void describe_steps(const plan::KernelPlan& plan, std::vector<std::string>& lines);

}  // namespace spidergen::emit
