#include "plan/warpgroups.h"

#include <algorithm>

#include "plan/engine.h"
#include "plan/engine_times.h"
#include "plan/error_bound.h"
#include "plan/machine.h"

namespace spidergen::plan {
namespace {

constexpr int rows_at_once = 4;  // 64 rows of a product: 16 outputs in each of four output rows
constexpr int multiplying_warps = 4;
constexpr int strip_outputs = 1024;  // 64 columns of 16

constexpr int most_shared_bytes = shared_per_multiprocessor - reserved_per_block;

constexpr int registers_per_operand = 4;
constexpr int sum_registers = 32;
// Sums of a chain, of remainders, and of chains or of the step before. As many of the weights' remainders as
// fit are in registers, too; others wait in shared memory, as does what a run keeps.
constexpr int sums = 3;
constexpr int base_registers = 48;  // measured with nvcc 13
constexpr int operand_bytes = 512;
constexpr int preparing_warps = rows_at_once * warpgroup_teams;
constexpr int told_bytes = preparing_warps * vector_bytes + 2 * vector_bytes;
constexpr int kept_bytes = 4 * rows_at_once * strip_outputs;
// The next rows take the place of the step's first four while products of its last chain are still under way.
constexpr int least_step_rows = warpgroup_chained_rows + 1;

int registers_of(const Pass& pass) {
  return base_registers + sums * sum_registers + warpgroup_step_rows(pass) * registers_per_operand;
}

/// What templates/split2d.cu.in takes, and takes faster than the others: f32 in two terms, of whose sums the
/// old value is no part.
bool suits_warpgroups(const KernelPlan& plan) {
  if (plan.engine != Engine::sparse || plan.variant != Variant{}) return false;
  const Pass& pass = plan.passes.front();
  return pass.walk == Walk::rows && pass.element_bytes == 4 && pass.sources.size() == 1 &&
         !pass.mapping.pairs_rows() && pass.inputs.count == 2 && !plan.weights.adds_identity &&
         warpgroup_step_rows(pass) >= least_step_rows && registers_of(pass) <= most_warpgroup_registers &&
         warpgroup_shared_bytes(pass) <= most_shared_bytes &&
         estimate_f32_warpgroups(warpgroup_step_rows(pass), weight_terms(pass)) < estimate_f32_walks(pass);
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
  pass.streaming.warps_per_block = multiplying_warps + preparing_warps;
  pass.streaming.blocks_per_multiprocessor = 1;
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
  if (weight_terms(pass) < 2) return 0;
  const int fitting = (most_warpgroup_registers - registers_of(pass)) / registers_per_operand;
  return std::clamp(fitting, 0, warpgroup_step_rows(pass));
}

int warpgroup_shared_bytes(const Pass& pass) {
  const int prepared_row = 2 * strip_outputs * pass.element_bytes;
  const int placed = weight_terms(pass) > 1 ? warpgroup_step_rows(pass) + rows_at_once - 1 : 0;
  return (warpgroup_step_rows(pass) + rows_at_once) * prepared_row + placed * operand_bytes + told_bytes +
         kept_bytes;
}

}  // namespace spidergen::plan
