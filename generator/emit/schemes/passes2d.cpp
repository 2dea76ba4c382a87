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
  const plan::LowRank& lists = contraction.low_rank.front();
  const spec::Storage storage = kernel.spec.storage;
  std::vector<std::string> along_x;
  std::vector<std::string> along_y;
  for (const plan::ListPair& pair : lists.pairs) {
    along_x.push_back(list_text(storage, pair.x.front()));
    along_y.push_back(list_text(storage, pair.y.front()));
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
  set("rank", static_cast<int>(lists.pairs.size()));
  set("outputs", scheme.outputs);
  set("first_column", scheme.first_column);
  set("warps_per_block", scheme.warps_per_block);
  set("group_rows", scheme.group_rows);
  set("ring_groups", scheme.ring_groups);
  set("blocks_per_multiprocessor", scheme.blocks_per_multiprocessor);
  return {render_part("passes2d.cu.in", bindings), {"spider::passes2d_form<Stencil>(),"}};
}

void describe(const plan::Passes2d& scheme, const plan::KernelPlan& plan, Lines& lines) {
  const plan::LowRank& lists = plan.contraction.low_rank.front();
  constexpr int lanes = 32;
  lines.push_back(fmt::format("Plan      rank {}: a pass along x and a pass along y, {} a point",
                              lists.pairs.size(),
                              counted(std::ssize(plan.contraction.taps), "multiply-add")));
  lines.push_back(fmt::format("          truncation {:.1e} of sum |w|, {:.1e} with lists of {} numbers",
                              lists.truncation, lists.deviation, plan.weights.in_f64 ? "f64" : "f32"));
  lines.push_back(
      fmt::format("          strips of {} columns, {} of a lane; {} groups of {} rows wait in shared memory",
                  scheme.warps_per_block * lanes * scheme.outputs, scheme.outputs, scheme.ring_groups,
                  scheme.group_rows));
}

std::string json_of(const plan::Passes2d& scheme, const plan::KernelPlan& plan) {
  const plan::LowRank& lists = plan.contraction.low_rank.front();
  return fmt::format(
      "{{\"multiply_adds\": {}, \"rank\": {}, \"truncation\": {}, \"deviation\": {}, \"magnitude\": {}, "
      "\"passed\": {}, \"y_magnitude\": {}, \"outputs\": {}, \"warps_per_block\": {}, \"group_rows\": {}, "
      "\"ring_groups\": {}, \"blocks_per_multiprocessor\": {}, \"estimated_registers\": {}, "
      "\"shared_bytes\": {}, \"cells_loaded\": {}}}",
      plan.contraction.taps.size(), lists.pairs.size(), lists.truncation, lists.deviation, lists.magnitude,
      lists.passed, lists.y_magnitude, scheme.outputs, scheme.warps_per_block, scheme.group_rows,
      scheme.ring_groups, scheme.blocks_per_multiprocessor, scheme.estimated_registers, scheme.shared_bytes,
      scheme.cells_loaded);
}

}  // namespace spidergen::emit
