#include "emit/figures.h"

#include <algorithm>
#include <limits>

#include "pack/compress.h"
#include "plan/bands.h"
#include "plan/cores.h"

namespace spidergen::emit {
namespace {

constexpr double tile_outputs = 128;

std::int64_t nonzeros_of(const plan::Matrix& matrix) {
  return std::count_if(matrix.values.begin(), matrix.values.end(), [](double value) { return value != 0; });
}

/// Is a product one of a comb, whose outputs no other comb adds to?
bool has_own_outputs(const plan::Pass& pass, const plan::Product& product) {
  return pass.is_bands() && !pass.sources[product.source].along_y;
}

/// What an operand holds of its matrix.
std::int64_t slots_of(const plan::Pass& pass, const plan::Product& product) {
  const auto values = static_cast<std::int64_t>(pass.operands[product.operand].matrix.values.size());
  const bool whole = pass.whole_operands || has_own_outputs(pass, product);
  return whole ? values : values * pack::kept_columns / pack::group_columns;
}

int largest_reach(const plan::KernelPlan& plan) {
  return std::max(*std::max_element(plan.reach_low.begin(), plan.reach_low.end()),
                  *std::max_element(plan.reach_high.begin(), plan.reach_high.end()));
}

/// Elements of B's fragments for a tile, loaded once per input row: what sources hold, each of them whole or
/// a half.
double fragment_elements(const plan::Pass& pass) {
  if (pass.is_bands()) {
    // Of 16 outputs along y 32 inputs; of a unit's row as many as it has, for chunks are shared with the next
    // one.
    return tile_outputs * (pass.mapping.columns() / static_cast<double>(pass.mapping.rows()) + 1);
  }
  double columns = 0;
  for (const plan::Source& source : pass.sources) columns += source.mapping.columns();
  return tile_outputs / pass.mapping.rows() * columns;
}

PointCost own_cost(const plan::KernelPlan& plan) {
  PointCost cost;
  if (plan.engine == plan::Engine::cuda) {
    cost.operations = static_cast<double>(plan.cores.taps.size());
    cost.input = plan::cells_per_output(plan.cores);
    return cost;
  }
  for (const plan::Pass& pass : plan.passes) {
    for (const plan::Product& product : pass.products) {
      const auto slots = static_cast<double>(slots_of(pass, product));
      cost.operations +=
          slots / (has_own_outputs(pass, product) ? plan::band_unit_columns : pass.mapping.rows());
      if (!pass.streaming.operands_in_registers) {
        cost.parameters += slots / (tile_outputs * pass.streaming.tiles_per_warp);
      }
    }
    cost.input += fragment_elements(pass) / tile_outputs;
  }
  return cost;
}

}  // namespace

Figures figures_of(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  Figures figures;
  if (plan.engine == plan::Engine::cuda) figures.bytes_per_point = 2 * spec::element_bytes(spec.storage);
  for (const plan::Pass& pass : plan.passes) {
    figures.mmas += plan::chained_products(pass);
    figures.bytes_per_point += 2 * spec::element_bytes(spec.storage);
    // Of bands along x, each comb has a quarter of the outputs.
    std::int64_t comb_slots = 0;
    std::int64_t comb_nonzeros = 0;
    for (const plan::Product& product : pass.products) {
      const bool comb = has_own_outputs(pass, product);
      (comb ? comb_slots : figures.slots) += slots_of(pass, product);
      (comb ? comb_nonzeros : figures.nonzeros) += nonzeros_of(pass.operands[product.operand].matrix);
    }
    figures.slots += comb_slots / plan::band_combs;
    figures.nonzeros += comb_nonzeros / plan::band_combs;
  }
  return figures;
}

std::array<std::int64_t, 3> sample_extent(int dimensions) {
  if (dimensions == 1) return {1, 1, std::int64_t{10240} * 10240};
  if (dimensions == 3) return {512, 512, 512};
  return {1, 10240, 10240};
}

std::vector<ArchitectureBound> bounds_of(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                                         const std::vector<std::string>& architectures) {
  const Figures figures = figures_of(spec, plan);
  double points = 1;
  for (const std::int64_t extent : sample_extent(spec.dimensions)) points *= static_cast<double>(extent);
  const plan::SweepWork work{points, figures.bytes_per_point, static_cast<double>(figures.mmas),
                             plan.engine == plan::Engine::dense, static_cast<double>(plan.cores.taps.size())};
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
  if (plan.dimensions != 2 || radius == 0) return {};
  const BoxTile tile{radius, common_tile_side(radius)};
  CostComparison comparison{tile, paper_costs(tile)};
  comparison.methods.push_back({"this kernel", own_cost(plan)});
  return comparison;
}

namespace {

/// How far from outputs the inputs of a product's weights are, from its window's own row.
Range range_of(const plan::Pass& pass, const plan::Product& product, bool along_y) {
  const plan::Matrix& matrix = pass.operands[product.operand].matrix;
  Range range{std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
  for (int row = 0; row < matrix.rows; ++row) {
    for (int column = 0; column < matrix.columns; ++column) {
      if (matrix.at(row, column) == 0) continue;
      const plan::Source& source = pass.sources[product.source];
      const plan::Position input = source.place(source.mapping.column_input[column]);
      const plan::Position output = source.place(source.mapping.row_output[row]);
      const int distance = along_y ? input.y - output.y : source.shift + input.x - output.x;
      range = {std::min(range.low, distance), std::max(range.high, distance)};
    }
  }
  return range;
}

}  // namespace

Range columns_of(const plan::Pass& pass, const plan::Product& product) {
  return range_of(pass, product, false);
}

Range rows_of(const plan::Pass& pass, const plan::Product& product) {
  return range_of(pass, product, true);
}

}  // namespace spidergen::emit
