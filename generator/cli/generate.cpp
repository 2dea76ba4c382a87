#include "cli/generate.h"

#include "emit/explain.h"
#include "pack/pack.h"
#include "pack/prove.h"
#include "plan/error_bound.h"

namespace spidergen::cli {

GenerateResult generate(const spec::SpecSource& source, const std::vector<spec::ParameterOverride>& overrides,
                        const plan::Request& request, const std::vector<std::string>& architectures) {
  GenerateResult result;
  const spec::ReadResult read = spec::read_spec(source, overrides);
  result.diagnostics = read.diagnostics;
  const plan::PlanResult planned = plan::make_plan(read.spec, request);
  result.diagnostics.append(planned.diagnostics);
  if (!result.diagnostics.has_errors())
    plan::warn_of_lost_steps(read.spec, planned.plan.op.steps, result.diagnostics);
  result.diagnostics.sort_by_location();
  if (result.diagnostics.has_errors()) return result;

  const plan::KernelPlan& plan = planned.plan;
  const pack::PackedKernel packed = pack::pack(plan);
  pack::prove(read.spec, plan, packed);
  result.files = emit::emit(read.spec, plan, packed, version());
  result.explanation_text = emit::explain_text(read.spec, plan, architectures);
  result.explanation_json = emit::explain_json(read.spec, plan, packed, architectures);
  return result;
}

std::string version() {
  return SPIDER_GEN_VERSION;
}

}  // namespace spidergen::cli
