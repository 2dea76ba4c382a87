#include "plan/schemes/split2d.h"

#include <fmt/format.h>

namespace spidergen::plan {
namespace {

constexpr int rows_at_once = 4;  // 64 rows of a product: 16 outputs in each of four output rows
constexpr int multiplying_warps = 4;
constexpr int strip_outputs = 1024;  // 64 columns of 16

constexpr int most_shared_bytes = shared_per_multiprocessor - reserved_per_block;

constexpr int sum_registers = 32;
// Sums of a chain, of remainders, and of chains or of the step before. As many of the weights' remainders as
// fit are in registers, too; others wait in shared memory, as does what a run keeps.
constexpr int sums = 3;
constexpr int base_registers = 48;  // measured with nvcc 13
constexpr int producer_warps = rows_at_once * Split2d::teams;
constexpr int published_bytes = producer_warps * vector_bytes + 2 * vector_bytes;
constexpr int kept_bytes = 4 * rows_at_once * strip_outputs;
// The next rows take the place of the step's first four while products of its last chain are still under way.
constexpr int least_step_rows = Split2d::chained_rows + 1;

/// The prepared rows of a step and the next four, twice the size they have in memory; the weights' remainders
/// and sums that wait.
int shared_bytes_of(const Contraction& contraction, int step_rows) {
  const int prepared_row = 2 * strip_outputs * contraction.element_bytes;
  const int placed = contraction.weight_terms() > 1 ? step_rows + rows_at_once - 1 : 0;
  return (step_rows + rows_at_once) * prepared_row + placed * operand_bytes + published_bytes + kept_bytes;
}

/// Measured over 10240 x 10240 points on an H200 for 18 input rows a step: with two-term weights 453 us, with
/// exact ones 374. Of that a product takes 64 cycles of a step, of two-term weights 104 on average
/// (wgmma.mma_async.sp, N = 64); what is left does not depend on the stencil.
double estimate_us(int step_rows, int weight_terms) {
  constexpr double preparing_us = 225;
  constexpr double us_per_step_row = 8.25;
  constexpr double us_per_step_row_of_two_terms = 12.8;
  return preparing_us + (weight_terms > 1 ? us_per_step_row_of_two_terms : us_per_step_row) * step_rows;
}

}  // namespace

bool Split2d::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.grouping == Grouping::windows && problem.spec.dimensions == 2;
}

Offer<Split2d> Split2d::plan(const Problem& problem, const Contraction& contraction) {
  if (problem.engine != Engine::sparse || problem.variant != Variant{} || contraction.element_bytes != 4 ||
      contraction.inputs.count != 2)
    return Offer<Split2d>::none("for sparse products of f32 fields in two terms, without variants");
  if (problem.spec.update)
    return Offer<Split2d>::none("does not take 'update': single warps are as fast with one");
  if (problem.weights.adds_identity)
    return Offer<Split2d>::none("does not add the old value apart, as weights that sum to 1 want it");
  if (contraction.sources.size() != 1) return Offer<Split2d>::none("for taps from dx = -8 to 7");
  Split2d split;
  split.step_rows = contraction.rows_spanned() + rows_at_once - 1;
  split.shared_bytes = shared_bytes_of(contraction, split.step_rows);
  const int registers = base_registers + sums * sum_registers + split.step_rows * registers_per_operand;
  if (split.step_rows < least_step_rows || registers > most_registers ||
      split.shared_bytes > most_shared_bytes) {
    return Offer<Split2d>::none(
        fmt::format("{} input rows; it takes 4 at least, and as many as shared memory has room for",
                    contraction.rows_spanned()));
  }
  if (!problem.for_warpgroups) return Offer<Split2d>::none("for code for sm_90a alone: '--arch sm_90a'");
  split.warps_per_block = multiplying_warps + producer_warps;
  if (contraction.weight_terms() > 1) {
    split.held_remainders =
        std::clamp((most_registers - registers) / registers_per_operand, 0, split.step_rows);
  }
  split.estimated_registers = registers + split.held_remainders * registers_per_operand;
  return {split, estimate_us(split.step_rows, contraction.weight_terms()), ""};
}

}  // namespace spidergen::plan
