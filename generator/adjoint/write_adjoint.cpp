#include "adjoint/write_adjoint.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "adjoint/adjoint_system.h"
#include "adjoint/split_stages.h"
#include "adjoint/stencil_adjoint.h"
#include "adjoint/write_spec.h"
#include "plan/system_plan.h"

namespace spidergen::adjoint {
namespace {

/// The spec's hash, not the generator's version: the text changes only with the spec.
std::vector<std::string> heading_of(const std::string& source, const std::string& hash,
                                    const std::vector<spec::Parameter>& parameters) {
  std::vector<std::string> lines{fmt::format(
      "The adjoint of a sweep of {}, whose text has the hash {}: written by spider-gen --adjoint.", source,
      hash)};
  std::vector<std::string> values;
  for (const spec::Parameter& one : parameters) values.push_back(fmt::format("{} = {}", one.name, one.value));
  if (!values.empty())
    lines.push_back(fmt::format("Parameters are numbers here: {}.", fmt::join(values, ", ")));
  return lines;
}

/// By the plan's estimate, where both texts are valid specs.
bool is_faster(const std::string& text, const AdjointSpec& than) {
  const auto time_of = [&](const std::string& one) {
    const spec::ReadResult read = spec::read_spec({than.name + ".yaml", one}, {});
    if (read.diagnostics.has_errors() || !read.system) return std::numeric_limits<double>::infinity();
    return plan::time_in_bytes(plan::plan_system(*read.system));
  };
  return time_of(text) < time_of(than.text);
}

void write_system_of(const spec::SystemSpec& system, std::vector<std::string> heading,
                     const std::optional<spec::FurtherField>& previous, bool may_split, AdjointSpec& result) {
  const AdjointSystem made = adjoint_of(system, result.diagnostics);
  if (result.diagnostics.has_errors()) return;
  if (previous) {
    heading.push_back(
        fmt::format("A step makes u of u and {0}, and {0} of u: {1} is on entry the derivative "
                    "with respect to",
                    previous->name, bar_of(previous->name)));
    heading.emplace_back("the u that the step read, as the next one, 0 where there is none, had its own.");
  }
  result.text = write_system(made, heading);
  if (!may_split) return;
  const std::string split = write_system(split_stages(made), heading);
  if (split != result.text && is_faster(split, result)) result.text = split;
}

/// Reports cells that are rounded to integers, and results of another storage.
void check_storage(const spec::StencilSpec& spec, diag::Diagnostics& diagnostics) {
  if (spec::is_integer(spec.storage)) {
    diagnostics.error(spec.where.storage,
                      "there is no adjoint of whole numbers, since rounding to them has no derivative; write "
                      "'storage: f32'");
  } else if (spec.output) {
    diagnostics.error(spec.where.output,
                      "there is no adjoint of results of another storage than the input's; remove 'output'");
  } else if (!spec.lists.empty()) {
    diagnostics.error(
        spec.where.coefficients,
        fmt::format("there is no adjoint yet of a product of {} taps: apply those of its lists, "
                    "each as a spec of its own",
                    spec::count_taps(spec)));
  }
}

/// The text has to be a valid spec: it may exceed limits of systems.
void check(const spec::ReadResult& read, AdjointSpec& result) {
  const spec::ReadResult again = spec::read_spec({result.name + ".yaml", result.text}, {});
  if (!again.diagnostics.has_errors()) return;
  const diag::SourceLocation where = read.system ? read.system->where : read.spec.where.dimensions;
  for (const diag::Diagnostic& one : again.diagnostics.items) {
    if (one.severity == diag::Severity::error)
      return result.diagnostics.error(where, "the adjoint would be refused: " + one.text);
  }
}

}  // namespace

AdjointSpec write_adjoint(const spec::ReadResult& read, bool may_split) {
  AdjointSpec result;
  const std::string& name = read.system ? read.system->name : read.spec.name;
  result.name = name + "_adjoint";
  if (read.system) {
    write_system_of(*read.system,
                    heading_of(read.system->source_name, read.system->source_hash, read.system->parameters),
                    {}, may_split, result);
  } else {
    std::vector<std::string> heading =
        heading_of(read.spec.source_name, read.spec.source_hash, read.spec.parameters);
    check_storage(read.spec, result.diagnostics);
    if (result.diagnostics.has_errors()) return result;
    if (const std::optional<spec::StencilSpec> plain = reversed(read.spec)) {
      if (spec::has_rule(*plain, spec::BoundaryRule::halo))
        heading.emplace_back("The input's halo has to be 0: no derivative comes from there.");
      result.text =
          write_stencil(*plain, result.name, fmt::format("adjoint of {}, by spider-gen", name), heading);
    } else {
      const spec::SystemSpec system = system_of(read.spec, result.diagnostics);
      if (!result.diagnostics.has_errors())
        write_system_of(system, heading, read.spec.previous, may_split, result);
    }
  }
  if (!result.diagnostics.has_errors()) check(read, result);
  return result;
}

}  // namespace spidergen::adjoint
