/// What the texts of time steps that are taken one by one have in common.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "plan/kernel_plan.h"
#include "render/render.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// The rules of an axis with constants as numbers, f32 or f64: cells are such between steps.
[[nodiscard]] std::string stepped_rules_text(const spec::StencilSpec& spec, int axis);

/// The same of taps that reach one cell along the axis: beyond `antisymmetric` they find 0.
[[nodiscard]] std::string zero_rules_text(spec::StencilSpec spec, int axis);

/// Binds the types of cells, of numbers and of rules.
void bind_stepped_types(spec::Storage storage, render::Bindings& bindings);

/// A number of steps, f32 or f64, as a literal that is exactly it.
[[nodiscard]] std::string stepped_number_text(spec::Storage storage, double number);

/// Weights along x as such literals, separated by commas.
[[nodiscard]] std::string weight_row_text(spec::Storage storage, const double* weights, int count);

/// The line that says how many sums a spec has; empty for one.
[[nodiscard]] std::string sum_count_text(const spec::StencilSpec& spec);

/// Binds what tables of weights have of several sums: an argument of the function, an extent, `entries` of
/// each sum, and an index. Of one sum nothing.
void bind_sums(const spec::StencilSpec& spec, int entries, render::Bindings& bindings);

/// The entries of such a table: `text(sum)` as it is of one sum, in braces of several, with
/// `separator` between them.
template <class Text>
[[nodiscard]] std::string table_of_sums(const spec::StencilSpec& spec, std::string_view separator,
                                        const Text& text) {
  if (spec.sums.size() == 1) return text(0);
  std::string table;
  for (int sum = 0; sum < static_cast<int>(spec.sums.size()); ++sum)
    table += fmt::format("{}{{{}}},", sum > 0 ? separator : "", text(sum));
  return table;
}

/// How long a step of a sweep takes.
void describe_step_time(const plan::KernelPlan& plan, std::vector<std::string>& lines);

/// The lines of a report that every such scheme begins with.
void describe_steps(const plan::KernelPlan& plan, std::vector<std::string>& lines);

}  // namespace spidergen::emit
