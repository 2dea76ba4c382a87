#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "emit/tile_text.h"
#include "plan/bands.h"

namespace spidergen::emit {
namespace {

/// The sums of products; for bands along x those of the first product of each.
std::vector<std::string> sums_of(const plan::Contraction& contraction, int first, int end, int step) {
  std::vector<std::string> sums;
  for (int i = first; i < end; i += step) sums.push_back(fmt::to_string(contraction.products[i].sum));
  return sums;
}

/// The first `count` operands of bands, those along y, and their taps.
std::string column_operands_text(const plan::KernelPlan& plan, const plan::Contraction& contraction,
                                 const pack::PackedKernel& packed, int count) {
  std::vector<std::string> blocks;
  for (int i = 0; i < count; ++i) {
    const plan::TileMapping& mapping = contraction.mapping;
    std::string where =
        fmt::format("dy {}..{}, dx 0", mapping.window_low, mapping.window_low + mapping.window_width - 1);
    if (plan.weights.terms > 1)
      where += contraction.operands[i].term == 0 ? ", leading terms" : ", remainders";
    blocks.push_back(operand_text(packed.operands[i], where));
  }
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

/// The operands along x: two words of each lane, in registers 0 and 2.
std::string comb_words_text(const plan::Contraction& contraction, const pack::PackedKernel& packed) {
  std::string text;
  for (std::size_t i = 0; i < contraction.operands.size(); ++i) {
    const plan::Source& source = contraction.sources[contraction.operands[i].source];
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

SchemeText text_of(const plan::Star2d& tiles, const Kernel& kernel) {
  const plan::Contraction& contraction = kernel.contraction();
  const pack::PackedKernel& packed = kernel.packed;
  std::vector<std::string> forms;
  for (const plan::TileForm& form : tiles.forms) {
    forms.push_back(fmt::format("spider::star2d_form<Stencil, spider::Star2dForm<{}, {}, {}>>({}),",
                                form.rows, form.columns, form.blocks_per_multiprocessor,
                                form.min_blocks_per_sm));
  }
  const int column_operands = plan::column_operands_of(contraction);
  const render::Bindings operands = {
      {"operand_count", fmt::to_string(column_operands)},
      {"operands", column_operands_text(kernel.plan, contraction, packed, column_operands)},
      {"metadata_count", "1"},
      {"metadata", fmt::format("{{\n{}\n}},", lane_words_text(packed.metadata.front(), "    "))},
      {"result_scales", result_scales_text(kernel)},
  };
  const render::Bindings bindings = {
      {"operands", render_part("operands.cu.in", operands)},
      {"comb_words", comb_words_text(contraction, packed)},
      {"row_bands", fmt::to_string(plan::row_bands_of(contraction))},
      {"sum_of_operand",
       constants_text("int", "sum_of_operand", sums_of(contraction, 0, column_operands, 1), ", ")},
      {"sum_of_row_band",
       constants_text("int", "sum_of_row_band",
                      sums_of(contraction, column_operands, static_cast<int>(contraction.products.size()),
                              plan::band_combs * plan::band_chunks),
                      ", ")},
      {"reach", reach2d_struct(kernel, contraction.row_low, contraction.row_high, contraction.column_reach)},
      {"storage", storage_struct(kernel.spec, kernel.plan)},
      {"warps_per_block", fmt::to_string(plan::TileForm::warps_per_block)},
  };
  return {render_part("star2d.cu.in", bindings), forms};
}

/// Describes the products of both bands, then the forms of tiles, from the largest.
void describe(const plan::Star2d& tiles, const plan::KernelPlan& plan, Lines& lines) {
  const plan::Contraction& contraction = plan.contraction;
  add(lines, "Plan      bands: {} mma.sp.m16n8k32 along y and {} mma.sync.m16n8k16 along x per 128 outputs",
      plan::column_operands_of(contraction), plan::band_chunks * plan::row_bands_of(contraction));
  add(lines, "          {}, {}", contraction.mapping.name,
      counted(std::ssize(contraction.operands), "distinct operand"));
  const std::vector<plan::TileForm>& forms = tiles.forms;
  add(lines,
      "          {} rows of {} x a warp, whose inputs are all requested at once, into shared "
      "memory; {} warps a block",
      forms.front().rows, forms.front().columns, forms.front().across);
  for (std::size_t i = 1; i < forms.size(); ++i) {
    add(lines, "          {} rows of {} where these would be fewer than {} blocks a multiprocessor",
        forms[i].rows, forms[i].columns, forms[i - 1].min_blocks_per_sm);
  }
}

std::string json_of(const plan::Star2d& tiles, const plan::KernelPlan& /*plan*/) {
  return forms_json(tiles.forms, tiles.estimated_registers, tiles.shared_bytes);
}

}  // namespace spidergen::emit
