#include "cli/generate.h"

#include <utility>

#include "emit/explain.h"
#include "pack/pack.h"
#include "pack/prove.h"
#include "plan/make_plan.h"
#include "plan/warpgroups.h"

namespace spidergen::cli {

GenerateResult generate(const spec::SpecSource& source, const std::vector<spec::ParameterOverride>& overrides,
                        const std::vector<std::string>& architectures, std::optional<plan::Engine> asked,
                        const plan::Variant& variant) {
  GenerateResult result;
  const spec::ReadResult read = spec::read_spec(source, overrides);
  result.diagnostics = read.diagnostics;
  const std::optional<plan::EngineTimes> times = plan::estimate_engines(read.spec, variant, architectures);
  const plan::Engine engine = asked.value_or(plan::default_engine(read.spec, variant, times));
  result.diagnostics.append(plan::check_supported(read.spec, engine, variant));
  result.diagnostics.sort_by_location();
  if (result.diagnostics.has_errors()) return result;

  plan::KernelPlan plan = plan::make_plan(read.spec, engine, variant);
  plan.engine_times = times;
  plan::fit_to_architectures(architectures, read.spec, plan);
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
