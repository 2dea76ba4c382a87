#include "emit/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>
#include <variant>

#include "emit/describe.h"
#include "emit/draw.h"
#include "emit/figures.h"
#include "plan/bands.h"
#include "plan/slow_plan.h"

namespace spidergen::emit {
namespace {

constexpr std::string_view term_names[] = {"leading", "remainder", "second remainder"};

void append_resources(const plan::KernelPlan& plan, std::string& text) {
  std::visit(
      [&](const auto& scheme) {
        text += fmt::format("  Registers {} estimated; ", scheme.estimated_registers);
        text += scheme.shared_bytes == 0
                    ? "no shared memory"
                    : fmt::format("{} bytes of shared memory a block", scheme.shared_bytes);
        if constexpr (requires { scheme.always_gathers; }) text += scheme.always_gathers ? "" : ", for edges";
        text += "\n";
      },
      plan.scheme);
}

void append_work(const Figures& figures, plan::Engine engine, std::string& text) {
  text += fmt::format("  Work      {} MMAs and {} bytes per 128 outputs, {} bytes a point\n", figures.mmas,
                      figures.bytes_per_point * 128, figures.bytes_per_point);
  text += fmt::format("  Sparsity  {} of the {} slots {} hold a weight, {:.0f} %\n", figures.nonzeros,
                      figures.slots, engine == plan::Engine::dense ? "of whole operands" : "that 2:4 keeps",
                      100.0 * static_cast<double>(figures.nonzeros) / static_cast<double>(figures.slots));
}

void append_core_work(const plan::KernelPlan& plan, std::string& text) {
  std::visit(
      [&](const auto& scheme) {
        if constexpr (requires { scheme.cells_loaded; }) {
          text += fmt::format(
              "  Work      {} multiply-adds and {} bytes a point; {} cells loaded for {} outputs\n",
              plan.contraction.taps.size(), figures_of(plan).bytes_per_point, scheme.cells_loaded,
              scheme.outputs_of_thread());
        }
      },
      plan.scheme);
}

/// "3 x 4" for the reference field's extents.
std::string reference_text(int dimensions) {
  const auto extent = plan::reference_extent(dimensions);
  return fmt::format("{}", fmt::join(std::prev(extent.end(), dimensions), extent.end(), " x "));
}

std::string work_text(const plan::Candidate& candidate) {
  if (candidate.grouping == plan::Grouping::multiply_adds)
    return fmt::format("{} a point", counted(candidate.products, "multiply-add"));
  if (candidate.grouping == plan::Grouping::list_adds)
    return fmt::format("{}: {} a point", candidate.mapping, counted(candidate.products, "multiply-add"));
  return fmt::format("{}: {}", candidate.mapping, counted(candidate.products, "product"));
}

void append_candidates(const plan::KernelPlan& plan, std::string& text) {
  text += fmt::format(
      "\n  Schemes, by the estimated time of a sweep over {} points on an H200 in microseconds. Without "
      "--engine\n  the first is taken; in brackets: not measured, taken as a last resort\n\n",
      reference_text(plan.dimensions));
  for (const plan::Candidate& candidate : plan.candidates) {
    const std::string us = candidate.measured ? fmt::format("{:.1f}", candidate.microseconds)
                                              : fmt::format("({:.1f})", candidate.microseconds);
    text += fmt::format("    {:<12}{:<8}{:>9}  {}\n", candidate.scheme, plan::engine_name(candidate.engine),
                        candidate.objection.empty() ? us : "-",
                        candidate.objection.empty() ? work_text(candidate) : candidate.objection);
  }
}

std::string windows_title(const plan::Contraction& contraction) {
  if (contraction.mapping.pairs_rows()) return "Pairs of input rows, from the first of two output rows";
  return "Windows";
}

/// The input rows of a product, relative to its output row or the first of both.
std::string rows_text(const plan::Contraction& contraction, const plan::Product& product) {
  const int row = contraction.row_low + product.row;
  return contraction.mapping.pairs_rows() ? fmt::format("{},{}", row, row + 1) : fmt::to_string(row);
}

/// With several sums, the sum to which a product adds.
std::string sum_text(const spec::StencilSpec& spec, const plan::Product& product) {
  return spec.sums.size() == 1 ? "" : "  of " + spec.sums[static_cast<std::size_t>(product.sum)].name;
}

void append_bands(const spec::StencilSpec& spec, const plan::Contraction& contraction, std::string& text) {
  text +=
      "\n  Bands. One MMA of each along y per 128 outputs; along x outputs are in four combs, columns 4 "
      "apart, and "
      "each\n  comb takes one MMA for each chunk of 16 columns of inputs:\n\n";
  text += fmt::format("    {:<8}{:<8}{:<10}{:>8}  {:<22}{}\n", "dy", "dx", "term", "operand", "outputs",
                      "inputs");
  for (const plan::Product& product : contraction.products) {
    const plan::Source& source = contraction.sources[product.source];
    const plan::TileMapping& mapping = source.mapping;
    const auto range = [](const Range& r) { return fmt::format("{}..{}", r.low, r.high); };
    const int first = mapping.row_output.front().x;
    text += fmt::format("    {:<8}{:<8}{:<10}{:>8}  {:<22}{}{}\n", range(rows_of(contraction, product)),
                        range(columns_of(contraction, product)), term_names[product.term], product.operand,
                        source.along_y ? std::string("rows 0..15")
                                       : fmt::format("columns {}, {}, ...", first, first + plan::band_combs),
                        source.along_y ? std::string("rows -8..23")
                                       : fmt::format("columns {}..{}", mapping.first_input(),
                                                     mapping.first_input() + mapping.columns() - 1),
                        sum_text(spec, product));
  }
}

void append_windows(const spec::StencilSpec& spec, const plan::KernelPlan& plan, std::string& text) {
  const plan::Contraction& contraction = plan.contraction;
  if (contraction.is_bands()) {
    append_bands(spec, contraction, text);
    return;
  }
  text += fmt::format("\n  {}, one MMA each per 128 outputs:\n\n", windows_title(contraction));
  const bool planes = plan.dimensions == 3;
  const auto cell = [&](const auto& dz) { return planes ? fmt::format("{:>4}", dz) : std::string(); };
  const int row_width = contraction.mapping.pairs_rows() ? 6 : 4;
  text += fmt::format("    {}{:>{}}  {:<10}{:>6}  {:<10}{:>8}\n", cell("dz"), "dy", row_width, "dx", "shift",
                      "term", "operand");
  for (const plan::Product& product : contraction.products) {
    const Range columns = columns_of(contraction, product);
    const plan::Source& source = contraction.sources[product.source];
    text += fmt::format("    {}{:>{}}  {:<10}{:>6}  {:<10}{:>8}", cell(contraction.plane_low + product.plane),
                        rows_text(contraction, product), row_width,
                        fmt::format("{}..{}", columns.low, columns.high), source.shift,
                        product.input_term == 0 ? term_names[product.term] : "leading*", product.operand);
    const plan::Position other = source.distance();
    if (other != plan::Position{} && !contraction.mapping.pairs_rows()) {
      text +=
          planes ? fmt::format("  and dz {}, ", contraction.plane_low + product.plane + other.z) : "  and ";
      text += fmt::format("dy {}", contraction.row_low + product.row + other.y);
    }
    text += sum_text(spec, product) + "\n";
  }
  const bool split = std::any_of(contraction.products.begin(), contraction.products.end(),
                                 [](const plan::Product& product) { return product.input_term != 0; });
  if (split) text += "\n    leading*: times the remainders of the inputs\n";
}

/// The lists of two passes, scaled as in operands.
void append_lists(const plan::LowRank& lists, const std::string& of_sum, std::string& text) {
  text += fmt::format("\n  Lists, whose products, summed and times {}, are the weights{}:\n\n", lists.scale,
                      of_sum);
  for (std::size_t pair = 0; pair < lists.pairs.size(); ++pair) {
    const auto append = [&](char axis, int low, const std::vector<std::vector<double>>& terms) {
      std::vector<double> values(terms.front().size(), 0.0);
      for (const std::vector<double>& term : terms) {
        for (std::size_t i = 0; i < values.size(); ++i) values[i] += term[i];
      }
      text += fmt::format("    {} of pair {}, from {} on:", axis, pair, low);
      for (std::size_t i = 0; i < values.size(); ++i)
        text += fmt::format("{}{:.6g}", i % 8 == 0 ? "\n      " : " ", values[i]);
      text += "\n";
    };
    append('y', lists.y_low, lists.pairs[pair].y);
    append('x', lists.x_low, lists.pairs[pair].x);
  }
}

/// The lists of each sum.
void append_all_lists(const spec::StencilSpec& spec, const plan::KernelPlan& plan, std::string& text) {
  for (std::size_t sum = 0; sum < spec.sums.size(); ++sum) {
    append_lists(plan.contraction.low_rank[sum],
                 spec.sums.size() > 1 ? fmt::format(" of {}", spec.sums[sum].name) : "", text);
  }
}

std::size_t zeros_of(const plan::Operand& operand) {
  return static_cast<std::size_t>(
      std::count(operand.matrix.values.begin(), operand.matrix.values.end(), 0.0));
}

/// The operand with the most weights for each mapping, in the order of their sources.
std::vector<std::size_t> operands_to_draw(const plan::Contraction& contraction) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < contraction.operands.size(); ++i) {
    const auto mapping_of = [&](std::size_t operand) -> const plan::TileMapping& {
      return contraction.sources[contraction.operands[operand].source].mapping;
    };
    const auto same = std::find_if(chosen.begin(), chosen.end(), [&](std::size_t other) {
      return mapping_of(other).name == mapping_of(i).name;
    });
    if (same == chosen.end()) {
      chosen.push_back(i);
    } else if (zeros_of(contraction.operands[i]) < zeros_of(contraction.operands[*same])) {
      *same = i;
    }
  }
  return chosen;
}

