#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace spidergen::render {

/// Text with placeholders. `${name}` inside a line is replaced by a value of one line. `${name}` alone on a
/// line is a block: each line of its value gets that indentation, and an empty value removes the line.
struct Template {
  std::string_view name;  ///< for messages
  std::string_view text;
};

/// Values by placeholder. Names are lower-case letters, digits and underscores.
using Bindings = std::map<std::string, std::string, std::less<>>;

/// The text with all placeholders replaced, once: values are not searched for placeholders. Throws
/// diag::InternalError with `template:line:column` for a malformed or unknown placeholder and for a value of
/// several lines inside a line, and with `template` for an unused binding.
[[nodiscard]] std::string render(const Template& source, const Bindings& bindings);

}  // namespace spidergen::render
