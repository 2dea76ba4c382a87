#pragma once

#include <optional>
#include <vector>

#include "plan/make_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

using spec::AxisList;

/// The lists, x first, whose product the weights of a spec of one sum are, each within some roundings of f64;
/// axes along which no tap reaches have none. Nothing where the weights are no such product. The list along x
/// has the weights of the largest one's row, so that sums of some of the lists are sums of weights, too.
[[nodiscard]] std::optional<std::vector<AxisList>> axis_lists(const spec::StencilSpec& spec);

/// The specs of the passes, one along each axis that taps reach along, x first, that one after the other do
/// what a spec does: of f32 and f64 fields, in 2D and 3D, of one step, without an update. Nothing where they
/// would not: where weights are no product of lists, or where the value of a cell outside of two faces would
/// not be that of its passes (constants that differ, or beside an antisymmetric face).
[[nodiscard]] std::vector<spec::StencilSpec> pass_specs(const spec::StencilSpec& spec);

/// The same of a 3D spec of f32 or f64 in two passes: one along y and x, whose spec has two dimensions and is
/// swept plane by plane, and one along z. Nothing where taps do not reach along all three axes, or so far in
/// a plane that no kernel has room for it.
[[nodiscard]] std::vector<spec::StencilSpec> plane_pass_specs(const spec::StencilSpec& spec);

/// The plan of a product that is left as its lists; an error where it has no passes, or the request wants
/// another engine than CUDA cores.
[[nodiscard]] PlanResult plan_lists(const spec::StencilSpec& spec, const Request& request);

/// Makes the plan of a sweep one of passes where these are estimated to take less than half as long, and the
/// request leaves the engine open or wants CUDA cores.
void take_passes(const spec::StencilSpec& spec, const Request& request, PlanResult& result);

}  // namespace spidergen::plan
