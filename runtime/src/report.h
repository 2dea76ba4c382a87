/// How calls of the C interface end: with a status, and words for spider_last_error.
#pragma once

#include <exception>
#include <new>

#include "backend.h"

namespace spider {

/// Stores the words of a failure; if there is no memory for them, the status alone.
spider_status report(const char* function, spider_status status, const char* reason) noexcept;

/// Runs `body` and reports its outcome; no exception crosses the C interface.
template <class Body>
spider_status guarded(const char* function, const Body& body) noexcept {
  try {
    const backend::Outcome outcome = body();
    return report(function, outcome.status, outcome.reason.c_str());
  } catch (const std::bad_alloc&) {
    return report(function, SPIDER_ERROR_MEMORY, "the host is out of memory");
  } catch (const std::exception& error) {
    return report(function, SPIDER_ERROR_LAUNCH, error.what());
  }
}

/// Whether this is a kernel of this runtime and its back end.
[[nodiscard]] backend::Outcome check_kernel(const spider_kernel* kernel);

/// Whether a sweep, with its part, fits the kernel; starts nothing.
[[nodiscard]] backend::Outcome check_run(const spider_kernel* kernel, const spider_sweep* sweep);

}  // namespace spider
