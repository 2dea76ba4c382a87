#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string>
#include <vector>

#include "emit/core_text.h"
#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"

namespace spidergen::emit {
namespace {

/// A list, folded after eight weights.
std::string list_text(spec::Storage storage, const std::vector<double>& list) {
  constexpr std::size_t weights_per_line = 8;
  std::string text = "{";
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string_view before = i == 0 ? "" : i % weights_per_line == 0 ? ",\n " : ", ";
    text += fmt::format("{}{}", before, number_literal(storage, list[i]));
  }
  return text + "},";
}

}  // namespace

SchemeText text_of(const plan::Passes2d& scheme, const Kernel& kernel) {
  const plan::Contraction& contraction = kernel.contraction();
  const plan::LowRank& lists = contraction.low_rank.front();  // all have the same reach
  const spec::Storage storage = kernel.spec.storage;
  std::vector<std::string> along_x;
  std::vector<std::string> along_y;
  std::vector<int> sums;
  for (int sum = 0; sum < std::ssize(contraction.low_rank); ++sum) {
    for (const plan::ListPair& pair : contraction.low_rank[sum].pairs) {
      along_x.push_back(list_text(storage, pair.x.front()));
      along_y.push_back(list_text(storage, pair.y.front()));
      sums.push_back(sum);
    }
  }
  render::Bindings bindings;
  const auto set = [&](const std::string& name, int value) { bindings[name] = fmt::to_string(value); };
  bindings["reach"] =
      reach2d_struct(kernel, contraction.row_low, contraction.row_high, contraction.column_reach);
  bindings["cells"] = cells_struct(storage);
  bindings["number"] = storage == spec::Storage::f64 ? "double" : "float";
  bindings["along_x"] = fmt::format("{}", fmt::join(along_x, "\n"));
  bindings["along_y"] = fmt::format("{}", fmt::join(along_y, "\n"));
  set("x_count", lists.x_high() - lists.x_low + 1);
  set("y_count", lists.y_high() - lists.y_low + 1);
  set("rank", static_cast<int>(sums.size()));
  bindings["sums"] = contraction.low_rank.size() == 1
                         ? ""
                         : fmt::format("static constexpr int sum_count = {}, tap_sums[rank] = {{{}}};",
                                       contraction.low_rank.size(), fmt::join(sums, ", "));
  set("outputs", scheme.outputs);
  set("first_column", scheme.first_column);
  set("warps_per_block", scheme.warps_per_block);
  set("group_rows", scheme.group_rows);
  set("ring_groups", scheme.ring_groups);
  set("blocks_per_multiprocessor", scheme.blocks_per_multiprocessor);
  return {render_part("passes2d.cu.in", bindings),
          {"spider::passes2d_form<Stencil, spider::RowAlignment::aligned>(),",
           "spider::passes2d_form<Stencil, spider::RowAlignment::any>(),"}};
}

void describe(const plan::Passes2d& scheme, const plan::KernelPlan& plan, Lines& lines) {
  constexpr int lanes = 32;
  std::vector<std::size_t> ranks;
  for (const plan::LowRank& lists : plan.contraction.low_rank) ranks.push_back(lists.pairs.size());
  add(lines, "Plan      rank {}: a pass along x and a pass along y, {} a point", fmt::join(ranks, " and "),
      counted(std::ssize(plan.contraction.taps), "multiply-add"));
  for (const plan::LowRank& lists : plan.contraction.low_rank) {
    add(lines, "          truncation {:.1e} of sum |w|, {:.1e} with lists of {} numbers", lists.truncation,
        lists.deviation, plan.weights.in_f64 ? "f64" : "f32");
  }
  add(lines, "          strips of {} columns, {} of a lane; {} groups of {} rows wait in shared memory",
      scheme.warps_per_block * lanes * scheme.outputs, scheme.outputs, scheme.ring_groups, scheme.group_rows);
}

std::string json_of(const plan::Passes2d& scheme, const plan::KernelPlan& plan) {
  std::vector<std::string> sums;
  for (const plan::LowRank& lists : plan.contraction.low_rank) {
    sums.push_back(
        fmt::format("\"rank\": {}, \"truncation\": {}, \"deviation\": {}, \"magnitude\": {}, "
                    "\"passed\": {}, \"y_magnitude\": {}",
                    lists.pairs.size(), lists.truncation, lists.deviation, lists.magnitude, lists.passed,
                    lists.y_magnitude));
  }
  const std::string lists =
      sums.size() == 1 ? sums.front() : fmt::format("\"lists\": [{{{}}}]", fmt::join(sums, "}, {"));
  return fmt::format(
      "{{\"multiply_adds\": {}, {}, \"outputs\": {}, \"warps_per_block\": {}, \"group_rows\": {}, "
      "\"ring_groups\": {}, \"blocks_per_multiprocessor\": {}, \"estimated_registers\": {}, "
      "\"shared_bytes\": {}, \"cells_loaded\": {}}}",
      plan.contraction.taps.size(), lists, scheme.outputs, scheme.warps_per_block, scheme.group_rows,
      scheme.ring_groups, scheme.blocks_per_multiprocessor, scheme.estimated_registers, scheme.shared_bytes,
      scheme.cells_loaded);
}

}  // namespace spidergen::emit
