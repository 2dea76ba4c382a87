#pragma once

#include <string>

namespace spidergen::cli {

/// The text of --new: a spec called `name` that generates unchanged, with comments that explain the keys.
[[nodiscard]] std::string starter_spec(const std::string& name);

/// The same for a system of equations, by --new --system.
[[nodiscard]] std::string starter_system(const std::string& name);

}  // namespace spidergen::cli
