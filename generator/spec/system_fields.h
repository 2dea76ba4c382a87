#pragma once

#include <vector>

#include "spec/document.h"
#include "spec/given_names.h"
#include "spec/system_spec.h"

namespace spidergen::spec {

/// Reads `fields` of a system and the document's `boundary`, the default of fields without one. `storage` is
/// the document's.
[[nodiscard]] std::vector<SystemField> read_system_fields(const Document& document, int dimensions,
                                                          Storage storage, GivenNames& names);

}  // namespace spidergen::spec
