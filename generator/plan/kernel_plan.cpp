#include "plan/kernel_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "plan/compose.h"

namespace spidergen::plan {
namespace {

KernelPlan of_one_step(const spec::StencilSpec& spec, KernelPlan plan) {
  plan.composition.reset();
  plan.op = operator_of(spec);
  plan.tap_rows = tap_rows_of(plan.op);
  return plan;
}

}  // namespace

std::string axis_names(const PassPlan& pass) {
  std::string names;
  for (const int axis : pass.axes) names += spec::axis_letters[static_cast<std::size_t>(axis)];
  return names;
}

double packed_product(const std::vector<PassPlan>& passes, const spec::Offset& at) {
  double product = 1;
  for (const PassPlan& pass : passes) {
    spec::Offset of_pass{};
    for (const int axis : pass.axes) {
      const bool is_row = pass.spec.dimensions == 2 && axis == pass.row_axis;
      of_pass[static_cast<std::size_t>(is_row ? spec::axis_y : axis)] = at[static_cast<std::size_t>(axis)];
    }
    const std::vector<RoundedTap>& taps = pass.plan.weights.taps;
    const auto found = std::ranges::lower_bound(taps, of_pass, {}, &RoundedTap::at);
    product *= found != taps.end() && found->at == of_pass ? found->packed : 0;
  }
  return product;
}

KernelPlan plan_of_composed(const spec::StencilSpec& spec, const KernelPlan& plan) {
  KernelPlan composed = plan;
  composed.weights = plan.composition->weights;
  const spec::StencilSpec all_steps = composed_spec(spec, composed.weights);
  return of_one_step(all_steps, std::move(composed));
}

KernelPlan plan_of_single_step(const spec::StencilSpec& spec, const KernelPlan& plan) {
  KernelPlan single = plan;
  single.engine = Engine::cuda;
  single.contraction = plan.composition->single_contraction;
  single.scheme = plan.composition->single_scheme;
  return of_one_step(spec, std::move(single));
}

}  // namespace spidergen::plan
