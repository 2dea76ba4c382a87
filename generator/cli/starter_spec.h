#pragma once

#include <string>

namespace spidergen::cli {

/// What --new writes: a spec called `name` that generates as it is, with comments that teach the keys.
[[nodiscard]] std::string starter_spec(const std::string& name);

/// The same of a system of equations, by --new --system.
[[nodiscard]] std::string starter_system(const std::string& name);

}  // namespace spidergen::cli
