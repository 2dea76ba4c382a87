#include "emit/emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diag/diagnostic.h"
#include "emit/cores.h"
#include "emit/describe.h"
#include "emit/storage_text.h"
#include "emit/templates.h"
#include "plan/bands.h"
#include "plan/cores.h"
#include "plan/half.h"
#include "plan/lines.h"
#include "plan/planes.h"
#include "plan/streaming.h"
#include "plan/warpgroups.h"
#include "render/render.h"

namespace spidergen::emit {
namespace {

constexpr int runtime_abi = 1;
constexpr int first_sparse_arch = 80;  // the first with mma.sp
constexpr int warpgroup_arch = 90;     // the only one with wgmma.mma_async.sp
constexpr int lanes_per_line = 2;
constexpr int words_per_line = 8;
constexpr int vector_elements = 8;

/// The files of templates/ that become `<stencil>.cu`.
enum class Template {
  stream1d,
  stream2d,
  tile2d,
  block2d,
  star2d,
  split2d,
  stream3d,
  cuda_cores,
  cores2d,
  cores3d
};

std::string_view name_of(Template chosen) {
  switch (chosen) {
    case Template::stream1d:
      return "stream1d";
    case Template::stream2d:
      return "stream2d";
    case Template::tile2d:
      return "tile2d";
    case Template::block2d:
      return "block2d";
    case Template::star2d:
      return "star2d";
    case Template::split2d:
      return "split2d";
    case Template::stream3d:
      return "stream3d";
    case Template::cuda_cores:
      return "cuda_cores";
    case Template::cores2d:
      return "cores2d";
    case Template::cores3d:
      return "cores3d";
  }
  throw diag::InternalError("a template without a name");
}

Template choose_template(const plan::KernelPlan& plan) {
  if (plan.engine == plan::Engine::cuda) {
    if (plan.cores.ring) return Template::cores3d;
    return plan.cores.tile_rows > 0 ? Template::cores2d : Template::cuda_cores;
  }
  const plan::Pass& pass = plan.passes.front();
  if (pass.walk == plan::Walk::lines) return Template::stream1d;
  if (pass.walk == plan::Walk::planes) return Template::stream3d;
  if (pass.streaming.warpgroups) return Template::split2d;
  if (pass.is_bands()) return Template::star2d;
  if (pass.streaming.tiles_in_shared_memory) return Template::block2d;
  return pass.streaming.tile_forms.empty() ? Template::stream2d : Template::tile2d;
}

int minimum_arch(Template chosen) {
  return chosen == Template::split2d ? warpgroup_arch : first_sparse_arch;
}

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

/// Tap rows of a plane dz, those that follow each other and span the same columns as one band: {lowest dy,
/// highest dy, lowest dx, highest dx} each, ascending.
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

/// Tap rows of one plane as bands.
std::string bands_text(const plan::KernelPlan& plan, int& count) {
  std::vector<std::string> texts;
  for (const auto& [low_dy, high_dy, low, high] : plane_bands(plan, plan.tap_rows.front().dz))
    texts.push_back(fmt::format("{{{}, {}, {}, {}}}", low_dy, high_dy, low, high));
  count = static_cast<int>(texts.size());
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Tap rows of any planes as bands, those of neighbouring planes together where they are the same.
std::string volume_bands_text(const plan::KernelPlan& plan, int& count) {
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
  count = static_cast<int>(texts.size());
  return fmt::format("{}", fmt::join(texts, ",\n"));
}

/// Does every tap row of plane `other` have one in plane `dz` beside or around it?
bool covers(const plan::KernelPlan& plan, int dz, int other) {
  const auto covered = [&](const plan::TapRow& row) {
    return row.dz != other || std::any_of(plan.tap_rows.begin(), plan.tap_rows.end(), [&](const auto& outer) {
             return outer.dz == dz && outer.dy == row.dy && outer.low <= row.low && outer.high >= row.high;
           });
  };
  return std::all_of(plan.tap_rows.begin(), plan.tap_rows.end(), covered);
}

/// The dz from first to last that cover all others: from them a plane is reached as far as from anywhere.
/// Where there are none, all dz are needed for that: then first is the highest and last the lowest.
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

/// Those of an axis that the stencil does not have are a halo that nothing reaches.
std::string axis_rules_text(const spec::StencilSpec& spec, int axis) {
  const spec::AxisBoundary boundary = axis < 3 - spec.dimensions ? spec::AxisBoundary{} : spec.boundary[axis];
  const spec::Storage storage = spec.storage;
  const int width = storage == spec::Storage::f32 ? 10 : 6;
  return fmt::format("{{spider::FaceRule::{}, spider::FaceRule::{}, {:#0{}x}, {:#0{}x}}}",
                     spec::rule_name(boundary.low.rule), spec::rule_name(boundary.high.rule),
                     stored_bits(storage, boundary.low.value), width,
                     stored_bits(storage, boundary.high.value), width);
}

std::string faces_text(const spec::StencilSpec& spec) {
  std::vector<std::string> axes;
  for (const spec::AxisBoundary& axis : spec.boundary) {
    const auto face = [&](const spec::Face& f) {
      return fmt::format("{{spider::FaceRule::{}, {:a}F}}", spec::rule_name(f.rule),
                         stored_value(spec.storage, f.value));
    };
    axes.push_back(fmt::format("{{{}, {}}}", face(axis.low), face(axis.high)));
  }
  return fmt::format("{}", fmt::join(axes, ",\n"));
}

std::string where_text(const plan::Pass& pass, const plan::Operand& operand,
                       const plan::RoundedWeights& weights) {
  const int low = operand.shift + pass.mapping.window_low;
  std::string where = pass.walk == plan::Walk::planes ? fmt::format("dz {}, ", operand.dz) : "";
  where += fmt::format("dy {}, dx ", operand.dy);
  const plan::Source& source = pass.sources[operand.source];
  if (source.mapping.pairs_rows()) {
    const std::string plane = pass.walk == plan::Walk::planes ? fmt::format("dz {}, ", operand.dz) : "";
    where = fmt::format("{}dy {}..{}, dx {}..{}", plane, operand.dy - 1, operand.dy + 1, low,
                        low + pass.mapping.window_width - 1);
  } else if (source.distance() == plan::Position{}) {
    where += fmt::format("{}..{}", low, low + pass.mapping.window_width - 1);
    if (pass.whole_operands) where += operand.source % 2 == 0 ? ", first half" : ", second half";
  } else {
    where += pass.walk == plan::Walk::planes ? fmt::format("0, and dz {}, ", operand.dz + source.distance().z)
                                             : std::string("0, and ");
    where += fmt::format("dy {}, dx 0", operand.dy + source.distance().y);
  }
  return where + (weights.terms == 1 ? "" : (operand.term == 0 ? ", leading terms" : ", remainders"));
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

/// A word of each lane, in lines that begin with `indent`.
std::string lane_words_text(const std::array<std::uint32_t, pack::warp_lanes>& words,
                            std::string_view indent = "") {
  std::vector<std::string> lines;
  for (int lane = 0; lane < pack::warp_lanes; lane += words_per_line) {
    const auto first = words.begin() + lane;
    lines.push_back(fmt::format("{}{:#010x},", indent, fmt::join(first, first + words_per_line, ", ")));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string metadata_text(const pack::PackedPass& packed) {
  std::vector<std::string> blocks;
  for (const pack::MetadataFragment& words : packed.metadata)
    blocks.push_back(fmt::format("{{\n{}\n}},", lane_words_text(words, "    ")));
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

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

std::string products_text(const plan::Pass& pass, const pack::PackedPass& packed) {
  std::vector<std::string> lines;
  const int first_plane = pass.plane_high - pass.plane_low + 1 - pass.planes_in_flight();
  for (const plan::Product& product : pass.products) {
    const pack::PackedOperand& operand = packed.operands[product.operand];
    if (pass.walk == plan::Walk::planes) {
      lines.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}}},", pass.last_plane(product) - first_plane,
                                  product.row, product.source, product.operand, operand.metadata,
                                  operand.selector));
      continue;
    }
    if (pass.walk == plan::Walk::lines) {
      lines.push_back(fmt::format("{{{}, {}, {}, {}}},", product.source, product.operand, operand.metadata,
                                  operand.selector));
      continue;
    }
    // Of whole operands the sources are halves of fragments, two a shift.
    const int fragment = pass.whole_operands ? product.source / 2 : product.source;
    const int selector = pass.whole_operands ? product.source % 2 : operand.selector;
    const int part = !pass.inputs.scaled ? 0 : product.input_term == 1 ? 2 : product.term;
    const int rows_before_last = pass.row_high - pass.row_low - pass.last_row(product);
    const int row_in_flight = pass.rows_in_flight() - 1 - rows_before_last / pass.rows_per_product();
    lines.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}}},", row_in_flight, fragment, product.operand,
                                operand.metadata, selector, part));
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

