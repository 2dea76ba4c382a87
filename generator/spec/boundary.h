#pragma once

#include <array>

#include "spec/fields.h"
#include "spec/stencil_spec.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

/// Reads `boundary` in all its forms. A face that is not named has the default, a halo, located at `start`.
/// `node` is null where the key is absent.
[[nodiscard]] std::array<AxisBoundary, 3> read_boundary(const Node* node, int dimensions, Storage storage,
                                                        const diag::SourceLocation& start, Context& context);

}  // namespace spidergen::spec
