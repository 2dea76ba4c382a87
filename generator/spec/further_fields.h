#pragma once

#include "spec/fields.h"
#include "spec/stencil_spec.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

/// Reads `previous`, `fields`, `scalars` and `update` of the document `root` into `spec`, whose dimensions,
/// storage, parameters and sums were read before. `names_axes`: dimensions are known.
void read_further_fields(const Node& root, bool names_axes, StencilSpec& spec, Context& context);

}  // namespace spidergen::spec
