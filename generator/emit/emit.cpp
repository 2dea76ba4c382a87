#include "emit/emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.h"
#include "emit/describe.h"
#include "emit/templates.h"
#include "plan/half.h"
#include "plan/streaming.h"
#include "render/render.h"

namespace spidergen::emit {
namespace {

constexpr int runtime_abi = 1;
constexpr int minimum_arch = 80;  // the first with mma.sp
constexpr int lanes_per_line = 2;
constexpr int words_per_line = 8;

render::Template find_template(std::string_view name) {
  for (const EmbeddedTemplate& embedded : embedded_templates()) {
    if (embedded.name == name) return {embedded.name, embedded.text};
  }
  throw diag::InternalError(fmt::format("template {} is not embedded", name));
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// `low..high` rows of taps that follow each other and span the same columns, as one.
std::string bands_text(const plan::KernelPlan& plan, int& count) {
  std::vector<std::string> bands;
  for (std::size_t i = 0; i < plan.tap_rows.size();) {
    const plan::TapRow& first = plan.tap_rows[i];
    int last_dy = first.dy;
    for (++i; i < plan.tap_rows.size(); ++i) {
      const plan::TapRow& next = plan.tap_rows[i];
      if (next.dy != last_dy + 1 || next.low != first.low || next.high != first.high) break;
      last_dy = next.dy;
    }
    bands.push_back(fmt::format("{{{}, {}, {}, {}}}", first.dy, last_dy, first.low, first.high));
  }
  count = static_cast<int>(bands.size());
  return fmt::format("{}", fmt::join(bands, ", "));
}

std::string axis_rules_text(const spec::AxisBoundary& boundary) {
  return fmt::format("{{spider::FaceRule::{}, spider::FaceRule::{}, {:#06x}, {:#06x}}}",
                     spec::rule_name(boundary.low.rule), spec::rule_name(boundary.high.rule),
                     plan::to_f16_bits(boundary.low.value), plan::to_f16_bits(boundary.high.value));
}

std::string faces_text(const spec::StencilSpec& spec) {
  std::vector<std::string> axes;
  for (const spec::AxisBoundary& axis : spec.boundary) {
    const auto face = [](const spec::Face& f) {
      return fmt::format("{{spider::FaceRule::{}, {:a}F}}", spec::rule_name(f.rule),
                         plan::round_to_f16(f.value));
    };
    axes.push_back(fmt::format("{{{}, {}}}", face(axis.low), face(axis.high)));
  }
  return fmt::format("{}", fmt::join(axes, ",\n"));
}

std::string where_text(const plan::Pass& pass, const plan::Operand& operand,
                       const plan::RoundedWeights& weights) {
  const int low = operand.shift + pass.mapping.window_low;
  return fmt::format("dy {}, dx {}..{}{}", operand.dy, low, low + pass.mapping.window_width - 1,
                     weights.terms == 1 ? "" : (operand.term == 0 ? ", leading terms" : ", remainders"));
}

/// One operand: a comment that says which taps it holds, then the four registers of each lane.
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

std::string operands_text(const plan::Pass& pass, const pack::PackedPass& packed,
                          const plan::RoundedWeights& weights) {
  std::vector<std::string> blocks;
  for (std::size_t i = 0; i < pass.operands.size(); ++i) {
    blocks.push_back(operand_text(packed.operands[i], where_text(pass, pass.operands[i], weights)));
  }
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

std::string metadata_text(const pack::PackedPass& packed) {
  std::vector<std::string> blocks;
  for (const pack::MetadataFragment& words : packed.metadata) {
    std::string text = "{\n";
    for (int lane = 0; lane < pack::warp_lanes; lane += words_per_line) {
      const auto first = words.begin() + lane;
      text += fmt::format("    {:#010x},\n", fmt::join(first, first + words_per_line, ", "));
    }
    blocks.push_back(text + "},");
  }
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

std::string products_text(const plan::Pass& pass, const pack::PackedPass& packed) {
  std::vector<std::string> lines;
  for (const plan::Product& product : pass.products) {
    const pack::PackedOperand& operand = packed.operands[product.operand];
    lines.push_back(fmt::format("{{{}, {}, {}, {}, {}}},", product.row, product.shift, product.operand,
                                operand.metadata, operand.selector));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string tap_rows_text(const plan::KernelPlan& plan) {
  std::vector<std::string> lines;
  for (const plan::TapRow& row : plan.tap_rows) {
    lines.push_back(fmt::format("{{{}, {}, {}, {}}},", row.dz, row.dy, row.low, row.high));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// A line per tap row, folded after four taps.
std::string taps_text(const plan::KernelPlan& plan) {
  constexpr int taps_per_line = 4;
  std::string text;
  int on_line = 0;
  const plan::RoundedTap* previous = nullptr;
  for (const plan::RoundedTap& tap : plan.weights.taps) {
    const bool same_row = previous != nullptr && previous->at[0] == tap.at[0] && previous->at[1] == tap.at[1];
    const bool fold = !same_row || on_line == taps_per_line;
    if (previous != nullptr) text += fold ? "\n" : " ";
    on_line = fold ? 1 : on_line + 1;
    text += fmt::format("{{{}, {}}},", fmt::join(tap.at, ", "), tap.packed);
    previous = &tap;
  }
  return text;
}

std::string shift_vectors_text(const plan::Pass& pass) {
  constexpr int vector_elements = 8;
  std::vector<int> vectors;
  for (const int shift : pass.shifts) vectors.push_back((shift - pass.shifts.front()) / vector_elements);
  return fmt::format("{}", fmt::join(vectors, ", "));
}

std::string report_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::vector<std::string> lines;
  for (const std::string& line : report(spec, plan)) lines.push_back("// " + line);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// What a caller must know, for the header.
std::string contract_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::string text = "/* The kernel for spider_apply and its kin; fields hold f16.";
  for (const std::string& line : report(spec, plan)) {
    if (line.starts_with("Stencil") || line.starts_with("Boundary")) text += "\n * " + line;
  }
  return text + " */";
}

render::Bindings provenance(const spec::StencilSpec& spec, const std::string& version) {
  return {{"name", spec.name},
          {"summary", summary(spec)},
          {"version", version},
          {"source", spec.source_name},
          {"hash", spec.source_hash}};
}

void bind_streaming(const plan::Pass& pass, render::Bindings& bindings) {
  const plan::Streaming& streaming = pass.streaming;
  bindings["tiles"] = fmt::to_string(streaming.tiles_per_warp);
  bindings["warps_per_block"] = fmt::to_string(streaming.warps_per_block);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(streaming.blocks_per_multiprocessor);
  bindings["preferred_rows"] = fmt::to_string(streaming.preferred_rows);
  bindings["ring_rows"] = fmt::to_string(streaming.ring_rows);
  bindings["ring_vectors"] = fmt::to_string(plan::ring_row_vectors(pass));
  bindings["ring_row_bytes"] = fmt::to_string(plan::ring_row_bytes(pass));
  bindings["batch_rows"] = fmt::to_string(plan::batch_rows(pass));
  bindings["staged_vectors"] = fmt::to_string(plan::staged_vectors(pass));
  bindings["highest_low"] = fmt::to_string(pass.column_reach.highest_low);
  bindings["lowest_high"] = fmt::to_string(pass.column_reach.lowest_high);
  bindings["column_reach_low"] = fmt::to_string(pass.column_reach.low);
  bindings["column_reach_high"] = fmt::to_string(pass.column_reach.high);
  bindings["first_column"] = fmt::to_string(pass.shifts.front() + pass.mapping.window_low);
  bindings["operands_in_registers"] = streaming.operands_in_registers ? "true" : "false";
  bindings["unrolled_rows"] = streaming.rotate_by_unrolling ? "rows_in_flight" : "1";
}

void bind_operands(const plan::KernelPlan& plan, const plan::Pass& pass, const pack::PackedPass& packed,
                   render::Bindings& bindings) {
  bindings["row_low"] = fmt::to_string(pass.row_low);
  bindings["row_high"] = fmt::to_string(pass.row_high);
  bindings["shift_count"] = fmt::to_string(pass.shifts.size());
  bindings["shift_vectors"] = shift_vectors_text(pass);
  bindings["operand_count"] = fmt::to_string(pass.operands.size());
  bindings["operands"] = operands_text(pass, packed, plan.weights);
  bindings["metadata_count"] = fmt::to_string(packed.metadata.size());
  bindings["metadata"] = metadata_text(packed);
  bindings["product_count"] = fmt::to_string(pass.products.size());
  bindings["products"] = products_text(pass, packed);
  bindings["result_scale"] = fmt::format("0x1p{}F", -plan.weights.exponent);
}

EmittedFile emit_header(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                        const std::string& version) {
  render::Bindings bindings = provenance(spec, version);
  bindings["guard"] = "SPIDER_KERNEL_" + upper_case(spec.name) + "_H";
  bindings["abi"] = fmt::to_string(runtime_abi);
  bindings["contract"] = contract_text(spec, plan);
  return {spec.name + ".h", render::render(find_template("kernel.h.in"), bindings)};
}

EmittedFile emit_source(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                        const pack::PackedKernel& packed, const std::string& version) {
  render::Bindings bindings = provenance(spec, version);
  int band_count = 0;
  bindings["bands"] = bands_text(plan, band_count);
  bindings["band_count"] = fmt::to_string(band_count);
  bindings["report"] = report_text(spec, plan);
  bindings["row_rules"] = axis_rules_text(spec.boundary[spec::axis_y]);
  bindings["column_rules"] = axis_rules_text(spec.boundary[spec::axis_x]);
  bindings["faces"] = faces_text(spec);
  bindings["tap_rows"] = tap_rows_text(plan);
  bindings["taps"] = taps_text(plan);
  bindings["dimensions"] = fmt::to_string(spec.dimensions);
  bindings["minimum_arch"] = fmt::to_string(minimum_arch);
  bindings["reach_low"] = fmt::format("{}", fmt::join(plan.reach_low, ", "));
  bindings["reach_high"] = fmt::format("{}", fmt::join(plan.reach_high, ", "));
  const bool gapless = static_cast<int>(plan.tap_rows.size()) == plan.passes.front().rows_in_flight();
  bindings["gapless"] = gapless ? "true" : "false";
  bind_streaming(plan.passes.front(), bindings);
  bind_operands(plan, plan.passes.front(), packed.passes.front(), bindings);
  return {spec.name + ".cu", render::render(find_template("stream2d.cu.in"), bindings)};
}

}  // namespace

std::vector<EmittedFile> emit(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                              const pack::PackedKernel& packed, const std::string& version) {
  return {emit_source(spec, plan, packed, version), emit_header(spec, plan, version)};
}

}  // namespace spidergen::emit