std::string shift_groups_text(const plan::Pass& pass) {
  constexpr int group = 8;
  std::vector<int> groups;
  for (const int shift : pass.shifts) groups.push_back((shift - pass.shifts.front()) / group);
  return fmt::format("{}", fmt::join(groups, ", "));
}

std::string report_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::vector<std::string> lines;
  for (const std::string& line : report(spec, plan)) lines.push_back("// " + line);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// What a caller must know, for the header.
std::string contract_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::string text =
      fmt::format("/* The kernel for spider_apply and its kin; fields hold {}.", storage_name(spec.storage));
  for (const std::string& line : report(spec, plan)) {
    if (line.starts_with("Stencil") || line.starts_with("Boundary") || line.starts_with("Bound  "))
      text += "\n * " + line;
  }
  return text + " */";
}

std::string storage_code(spec::Storage storage) {
  return "SPIDER_" + upper_case(std::string(storage_name(storage)));
}

render::Bindings provenance(const spec::StencilSpec& spec, const std::string& version) {
  return {
      {"name", spec.name}, {"summary", summary(spec)}, {"version", version}, {"source", spec.source_name}};
}

void bind_column_reach(const plan::ColumnReach& reach, render::Bindings& bindings) {
  bindings["highest_low"] = fmt::to_string(reach.highest_low);
  bindings["lowest_high"] = fmt::to_string(reach.lowest_high);
  bindings["column_reach_low"] = fmt::to_string(reach.low);
  bindings["column_reach_high"] = fmt::to_string(reach.high);
}

