#pragma once

#include <optional>

#include "spec/stencil_spec.h"
#include "spec/system_spec.h"

namespace spidergen::adjoint {

/// The transpose of a stencil without an update, as a stencil: the weights reversed, halos and constants 0.
/// The halo of several steps stays the caller's, who has to fill it with 0. Nothing where a face changes its
/// rule: `nearest`, `mirror`, and with weights that are not even, `reflect` and `antisymmetric`; and where
/// there is an update.
[[nodiscard]] std::optional<spec::StencilSpec> reversed(const spec::StencilSpec& spec);

/// The stencil as a system of one stage: `u` becomes its update or its only sum, and `previous` becomes `u`.
/// Reports in `diagnostics` what systems do not support: several steps.
[[nodiscard]] spec::SystemSpec system_of(const spec::StencilSpec& spec, diag::Diagnostics& diagnostics);

}  // namespace spidergen::adjoint
