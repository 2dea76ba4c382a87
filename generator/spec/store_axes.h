#pragma once

#include <string>
#include <string_view>

#include "spec/stencil_spec.h"
#include "spec/system_spec.h"

namespace spidergen::spec {

/// Why `order` does not name each of a stencil's axes exactly once; empty where it does.
[[nodiscard]] std::string objection_to_order(std::string_view order, int dimensions);

/// Rewrites a spec for arrays that store its axes in another order: `order` names them slowest first, such as
/// "xy" for columns that are contiguous along y. Axis i of the result is the spec's axis order[i]. Offsets,
/// faces, indices and extents move together, so that every point has the same value as before. `order` must
/// have no objection.
void store_axes(StencilSpec& spec, std::string_view order);

/// The same for a system.
void store_axes(SystemSpec& system, std::string_view order);

}  // namespace spidergen::spec