/// Explains the letters of a drawing for tap rows after the first.
std::string_view letters_text(const plan::TileMapping& mapping) {
  if (mapping.pairs_rows()) return "; capitals are of the next tap row, i, j, ... of that behind it";
  return mapping.window_rows.size() > 1 ? "; capitals are of the second tap row" : "";
}

void append_drawings(const plan::Contraction& contraction, std::string& text) {
  text +=
      "\n  Operands before and after the swap, one of each kind. A row is an output and a column an input; "
      "dots\n"
      "  are zeros. ";
  text += contraction.is_low_rank()
              ? "Operands are whole: dense products need no swap, and keep that of the addresses.\n"
              : "After it, groups of four must hold at most two weights.\n";
  if (contraction.is_bands())
    text += "  Those of combs are whole: their products are dense, and they are not swapped.\n";
  for (const std::size_t index : operands_to_draw(contraction)) {
    const plan::Operand& operand = contraction.operands[index];
    const plan::TileMapping& mapping = contraction.sources[operand.source].mapping;
    const int low = operand.shift + mapping.window_low;
    const bool along_y = contraction.sources[operand.source].along_y;
    text += fmt::format("\n    operand {} ({}): a is the weight at {} {}, b at {}, ...{}\n\n", index,
                        mapping.name, along_y ? "dy" : "dx", low, low + 1,
                        along_y ? "; x+ counts rows" : letters_text(mapping));
    std::istringstream drawing(draw_swap(mapping, operand.matrix));
    for (std::string line; std::getline(drawing, line);) text += "    " + line + "\n";
  }
}

