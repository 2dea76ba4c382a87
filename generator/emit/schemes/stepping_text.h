/// Common to the texts of time steps that are taken one by one.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "plan/kernel_plan.h"
#include "render/render.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// The rules of an axis with constants in the compute type, f32 or f64, of cells between steps.
[[nodiscard]] std::string stepped_rules_text(const spec::StencilSpec& spec, int axis);

/// The same for taps that reach one cell along the axis: the ghost cells of `antisymmetric` are then 0.
[[nodiscard]] std::string zero_rules_text(spec::StencilSpec spec, int axis);

/// Binds the types of cells, of numbers and of rules.
void bind_stepped_types(spec::Storage storage, render::Bindings& bindings);

/// A number of steps, f32 or f64, as an exact literal.
[[nodiscard]] std::string stepped_number_text(spec::Storage storage, double number);

/// Weights along x as such literals, separated by commas.
[[nodiscard]] std::string weight_row_text(spec::Storage storage, const double* weights, int count);

/// The line with the number of sums of a spec; empty for one.
[[nodiscard]] std::string sum_count_text(const spec::StencilSpec& spec);

/// Binds the parts of weight tables that depend on several sums: an argument of the function, an extent,
/// `entries` of each sum, and an index. Empty for one sum.
void bind_sums(const spec::StencilSpec& spec, int entries, render::Bindings& bindings);

/// The entries of such a table: `text(sum)` unchanged for one sum, in braces for several, with `separator`
/// between them.
template <class Text>
[[nodiscard]] std::string table_of_sums(const spec::StencilSpec& spec, std::string_view separator,
                                        const Text& text) {
  if (spec.sums.size() == 1) return text(0);
  std::string table;
  for (int sum = 0; sum < static_cast<int>(spec.sums.size()); ++sum)
    table += fmt::format("{}{{{}}},", sum > 0 ? separator : "", text(sum));
  return table;
}

/// Adds the time of a step of a sweep.
void describe_step_time(const plan::KernelPlan& plan, std::vector<std::string>& lines);

/// Adds the first lines of a report, common to these schemes.
void describe_steps(const plan::KernelPlan& plan, std::vector<std::string>& lines);

}  // namespace spidergen::emit
