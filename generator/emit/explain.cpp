#include "emit/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include "emit/describe.h"
#include "emit/draw.h"
#include "emit/figures.h"
#include "plan/bands.h"
#include "plan/core_ring.h"
#include "plan/cores.h"
#include "plan/lines.h"
#include "plan/make_plan.h"
#include "plan/planes.h"
#include "plan/streaming.h"

namespace spidergen::emit {
namespace {

constexpr std::string_view term_names[] = {"leading", "remainder", "second remainder"};

void append_resources(const plan::KernelPlan& plan, std::string& text) {
  for (const plan::Pass& pass : plan.passes) {
    if (pass.walk == plan::Walk::lines) {
      text += fmt::format("  Registers {} estimated; {} bytes of shared memory a block{}\n",
                          pass.lines.estimated_registers, plan::line_shared_bytes(pass),
                          pass.lines.always_gathers ? "" : ", for edges");
      continue;
    }
    const bool planes = pass.walk == plan::Walk::planes;
    text += fmt::format("  Registers {} estimated; {} bytes of shared memory a block\n",
                        planes ? pass.planes.estimated_registers : pass.streaming.estimated_registers,
                        planes ? plan::plane_shared_bytes(pass) : plan::shared_bytes(pass));
  }
}

void append_work(const Figures& figures, plan::Engine engine, std::string& text) {
  text += fmt::format("  Work      {} MMAs and {} bytes per 128 outputs, {} bytes a point\n", figures.mmas,
                      figures.bytes_per_point * 128, figures.bytes_per_point);
  text += fmt::format("  Sparsity  {} of the {} slots {} hold a weight, {:.0f} %\n", figures.nonzeros,
                      figures.slots, engine == plan::Engine::dense ? "of whole operands" : "that 2:4 keeps",
                      100.0 * static_cast<double>(figures.nonzeros) / static_cast<double>(figures.slots));
}

void append_cores(const spec::StencilSpec& spec, const plan::KernelPlan& plan, std::string& text) {
  const plan::CorePlan& cores = plan.cores;
  if (cores.ring) {
    text += fmt::format("  Registers {} estimated; {} bytes of shared memory a block\n",
                        cores.estimated_registers,
                        plan::core_ring_bytes(*cores.ring, cores.taps, spec::element_bytes(spec.storage)));
  } else if (cores.row_ring_rows > 0) {
    text += fmt::format("  Registers {} estimated; {} bytes of shared memory a block\n",
                        cores.estimated_registers, plan::row_rings_bytes(cores));
  } else {
    text += fmt::format("  Registers {} estimated; no shared memory\n", cores.estimated_registers);
  }
  text +=
      fmt::format("  Work      {} multiply-adds and {} bytes a point; {} cells loaded for {} outputs\n",
                  cores.taps.size(), figures_of(spec, plan).bytes_per_point, cores.cells_loaded,
                  cores.outputs * (cores.ring ? cores.ring->rows_per_thread : std::max(1, cores.tile_rows)));
}

/// What decides between the engines where both take a stencil.
void append_comparison(const spec::StencilSpec& spec, std::string& text) {
  const auto extent = sample_extent(spec.dimensions);
  const double points = static_cast<double>(extent[0]) * static_cast<double>(extent[1] * extent[2]);
  const std::optional<plan::EngineFloors> floors = plan::compare_engines(spec, points);
  if (!floors) return;
  text += fmt::format(
      "  Engines   of {} x {} x {} points on sm_90 at best: {:.1f} us for {} MMAs per 128 outputs on sparse\n"
      "            tensor cores, {:.1f} us for the multiply-adds on CUDA cores, {:.1f} us for memory\n",
      extent[0], extent[1], extent[2], floors->sparse.tensor_us, floors->mmas, floors->cores.cores_us,
      floors->cores.memory_us);
}

/// The same of f32 fields in 2D.
void append_times(const plan::KernelPlan& plan, std::string& text) {
  if (!plan.engine_times) return;
  text += fmt::format(
      "  Engines   about {:.0f} us on CUDA cores and {:.0f} us on sparse tensor cores for 10240 x 10240 "
      "points on an\n"
      "            H200: without --engine it is {}\n",
      plan.engine_times->cuda_us, plan.engine_times->sparse_us,
      plan::engine_name(plan.engine_times->faster()));
}

/// What else decides: that one of them does not take a stencil.
void append_sole_engine(const spec::StencilSpec& spec, const plan::KernelPlan& plan, std::string& text) {
  if (plan.variant != plan::Variant{}) return;
  const std::optional<plan::SoleEngine> sole = plan::find_sole_engine(spec);
  if (!sole) return;
  const bool cuda = sole->engine == plan::Engine::cuda;
  text += fmt::format("  Engines   {} cores do not take it: {}.\n            Without --engine it is {}\n",
                      cuda ? "sparse tensor" : "CUDA", sole->objection, plan::engine_name(sole->engine));
}

std::string windows_title(const plan::Pass& pass) {
  if (pass.whole_operands) return "Halves of windows";
  if (pass.mapping.pairs_rows()) return "Pairs of input rows, from the first of two output rows";
  return "Windows";
}

/// The input rows of a product, from its output row or the first of both.
std::string rows_text(const plan::Pass& pass, const plan::Product& product) {
  const int row = pass.row_low + product.row;
  return pass.mapping.pairs_rows() ? fmt::format("{},{}", row, row + 1) : fmt::to_string(row);
}

void append_bands(const plan::Pass& pass, std::string& text) {
  text +=
      "\n  Bands. One MMA of each along y per 128 outputs; along x outputs are in four combs, columns 4 "
      "apart, and "
      "each\n  comb takes one MMA for each chunk of 16 columns of inputs:\n\n";
  text += fmt::format("    {:<8}{:<8}{:<10}{:>8}  {:<22}{}\n", "dy", "dx", "term", "operand", "outputs",
                      "inputs");
  for (const plan::Product& product : pass.products) {
    const plan::Source& source = pass.sources[product.source];
    const plan::TileMapping& mapping = source.mapping;
    const auto range = [](const Range& r) { return fmt::format("{}..{}", r.low, r.high); };
    const int first = mapping.row_output.front().x;
    text += fmt::format("    {:<8}{:<8}{:<10}{:>8}  {:<22}{}\n", range(rows_of(pass, product)),
                        range(columns_of(pass, product)), term_names[product.term], product.operand,
                        source.along_y ? std::string("rows 0..15")
                                       : fmt::format("columns {}, {}, ...", first, first + plan::band_combs),
                        source.along_y ? std::string("rows -8..23")
                                       : fmt::format("columns {}..{}", mapping.first_input(),
                                                     mapping.first_input() + mapping.columns() - 1));
  }
}

void append_windows(const plan::Pass& pass, std::string& text) {
  if (pass.is_bands()) {
    append_bands(pass, text);
    return;
  }
  text += fmt::format("\n  {}, one MMA each per 128 outputs:\n\n", windows_title(pass));
  const bool planes = pass.walk == plan::Walk::planes;
  const auto cell = [&](const auto& dz) { return planes ? fmt::format("{:>4}", dz) : std::string(); };
  const int row_width = pass.mapping.pairs_rows() ? 6 : 4;
  text += fmt::format("    {}{:>{}}  {:<10}{:>6}  {:<10}{:>8}\n", cell("dz"), "dy", row_width, "dx", "shift",
                      "term", "operand");
  for (const plan::Product& product : pass.products) {
    const Range columns = columns_of(pass, product);
    const plan::Source& source = pass.sources[product.source];
    text += fmt::format("    {}{:>{}}  {:<10}{:>6}  {:<10}{:>8}", cell(pass.plane_low + product.plane),
                        rows_text(pass, product), row_width, fmt::format("{}..{}", columns.low, columns.high),
                        source.shift, product.input_term == 0 ? term_names[product.term] : "leading*",
                        product.operand);
    const plan::Position other = source.distance();
    if (other != plan::Position{} && !pass.mapping.pairs_rows()) {
      text += planes ? fmt::format("  and dz {}, ", pass.plane_low + product.plane + other.z) : "  and ";
      text += fmt::format("dy {}", pass.row_low + product.row + other.y);
    }
    text += "\n";
  }
  const bool split = std::any_of(pass.products.begin(), pass.products.end(),
                                 [](const plan::Product& product) { return product.input_term != 0; });
  if (split) text += "\n    leading*: times the remainders of the inputs\n";
}

std::size_t zeros_of(const plan::Operand& operand) {
  return static_cast<std::size_t>(
      std::count(operand.matrix.values.begin(), operand.matrix.values.end(), 0.0));
}

/// The operand with the most weights of each mapping, in the order of their sources.
std::vector<std::size_t> operands_to_draw(const plan::Pass& pass) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < pass.operands.size(); ++i) {
    const auto mapping_of = [&](std::size_t operand) -> const plan::TileMapping& {
      return pass.sources[pass.operands[operand].source].mapping;
    };
    const auto same = std::find_if(chosen.begin(), chosen.end(), [&](std::size_t other) {
      return mapping_of(other).name == mapping_of(i).name;
    });
    if (same == chosen.end()) {
      chosen.push_back(i);
    } else if (zeros_of(pass.operands[i]) < zeros_of(pass.operands[*same])) {
      *same = i;
    }
  }
  return chosen;
}

