#include "cli/generate.h"

#include <utility>

#include "adjoint/write_adjoint.h"
#include "emit/describe_system.h"
#include "emit/explain.h"
#include "emit/system_text.h"
#include "pack/pack.h"
#include "pack/prove.h"
#include "plan/error_bound.h"
#include "plan/slow_plan.h"
#include "plan/system_plan.h"

namespace spidergen::cli {
namespace {

void generate_system(const spec::SystemSpec& spec, const plan::Request& request,
                     const std::vector<std::string>& architectures, GenerateResult& result) {
  if (request.engine && *request.engine != plan::Engine::cuda) {
    result.diagnostics.error(spec.where,
                             "systems of equations are computed on CUDA cores; leave "
                             "out '--engine {}'",
                             plan::engine_name(*request.engine));
  }
  result.diagnostics.sort_by_location();
  if (result.diagnostics.has_errors()) return;
  const plan::SystemPlan plan = plan::plan_system(spec);
  result.files = emit::emit_system(spec, plan, version());
  result.explanation_text = emit::explain_system_text(spec, plan, architectures);
  result.explanation_json = emit::explain_system_json(spec, plan);
}

}  // namespace

GenerateResult generate(const spec::SpecSource& source, const std::vector<spec::ParameterOverride>& overrides,
                        const plan::Request& request, const std::vector<std::string>& architectures) {
  GenerateResult result;
  const spec::ReadResult read = spec::read_spec(source, overrides);
  result.diagnostics = read.diagnostics;
  if (read.system) {
    generate_system(*read.system, request, architectures, result);
    return result;
  }
  const plan::PlanResult planned = plan::make_plan(read.spec, request);
  result.diagnostics.append(planned.diagnostics);
  if (!result.diagnostics.has_errors())
    plan::warn_of_lost_steps(read.spec, planned.plan.op.steps, result.diagnostics);
  if (!result.diagnostics.has_errors()) plan::warn_of_slow_plan(read.spec, planned.plan, result.diagnostics);
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

GenerateResult generate_adjoint(const spec::SpecSource& source,
                                const std::vector<spec::ParameterOverride>& overrides, bool may_split) {
  GenerateResult result;
  const spec::ReadResult read = spec::read_spec(source, overrides);
  result.diagnostics = read.diagnostics;
  if (!result.diagnostics.has_errors()) {
    adjoint::AdjointSpec made = adjoint::write_adjoint(read, may_split);
    result.diagnostics.append(made.diagnostics);
    result.files.push_back({made.name + ".yaml", std::move(made.text)});
  }
  result.diagnostics.sort_by_location();
  if (result.diagnostics.has_errors()) result.files.clear();
  return result;
}

std::string version() {
  return SPIDER_GEN_VERSION;
}

}  // namespace spidergen::cli
