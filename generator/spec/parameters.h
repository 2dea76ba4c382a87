#pragma once

#include <string>
#include <vector>

#include "spec/fields.h"
#include "spec/read_spec.h"
#include "spec/stencil_spec.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

/// Evaluates `parameters` from top to bottom, with overrides, and defines them in the context's calculator.
/// `node` is null where the key is absent; `file` names the spec in messages about overrides.
[[nodiscard]] std::vector<Parameter> read_parameters(const Node* node,
                                                     const std::vector<ParameterOverride>& overrides,
                                                     const std::string& file, Context& context);

}  // namespace spidergen::spec
