#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace spidergen::fuzz {

/// Ends the program, which libFuzzer reports together with the input, where a promise of ours does not hold.
inline void expect(bool holds, const std::string& promise) {
  if (holds) return;
  (void)std::fprintf(stderr, "broken promise: %s\n", promise.c_str());
  std::abort();
}

}  // namespace spidergen::fuzz
