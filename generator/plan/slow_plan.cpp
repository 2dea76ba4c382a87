#include "plan/slow_plan.h"

#include <algorithm>
#include <variant>

#include "plan/machine.h"

namespace spidergen::plan {

double times_the_floor(const spec::StencilSpec& spec, const KernelPlan& plan) {
  if (plan.op.steps > 1) return 1;
  const bool on_tensor_cores = plan.contraction.on_tensor_cores();
  const int bytes =
      spec::element_bytes(spec.storage) + spec::element_bytes(spec::output_of(spec)) + plan.further_bytes;
  const int products =
      plan.passes.empty() ? static_cast<int>(plan.contraction.taps.size()) : plan.candidates.front().products;
  const SweepBound bound = bound_reference(
      plan.dimensions,
      {.bytes_per_point = static_cast<double>(bytes),
       .mmas_per_128_points = on_tensor_cores ? static_cast<double>(plan.contraction.chained_products()) : 0,
       .dense = plan.engine == Engine::dense,
       .core_products_per_point = on_tensor_cores ? 0 : static_cast<double>(products)});
  return plan.microseconds / bound.floor_us();
}

std::optional<std::string> advice_for_speed(const spec::StencilSpec& spec, const KernelPlan& plan) {
  if (times_the_floor(spec, plan) <= slow_plan) return std::nullopt;
  const bool rounds = std::any_of(plan.candidates.begin(), plan.candidates.end(), [&](const Candidate& one) {
    return one.scheme == Lowrank2d::name && !spec.tolerance && 2 * one.microseconds < plan.microseconds &&
           one.microseconds > 0;
  });
  if (rounds)
    return "'tolerance: 1e-5' lets two passes round sums to 16 bits, and takes less than half as long";
  const auto* cores = std::get_if<CudaCores>(&plan.scheme);
  if (plan.passes.empty() && cores != nullptr && !cores->unrolled) {
    return "its taps wait in a table; fewer taps, or a product of lists ('shape: product'), sweep by sweep "
           "where "
           "need be, are faster";
  }
  return std::nullopt;
}

void warn_of_slow_plan(const spec::StencilSpec& spec, const KernelPlan& plan,
                       diag::Diagnostics& diagnostics) {
  const std::optional<std::string> advice = advice_for_speed(spec, plan);
  if (!advice) return;
  diagnostics.warning(spec.where.coefficients,
                      "a sweep is estimated to take {:.1f} times what memory and units need: {}",
                      times_the_floor(spec, plan), *advice);
}

}  // namespace spidergen::plan
