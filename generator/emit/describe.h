#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// The stencil in one line: the spec's description, or its shape where there is none.
[[nodiscard]] std::string summary(const spec::StencilSpec& spec);

/// The stencil and its plan in a few labelled lines, the same in generated files and in `--explain`.
[[nodiscard]] std::vector<std::string> report(const spec::StencilSpec& spec, const plan::KernelPlan& plan);

/// Adds a line of a format and its arguments.
template <class... Arguments>
void add(std::vector<std::string>& lines, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  lines.push_back(fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// "1 tap", "2 taps".
[[nodiscard]] std::string counted(std::int64_t count, std::string_view noun);

/// "x nearest", or both faces where they differ; a constant is rounded to the storage.
[[nodiscard]] std::string axis_faces_text(int axis, const spec::AxisBoundary& faces, spec::Storage storage);

/// Adds the line of the parameters, if there are any, and marks those from the command line.
void describe_parameters(const std::vector<spec::Parameter>& parameters, std::vector<std::string>& lines);

/// Where windows and pairs of rows are both possible, adds the cost of the other one and the reason for
/// windows; and the distance of diagonals, in 2D.
void describe_mappings(const plan::KernelPlan& plan, std::string_view why_windows,
                       std::vector<std::string>& lines);
void describe_diagonals(const plan::Contraction& contraction, std::vector<std::string>& lines);

}  // namespace spidergen::emit
