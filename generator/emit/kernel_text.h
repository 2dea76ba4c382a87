#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pack/pack.h"
#include "plan/kernel_plan.h"
#include "render/render.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// ABI of generated files; runtime and device headers check it (spider/spider.h, spider/abi.h).
inline constexpr int runtime_abi = 1;
inline constexpr int device_abi = 4;
/// Least compute capability x 10 of kernels on CUDA cores, as the device headers require.
inline constexpr int oldest_arch = 75;

/// The inputs of a kernel's text.
struct Kernel {
  const spec::StencilSpec& spec;
  const plan::KernelPlan& plan;
  const pack::PackedKernel& packed;

  [[nodiscard]] const plan::Contraction& contraction() const { return plan.contraction; }
};

/// The text of a file of templates/ with its placeholders replaced, without the last line's end.
[[nodiscard]] std::string render_part(std::string_view template_name, const render::Bindings& bindings);

/// Includes of the schemes' headers, a line each.
[[nodiscard]] std::string scheme_includes(const std::vector<std::string>& schemes);

/// The oldest architecture of an engine, as oldest_arch.
[[nodiscard]] int minimum_arch(plan::Engine engine);

/// Lines as a comment of C++.
[[nodiscard]] std::string comment_text(const std::vector<std::string>& lines);

/// Binds the origin of generated files: a StencilSpec or a SystemSpec, and its summary.
template <class Spec>
[[nodiscard]] render::Bindings provenance(const Spec& spec, std::string summary, const std::string& version) {
  const std::string source = spec.renamed ? spec.source_name + " --name " + spec.name : spec.source_name;
  return {{"name", spec.name}, {"summary", std::move(summary)}, {"version", version}, {"source", source}};
}

/// The text of `<name>.h`: the contract with a caller, as a comment, and the declaration of the kernel.
[[nodiscard]] std::string header_text(const std::string& name, std::string contract,
                                      render::Bindings provenance);

/// A member function `name` of a Stencil that returns a table's values by index; `between` is a line break or
/// ", ".
[[nodiscard]] std::string constants_text(std::string_view type, std::string_view name,
                                         const std::vector<std::string>& values, std::string_view between);

/// A row of a matrix divided by `scale`, as f32 numbers separated by commas.
[[nodiscard]] std::string float_row_text(const plan::Matrix& matrix, int row, double scale);

/// `struct OperandTables` of a pass: its operands and metadata.
[[nodiscard]] std::string operands_struct(const Kernel& kernel);

/// `product(i)` of a 2D Stencil: a spider::RowProduct.
[[nodiscard]] std::string row_products_function(const Kernel& kernel);

/// `shift_group(i)` of a Stencil: the shifts of windows, in groups of eight columns from the first.
[[nodiscard]] std::string shift_groups_function(const plan::Contraction& contraction);

/// `struct Reach` of a 2D kernel whose taps span these rows, and these columns.
[[nodiscard]] std::string reach2d_struct(const Kernel& kernel, int row_low, int row_high,
                                         const plan::ColumnReach& columns);

/// The same for a 3D kernel.
[[nodiscard]] std::string reach3d_struct(const Kernel& kernel, int row_low, int row_high,
                                         const plan::ColumnReach& columns);

[[nodiscard]] std::string upper_case(std::string text);

/// SPIDER_F16 and the like.
[[nodiscard]] std::string storage_code(spec::Storage storage);

/// A spider::AxisRules. An axis that the stencil does not have gets a halo that no tap reaches.
[[nodiscard]] std::string axis_rules_text(const spec::StencilSpec& spec, int axis);

/// One operand: a comment that names its taps, then the four registers of each lane.
[[nodiscard]] std::string operand_text(const pack::PackedOperand& operand, const std::string& where);

/// A word of each lane, in lines that begin with `indent`.
[[nodiscard]] std::string lane_words_text(const std::array<std::uint32_t, pack::warp_lanes>& words,
                                          std::string_view indent = "");

/// The members with the number of sums, if there are several, and the normal f32 number that undoes the
/// scaling of each sum's shares.
[[nodiscard]] std::string result_scales_text(const Kernel& kernel);

/// The factor from products of scaled inputs to sums.
[[nodiscard]] std::string product_unit_text(const plan::RoundedWeights& weights);

/// Each of these binds text that several templates share.
void bind_column_reach(const plan::ColumnReach& reach, render::Bindings& bindings);
void bind_operands(const Kernel& kernel, render::Bindings& bindings);

/// Products in issue order for warps that stream rows.
void bind_row_products(const Kernel& kernel, render::Bindings& bindings);

/// Successive tap rows that span the same columns, of 2D kernels.
void bind_tap_bands(const plan::KernelPlan& plan, render::Bindings& bindings);

}  // namespace spidergen::emit