/// What the letters of a drawing beyond the first tap row's are.
std::string_view letters_text(const plan::TileMapping& mapping) {
  if (mapping.pairs_rows()) return "; capitals are of the next tap row, i, j, ... of that behind it";
  return mapping.window_rows.size() > 1 ? "; capitals are of the second tap row" : "";
}

void append_drawings(const plan::Pass& pass, std::string& text) {
  text +=
      "\n  Operands before and after the swap, one of each kind. A row is an output and a column an input; "
      "dots\n"
      "  are zeros. ";
  text += pass.whole_operands
              ? "Operands are whole: dense products need no swap, and keep that of the addresses.\n"
              : "After it, groups of four must hold at most two weights.\n";
  if (pass.is_bands())
    text += "  Those of combs are whole: their products are dense, and they are not swapped.\n";
  for (const std::size_t index : operands_to_draw(pass)) {
    const plan::Operand& operand = pass.operands[index];
    const plan::TileMapping& mapping = pass.sources[operand.source].mapping;
    const int low = operand.shift + mapping.window_low;
    const bool along_y = pass.sources[operand.source].along_y;
    text += fmt::format("\n    operand {} ({}): a is the weight at {} {}, b at {}, ...{}\n\n", index,
                        mapping.name, along_y ? "dy" : "dx", low, low + 1,
                        along_y ? "; x+ counts rows" : letters_text(mapping));
    std::istringstream drawing(draw_swap(mapping, operand.matrix));
    for (std::string line; std::getline(drawing, line);) text += "    " + line + "\n";
  }
}

