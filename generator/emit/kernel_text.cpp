#include "emit/kernel_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>
#include <vector>

#include "diag/diagnostic.h"
#include "emit/storage_text.h"
#include "emit/templates.h"

namespace spidergen::emit {
namespace {

constexpr int lanes_per_line = 2;
constexpr int words_per_line = 8;

/// Tap rows of a plane dz; successive ones that span the same columns form one band: {lowest dy, highest dy,
/// lowest dx, highest dx} each, ascending.
using PlaneBands = std::vector<std::array<int, 4>>;

PlaneBands plane_bands(const plan::KernelPlan& plan, int dz) {
  PlaneBands bands;
  for (const plan::TapRow& row : plan.tap_rows) {
    if (row.dz != dz) continue;
    const bool continues = !bands.empty() && bands.back()[1] + 1 == row.dy && bands.back()[2] == row.low &&
                           bands.back()[3] == row.high;
    if (continues) {
      bands.back()[1] = row.dy;
    } else {
      bands.push_back({row.dy, row.dy, row.low, row.high});
    }
  }
  return bands;
}

/// The same for all planes; neighbouring planes with equal bands share a spider::VolumeBand.
std::vector<std::string> volume_bands(const plan::KernelPlan& plan) {
  std::vector<std::string> texts;
  const int last = plan.tap_rows.back().dz;
  for (int dz = plan.tap_rows.front().dz; dz <= last;) {
    const PlaneBands bands = plane_bands(plan, dz);
    const int first_dz = dz;
    for (++dz; dz <= last && plane_bands(plan, dz) == bands;) ++dz;
    for (const auto& [low_dy, high_dy, low, high] : bands) {
      texts.push_back(fmt::format("{{{{{}, {}}}, {{{}, {}}}, {{{}, {}}}}}", first_dz, dz - 1, low_dy, high_dy,
                                  low, high));
    }
  }
  return texts;
}

/// Does every tap row of plane `other` have an equal or wider one in plane `dz`?
bool covers(const plan::KernelPlan& plan, int dz, int other) {
  const auto covered = [&](const plan::TapRow& row) {
    return row.dz != other || std::any_of(plan.tap_rows.begin(), plan.tap_rows.end(), [&](const auto& outer) {
             return outer.dz == dz && outer.dy == row.dy && outer.low <= row.low && outer.high >= row.high;
           });
  };
  return std::all_of(plan.tap_rows.begin(), plan.tap_rows.end(), covered);
}

/// The dz from first to last that cover all others: together they have the full reach of a plane. Where none
/// do, all dz are needed: then first is the highest and last the lowest.
std::pair<int, int> full_planes(const plan::KernelPlan& plan) {
  const int low = plan.tap_rows.front().dz;
  const int high = plan.tap_rows.back().dz;
  const auto covers_all = [&](int dz) {
    for (int other = low; other <= high; ++other) {
      if (!covers(plan, dz, other)) return false;
    }
    return true;
  };
  int first = low;
  while (first <= high && !covers_all(first)) ++first;
  if (first > high) return {high, low};
  int last = first;
  while (last < high && covers_all(last + 1)) ++last;
  return {first, last};
}

std::string where_text(const plan::KernelPlan& plan, const plan::Operand& operand) {
  const plan::Contraction& contraction = plan.contraction;
  const plan::RoundedWeights& weights = plan.weights;
  const bool planes = plan.dimensions == 3;
  const int low = operand.shift + contraction.mapping.window_low;
  std::string where = planes ? fmt::format("dz {}, ", operand.dz) : "";
  where += fmt::format("dy {}, dx ", operand.dy);
  const plan::Source& source = contraction.sources[operand.source];
  if (source.mapping.pairs_rows()) {
    const std::string plane = planes ? fmt::format("dz {}, ", operand.dz) : "";
    where = fmt::format("{}dy {}..{}, dx {}..{}", plane, operand.dy - 1, operand.dy + 1, low,
                        low + contraction.mapping.window_width - 1);
  } else if (source.distance() == plan::Position{}) {
    where += fmt::format("{}..{}", low, low + contraction.mapping.window_width - 1);
  } else {
    where +=
        planes ? fmt::format("0, and dz {}, ", operand.dz + source.distance().z) : std::string("0, and ");
    where += fmt::format("dy {}, dx 0", operand.dy + source.distance().y);
  }
  return where + (weights.terms == 1 ? "" : (operand.term == 0 ? ", leading terms" : ", remainders"));
}

std::string operands_text(const Kernel& kernel) {
  const plan::Contraction& contraction = kernel.contraction();
  std::vector<std::string> blocks;
  for (std::size_t i = 0; i < contraction.operands.size(); ++i) {
    blocks.push_back(
        operand_text(kernel.packed.operands[i], where_text(kernel.plan, contraction.operands[i])));
  }
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

std::string metadata_text(const pack::PackedKernel& packed) {
  std::vector<std::string> blocks;
  for (const pack::MetadataFragment& words : packed.metadata)
    blocks.push_back(fmt::format("{{\n{}\n}},", lane_words_text(words, "    ")));
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

/// {row in flight, fragment, operand, metadata, selector, part} each, in issue order, followed by the sum
/// where it is not the first.
std::vector<std::string> row_products(const Kernel& kernel) {
  const plan::Contraction& contraction = kernel.contraction();
  const pack::PackedKernel& packed = kernel.packed;
  std::vector<std::string> lines;
  for (const plan::Product& product : contraction.products) {
    const pack::PackedOperand& operand = packed.operands[product.operand];
    const int part = !contraction.inputs.scaled ? 0 : product.input_term == 1 ? 2 : product.term;
    const int rows_before_last = contraction.row_high - contraction.row_low - contraction.last_row(product);
    const int row_in_flight =
        contraction.rows_in_flight() - 1 - rows_before_last / contraction.rows_per_product();
    const std::string sum = product.sum == 0 ? "" : fmt::format(", {}", product.sum);
    lines.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}{}}},", row_in_flight, product.source,
                                product.operand, operand.metadata, operand.selector, part, sum));
  }
  return lines;
}