void bind_streaming(const plan::Pass& pass, render::Bindings& bindings) {
  const plan::Streaming& streaming = pass.streaming;
  bindings["shift_count"] = fmt::to_string(pass.shifts.size());
  bindings["shift_groups"] = shift_groups_text(pass);
  bindings["rows_in_flight"] = fmt::to_string(pass.rows_in_flight());
  bindings["pair_distance"] = fmt::to_string(pass.sources.back().distance().y);
  bindings["tiles"] = fmt::to_string(streaming.tiles_per_warp);
  bindings["warps_per_block"] = fmt::to_string(streaming.warps_per_block);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(streaming.blocks_per_multiprocessor);
  bindings["preferred_rows"] = fmt::to_string(streaming.preferred_rows);
  bindings["ring_rows"] = fmt::to_string(streaming.ring_rows);
  bindings["ring_vectors"] = fmt::to_string(plan::ring_row_vectors(pass));
  bindings["ring_row_bytes"] = fmt::to_string(plan::ring_row_bytes(pass));
  bindings["batch_rows"] = fmt::to_string(plan::batch_rows(pass));
  bindings["staged_vectors"] = fmt::to_string(plan::staged_vectors(pass));
  bind_column_reach(pass.column_reach, bindings);
  bindings["first_column"] = fmt::to_string(pass.first_column());
  bindings["whole_operands"] = pass.whole_operands ? "true" : "false";
  bindings["operands_in_registers"] = streaming.operands_in_registers ? "true" : "false";
  bindings["unrolled_rows"] = streaming.rotate_by_unrolling ? "rows_in_flight" : "1";
}

