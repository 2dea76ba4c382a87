#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "plan/rim_tiles.h"

namespace spidergen::emit {

/// The namespace `rims` with the Stencil that steps rims; `spec` has the boundary of one step.
[[nodiscard]] std::string rims_namespace(const plan::RimTiles& tiles, const spec::StencilSpec& spec);

/// A form of `Stencil`, or `WithBoundaryContribution`, that leaves rims, and all cells of fields smaller than
/// `least`, to rims_form. It ends without a comma.
[[nodiscard]] std::string with_rims(std::string form, const plan::Rims& rims,
                                    const std::array<int, 2>& least);
/// The form of rims, ending in a comma.
inline constexpr std::string_view rims_form = "spider::rims2d_form<rims::Stencil>(),";

/// Adds the lines about rims to --explain.
void describe_rims(const plan::RimTiles& tiles, const plan::Rims& rims, const std::array<int, 2>& least,
                   double microseconds, std::vector<std::string>& lines);

}  // namespace spidergen::emit
