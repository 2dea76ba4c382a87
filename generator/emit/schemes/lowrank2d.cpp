#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "emit/describe.h"
#include "emit/kernel_text.h"
#include "emit/schemes/rims_text.h"
#include "emit/schemes/schemes.h"
#include "emit/schemes/stepping_text.h"
#include "emit/storage_text.h"
#include "plan/compose.h"
#include "plan/list_pairs.h"
#include "plan/low_rank.h"

namespace spidergen::emit {
namespace {

std::string term_text(const plan::LowRank& lists, const plan::Operand& operand) {
  if (lists.terms == 1) return "";
  return operand.term == 0 ? ", leading terms" : ", remainders";
}

int chunks_of(const plan::LowRank& lists, bool along_y) {
  return along_y ? lists.row_chunks : lists.chunks;
}

/// The number of a sum's operands in a pass.
int operand_count(const plan::LowRank& lists, bool along_y) {
  return static_cast<int>(lists.pairs.size()) * chunks_of(lists, along_y) * lists.terms;
}

/// The operands of a pass, in the order of the plan.
std::string operands_text(const plan::Contraction& contraction, const pack::PackedKernel& packed,
                          bool along_y) {
  std::vector<std::string> blocks;
  std::vector<int> counts(contraction.low_rank.size());
  for (const plan::Product& product : contraction.products) {
    if (contraction.sources[product.source].along_y != along_y) continue;
    const plan::Operand& operand = contraction.operands[product.operand];
    const plan::LowRank& lists = contraction.low_rank[product.sum];
    const int pair = counts[product.sum]++ / lists.terms / chunks_of(lists, along_y);
    const std::string inputs = along_y ? fmt::format("rows from {} on", operand.dy)
                                       : fmt::format("inputs from column {} on", operand.shift);
    const std::string of_sum = counts.size() == 1 ? "" : fmt::format("sum {}, ", product.sum);
    blocks.push_back(
        operand_text(packed.operands[product.operand],
                     fmt::format("{}list {}, {}{}", of_sum, pair, inputs, term_text(lists, operand))));
  }
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

/// The SumLists of each sum.
std::string lists_text(const plan::Contraction& contraction) {
  std::vector<std::string> texts;
  int first_x = 0;
  int first_y = 0;
  for (const plan::LowRank& lists : contraction.low_rank) {
    texts.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}}}", lists.pairs.size(), lists.terms,
                                lists.first_column, lists.chunks, lists.first_row, lists.row_chunks, first_x,
                                first_y));
    first_x += operand_count(lists, false);
    first_y += operand_count(lists, true);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string scales_text(const std::vector<plan::LowRank>& low_rank) {
  std::vector<std::string> scales;
  for (const plan::LowRank& lists : low_rank) scales.push_back(fmt::format("{:a}F", lists.scale));
  if (scales.size() == 1)
    return fmt::format("static constexpr float result_scale = {};  // of sums", scales[0]);
  return fmt::format("static constexpr int sum_count = {};\n{}", scales.size(),
                     constants_text("float", "result_scale_of", scales, ", "));
}

/// The composed boundary for two passes: constants are 0, and their contribution is added separately.
spec::StencilSpec with_rules_of_passes(const spec::StencilSpec& spec) {
  spec::StencilSpec composed = plan::with_composed_rules(spec);
  for (const int axis : {spec::axis_y, spec::axis_x}) {
    const auto set = [&](const spec::Face& of_step, spec::Face& face) {
      if (plan::mirrors_two_cells(spec, of_step, axis)) face.rule = spec::BoundaryRule::mirror;
      if (!plan::composes_with_constant(spec, of_step, axis)) return;
      face.rule = spec::BoundaryRule::antisymmetric;
      face.value = 0;
    };
    set(spec.boundary[axis].low, composed.boundary[axis].low);
    set(spec.boundary[axis].high, composed.boundary[axis].high);
  }
  return composed;
}