/// What all templates of tiles share: the forms, in their words, and where inputs are in the window.
void bind_forms(const plan::Pass& pass, const std::vector<std::string>& forms, int window_vectors,
                render::Bindings& bindings) {
  bindings["forms"] = fmt::format("{}", fmt::join(forms, "\n"));
  bindings["form_count"] = fmt::to_string(forms.size());
  bindings["shift_count"] = fmt::to_string(pass.shifts.size());
  bindings["shift_groups"] = shift_groups_text(pass);
  bindings["window_vectors"] = fmt::to_string(window_vectors);
  bind_column_reach(pass.column_reach, bindings);
  bindings["first_column"] = fmt::to_string(pass.first_column());
}

void bind_tiles(const plan::Pass& pass, plan::Swap swap, render::Bindings& bindings) {
  bindings["swaps_pairs"] = swap == plan::Swap::pair ? "true" : "false";
  std::vector<std::string> forms;
  for (const plan::TileForm& form : pass.streaming.tile_forms) {
    forms.push_back(fmt::format("form_for<TileForm<{}, {}, {}, {}, {}>>({}),", form.rows, form.across,
                                form.down, form.blocks_per_multiprocessor, form.any_rows, form.least_blocks));
  }
  bindings["low_tile_rows"] = fmt::to_string(plan::TileForm::low_rows);
  bind_forms(pass, forms, plan::ring_row_vectors(pass), bindings);
}

/// The f32 number that undoes the shares' scaling; a normal one.
std::string result_scale_text(const plan::RoundedWeights& weights) {
  if (!std::isnormal(static_cast<float>(std::ldexp(weights.factor, -weights.sum_exponent))))
    throw diag::InternalError("results are scaled by what is no normal f32 number");
  if (weights.factor == 1) return fmt::format("0x1p{}F", -weights.sum_exponent);
  return fmt::format("{:a}F", std::ldexp(weights.factor, -weights.sum_exponent));
}

/// Operands and forms of bands, in the words of star2d.cu.in.
void bind_bands(const plan::KernelPlan& plan, const plan::Pass& pass, const pack::PackedPass& packed,
                render::Bindings& bindings) {
  std::vector<std::string> forms;
  for (const plan::TileForm& form : pass.streaming.tile_forms) {
    forms.push_back(fmt::format("form_for<TileForm<{}, {}, {}>>({}),", form.rows, form.columns,
                                form.blocks_per_multiprocessor, form.least_blocks));
  }
  const int column_operands = plan::chained_products(pass) - plan::band_chunks;
  bindings["operand_count"] = fmt::to_string(column_operands);
  bindings["operands"] = column_operands_text(plan, pass, packed, column_operands);
  bindings["metadata"] = lane_words_text(packed.metadata.front());
  bindings["comb_words"] = comb_words_text(pass, packed);
  bindings["result_scale"] = result_scale_text(plan.weights);
  bindings["warps_per_block"] = fmt::to_string(pass.streaming.warps_per_block);
  bindings["forms"] = fmt::format("{}", fmt::join(forms, "\n"));
  bindings["form_count"] = fmt::to_string(forms.size());
  bind_column_reach(pass.column_reach, bindings);
}

