#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spidergen::spec {

/// A message of yaml-cpp with a correction.
[[nodiscard]] std::string explain(const std::string& message);

/// Whether the quotes opened at `begin` are closed somewhere: yaml-cpp lets the end of the file close them.
[[nodiscard]] bool is_closed(std::string_view text, std::size_t begin);

}  // namespace spidergen::spec
