#include "emit/figures.h"

#include <algorithm>
#include <limits>
#include <variant>

#include "pack/compress.h"
#include "plan/bands.h"

namespace spidergen::emit {
namespace {

constexpr double tile_outputs = 128;

std::int64_t nonzeros_of(const plan::Matrix& matrix) {
  return std::count_if(matrix.values.begin(), matrix.values.end(), [](double value) { return value != 0; });
}

/// Does the product belong to a comb, with outputs to which no other comb adds?
bool has_own_outputs(const plan::Contraction& contraction, const plan::Product& product) {
  return contraction.is_bands() && !contraction.sources[product.source].along_y;
}

/// The operand slots of a product's matrix.
std::int64_t slots_of(const plan::Contraction& contraction, const plan::Product& product) {
  const auto values = static_cast<std::int64_t>(contraction.operands[product.operand].matrix.values.size());
  const bool whole = contraction.is_low_rank() || has_own_outputs(contraction, product);
  return whole ? values : values * pack::kept_columns / pack::group_columns;
}

int largest_reach(const plan::KernelPlan& plan) {
  return std::max(*std::max_element(plan.op.reach_low.begin(), plan.op.reach_low.end()),
                  *std::max_element(plan.op.reach_high.begin(), plan.op.reach_high.end()));
}

/// Elements of B's fragments for a tile, loaded once per input row: for each source a whole one or half.
double fragment_elements(const plan::Contraction& contraction) {
  if (contraction.is_bands()) {
    // 16 outputs along y read 32 inputs. A row of a unit reads as many as it has outputs, because chunks are
    // shared with the next unit.
    return tile_outputs *
           (contraction.mapping.columns() / static_cast<double>(contraction.mapping.rows()) + 1);
  }
  double columns = 0;
  for (const plan::Source& source : contraction.sources) columns += source.mapping.columns();
  return tile_outputs / contraction.mapping.rows() * columns;
}

/// Cells that threads on CUDA cores load for an output; only for 2D.
double cells_per_output(const plan::KernelPlan& plan) {
  return std::visit(
      [](const auto& scheme) {
        if constexpr (requires { scheme.cells_per_output(); }) return scheme.cells_per_output();
        return 0.0;
      },
      plan.scheme);
}

/// Points for which loaded operand slots serve; infinite where they stay in registers.
double points_per_load(const plan::KernelPlan& plan) {
  return std::visit(
      [](const auto& scheme) {
        if constexpr (requires { scheme.operands_in_registers&& scheme.tiles_per_warp; }) {
          if (!scheme.operands_in_registers) return tile_outputs * scheme.tiles_per_warp;
        }
        return std::numeric_limits<double>::infinity();
      },
      plan.scheme);
}

PointCost own_cost(const plan::KernelPlan& plan) {
  const plan::Contraction& contraction = plan.contraction;
  PointCost cost;
  if (!contraction.on_tensor_cores()) {
    cost.operations = static_cast<double>(contraction.taps.size());
    cost.input = cells_per_output(plan);
    return cost;
  }
  for (const plan::Product& product : contraction.products) {
    const auto slots = static_cast<double>(slots_of(contraction, product));
    cost.operations += slots / (has_own_outputs(contraction, product) ? plan::band_unit_columns
                                                                      : contraction.mapping.rows());
    cost.parameters += slots / points_per_load(plan);
  }
  cost.input = fragment_elements(contraction) / tile_outputs;
  return cost;
}

}  // namespace

Figures figures_of(const plan::KernelPlan& plan) {
  const plan::Contraction& contraction = plan.contraction;
  Figures figures;
  figures.mmas = contraction.chained_products();
  figures.bytes_per_point = 2 * contraction.element_bytes + plan.further_bytes;
  // In bands along x, each comb has a quarter of the outputs.
  std::int64_t comb_slots = 0;
  std::int64_t comb_nonzeros = 0;
  for (const plan::Product& product : contraction.products) {
    const bool comb = has_own_outputs(contraction, product);
    (comb ? comb_slots : figures.slots) += slots_of(contraction, product);
    (comb ? comb_nonzeros : figures.nonzeros) += nonzeros_of(contraction.operands[product.operand].matrix);
  }
  figures.slots += comb_slots / plan::band_combs;
  figures.nonzeros += comb_nonzeros / plan::band_combs;
  return figures;
}

std::optional<MappingChoice> mapping_choice_of(const plan::KernelPlan& plan) {
  const bool one_row = plan.tap_rows.front().dy == 0 && plan.tap_rows.back().dy == 0;
  if (plan.contraction.is_bands() || one_row || plan.dimensions != 2) return std::nullopt;
  MappingChoice choice;
  for (const plan::Candidate& candidate : plan.candidates) {
    if (candidate.engine != plan.engine) continue;
    if (candidate.grouping == plan::Grouping::windows) choice.windows = candidate.products;
    if (candidate.grouping == plan::Grouping::row_pairs) choice.row_pairs = candidate.products;
  }
  return choice.row_pairs == 0 || choice.windows == 0 ? std::nullopt : std::optional(choice);
}

std::vector<ArchitectureBound> bounds_of(const plan::KernelPlan& plan,
                                         const std::vector<std::string>& architectures) {
  const Figures figures = figures_of(plan);
  const plan::SweepWork work{plan::reference_points(plan.dimensions), figures.bytes_per_point,
                             static_cast<double>(figures.mmas), plan.engine == plan::Engine::dense,
                             plan.contraction.on_tensor_cores()
                                 ? 0
                                 : static_cast<double>(plan.contraction.taps.size()) * plan.op.steps};
  std::vector<ArchitectureBound> bounds;
  for (const std::string& architecture : architectures) {
    ArchitectureBound bound{architecture, plan::find_device_rates(architecture), {}};
    if (bound.rates != nullptr) {
      bound.bound = plan::bound_sweep(*bound.rates, work);
    }
    bounds.push_back(bound);
  }
  return bounds;
}

CostComparison costs_of(const plan::KernelPlan& plan) {
  const int radius = largest_reach(plan);
  if (plan.dimensions != 2 || radius == 0 || plan.op.steps > 1) return {};
  const BoxTile tile{radius, common_tile_side(radius)};
  CostComparison comparison{tile, paper_costs(tile)};
  comparison.methods.push_back({"this kernel", own_cost(plan)});
  return comparison;
}

namespace {

/// The distance from outputs to the inputs of a product's weights, relative to its window's own row.
Range range_of(const plan::Contraction& contraction, const plan::Product& product, bool along_y) {
  const plan::Matrix& matrix = contraction.operands[product.operand].matrix;
  Range range{std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
  for (int row = 0; row < matrix.rows; ++row) {
    for (int column = 0; column < matrix.columns; ++column) {
      if (matrix.at(row, column) == 0) continue;
      const plan::Source& source = contraction.sources[product.source];
      const plan::Position input = source.place(source.mapping.column_input[column]);
      const plan::Position output = source.place(source.mapping.row_output[row]);
      const int distance = along_y ? input.y - output.y : source.shift + input.x - output.x;
      range = {std::min(range.low, distance), std::max(range.high, distance)};
    }
  }
  return range;
}

}  // namespace

Range columns_of(const plan::Contraction& contraction, const plan::Product& product) {
  return range_of(contraction, product, false);
}

Range rows_of(const plan::Contraction& contraction, const plan::Product& product) {
  return range_of(contraction, product, true);
}

}  // namespace spidergen::emit
