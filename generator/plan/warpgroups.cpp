#include "plan/warpgroups.h"

#include <algorithm>

#include "plan/engine.h"
#include "plan/engine_times.h"
#include "plan/error_bound.h"
#include "plan/machine.h"

namespace spidergen::plan {
namespace {

constexpr int rows_at_once = 4;  // 64 rows of a product: 16 outputs in each of four output rows
constexpr int warps_per_block = 4;
constexpr int strip_outputs = 1024;  // 64 columns of 16

constexpr int most_shared_bytes = shared_per_multiprocessor - reserved_per_block;

constexpr int registers_per_operand = 4;
constexpr int sum_registers = 32;
constexpr int base_registers = 120;  // measured with nvcc 13

// Of f32 fields: sums of a chain, of remainders, and of chains or of the step before. As many of the weights'
// remainders as fit are in registers, too; others wait in shared memory, as does what a run keeps.
constexpr int f32_sums = 3;
constexpr int f32_base_registers = 48;  // measured with nvcc 13
constexpr int operand_bytes = 512;
constexpr int preparing_warps = rows_at_once * warpgroup_teams;
constexpr int told_bytes = preparing_warps * vector_bytes + 2 * vector_bytes;
constexpr int kept_bytes = 4 * rows_at_once * strip_outputs;
// The next rows take the place of the step's first four while products of its last chain are still under way.
constexpr int least_f32_step_rows = warpgroup_chained_rows + 1;

// Fewer blocks leave the tensor cores idle while their warps prepare and store.
constexpr int least_blocks = 2;
constexpr int most_blocks = 4;

bool is_f32(const Pass& pass) {
  return pass.element_bytes == 4;
}

int registers_of(const Pass& pass) {
  if (is_f32(pass))
    return f32_base_registers + f32_sums * sum_registers + warpgroup_step_rows(pass) * registers_per_operand;
  return base_registers + sum_registers +
         warpgroup_step_rows(pass) * most_row_products(pass) * registers_per_operand;
}

int blocks_of(const Pass& pass) {
  const int by_memory = shared_per_multiprocessor / (warpgroup_shared_bytes(pass) + reserved_per_block);
  const int by_registers =
      registers_per_multiprocessor / (warps_per_block * threads_per_warp * registers_of(pass));
  return std::min({by_memory, by_registers, most_blocks});
}

/// Is it faster than walks of single warps (templates/stream2d.cu.in)? Microseconds of a sweep over 10240 x
/// 10240 points on an H200, measured with boxes of radius 5 and 7 (tests/benchmarks/README.md).
bool saves_time(const Pass& pass) {
  const double walk_us = 49 + 7.5 * static_cast<double>(pass.products.size());
  const double warpgroup_us = 107 + 2.4 * warpgroup_step_rows(pass) * most_row_products(pass);
  return warpgroup_us < walk_us;
}

/// What templates/split2d.cu.in takes, and takes faster than the others: f32 in two terms, of whose sums the
/// old value is no part.
bool suits_f32_warpgroups(const KernelPlan& plan, const Pass& pass) {
  return pass.inputs.count == 2 && !plan.weights.adds_identity &&
         warpgroup_step_rows(pass) >= least_f32_step_rows && registers_of(pass) <= most_warpgroup_registers &&
         warpgroup_shared_bytes(pass) <= most_shared_bytes &&
         estimate_f32_warpgroups(warpgroup_step_rows(pass), weight_terms(pass)) < estimate_f32_walks(pass);
}

/// What a template for warpgroups takes, and takes faster than the others. Tiles of 16-bit fields are faster:
/// boxes of radius 7 take 140 us where warpgroups take 153.
bool suits_warpgroups(const KernelPlan& plan) {
  if (plan.engine != Engine::sparse || plan.variant != Variant{}) return false;
  const Pass& pass = plan.passes.front();
  const bool one_source = pass.sources.size() == 1 && !pass.mapping.pairs_rows();
  if (is_f32(pass)) return pass.walk == Walk::rows && one_source && suits_f32_warpgroups(plan, pass);
  return pass.walk == Walk::rows && pass.element_bytes == 2 && one_source &&
         pass.streaming.tile_forms.empty() && registers_of(pass) <= largest_register_count &&
         blocks_of(pass) >= least_blocks && saves_time(pass);
}

}  // namespace

void fit_to_architectures(const std::vector<std::string>& architectures, const spec::StencilSpec& spec,
                          KernelPlan& plan) {
  const auto has_warpgroups = [](const std::string& name) { return name == "sm_90a"; };
  if (architectures.empty() || !suits_warpgroups(plan)) return;
  if (!std::all_of(architectures.begin(), architectures.end(), has_warpgroups)) return;
  Pass& pass = plan.passes.front();
  pass.streaming = {};
  pass.streaming.warpgroups = true;
  pass.streaming.warps_per_block = is_f32(pass) ? warps_per_block + preparing_warps : warps_per_block;
  pass.streaming.blocks_per_multiprocessor = is_f32(pass) ? 1 : blocks_of(pass);
  pass.streaming.estimated_registers =
      registers_of(pass) + warpgroup_held_remainders(pass) * registers_per_operand;
  plan.error_bound = bound_error(spec, plan);
}

int warpgroup_step_rows(const Pass& pass) {
  return pass.rows_spanned() + rows_at_once - 1;
}

int weight_terms(const Pass& pass) {
  int terms = 0;
  for (const Product& product : pass.products) terms = std::max(terms, product.term + 1);
  return terms;
}

int warpgroup_held_remainders(const Pass& pass) {
  if (!is_f32(pass) || weight_terms(pass) < 2) return 0;
  const int fitting = (most_warpgroup_registers - registers_of(pass)) / registers_per_operand;
  return std::clamp(fitting, 0, warpgroup_step_rows(pass));
}

int most_row_products(const Pass& pass) {
  std::vector<int> products(static_cast<std::size_t>(pass.rows_spanned()));
  for (const Product& product : pass.products) ++products.at(static_cast<std::size_t>(product.row));
  return *std::max_element(products.begin(), products.end());
}

int warpgroup_shared_bytes(const Pass& pass) {
  if (is_f32(pass)) {
    const int prepared_row = 2 * strip_outputs * pass.element_bytes;
    const int placed = weight_terms(pass) > 1 ? warpgroup_step_rows(pass) + rows_at_once - 1 : 0;
    return (warpgroup_step_rows(pass) + rows_at_once) * prepared_row + placed * operand_bytes + told_bytes +
           kept_bytes;
  }
  constexpr int fetched_groups = 2;
  constexpr int line_elements = line_bytes / 2;
  const int prepared_rows = warpgroup_step_rows(pass) + rows_at_once;
  const int elements_before = (pass.first_column() % line_elements + line_elements) % line_elements;
  const int fetched_bytes = 2 * (elements_before + strip_outputs) + 2 * vector_bytes;
  const int fetched_row = (fetched_bytes + line_bytes - 1) / line_bytes * line_bytes;
  return prepared_rows * 2 * strip_outputs * 2 + fetched_groups * rows_at_once * fetched_row;
}

}  // namespace spidergen::plan
