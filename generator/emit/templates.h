#pragma once

#include <span>
#include <string_view>

namespace spidergen::emit {

/// A file of templates/ at the time when the generator was built.
struct EmbeddedTemplate {
  std::string_view name;  ///< file name, e.g. "stream2d.cu.in"
  std::string_view text;
};

/// All templates, sorted by name.
[[nodiscard]] std::span<const EmbeddedTemplate> embedded_templates();

}  // namespace spidergen::emit