/// The Stencil of a kernel whose constant faces add to results.
std::string boundary2d_struct(const plan::BoundaryContribution& added, double scale) {
  const plan::Matrix& values = added.planes.front();
  std::vector<std::string> rows;
  rows.reserve(static_cast<std::size_t>(values.rows));
  for (int row = 0; row < values.rows; ++row)
    rows.push_back(fmt::format("{{{}}},", float_row_text(values, row, scale)));
  const auto& [near_planes, near_rows, near_columns] = added.near;
  return render_part("lowrank2d_constant.cu.in", {{"columns", fmt::to_string(values.columns)},
                                                  {"values", fmt::format("{}", fmt::join(rows, "\n"))},
                                                  {"low_rows", fmt::to_string(near_rows[0])},
                                                  {"high_rows", fmt::to_string(near_rows[1])},
                                                  {"low_columns", fmt::to_string(near_columns[0])},
                                                  {"high_columns", fmt::to_string(near_columns[1])}});
}

/// A plan with the taps of all steps that the truncated lists still have.
plan::KernelPlan with_listed_taps(const plan::KernelPlan& plan) {
  plan::KernelPlan listed = plan;
  const plan::LowRank& lists = plan.contraction.low_rank.front();
  listed.tap_rows.clear();
  for (int dy = lists.y_low; dy <= lists.y_high(); ++dy)
    listed.tap_rows.push_back({0, dy, lists.x_low, lists.x_high()});
  return listed;
}

}  // namespace

SchemeText text_of(const plan::Lowrank2d& scheme, const Kernel& kernel) {
  const plan::Contraction& contraction = kernel.contraction();
  const plan::PassReach reach = plan::reach_of_passes(contraction.low_rank);
  const int steps = kernel.plan.op.steps;
  const spec::StencilSpec spec = steps == 1 ? kernel.spec : with_rules_of_passes(kernel.spec);
  render::Bindings bindings;
  const auto set = [&](const std::string& name, int value) { bindings[name] = fmt::to_string(value); };
  bindings["x_operands"] = operands_text(contraction, kernel.packed, false);
  bindings["y_operands"] = operands_text(contraction, kernel.packed, true);
  bindings["reach"] =
      reach2d_struct({spec, steps == 1 ? kernel.plan : with_listed_taps(kernel.plan), kernel.packed},
                     contraction.row_low, contraction.row_high, contraction.column_reach);
  bindings["what"] = steps == 1 ? "" : fmt::format("{} time steps of ", steps);
  bindings["storage"] = storage_struct(spec, kernel.plan);
  set("steps", steps);
  bindings["lists"] = lists_text(contraction);
  set("first_column", reach.first_column);
  set("chunks", reach.chunks);
  set("row_chunks", reach.row_chunks);
  set("tiles", scheme.tiles);
  set("warps_per_block", scheme.warps_per_block);
  set("ring_groups", scheme.ring_groups);
  set("blocks_per_multiprocessor", scheme.blocks_per_multiprocessor);
  set("preferred_groups", scheme.preferred_groups);
  bindings["result_scale"] = scales_text(contraction.low_rank);
  SchemeText text{render_part("lowrank2d.cu.in", bindings), {}};
  const bool adds = scheme.added.exist();
  for (const std::string_view starts : {"aligned", "any"}) {
    const std::string form = fmt::format("spider::lowrank2d_form<{}, spider::RowAlignment::{}>()",
                                         adds ? "WithBoundaryContribution" : "Stencil", starts);
    text.forms.push_back((scheme.rim_steps ? with_rims(form, scheme.rims, scheme.least) : form) + ",");
  }
  if (adds) text.stencil += boundary2d_struct(scheme.added, contraction.low_rank.front().scale);
  if (scheme.rim_steps) {
    text.stencil += rims_namespace(*scheme.rim_steps, kernel.spec);
    text.forms.emplace_back(rims_form);
    text.more_schemes.emplace_back(plan::RimTiles::name);
  }
  if (scheme.single_step) {
    text.stencil += "\n\n// For what is left of a number of steps.\nnamespace single_step {\n\n" +
                    stepping_struct(*scheme.single_step, kernel) + "\n\n}  // namespace single_step";
    text.forms.emplace_back("spider::stepping2d_form<single_step::Stencil>(),");
    text.more_schemes.emplace_back(plan::Stepping2d::name);
  }
  return text;
}

