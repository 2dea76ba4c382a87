/// The application against what is known exactly.
#pragma once

/// Prints a line for each check.
[[nodiscard]] bool all_checks_pass();
