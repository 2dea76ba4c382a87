#pragma once

#include <vector>

#include "spec/document.h"
#include "spec/read_spec.h"
#include "spec/system_spec.h"

namespace spidergen::spec {

/// Reads a document that has `stages`. Complete when no error has been reported; otherwise the readable part.
[[nodiscard]] SystemSpec read_system(const Document& document,
                                     const std::vector<ParameterOverride>& overrides);

}  // namespace spidergen::spec
