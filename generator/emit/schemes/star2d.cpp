#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "plan/bands.h"

namespace spidergen::emit {
namespace {

/// The first `count` operands of bands, which are those along y, and the taps that they hold.
std::string column_operands_text(const plan::KernelPlan& plan, const plan::Pass& pass,
                                 const pack::PackedPass& packed, int count) {
  std::vector<std::string> blocks;
  for (int i = 0; i < count; ++i) {
    const plan::TileMapping& mapping = pass.mapping;
    std::string where =
        fmt::format("dy {}..{}, dx 0", mapping.window_low, mapping.window_low + mapping.window_width - 1);
    if (plan.weights.terms > 1) where += pass.operands[i].term == 0 ? ", leading terms" : ", remainders";
    blocks.push_back(operand_text(packed.operands[i], where));
  }
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

/// Those along x: two words of each lane, in registers 0 and 2.
std::string comb_words_text(const plan::Pass& pass, const pack::PackedPass& packed) {
  std::string text;
  for (std::size_t i = 0; i < pass.operands.size(); ++i) {
    const plan::Source& source = pass.sources[pass.operands[i].source];
    if (source.along_y) continue;
    for (const int word : {0, 2}) {
      const int first = source.mapping.row_output.front().x;
      text += fmt::format("{}{{  // columns {}, {}, ... of inputs from column {} on, {} half\n",
                          text.empty() ? "" : "\n", first, first + plan::band_combs,
                          source.mapping.first_input(), word == 0 ? "first" : "second");
      std::array<std::uint32_t, pack::warp_lanes> words{};
      for (int lane = 0; lane < pack::warp_lanes; ++lane) words[lane] = packed.operands[i].values[lane][word];
      text += fmt::format("{}\n}},", lane_words_text(words, "    "));
    }
  }
  return text;
}

}  // namespace

SchemeText star2d_text(const Kernel& kernel) {
  const plan::Pass& pass = kernel.pass();
  const pack::PackedPass& packed = kernel.packed_pass();
  std::vector<std::string> forms;
  for (const plan::TileForm& form : pass.streaming.tile_forms) {
    forms.push_back(fmt::format("spider::star2d_form<Stencil, spider::Star2dForm<{}, {}, {}>>({}),",
                                form.rows, form.columns, form.blocks_per_multiprocessor, form.least_blocks));
  }
  const int column_operands = plan::chained_products(pass) - plan::band_chunks;
  const render::Bindings operands = {
      {"operand_count", fmt::to_string(column_operands)},
      {"operands", column_operands_text(kernel.plan, pass, packed, column_operands)},
      {"metadata_count", "1"},
      {"metadata", fmt::format("{{\n{}\n}},", lane_words_text(packed.metadata.front(), "    "))},
      {"result_scale", result_scale_text(kernel.plan.weights)},
  };
  const render::Bindings bindings = {
      {"operands", render_part("operands.cu.in", operands)},
      {"comb_words", comb_words_text(pass, packed)},
      {"reach", reach2d_struct(kernel, pass.row_low, pass.row_high, pass.column_reach)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"warps_per_block", fmt::to_string(pass.streaming.warps_per_block)},
  };
  return {render_part("star2d.cu.in", bindings), forms};
}

}  // namespace spidergen::emit
