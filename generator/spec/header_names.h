#pragma once

#include <string_view>

namespace spidergen::spec {

/// Whether the C library, the C++ library, a compiler or the CUDA toolkit has a header `<name.h>`. A
/// stencil's header of that name would hide it from every compilation with its folder on the include path.
/// `name` is an identifier.
[[nodiscard]] bool is_header_name(std::string_view name);

}  // namespace spidergen::spec
