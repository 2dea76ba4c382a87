/// The command line of spider-bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sizes.h"

namespace bench {

/// A shared library of generated kernels, and what its rows are called in reports.
struct LabelledLibrary {
  std::string label;  ///< "sparse" and "dense" also say which MMA bounds the kernels
  std::string path;
};

struct Options {
  std::vector<LabelledLibrary> libraries;
  std::vector<std::string> kernels{"*"};  ///< shell patterns of names
  std::vector<Size> sizes{{10240}};
  bool burst = true;
  bool sustained = false;
  bool cudnn = false;
  std::vector<std::int32_t> walks;  ///< preferred_steps to try instead of the kernel's own
  std::uint64_t seed = 1;
  std::int64_t offset = 0;  ///< elements that rows are shifted by
  int launches = 25;        ///< timed ones of a burst, at least 20
  double seconds = 2;       ///< of a sustained run
  std::string csv;          ///< file; empty for none
  std::string json;
  bool list = false;
  bool help = false;
};

/// What --help prints.
[[nodiscard]] std::string usage();

/// `arguments` without the program's name. Throws std::invalid_argument with a sentence that says what is
/// wrong.
[[nodiscard]] Options parse_options(const std::vector<std::string>& arguments);

/// Whether one of the shell patterns (fnmatch) matches the name.
[[nodiscard]] bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

}  // namespace bench