void describe(const plan::Lowrank2d& scheme, const plan::KernelPlan& plan, Lines& lines) {
  const std::vector<plan::LowRank>& low_rank = plan.contraction.low_rank;
  const int steps = plan.op.steps;
  if (steps > 1) {
    add(lines, "Steps     {} a sweep, composed; what is left of a number of steps is stepped", steps);
    describe_step_time(plan, lines);
  }
  std::vector<std::size_t> ranks;
  for (const plan::LowRank& lists : low_rank) ranks.push_back(lists.pairs.size());
  add(lines,
      "Plan      rank {}: a pass along x and a pass along y, {} mma.sync.m16n8k16 per "
      "128 outputs",
      fmt::join(ranks, " and "), plan.contraction.chained_products());
  for (const plan::LowRank& lists : low_rank) {
    if (steps > 1) {
      add(lines, "          lists reach y {}..{}, x {}..{}: what lies beyond is truncated", lists.y_low,
          lists.y_high(), lists.x_low, lists.x_high());
    }
    add(lines, "          truncation {:.1e} of sum |w|, {:.1e} with operands of {} {} term{}",
        lists.truncation, lists.deviation, lists.terms, plan::type_name(lists.type),
        lists.terms == 1 ? "" : "s");
  }
  add(lines, "          strips of {} columns, {} a warp; {} groups of 16 rows wait in shared memory",
      scheme.warps_per_block * scheme.tiles * plan::tile_columns, scheme.tiles * plan::tile_columns,
      scheme.ring_groups);
  if (scheme.rim_steps) {
    if (scheme.added.exist())
      add(lines, "Faces     what constants add near them is a table of {} rows of {}",
          scheme.added.planes.front().rows, scheme.added.planes.front().columns);
    describe_rims(*scheme.rim_steps, scheme.rims, scheme.least, scheme.rims_us, lines);
  }
}

std::string json_of(const plan::Lowrank2d& scheme, const plan::KernelPlan& plan) {
  std::vector<std::string> sums;
  for (const plan::LowRank& lists : plan.contraction.low_rank) {
    sums.push_back(fmt::format(
        "\"rank\": {}, \"terms\": {}, \"truncation\": {}, \"deviation\": {}, \"magnitude\": {}, "
        "\"passed\": {}, \"y_magnitude\": {}, \"list_reach\": [[{}, {}], [{}, {}]]",
        lists.pairs.size(), lists.terms, lists.truncation, lists.deviation, lists.magnitude, lists.passed,
        lists.y_magnitude, -lists.y_low, lists.y_high(), -lists.x_low, lists.x_high()));
  }
  const std::string lists =
      sums.size() == 1 ? sums.front() : fmt::format("\"lists\": [{{{}}}]", fmt::join(sums, "}, {"));
  return fmt::format(
      "{{{}, \"tiles_per_warp\": {}, \"warps_per_block\": {}, \"ring_groups\": {}, "
      "\"blocks_per_multiprocessor\": {}, \"estimated_registers\": {}, \"shared_bytes\": {}, "
      "\"us_per_step\": {:.2f}, \"single_step_us\": {:.1f}, \"rims\": [[{}], [{}]], \"rims_us\": {:.1f}}}",
      lists, scheme.tiles, scheme.warps_per_block, scheme.ring_groups, scheme.blocks_per_multiprocessor,
      scheme.estimated_registers, scheme.shared_bytes, plan.microseconds / plan.op.steps, plan.single_step_us,
      fmt::join(scheme.rims[0], ", "), fmt::join(scheme.rims[1], ", "), scheme.rims_us);
}

}  // namespace spidergen::emit