void append_bounds(const plan::KernelPlan& plan, const std::vector<ArchitectureBound>& bounds,
                   std::string& text) {
  const bool on_cores = plan.engine == plan::Engine::cuda;
  text += fmt::format(
      "\n  Floor of a sweep over {} points in microseconds: no time is below what memory or {} cores "
      "need\n"
      "  (--arch names architectures; predicted: from the peaks of a data sheet{})\n\n",
      reference_text(plan.dimensions), on_cores ? "CUDA" : "tensor",
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

/// The line of a slow plan: how slow it is, and a faster spec.
void append_speed(const spec::StencilSpec& spec, const plan::KernelPlan& plan, std::string& text) {
  const double times = plan::times_the_floor(spec, plan);
  if (times <= plan::slow_plan) return;
  text += fmt::format("  Slow      {:.1f} times the floor of an H200: {}\n", times,
                      plan::advice_for_speed(spec, plan).value_or("there is no faster plan yet"));
}

/// Bytes that passes read and write at a point.
int bytes_of_passes(const plan::KernelPlan& plan) {
  int bytes = 0;
  for (const plan::PassPlan& pass : plan.passes)
    bytes += spec::element_bytes(pass.spec.storage) + spec::element_bytes(spec::output_of(pass.spec));
  return bytes;
}

}  // namespace

std::string explain_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                         const std::vector<std::string>& architectures) {
  std::string text = fmt::format("{}: {}\n", spec.name, summary(spec));
  for (const std::string& line : report(spec, plan)) text += "  " + line + "\n";
  if (plan.passes.empty()) append_resources(plan, text);
  if (!plan.passes.empty()) {
    text += fmt::format("  Work      {} multiply-adds and {} bytes a point, in all passes\n",
                        plan.candidates.front().products, bytes_of_passes(plan));
  } else if (plan.contraction.is_low_rank()) {
    append_work(figures_of(plan), plan.engine, text);
    append_all_lists(spec, plan, text);
  } else if (plan.contraction.on_tensor_cores()) {
    append_work(figures_of(plan), plan.engine, text);
    append_windows(spec, plan, text);
    append_drawings(plan.contraction, text);
  } else {
    append_core_work(plan, text);
    if (plan.contraction.is_list_adds()) append_all_lists(spec, plan, text);
  }
  append_speed(spec, plan, text);
  append_candidates(plan, text);
  append_bounds(plan, bounds_of(plan, architectures), text);
  append_costs(costs_of(plan), text);
  return text;
}

}  // namespace spidergen::emit