std::vector<std::string> shift_groups(const plan::Contraction& contraction) {
  const int first = contraction.first_column() - contraction.mapping.first_input();
  std::vector<std::string> groups;
  for (const int shift : contraction.shifts)
    groups.push_back(fmt::to_string((shift - first) / plan::inputs_per_group));
  return groups;
}

std::string result_scale_text(const plan::RoundedWeights& weights, int sum) {
  const double scale = weights.result_scale(sum);
  if (!std::isnormal(static_cast<float>(scale)))
    throw diag::InternalError("results are scaled by what is no normal f32 number");
  if (weights.factor == 1) return fmt::format("0x1p{}F", std::ilogb(scale));
  return fmt::format("{:a}F", scale);
}

}  // namespace

std::string render_part(std::string_view template_name, const render::Bindings& bindings) {
  for (const EmbeddedTemplate& embedded : embedded_templates()) {
    if (embedded.name != template_name) continue;
    std::string text = render::render({embedded.name, embedded.text}, bindings);
    text.pop_back();
    return text;
  }
  throw diag::InternalError(fmt::format("template {} is not embedded", template_name));
}

std::string scheme_includes(const std::vector<std::string>& schemes) {
  std::vector<std::string> lines;
  lines.reserve(schemes.size());
  for (const std::string& scheme : schemes)
    lines.push_back(fmt::format("#include <spider/kernels/{}.h>", scheme));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

int minimum_arch(plan::Engine engine) {
  return engine == plan::Engine::cuda ? oldest_arch : 80;
}

std::string comment_text(const std::vector<std::string>& lines) {
  return fmt::format("// {}", fmt::join(lines, "\n// "));
}

std::string header_text(const std::string& name, std::string contract, render::Bindings provenance) {
  provenance["guard"] = "SPIDER_KERNEL_" + upper_case(name) + "_H";
  provenance["abi"] = fmt::to_string(runtime_abi);
  provenance["contract"] = std::move(contract);
  return render_part("kernel.h.in", provenance) + "\n";
}

std::string constants_text(std::string_view type, std::string_view name,
                           const std::vector<std::string>& values, std::string_view between) {
  return render_part("constants.cu.in", {{"type", std::string(type)},
                                         {"name", std::string(name)},
                                         {"values", fmt::format("{}", fmt::join(values, between))}});
}

std::string float_row_text(const plan::Matrix& matrix, int row, double scale) {
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(matrix.columns));
  for (int column = 0; column < matrix.columns; ++column)
    texts.push_back(fmt::format("{:a}F", static_cast<float>(matrix.at(row, column) / scale)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void bind_row_products(const Kernel& kernel, render::Bindings& bindings) {
  bindings["products"] = fmt::format("{}", fmt::join(row_products(kernel), "\n"));
}

std::string row_products_function(const Kernel& kernel) {
  return constants_text("spider::RowProduct", "product", row_products(kernel), "\n");
}

std::string shift_groups_function(const plan::Contraction& contraction) {
  return constants_text("int", "shift_group", shift_groups(contraction), ", ");
}

std::string operands_struct(const Kernel& kernel) {
  render::Bindings bindings;
  bind_operands(kernel, bindings);
  bindings.erase("product_count");
  return render_part("operands.cu.in", bindings);
}

std::string reach2d_struct(const Kernel& kernel, int row_low, int row_high,
                           const plan::ColumnReach& columns) {
  render::Bindings bindings;
  bind_tap_bands(kernel.plan, bindings);
  bind_column_reach(columns, bindings);
  bindings["row_low"] = fmt::to_string(row_low);
  bindings["row_high"] = fmt::to_string(row_high);
  bindings["rules"] = wide_name(kernel.spec.storage, "AxisRules");
  bindings["row_rules"] = axis_rules_text(kernel.spec, spec::axis_y);
  bindings["column_rules"] = axis_rules_text(kernel.spec, spec::axis_x);
  return render_part("reach2d.cu.in", bindings);
}

std::string reach3d_struct(const Kernel& kernel, int row_low, int row_high,
                           const plan::ColumnReach& columns) {
  const std::vector<plan::TapRow>& rows = kernel.plan.tap_rows;
  const std::vector<std::string> bands = volume_bands(kernel.plan);
  const auto [full_low, full_high] = full_planes(kernel.plan);
  render::Bindings bindings;
  bind_column_reach(columns, bindings);
  bindings["plane_low"] = fmt::to_string(rows.front().dz);
  bindings["plane_high"] = fmt::to_string(rows.back().dz);
  bindings["row_low"] = fmt::to_string(row_low);
  bindings["row_high"] = fmt::to_string(row_high);
  bindings["full_low"] = fmt::to_string(full_low);
  bindings["full_high"] = fmt::to_string(full_high);
  bindings["band_count"] = fmt::to_string(bands.size());
  bindings["bands"] = constants_text("spider::VolumeBand", "band", bands, ",\n");
  bindings["rules"] = wide_name(kernel.spec.storage, "AxisRules");
  bindings["plane_rules"] = axis_rules_text(kernel.spec, spec::axis_z);
  bindings["row_rules"] = axis_rules_text(kernel.spec, spec::axis_y);
  bindings["column_rules"] = axis_rules_text(kernel.spec, spec::axis_x);
  return render_part("reach3d.cu.in", bindings);
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string storage_code(spec::Storage storage) {
  return "SPIDER_" + upper_case(std::string(storage_name(storage)));
}

std::string axis_rules_text(const spec::StencilSpec& spec, int axis) {
  const spec::AxisBoundary boundary = axis < 3 - spec.dimensions ? spec::AxisBoundary{} : spec.boundary[axis];
  const spec::Storage storage = spec.storage;
  const int width = 2 + 2 * spec::element_bytes(storage);
  return fmt::format("{{spider::FaceRule::{}, spider::FaceRule::{}, {:#0{}x}, {:#0{}x}}}",
                     spec::rule_name(boundary.low.rule), spec::rule_name(boundary.high.rule),
                     stored_bits(storage, boundary.low.value), width,
                     stored_bits(storage, boundary.high.value), width);
}

std::string operand_text(const pack::PackedOperand& operand, const std::string& where) {
  std::string text = fmt::format("{{  // {}\n", where);
  for (int lane = 0; lane < pack::warp_lanes; lane += lanes_per_line) {
    std::vector<std::string> vectors;
    for (int i = lane; i < lane + lanes_per_line; ++i) {
      vectors.push_back(fmt::format("{{{{{:#010x}, {:#010x}, {:#010x}, {:#010x}}}}}", operand.values[i][0],
                                    operand.values[i][1], operand.values[i][2], operand.values[i][3]));
    }
    text += fmt::format("    {},\n", fmt::join(vectors, ", "));
  }
  return text + "},";
}

std::string lane_words_text(const std::array<std::uint32_t, pack::warp_lanes>& words,
                            std::string_view indent) {
  std::vector<std::string> lines;
  for (int lane = 0; lane < pack::warp_lanes; lane += words_per_line) {
    const auto first = words.begin() + lane;
    lines.push_back(fmt::format("{}{:#010x},", indent, fmt::join(first, first + words_per_line, ", ")));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string result_scales_text(const Kernel& kernel) {
  const plan::RoundedWeights& weights = kernel.plan.weights;
  const std::size_t sums = kernel.spec.sums.size();
  if (sums == 1)
    return fmt::format("static constexpr float result_scale = {};  // of sums",
                       result_scale_text(weights, 0));
  std::vector<std::string> scales;
  for (int sum = 0; sum < static_cast<int>(sums); ++sum) scales.push_back(result_scale_text(weights, sum));
  return fmt::format("static constexpr int sum_count = {};\n{}", sums,
                     constants_text("float", "result_scale_of", scales, ", "));
}

std::string product_unit_text(const plan::RoundedWeights& weights) {
  return fmt::format("0x1p{}F", weights.sum_exponent - weights.exponent);
}

void bind_column_reach(const plan::ColumnReach& reach, render::Bindings& bindings) {
  bindings["highest_low"] = fmt::to_string(reach.highest_low);
  bindings["lowest_high"] = fmt::to_string(reach.lowest_high);
  bindings["column_reach_low"] = fmt::to_string(reach.low);
  bindings["column_reach_high"] = fmt::to_string(reach.high);
}

void bind_operands(const Kernel& kernel, render::Bindings& bindings) {
  const plan::Contraction& contraction = kernel.contraction();
  const pack::PackedKernel& packed = kernel.packed;
  bindings["operand_count"] = fmt::to_string(contraction.operands.size());
  bindings["operands"] = operands_text(kernel);
  bindings["metadata_count"] = fmt::to_string(packed.metadata.size());
  bindings["metadata"] = metadata_text(packed);
  bindings["product_count"] = fmt::to_string(contraction.products.size());
  bindings["result_scales"] = result_scales_text(kernel);
}

void bind_tap_bands(const plan::KernelPlan& plan, render::Bindings& bindings) {
  std::vector<std::string> texts;
  for (const auto& [low_dy, high_dy, low, high] : plane_bands(plan, plan.tap_rows.front().dz))
    texts.push_back(fmt::format("{{{}, {}, {}, {}}}", low_dy, high_dy, low, high));
  bindings["bands"] = fmt::format("{}", fmt::join(texts, ", "));
  bindings["band_count"] = fmt::to_string(texts.size());
}

}  // namespace spidergen::emit