void append_bounds(const plan::KernelPlan& plan, const std::vector<ArchitectureBound>& bounds,
                   std::string& text) {
  const int dimensions = plan.dimensions;
  const bool on_cores = plan.engine == plan::Engine::cuda;
  const auto extent = sample_extent(dimensions);
  text += fmt::format(
      "\n  Floor of a sweep over {} points in microseconds: no time is below what memory or {} cores "
      "need\n"
      "  (--arch names architectures; predicted: from the peaks of a data sheet{})\n\n",
      fmt::join(std::prev(extent.end(), dimensions), extent.end(), " x "), on_cores ? "CUDA" : "tensor",
      on_cores ? ", as CUDA cores always are" : "");
  text += fmt::format("    {:<9}{:<16}{:>8}{:>8}{:>8}  {:<8}{}\n", "arch", "device", "memory",
                      on_cores ? "cores" : "tensor", "floor", "bound", "rates");
  for (const auto& [architecture, rates, bound] : bounds) {
    if (rates == nullptr) {
      text += fmt::format("    {:<9}no rates are known\n", architecture);
      continue;
    }
    text += fmt::format("    {:<9}{:<16}{:>8.1f}{:>8.1f}{:>8.1f}  {:<8}{}\n", architecture, rates->device,
                        bound.memory_us, on_cores ? bound.cores_us : bound.tensor_us, bound.floor_us(),
                        bound.binding(), rates->measured ? "measured" : "predicted");
  }
}

void append_costs(const CostComparison& costs, std::string& text) {
  if (costs.methods.empty()) return;
  text += fmt::format(
      "\n  Costs per point in the SPIDER paper's model, for a 2D box of radius {}, tiles of {} x {} "
      "points\n\n",
      costs.tile.radius, costs.tile.side, costs.tile.side);
  text += fmt::format("    {:<13}{:>11}{:>10}{:>12}\n", "method", "operations", "input", "parameters");
  for (const auto& [method, cost] : costs.methods) {
    text += cost ? fmt::format("    {:<13}{:>11.2f}{:>10.2f}{:>12.2f}\n", method, cost->operations,
                               cost->input, cost->parameters)
                 : fmt::format("    {:<13}{:>11}{:>10}{:>12}\n", method, "-", "-", "-");
  }
}

}  // namespace

std::string explain_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                         const std::vector<std::string>& architectures) {
  std::string text = fmt::format("{}: {}\n", spec.name, summary(spec));
  for (const std::string& line : report(spec, plan)) text += "  " + line + "\n";
  if (plan.engine == plan::Engine::cuda) {
    append_cores(spec, plan, text);
  } else {
    append_resources(plan, text);
    append_work(figures_of(spec, plan), plan.engine, text);
  }
  append_comparison(spec, text);
  append_times(plan, text);
  append_sole_engine(spec, plan, text);
  for (const plan::Pass& pass : plan.passes) {
    append_windows(pass, text);
    append_drawings(pass, text);
  }
  append_bounds(plan, bounds_of(spec, plan, architectures), text);
  append_costs(costs_of(plan), text);
  return text;
}

}  // namespace spidergen::emit