void bind_block_tiles(const plan::Pass& pass, render::Bindings& bindings) {
  const plan::Streaming& streaming = pass.streaming;
  std::vector<std::string> forms;
  for (const plan::TileForm& form : streaming.tile_forms) {
    const int tile_warps = form.in_registers ? 1 : form.across;
    forms.push_back(fmt::format("form_for<TileForm<{}, {}, {}, {}, {}, Inputs::{}, {}>>({}),", form.rows,
                                tile_warps, form.across / tile_warps, form.down,
                                form.blocks_per_multiprocessor, form.in_registers ? "registers" : "shared",
                                form.any_rows, form.least_blocks));
  }
  bindings["rows_in_flight"] = fmt::to_string(pass.rows_in_flight());
  const bool pairs_rows = pass.mapping.pairs_rows();
  bindings["pairs_rows"] = pairs_rows ? "true" : "false";
  bindings["pair_distance"] = fmt::to_string(pairs_rows ? 0 : pass.sources.back().distance().y);
  bindings["stage_bytes"] = fmt::to_string(plan::warp_stage_bytes(pass));
  bind_forms(pass, forms, plan::window_vectors(pass, 1), bindings);
}

/// The operands of each tap row, from the lowest: {operand, metadata, selector} each, as many for every row.
std::string row_operands_text(const plan::Pass& pass, const pack::PackedPass& packed) {
  std::vector<std::string> lines;
  for (int row = 0; row < pass.rows_spanned(); ++row) {
    std::vector<std::string> uses(plan::weight_terms(pass), "{-1, 0, 0}");
    for (const plan::Product& product : pass.products) {
      if (product.row != row || product.input_term != 0) continue;
      const pack::PackedOperand& operand = packed.operands[product.operand];
      uses[product.term] = fmt::format("{{{}, {}, {}}}", product.operand, operand.metadata, operand.selector);
    }
    lines.push_back(fmt::format("{{{}}},", fmt::join(uses, ", ")));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// Does one word of metadata a lane serve all operands?
bool metadata_is_one(const pack::PackedPass& packed) {
  const auto has_first_selector = [](const pack::PackedOperand& operand) { return operand.selector == 0; };
  return packed.metadata.size() == 1 &&
         std::all_of(packed.operands.begin(), packed.operands.end(), has_first_selector);
}

/// {vector, pair, rows, planes} of each source, in the words of stream3d.cu.in.
std::string sources_text(const plan::Pass& pass) {
  std::vector<std::string> lines;
  for (const plan::Source& source : pass.sources) {
    const plan::Position distance = source.distance();
    const int first = source.shift + source.mapping.window_low - plan::plane_first_column(pass);
    lines.push_back(fmt::format("{{{}, {}, {}, {}}},", first / vector_elements, distance != plan::Position{},
                                distance.y, distance.z));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

void bind_planes(const plan::Pass& pass, render::Bindings& bindings) {
  const plan::PlaneStreaming& planes = pass.planes;
  int largest_distance = 0;
  for (const plan::Source& source : pass.sources)
    largest_distance = std::max(largest_distance, source.distance().z);
  bindings["plane_low"] = fmt::to_string(pass.plane_low);
  bindings["pairs_rows"] = pass.mapping.pairs_rows() ? "true" : "false";
  bindings["plane_high"] = fmt::to_string(pass.plane_high);
  bindings["rows_per_warp"] = fmt::to_string(planes.rows_per_warp);
  bindings["warps_per_block"] = fmt::to_string(planes.warps_per_block);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(planes.blocks_per_multiprocessor);
  bindings["preferred_planes"] = fmt::to_string(planes.preferred_planes);
  bindings["ring_planes"] = fmt::to_string(planes.ring_planes);
  bindings["ring_vectors"] = fmt::to_string(plan::plane_row_vectors(pass));
  bindings["ring_row_bytes"] = fmt::to_string(planes.row_bytes);
  bindings["ring_plane_bytes"] = fmt::to_string(planes.plane_bytes);
  bindings["ring_lead_bytes"] = fmt::to_string(plan::plane_lead_bytes(pass));
  bindings["first_column"] = fmt::to_string(plan::plane_first_column(pass));
  bindings["edge_columns"] = fmt::to_string(plan::plane_edge_columns(pass));
  bind_column_reach(pass.column_reach, bindings);
  bindings["operands_in_registers"] = planes.operands_in_registers ? "true" : "false";
  bindings["planes_in_flight"] = fmt::to_string(pass.planes_in_flight());
  bindings["largest_distance"] = fmt::to_string(largest_distance);
  bindings["unrolled_planes"] = fmt::to_string(planes.unrolled_planes);
  bindings["source_count"] = fmt::to_string(pass.sources.size());
  bindings["sources"] = sources_text(pass);
}

void bind_lines(const plan::Pass& pass, render::Bindings& bindings) {
  const plan::LineStreaming& lines = pass.lines;
  bindings["tiles"] = fmt::to_string(lines.tiles_per_warp);
  bindings["warps_per_block"] = fmt::to_string(lines.warps_per_block);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(lines.blocks_per_multiprocessor);
  bindings["lowest_tap"] = fmt::to_string(pass.column_reach.highest_low);
  bindings["highest_tap"] = fmt::to_string(pass.column_reach.lowest_high);
  bindings["shift_count"] = fmt::to_string(pass.shifts.size());
  bindings["shift_groups"] = shift_groups_text(pass);
  bindings["first_column"] = fmt::to_string(pass.shifts.front() + pass.mapping.window_low);
  bindings["always_gathers"] = lines.always_gathers ? "true" : "false";
  bindings["window_vectors"] = fmt::to_string(plan::line_window_vectors(pass));
}

void bind_operands(const plan::KernelPlan& plan, const plan::Pass& pass, const pack::PackedPass& packed,
                   render::Bindings& bindings) {
  bindings["operand_count"] = fmt::to_string(pass.operands.size());
  bindings["operands"] = operands_text(pass, packed, plan.weights);
  bindings["metadata_count"] = fmt::to_string(packed.metadata.size());
  bindings["metadata"] = metadata_text(packed);
  bindings["product_count"] = fmt::to_string(pass.products.size());
  bindings["result_scale"] = result_scale_text(plan.weights);
}

EmittedFile emit_header(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                        const std::string& version) {
  render::Bindings bindings = provenance(spec, version);
  bindings["guard"] = "SPIDER_KERNEL_" + upper_case(spec.name) + "_H";
  bindings["abi"] = fmt::to_string(runtime_abi);
  bindings["contract"] = contract_text(spec, plan);
  return {spec.name + ".h", render::render(find_template("kernel.h.in"), bindings)};
}

/// Tap rows as the rings of 3D kernels want them.
void bind_volume(const plan::KernelPlan& plan, render::Bindings& bindings) {
  int band_count = 0;
  bindings["bands"] = volume_bands_text(plan, band_count);
  bindings["band_count"] = fmt::to_string(band_count);
  const auto [full_low, full_high] = full_planes(plan);
  bindings["full_low"] = fmt::to_string(full_low);
  bindings["full_high"] = fmt::to_string(full_high);
}

/// Tap rows as 2D kernels want them.
void bind_tap_bands(const plan::KernelPlan& plan, render::Bindings& bindings) {
  int band_count = 0;
  bindings["bands"] = bands_text(plan, band_count);
  bindings["band_count"] = fmt::to_string(band_count);
}

// On CUDA cores: what the axes that a kernel walks along are depends on the dimensions.

void bind_core_cells(const spec::StencilSpec& spec, render::Bindings& bindings) {
  bindings["step_rules"] = axis_rules_text(spec, plan::core_axes(spec.dimensions).step);
  bindings["cells"] = cells_struct(spec.storage);
  bindings["storage_code"] = storage_code(spec.storage);
}

void bind_core_rows(const spec::StencilSpec& spec, render::Bindings& bindings) {
  bindings["row_rules"] = axis_rules_text(spec, plan::core_axes(spec.dimensions).row);
}

void bind_cuda_cores(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                     render::Bindings& bindings) {
  bind_core_cells(spec, bindings);
  bind_core_rows(spec, bindings);
  bind_cores(spec, plan, bindings);
}

void bind_cores2d(const spec::StencilSpec& spec, const plan::KernelPlan& plan, render::Bindings& bindings) {
  bind_core_cells(spec, bindings);
  bind_tap_bands(plan, bindings);
  bind_core_tiles(plan, bindings);
}

void bind_cores3d(const spec::StencilSpec& spec, const plan::KernelPlan& plan, render::Bindings& bindings) {
  bind_core_cells(spec, bindings);
  bind_core_rows(spec, bindings);
  bind_volume(plan, bindings);
  bind_core_ring(spec, plan, bindings);
}

// On tensor cores.

/// What becomes a kernel.
struct TensorKernel {
  const spec::StencilSpec& spec;
  const plan::KernelPlan& plan;
  const plan::Pass& pass;
  const pack::PackedPass& packed;
};

void bind_storage(const TensorKernel& kernel, render::Bindings& bindings) {
  bindings["storage"] = storage_struct(kernel.spec, kernel.plan);
  bindings["storage_code"] = storage_code(kernel.spec.storage);
}

void bind_row_axis(const TensorKernel& kernel, render::Bindings& bindings) {
  bindings["row_low"] = fmt::to_string(kernel.pass.row_low);
  bindings["row_high"] = fmt::to_string(kernel.pass.row_high);
  bindings["row_rules"] = axis_rules_text(kernel.spec, spec::axis_y);
}

/// What all 2D kernels that walk or have tiles share.
void bind_common2d(const TensorKernel& kernel, render::Bindings& bindings) {
  bind_storage(kernel, bindings);
  bind_row_axis(kernel, bindings);
  bind_tap_bands(kernel.plan, bindings);
}

/// Operands, and what is multiplied with them in which order.
void bind_products(const TensorKernel& kernel, render::Bindings& bindings) {
  bind_operands(kernel.plan, kernel.pass, kernel.packed, bindings);
  bindings["products"] = products_text(kernel.pass, kernel.packed);
}

/// From products of scaled inputs to sums.
std::string product_unit_text(const plan::RoundedWeights& weights) {
  return fmt::format("0x1p{}F", weights.sum_exponent - weights.exponent);
}

void bind_stream1d(const TensorKernel& kernel, render::Bindings& bindings) {
  bind_storage(kernel, bindings);
  bind_products(kernel, bindings);
  bind_lines(kernel.pass, bindings);
}

void bind_stream2d(const TensorKernel& kernel, render::Bindings& bindings) {
  const auto& [spec, plan, pass, packed] = kernel;
  bind_common2d(kernel, bindings);
  bind_products(kernel, bindings);
  const bool gapless = static_cast<int>(plan.tap_rows.size()) == pass.rows_spanned();
  bindings["gapless"] = gapless ? "true" : "false";
  bindings["swap"] = plan::swap_name(plan.variant.swap);
  bindings["rows_kept"] = fmt::to_string(pass.rows_kept);
  bindings["product_unit"] = product_unit_text(plan.weights);
  bind_streaming(pass, bindings);
}

void bind_tile2d(const TensorKernel& kernel, render::Bindings& bindings) {
  bind_common2d(kernel, bindings);
  bind_products(kernel, bindings);
  bind_tiles(kernel.pass, kernel.plan.variant.swap, bindings);
}

void bind_block2d(const TensorKernel& kernel, render::Bindings& bindings) {
  bind_common2d(kernel, bindings);
  bind_products(kernel, bindings);
  bind_block_tiles(kernel.pass, bindings);
}

void bind_star2d(const TensorKernel& kernel, render::Bindings& bindings) {
  bind_common2d(kernel, bindings);
  bind_bands(kernel.plan, kernel.pass, kernel.packed, bindings);
}

void bind_split2d(const TensorKernel& kernel, render::Bindings& bindings) {
  const auto& [spec, plan, pass, packed] = kernel;
  bind_common2d(kernel, bindings);
  bind_operands(plan, pass, packed, bindings);
  bindings["first_column"] = fmt::to_string(pass.first_column());
  bind_column_reach(pass.column_reach, bindings);
  bindings["most_products"] = fmt::to_string(plan::weight_terms(pass));
  bindings["row_operands"] = row_operands_text(pass, packed);
  // Metadata of many kinds takes the registers of remainders, and more.
  const bool is_one = metadata_is_one(packed);
  bindings["metadata_is_one"] = is_one ? "true" : "false";
  bindings["held_remainders"] = fmt::to_string(is_one ? plan::warpgroup_held_remainders(pass) : 0);
  bindings["product_registers"] =
      fmt::to_string(is_one ? pass.streaming.estimated_registers : plan::most_warpgroup_registers);
  bindings["product_unit"] = product_unit_text(plan.weights);
  bindings["chained_rows"] = fmt::to_string(plan::warpgroup_chained_rows);
  bindings["teams"] = fmt::to_string(plan::warpgroup_teams);
}

void bind_stream3d(const TensorKernel& kernel, render::Bindings& bindings) {
  bind_row_axis(kernel, bindings);
  bind_volume(kernel.plan, bindings);
  bind_products(kernel, bindings);
  bindings["plane_rules"] = axis_rules_text(kernel.spec, spec::axis_z);
  bind_planes(kernel.pass, bindings);
}

/// What all kernels tell of their stencil.
void bind_stencil(const spec::StencilSpec& spec, const plan::KernelPlan& plan, render::Bindings& bindings) {
  bindings["report"] = report_text(spec, plan);
  bindings["column_rules"] = axis_rules_text(spec, spec::axis_x);
  bindings["faces"] = faces_text(spec);
  bindings["tap_rows"] = tap_rows_text(plan);
  bindings["taps"] = taps_text(plan);
  bindings["dimensions"] = fmt::to_string(spec.dimensions);
  bindings["reach_low"] = fmt::format("{}", fmt::join(plan.reach_low, ", "));
  bindings["reach_high"] = fmt::format("{}", fmt::join(plan.reach_high, ", "));
}

void bind_template(Template chosen, const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                   const pack::PackedKernel& packed, render::Bindings& bindings) {
  const auto kernel = [&] { return TensorKernel{spec, plan, plan.passes.front(), packed.passes.front()}; };
  switch (chosen) {
    case Template::stream1d:
      return bind_stream1d(kernel(), bindings);
    case Template::stream2d:
      return bind_stream2d(kernel(), bindings);
    case Template::tile2d:
      return bind_tile2d(kernel(), bindings);
    case Template::block2d:
      return bind_block2d(kernel(), bindings);
    case Template::star2d:
      return bind_star2d(kernel(), bindings);
    case Template::split2d:
      return bind_split2d(kernel(), bindings);
    case Template::stream3d:
      return bind_stream3d(kernel(), bindings);
    case Template::cuda_cores:
      return bind_cuda_cores(spec, plan, bindings);
    case Template::cores2d:
      return bind_cores2d(spec, plan, bindings);
    case Template::cores3d:
      return bind_cores3d(spec, plan, bindings);
  }
}

EmittedFile emit_source(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                        const pack::PackedKernel& packed, const std::string& version) {
  const Template chosen = choose_template(plan);
  render::Bindings bindings = provenance(spec, version);
  bindings["hash"] =
      spec.source_hash;  // not in the header: a new comment must not compile its includers again
  bind_stencil(spec, plan, bindings);
  bindings["minimum_arch"] = fmt::to_string(minimum_arch(chosen));
  bind_template(chosen, spec, plan, packed, bindings);
  const std::string name = fmt::format("{}.cu.in", name_of(chosen));
  return {spec.name + ".cu", render::render(find_template(name), bindings)};
}

}  // namespace

std::string_view template_of(const plan::KernelPlan& plan) {
  return name_of(choose_template(plan));
}

std::vector<EmittedFile> emit(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                              const pack::PackedKernel& packed, const std::string& version) {
  return {emit_source(spec, plan, packed, version), emit_header(spec, plan, version)};
}

}  // namespace spidergen::emit
